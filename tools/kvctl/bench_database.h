// SPDX-License-Identifier: Apache-2.0
// The key-value store as a YCSB database: each thread has a client of its own; every read and write passes by
// the checker and into the history, where these are wanted.
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

// What `bench` does beside the workload, to make life hard for the store.
struct Mischief {
    uint32_t fault_every = 0;      // every n-th write is left half-done, as by a client that died; 0: none
    double conditional_share = 0;  // of updates: read the keys and write some, if none has changed
    double delete_share = 0;       // of written keys
};

// One thread's part of the checking. Outlives the thread's database: what became of writes of unknown end is
// settled after the run.
struct CheckedSession {
    std::unique_ptr<kv::check::Session> session;
    std::unique_ptr<kv::check::HistorySession> history;
    struct Unknown {
        size_t in_history = 0;
        kv::check::Writer writer;
        kv::Timestamp timestamp;
    };
    std::vector<Unknown> unknown;
    // Of deleted keys that were read. They have no stamp, and prove all the same that a write was committed.
    std::unordered_set<uint64_t> deletions;
};

// What all threads share.
struct BenchShared {
    kv::Options options;
    Mischief mischief;
    std::unique_ptr<kv::check::Checker> checker;      // nullptr: no verification
    std::unique_ptr<kv::check::HistoryFile> history;  // nullptr: none; only with a checker
    uint64_t seed = 1;
    // Changes between phases only. A load reads nothing: what the store had before is in no history.
    bool is_loading = false;

    std::mutex mutex;  // protects what follows
    std::shared_ptr<kv::SharedState> state;
    std::vector<std::unique_ptr<CheckedSession>> sessions;
    kv::Statistics statistics;
    uint64_t half_done = 0, conditions_won = 0, conditions_lost = 0, unknown = 0;

    CheckedSession* open_session();
};

Result<std::unique_ptr<kv::ycsb::Database>> open_database(BenchShared& shared, uint32_t thread);

// Reads records [0, count) in transactions: nothing that was acknowledged may be missing. With `as_load` the
// versions are noted in the history as what was there before.
Status read_everything(BenchShared& shared, const kv::ycsb::Workload& workload, uint64_t count, bool as_load);
// Says of each write of unknown end what became of it, and completes the history.
Status settle_history(BenchShared& shared);

}  // namespace wss::kvctl
