// SPDX-License-Identifier: Apache-2.0
// The key-value store as a YCSB database. Each thread has a client of its own. If requested, all reads and
// writes go through the checker and into the history.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/kv/check/checker.h"
#include "lib/kv/check/history.h"
#include "lib/kv/client/client.h"
#include "tools/ycsb/runner.h"

namespace wss::kvctl {

// Stress that `bench` adds to the workload.
struct Mischief {
    uint32_t fault_every = 0;      // every n-th write is left half-done, like that of a dead client; 0: none
    double conditional_share = 0;  // share of the updates that read the keys, and write some of them if none
                                   // has changed
    double delete_share = 0;       // share of the written keys that are deleted
};

// The checking state of one thread. It outlives the thread's database: writes of unknown outcome are resolved
// after the run.
struct CheckedSession {
    std::unique_ptr<kv::check::CheckerSession> session;
    std::unique_ptr<kv::check::HistorySession> history;
    struct Unknown {
        size_t in_history = 0;
        kv::check::Writer writer;
        kv::Timestamp timestamp;
    };
    std::vector<Unknown> unknown;
    // Timestamps of deletions that were read. A deletion has no stamp, but its timestamp proves that the
    // write was committed.
    std::unordered_set<uint64_t> deletions;
};

// State shared by all threads.
struct BenchShared {
    kv::Options options;
    Mischief mischief;
    std::unique_ptr<kv::check::Checker> checker;      // nullptr: no verification
    std::unique_ptr<kv::check::HistoryFile> history;  // nullptr: no history; used only with a checker
    uint64_t seed = 1;
    // Changes only between phases. A load reads nothing, because earlier contents of the store are in no
    // history.
    bool is_loading = false;

    std::mutex mutex;  // protects the members below
    std::shared_ptr<kv::SharedState> state;
    std::vector<std::unique_ptr<CheckedSession>> sessions;
    kv::Statistics statistics;
    uint64_t half_done = 0, conditions_won = 0, conditions_lost = 0, unknown = 0;

    CheckedSession* open_session();
};

Result<std::unique_ptr<ycsb::Database>> open_database(BenchShared& shared, uint32_t thread);

// Reads records [0, count) in transactions. No acknowledged write may be missing. With `as_load`, the history
// records the versions as the initial contents.
Status read_everything(BenchShared& shared, const ycsb::Workload& workload, uint64_t count, bool as_load);
// Resolves all writes of unknown outcome and completes the history.
Status settle_history(BenchShared& shared);

}  // namespace wss::kvctl
