// SPDX-License-Identifier: Apache-2.0
// Who has a lock of an object: what the class `lock` of an OSD is asked (get_info) and answers. librados can
// ask this only with a call that blocks, and not together with anything else.
//
// Encoded without librados, so that every answer can be tested without a cluster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wss::io {

enum class LockHolder : uint8_t {
    kUnreadable,  // a later version of the encoding
    kNobody,
    kOurs,   // and nobody else's
    kOther,  // or one that several have
};

std::string lock_info_request(std::string_view lock);
// `client`: the number that the monitors gave this client (rados_get_instance_id). The cookie does not count:
// it changes when the watch of the image is renewed.
LockHolder lock_holder(std::span<const char> answer, uint64_t client) noexcept;

}  // namespace wss::io
