// SPDX-License-Identifier: Apache-2.0
// Scenario "kv": partitions of the key-value store and clients, with faults in all parts.
//
// Product code: lib/kv (service, store, session, termination), lib/reactor. Simulated: time, random numbers,
// network, the log's disk. The first phase injects faults: late messages, broken connections, cut links,
// partitions that lose power, logs that cannot be written, clients that die in the middle of a commit, clocks
// that differ by seconds. Then all faults are removed: prepared transactions must be terminated and new
// transactions must succeed. The history checker (lib/kv/check) checks every read.
#pragma once

#include <cstdint>
#include <string>

#include "lib/fabric/sim/sim_fabric.h"
#include "lib/kv/types.h"

namespace wss::sim {

struct KvOptions {
    uint64_t seed = 1;
    uint32_t partitions = 3;
    uint32_t clients = 3;
    uint32_t depth = 3;  // transactions of a client in flight
    uint32_t keys = 20;
    uint32_t keys_per_transaction = 4;
    uint32_t transactions = 600;
    uint32_t write_percent = 50;
    kv::Algorithm algorithm = kv::Algorithm::kRampFast;
    bool mixed = false;  // every other client uses locking, alternately parallel and sequential
    kv::Transport transport = kv::Transport::kMessage;
    kv::OneSided one_sided = kv::OneSided::kOff;
    uint32_t address_cache = 1 << 10;  // entries, more than keys; 0: each read looks into the index
    uint32_t skew_ms = 0;              // clocks are up to this far ahead of or behind true time
    uint32_t cut_one_in = 0;           // per turn of the fault injector (at most 10 ms)
    uint32_t crash_one_in = 0;         // crash of a partition
    uint32_t kill_one_in = 0;          // death of a client
    uint32_t fail_log_one_in = 0;  // failure of a partition's log: it refuses writes until it is restarted
    // Percentage of writes that are conditional: on one key, or on several keys that have not been written
    // since they were read.
    uint32_t conditional_percent = 0;
    uint32_t half_one_in = 0;  // per write: the client stops after some prepares or commits
    uint64_t arena_bytes = 4u << 20;
    uint32_t value_bytes = 200;
    uint32_t window_ms = 2000;
    bool sleep = false;  // idle nodes sleep and must be woken
    fabric::SimNetwork network;

    static KvOptions draw(uint64_t seed);
    kv::Algorithm algorithm_of(uint32_t client) const;
    std::string to_string() const;
};

struct KvResult {
    std::string failure;  // empty: all checks held
    uint64_t trace = 0;
    uint64_t reads = 0, writes = 0, failed = 0, unknown = 0, crashes = 0, kills = 0, cuts = 0;
    uint64_t log_failures = 0, conditions_won = 0, conditions_lost = 0;
    uint64_t terminated = 0, second_rounds = 0, one_sided = 0, violations = 0, fractured = 0;
    std::string to_string() const;
};

KvResult run_kv(const KvOptions& options);

}  // namespace wss::sim
