// SPDX-License-Identifier: Apache-2.0
// The interface (a seam) to the log and the disk of a store. `RocksLog` (rocks_log.h) is the real one.
// `MemoryLog` (memory_log.h) behaves the same in one thread, except for KL5, and can crash, for the
// simulation and for tests.
//
// Rows
//   transaction  timestamp → {state, participants, held keys}
//   version      key, timestamp → record (slot_format.h; its checksum is not used here)
//   floor        the store's floor
//
// A version without a transaction row for its timestamp is committed: rows of old decisions are dropped. An
// aborted transaction's versions are removed in the batch that records the abort.
//
// Rules
//   KL1  A batch is applied as a whole or not at all, in the order of append(). A completed batch has the
//        durability for which the log was opened. A later batch is never durable without the earlier ones.
//   KL2  append() does not block. Completions come from poll(), in order, with the given ticket (0: no
//        completion).
//   KL3  After one failed write every later batch fails too, because the contents of the medium are unknown.
//        The store refuses writes until it is restarted. With Durability::kMemory it only stops to evict.
//   KL4  A fetch sees every batch appended before it, durable or not. Fetches complete in any order, even
//        relative to batches.
//   KL5  The log drops the row of a decision when it is a day old. load() returns only the decisions of the
//        last few minutes and those ahead of the clock; the floor covers the others. Ages do not depend on
//        the time of day.
//
// Thread-safety: append(), fetch(), poll(), arm() from the store's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/kv/store/types.h"

namespace wss::kv::store {

enum class LoggedState : uint8_t { kPrepared = 1, kCommitted = 2, kAborted = 3 };

struct LoggedTransaction {
    Timestamp timestamp;
    LoggedState state = LoggedState::kPrepared;
    std::string participants;
    std::vector<std::string> held;  // keys, of a prepared one with conditions (S13 of store.h)
};

// Changes that are applied atomically.
class LogBatch {
  public:
    enum class Kind : uint8_t { kPutVersion, kRemoveVersion, kPutTransaction, kPutFloor };
    struct Change {
        Kind kind;
        Timestamp timestamp;
        std::string key;    // versions
        std::string value;  // record, encoded transaction
    };

    void put_version(std::string_view key, Timestamp timestamp, Bytes record);
    void remove_version(std::string_view key, Timestamp timestamp);
    void put_transaction(const LoggedTransaction& transaction);
    void put_floor(Timestamp floor);
    bool empty() const { return changes_.empty(); }
    size_t bytes() const { return bytes_; }
    const std::vector<Change>& changes() const { return changes_; }

  private:
    void add(Change change);
    std::vector<Change> changes_;
    size_t bytes_ = 0;
};

std::string encode_transaction(const LoggedTransaction& transaction);
bool parse_transaction(Timestamp timestamp, std::string_view bytes, LoggedTransaction& transaction);

// Receives the rows at start: the floor, then transactions, then versions, each kind in order of key and
// timestamp. Old decisions among the transactions call on_floor() again.
class LogVisitor {
  public:
    virtual ~LogVisitor() = default;
    virtual Status on_floor(Timestamp floor) = 0;
    virtual Status on_transaction(const LoggedTransaction& transaction) = 0;
    virtual Status on_version(std::string_view key, Timestamp timestamp, Bytes record) = 0;
};

struct LogCompletion {
    uint64_t ticket = 0;
    Code code = Code::kOk;  // kNotFound: a fetch of a missing version
    std::string record;     // result of a fetch
};

class Log {
  public:
    virtual ~Log() = default;
    virtual Status load(LogVisitor& visitor) = 0;
    virtual void append(LogBatch batch, uint64_t ticket) = 0;
    virtual void fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) = 0;
    // Finds a decision that the store has forgotten. Blocks; rare.
    virtual Result<bool> find_transaction(Timestamp timestamp, LoggedTransaction& found) = 0;
    // Appends the completions to `done` and returns their number.
    virtual size_t poll(std::vector<LogCompletion>& done) = 0;
    // Too much is queued for writing: the store accepts no new transactions for a while.
    virtual bool is_congested() const noexcept { return false; }
    // The same as in reactor::Source.
    virtual bool arm() noexcept { return true; }
    virtual int fd() const noexcept { return -1; }
};

}  // namespace wss::kv::store
