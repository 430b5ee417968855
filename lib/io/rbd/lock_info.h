// SPDX-License-Identifier: Apache-2.0
// Encodes the request get_info of Ceph's object class `lock`, which reads the holders of an object's lock,
// and decodes the reply. librados' own function for this blocks, and cannot be combined with other
// operations.
//
// Works without librados, so that every reply can be tested without a cluster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wss::io {

enum class LockHolder : uint8_t {
    kUnreadable,  // the reply is too short, or has the encoding of a later version
    kNobody,
    kOurs,   // only this client
    kOther,  // another client, or several
};

std::string lock_info_request(std::string_view lock);
// `client` is the number that the monitors assigned to this client (rados_get_instance_id). The cookie of the
// lock is ignored, because it changes when the watch of the image is renewed.
LockHolder lock_holder(std::span<const char> answer, uint64_t client) noexcept;

}  // namespace wss::io
