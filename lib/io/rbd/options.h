// SPDX-License-Identifier: Apache-2.0
// What the operator writes for an RBD image: POOL/IMAGE[@SNAP][?KEY=VALUE&...].
//
// Parsed without librbd, so that a wrong word is reported also where the plug-in is not installed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::io {

struct RbdOptions {
    std::string pool, image;
    std::string snapshot;  // empty: the image itself
    std::string conf;      // empty: where librados looks ($CEPH_CONF, /etc/ceph/ceph.conf, ~/.ceph/config)
    std::string user = "admin";
    std::string keyring;  // empty: as the configuration says
    bool cache = false;   // asks for librbd's own cache, which it does not get: see check_settings()
    bool steal = false;   // break and blocklist an owner of the exclusive lock that is alive
    // Limits, in seconds.
    uint32_t mount_timeout = 10;    // client_mount_timeout: the first contact with a monitor
    uint32_t osd_timeout = 60;      // each request; rados_osd_op_timeout until the image is locked
    uint32_t mon_timeout = 30;      // rados_mon_op_timeout: each command to a monitor
    uint32_t open_timeout = 60;     // all of an opening, with the wait for the lock of an owner that died
    uint32_t resize_timeout = 600;  // all of a change of the size; to shrink removes every object beyond
    uint32_t close_timeout = 10;    // all of a closing; then the client is abandoned
    // Without an answer of Ceph for so long another client may have the image: less than the 30 s
    // (osd_client_watch_timeout) after which Ceph counts this one as dead, and than its last ping may be old.
    uint32_t away_timeout = 20;

    bool is_head() const { return snapshot.empty(); }  // the image itself
    std::string name() const;                          // POOL/IMAGE[@SNAP]
};

Result<RbdOptions> parse_rbd_options(std::string_view text);

// What an error shows of a text that may be of any length: its beginning, and how long it is.
std::string excerpt(std::string_view text);

}  // namespace wss::io
