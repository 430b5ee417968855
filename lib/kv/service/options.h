// SPDX-License-Identifier: Apache-2.0
// Options and counters of a partition's server.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/kv/hlc.h"
#include "lib/kv/service/access_rules.h"
#include "lib/kv/store/store.h"

namespace wss::kv {

struct ServiceOptions {
    uint32_t partition = 0;
    std::vector<std::string> partitions;  // URIs of all partitions, including this one
    store::Options store;
    uint64_t arena_bytes = 256u << 20;
    Nanoseconds terminate_after = from_s(1);
    Nanoseconds lease = from_s(60);  // how long an id stays leased after its last connection
    Nanoseconds ahead_max = from_us(kAheadMax_ticks);  // maximum lead of a timestamp over this clock
    // `snapshots` is the directory below which snapshots are created by name; "" disables them. `identity` is
    // that of the log, so that a server can start from a snapshot.
    std::string snapshots, identity;
    Nanoseconds slow = from_ms(50);             // slower requests are kept in the slow log
    uint64_t seed = 1;                          // seed of random numbers
    std::shared_ptr<const AccessRules> access;  // nullptr: every client may do everything
};

struct ServiceCounters {
    uint64_t connections = 0, messages = 0;
    uint64_t gets = 0, get_keys = 0, second_round_gets = 0;
    uint64_t prepares = 0, commits = 0, aborts = 0, inquiries = 0, conditional = 0, scans = 0, locks = 0;
    uint64_t refused = 0, malformed = 0;
    uint64_t refused_cold = 0;     // reads beyond DiskShare's limits
    uint64_t refused_backlog = 0;  // reads of a peer that does not accept its replies
    uint64_t refused_permission = 0;
    uint64_t terminated_commit = 0, terminated_abort = 0, terminated_guess = 0, terminations_waiting = 0;
    uint64_t one_sided_keys = 0;                                 // number that clients report
    std::array<uint64_t, size_t(Fallback::kCount)> fallbacks{};  // get messages, by Fallback
    uint64_t ahead_max_us = 0;  // largest lead of a client's clock over this one
};

}  // namespace wss::kv
