// SPDX-License-Identifier: Apache-2.0
// What a target's answer to a command means for the request.
#pragma once

#include <cstdint>

#include "lib/initiator/request.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

struct Verdict {
    Outcome outcome = Outcome::kOk;
    enum class Again : uint8_t {
        kNo,
        kNow,
        kLater
    } again = Again::kNo;        // `outcome` counts if that is too often
    bool look_again = false;     // the target's volumes are not what we think
    bool units_changed = false;  // nor may a LUN be what we think: nothing goes out before we have looked
    wire::Sense sense;
};

// Reads untrusted bytes; never allocates.
Verdict judge(const wire::Response& response, Operation operation) noexcept;

}  // namespace wss::initiator
