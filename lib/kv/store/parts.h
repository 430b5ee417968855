// SPDX-License-Identifier: Apache-2.0
// Internals of Store: transactions over the table, and operations that wait for the log. For store/*.cc only.
#pragma once

#include <deque>
#include <unordered_map>

#include "lib/base/list.h"
#include "lib/kv/store/finished.h"
#include "lib/kv/store/pool.h"
#include "lib/kv/store/store.h"
#include "lib/kv/store/table.h"

namespace wss::kv::store {

enum class DecisionState : uint8_t { kPreparing, kPrepared, kCommitted, kAborted };

// The one state of a timestamp (S1) until it is committed; then `finished` has it. It is in `undecided`,
// `deferred` or `decided` by its list node.
struct Decision : ListNode<> {
    uint64_t hash = 0;  // the timestamp's value
    Decision* hash_next = nullptr;
    Timestamp timestamp;
    DecisionState state = DecisionState::kPreparing;
    bool put = false;       // commits as soon as it is durable; its row is a committed one
    bool deferred = false;  // a participant could not be reached
    bool early = false;     // its commit came before its prepare; always set if committed
    bool promised = false;  // an inquiry was answered with "prepared": its writer cannot withdraw it
    bool logging = false;   // the batch `ticket` is being written; its completion answers `waiting`
    bool failed = false;    // logging the abort failed: a restart may find the transaction prepared
    uint64_t ticket = 0;
    Version* versions = nullptr;  // set while undecided
    std::vector<Item*> held;      // keys held while undecided (S13)
    std::string participants;
    Nanoseconds since{};  // time of the prepare, later of the decision
    std::vector<Continuation> waiting;
};

// Half of the time that KL5 of log.h promises, because clocks differ and a row's age counts from its writing.
// Ticks are microseconds.
constexpr uint64_t kRowsSurely_ticks = uint64_t{12} * 3600 * 1'000'000;
constexpr size_t kDecisionsMax = size_t{1} << 22;  // remembered commits and aborts of unknown transactions
// Decisions younger than this are not dropped even when memory is full: their transactions are being
// terminated elsewhere, or sent again.
constexpr Nanoseconds kFinishedAge = from_s(15);

struct Store::Parts final : UndecidedWrites {
    Parts(const Options& o, std::span<std::byte> memory, std::span<std::byte> index, Clock& c, Log* l)
        : options(o),
          clock(c),
          log(l),
          table({.epoch = o.epoch,
                 .secret = o.secret,
                 .inline_cells = o.inline_cells,
                 .inline_max = o.inline_max},
                memory, index),
          decisions(o.secret),
          finished(o.secret),
          window(o.window) {}
    ~Parts() override;

    struct Waiting {
        uint64_t ticket = 0;
        Timestamp transaction;  // none: no waiter
        std::string spilled;    // key of a version that is to become cold
        Timestamp version;
    };

    // --- transactions.cc
    Answer prepare(const Transaction& transaction, bool put, Continuation done);
    Answer commit(Timestamp timestamp);
    Answer abort(Timestamp timestamp, Continuation done);
    Answer withdraw(Timestamp timestamp, Continuation done);
    Answer inquire(Timestamp timestamp, Continuation done);
    Answer repeat(Decision& decision, bool put, Continuation done);
    Timestamp newest_of(const Transaction& transaction) const;
    Timestamp acknowledged(const Item& item) const;
    bool is_committed_already(const Transaction& transaction) const;
    bool is_locked_out(const Transaction& transaction) const;
    bool is_undecided(std::string_view key) const override;
    static bool is_undecided(const Item& item);
    Answer check_writes(const Transaction& transaction, bool early) const;
    Answer insert(const Transaction& transaction, Decision& decision);
    Version* add_version(Item& item, const RecordView& record);
    void remove_versions(Decision& decision);
    Answer log_prepare(Decision& decision, Continuation done);
    void durable(Decision& decision);
    void commit_now(Decision& decision);
    Answer abort_unknown(Timestamp timestamp, Continuation done);
    bool may_remember_unknown();
    Answer abort_now(Decision& decision, Continuation done);
    Answer aborted(Decision& decision, Continuation done);
    Decision* find(Timestamp timestamp) const;
    void set_floor(Timestamp to);
    bool cannot_log() const;
    bool must_wait_for_log() const;
    Item* find_shown(std::string_view key, bool addressed);  // reads.cc
    bool is_recent(Timestamp timestamp) const;               // the log still has the row of its decision
    Decision& create(Timestamp timestamp, DecisionState state);
    void decide_abort(Decision& decision);
    void drop(Decision& decision);
    void leave_undecided(Decision& decision);
    Answer wait(Decision& decision, Continuation done);
    void answer_waiting(Decision& decision, Answer answer);

    // --- conditions.cc
    Timestamp present(const Item* item, Timestamp timestamp) const;
    size_t failed_condition(const Transaction& transaction) const;
    Answer check_conditions(const Transaction& transaction) const;
    void hold(Decision& decision, std::string_view key);
    bool hold_all(const Transaction& transaction, Decision& decision);
    void release(Decision& decision);

    // --- upkeep.cc
    uint64_t append(LogBatch batch, Timestamp of);
    size_t poll() noexcept;
    void on_appended(const LogCompletion& completion);
    void on_spilled(const Waiting& done, Code code);
    void on_prepare_appended(Decision& decision, Code code);
    void on_fetched(LogCompletion& completion);
    size_t maintain(Timestamp now, size_t budget);
    size_t collect(size_t budget);
    void recycle(size_t written, Nanoseconds now);
    size_t collect(List<Version, RetiredTag>& retired, Nanoseconds keep, size_t budget);
    static const Version* successor(const Version& version);
    bool is_pinned(const Version& version) const;
    size_t collect_graves(size_t budget);
    size_t expire(Timestamp now, size_t budget);
    bool expire_one(Version& version);
    size_t forget_decisions(size_t budget);
    size_t forget_finished(size_t budget);
    size_t forget_finished(Finished::Kind kind, size_t budget);
    bool forget_oldest_finished(Finished::Kind kind);
    bool has_room_to_finish(Finished::Kind kind);
    Finished::Kind kind_of(bool put, size_t participants_bytes) const;
    bool is_forgotten_ahead(Timestamp timestamp) const;
    size_t evict(size_t budget);
    void evict_item(Item& item);
    bool may_evict() const;
    bool relieve();  // true: memory may have become free
    Nanoseconds keep_finished(Finished::Kind kind) const;
    size_t heap_used() const;
    bool is_heap_full(bool for_tombstone = false) const;
    void flush_trash();
    void unpin(Timestamp timestamp);

    // --- recovery.cc
    Status recover(const std::function<void(Timestamp)>& seen);
    void recover_version(const RecordView& record, Bytes bytes);

    struct Fetching {
        std::string key;
        Timestamp timestamp;
        FetchDone done;
    };

    const Options options;
    Clock& clock;
    Log* const log;
    LockTable* locks = nullptr;  // the store's
    Table table;
    Pool<Decision> pool;
    HashIndex<Decision> decisions;
    List<Decision> undecided;  // the oldest first
    List<Decision> deferred;   // undecided, too; in order of deferral
    List<Decision> decided;    // aborted, or committed early
    Finished finished;
    size_t undecided_count = 0, deferred_count = 0;
    Timestamp floor, logged_floor;
    Timestamp ahead_first, ahead_last;  // range of commits forgotten while far ahead of the clock
    std::deque<Waiting> waiting;        // appended batches, in order
    std::unordered_map<uint64_t, Fetching> fetching;
    Table::Expiry expired_to;  // where the last turn of expiry ended
    std::vector<Timestamp> pins;
    Timestamp collected_to;                  // the states before it may lack collected versions
    std::vector<LogCompletion> completions;  // kept for its memory
    std::vector<LogCompletion> fresh_fetches;
    LogBatch trash;  // rows of collected versions
    uint64_t next_ticket = 1;
    Nanoseconds window;    // S7: between window_floor and window
    Timestamp latest_now;  // time passed to the last maintain(); may go back
    bool log_failed = false;
    size_t spilled_bytes = 0;  // since the last maintain()
    bool recovering = false;
    Statistics counts;
};

}  // namespace wss::kv::store
