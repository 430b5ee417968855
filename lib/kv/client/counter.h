// SPDX-License-Identifier: Apache-2.0
// Counters: keys whose value is a decimal number of 64 bits with a sign. An increment reads the key and
// writes it on the condition that nobody has written it since, from the start again as often as somebody has.
//
// Errors, beside those of reads and writes (client.h): kInvalid, the value is no such number; kExhausted with
// `overflow`, the sum is none. Nothing is written then. With `outcome_unknown` the increment may still become
// visible, once.
//
// Thread-safety: as the client's run(): it blocks.
#pragma once

#include <cstdint>
#include <string>

#include "lib/kv/client/client.h"

namespace wss::kv {

struct Increment {
    std::string key;  // one that is absent counts as 0
    int64_t delta = 1;
    uint64_t ttl_ms = 0;               // from now on; 0: the key expires when it did before
    Nanoseconds timeout = from_s(10);  // after that no attempt is begun
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
