// SPDX-License-Identifier: Apache-2.0
// Counters: keys whose value is a signed 64-bit decimal number. An increment reads the key and writes it on
// the condition that the version is unchanged, and starts over if it has changed.
//
// Errors, in addition to those of reads and writes (client.h): kInvalid: the value is not such a number;
// kExhausted with `overflow`: the sum does not fit. Nothing is written then. With `outcome_unknown` the
// increment may still become visible, once.
//
// Thread-safety: that of the client's run(). It blocks.
#pragma once

#include <cstdint>
#include <string>

#include "lib/kv/client/client.h"

namespace wss::kv {

struct Increment {
    std::string key;  // an absent key counts as 0
    int64_t delta = 1;
    uint64_t ttl_ms = 0;               // counted from now; 0: keeps the key's time of expiry
    Nanoseconds timeout = from_s(10);  // no attempt begins after it
    // Out.
    Status status;
    int64_t value = 0;
    Timestamp timestamp;
    bool overflow = false;
    bool outcome_unknown = false;
};

void run(Client& client, Increment& increment);
void run(LocalClient& client, Increment& increment);

}  // namespace wss::kv
