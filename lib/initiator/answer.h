// SPDX-License-Identifier: Apache-2.0
// Disposition of a target's response: what it means for the request.
#pragma once

#include <cstdint>

#include "lib/initiator/request.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

struct Disposition {
    Outcome outcome = Outcome::kOk;  // final, unless `again` allows another attempt
    enum class Again : uint8_t {
        kNo,
        kNow,
        kLater
    } again = Again::kNo;        // kNow: repeated at most kRetriesMax times
    bool look_again = false;     // the session's information about the target's volumes is outdated
    bool units_changed = false;  // LUNs may have changed too: no command may be sent before a new survey
    wire::Sense sense;
};

// Finds the disposition of a response. Its bytes are untrusted; never allocates.
Disposition decide_disposition(const wire::Response& response, Operation operation) noexcept;

}  // namespace wss::initiator
