// SPDX-License-Identifier: Apache-2.0
// Parses the operator's specification of an RBD image: POOL/IMAGE[@SNAP][?KEY=VALUE&...].
//
// Works without librbd, so that errors are reported even where the plug-in is not installed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::io {

struct RbdOptions {
    std::string pool, image;
    std::string snapshot;  // empty: the image itself
    std::string conf;      // empty: the default of librados ($CEPH_CONF, /etc/ceph/ceph.conf, ~/.ceph/config)
    std::string user = "admin";
    std::string keyring;  // empty: the one from the configuration
    bool cache = false;   // librbd's cache; has no effect except a warning, see check_settings()
    bool steal = false;   // blocklist a live owner of the exclusive lock, and break its lock
    // Limits, in seconds.
    uint32_t mount_timeout = 10;    // client_mount_timeout: the first contact with a monitor
    uint32_t osd_timeout = 60;      // each request; rados_osd_op_timeout until the image is locked
    uint32_t mon_timeout = 30;      // rados_mon_op_timeout: each command to a monitor
    uint32_t open_timeout = 60;     // a whole opening, including the wait for the lock of a dead owner
    uint32_t resize_timeout = 600;  // a whole resize; a shrink removes every object beyond the new end
    uint32_t close_timeout = 20;    // a whole closing; then the client is abandoned
    // After this time without an answer from Ceph another client may have the image. Must be less than the 30
    // s (osd_client_watch_timeout) after which Ceph considers this client dead, minus the age of its last
    // ping.
    uint32_t away_timeout = 20;

    bool is_head() const { return snapshot.empty(); }  // the image itself
    std::string name() const;                          // POOL/IMAGE[@SNAP]
};

Result<RbdOptions> parse_rbd_options(std::string_view text);

// The text for error messages: if it is long, only its beginning, with its length.
std::string excerpt(std::string_view text);

}  // namespace wss::io
