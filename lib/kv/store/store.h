// SPDX-License-Identifier: Apache-2.0
// The multi-version store of one partition: the state that a RAMP server keeps.
//
// Terms. A *version* is one value of one key, named by its transaction's timestamp, immutable. It is
// *preparing* (waits for the log), *prepared*, or *committed*; a committed one is the key's *latest* or
// *superseded*. A *transaction* here is the state of one timestamp on this partition. The *floor* is a
// timestamp: decisions at or below it may be forgotten, and prepares at or below it are refused. The *arena*
// is registered memory, readable by peers; slot_format.h describes its contents.
//
// Rules
//  S1  One state per timestamp: unknown → preparing → prepared → committed or aborted; decisions never
//      change. prepare, commit, abort and inquire for the same timestamp may come in any order and any number
//      of times. A commit of an unknown timestamp is remembered, so that its late prepare commits. An inquiry
//      about an unknown timestamp aborts it first.
//  S2  A prepare is answered with kOk when the transaction is as durable as Options::durability promises, and
//      only then can readers, local and remote, see it. Aborts and inquiries are answered when they are
//      durable. Commits are logged without waiting: the prepared state on every participant makes them
//      durable (termination).
//  S3  A commit makes all versions of the transaction visible at once: nothing else runs in between, and
//      local readers see all or none. Remote readers see slots change one by one; RAMP's metadata covers
//      that.
//  S4  A version that is superseded, or loses (a newer one was committed before its commit arrived), stays
//      readable for Options::window, and while a pin covers it. What a pin covered stays until no pin is
//      left. The latest version and prepared ones always stay. Versions of a transaction that wrote only on
//      this partition stay for window_alone. That suffices: a reader that requests all keys in one message
//      sees all or nothing of the transaction and never requests one of its versions by timestamp. A reader
//      that reads key by key, or in RAMP-Small's two rounds, either takes less time than window_alone or
//      gets kNewer. No reader reads keys without a slot one by one, so of the versions without a slot the
//      newest retired_alone_max are kept.
//  S5  A lookup by timestamp returns kExact (prepared or committed), kNewer (the version is gone or was never
//      here, but a committed one with a higher timestamp exists), or kGone (neither: start over). The version
//      of kNewer may be a tombstone: then the key was deleted since.
//  S6  A view points into the store and is valid until the next call that is not const.
//  S7  Memory is bounded: the arena, and Options::heap_limit for the rest. When it is full, the window
//      shrinks to Options::window_floor, and values that were not read recently go to disk if there is one.
//      If that does not suffice, writes are answered with kNoMemory. Reads still work, and so do deletes and
//      expiry, which free memory: part of each memory is reserved for them.
//  S8  A cold version (on disk only) is found with `cold` set and no value; fetch() reads it.
//  S9  After recover(), prepared transactions are back, and overdue() lists them at once. The epoch is new,
//      so every slot address returned earlier is invalid.
//  S10 An inquiry answered with kPrepared is a promise: another participant may commit because of it. It is
//      kept across restarts. From then on only termination can abort the transaction, not its writer.
//  S11 A write prepared `in_order` has a later timestamp than all committed versions of its keys, or is
//      refused without a trace: if it were acknowledged behind one of them, it would never be read. The same
//      holds for prepared versions of transactions that may have been acknowledged: a restart may have lost
//      their commits.
//  S12 No owner gets a lock of a key with an undecided write that would become its latest version. A write of
//      a key that another owner has locked is answered with kBusy.
//  S13 A transaction with conditions holds the keys of its conditions and writes until it is decided
//      (conditions.cc).
//
// Life of a write: prepare → (log) → continuation kOk → commit. put is both in one, for a transaction on this
// partition alone, or one without atomicity. The caller inquires of the participants about transactions in
// overdue() and decides: any committed → commit; any aborted → abort; all prepared → commit.
// The caller bounds timestamps from above. A timestamp far ahead would win for years, and raise the floor
// with it.
//
// Thread-safety: none: a Store belongs to one reactor thread. The log has threads of its own behind the seam
// (log.h). Ownership: the arena, clock and log are the caller's and outlive the store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/kv/store/index_format.h"
#include "lib/kv/store/lock_table.h"
#include "lib/kv/store/log.h"
#include "lib/kv/store/slot_format.h"
#include "lib/kv/store/types.h"
#include "lib/reactor/reactor.h"

namespace wss::kv::store {

enum class Durability : uint8_t {
    kMemory,  // nothing survives the process
    kAsync,   // logged without waiting: a process crash loses milliseconds, a machine crash seconds
    kSync,    // answered when it is on stable storage
};
std::string_view to_string(Durability durability);

struct Options {
    uint64_t epoch = 0;  // random, never 0, different for each run
    // Random, different for each run, not known to peers and not derived from the epoch, which they know.
    // Keys and timestamps are hashed with it, so that a peer cannot choose some that collide.
    uint64_t secret = 0;
    Durability durability = Durability::kMemory;
    Nanoseconds window = from_s(5);            // S4
    Nanoseconds window_alone = from_ms(20);    // S4, for transactions on only this partition
    uint32_t retired_alone_max = 256;          // S4, for versions that no slot shows
    Nanoseconds window_floor = from_ms(500);   // S7
    Nanoseconds decision_window = from_s(60);  // how long decisions are remembered
    uint64_t heap_limit = UINT64_MAX;          // bytes outside the arena
    uint32_t inline_cells = 2;                 // versions kept in a key's own extent: one READ gets them
    uint32_t inline_max = 2048;  // largest record kept there, in bytes; larger ones are elsewhere
    // Committed transactions that are remembered. Beyond that the oldest are forgotten before the decision
    // window ends, and the floor rises with them. The default is far more than termination needs at any load.
    uint32_t finished_max = 1u << 22;
    // The same for transactions on several partitions, if no log has their decisions. None is forgotten
    // early: beyond the limit writes are answered with kBusy.
    uint32_t finished_shared_max = 1u << 24;
    // Limit of prepared and preparing transactions; beyond it prepares are answered with kBusy. Transactions
    // that wait for an unreachable partition (defer) do not count.
    uint32_t prepared_max = 1u << 16;
};

enum class Presence : uint8_t { kAbsent, kExact, kNewer, kGone };

// Result of a lookup. For kAbsent and kGone only `slot` is meaningful.
struct Found {
    Presence presence = Presence::kAbsent;
    bool committed = false;  // kExact: false for a prepared one
    bool cold = false;       // S8: value and metadata are on disk; fetch() reads them
    uint32_t bytes = 0;      // size of the record, in memory or on disk
    RecordView version;      // key, metadata, value, timestamp, expires, tombstone
    SlotAddress slot;        // where remote readers find the key; bytes 0: no slot
};

// Progress of a scan. The view is valid as in S6.
struct Scanned {
    bool is_over = false;   // no key is left
    std::string_view last;  // the key to continue after: the last one passed, or where the scan began
};

// Called from within poll() with the result of fetch(): kExact, or kGone if the version was collected
// meanwhile or the disk failed. The view is valid during the call.
struct FetchDone {
    void (*run)(void* context, const Found& found) noexcept = nullptr;
    void* context = nullptr;
};

struct Overdue {
    Timestamp timestamp;
    Nanoseconds age{};  // time since the prepare; very long if a restart found the transaction
    Bytes participants;
    std::vector<std::string_view> keys;
};

struct Statistics {
    uint64_t keys = 0;
    uint64_t versions = 0;
    uint64_t prepared = 0;  // transactions, including preparing ones
    uint64_t deferred = 0;  // those with a participant that could not be reached
    uint64_t decisions = 0;
    uint64_t arena_bytes = 0;
    uint64_t arena_used = 0;
    uint64_t heap_used = 0;
    uint64_t indexed = 0;  // keys in the index
    uint64_t index_used = 0;
    uint64_t cold_versions = 0;
    uint64_t prepares = 0;
    uint64_t commits = 0;
    uint64_t aborts = 0;
    uint64_t commits_lost = 0;  // a newer version had already been committed
    uint64_t conflicts = 0;
    uint64_t refused_memory = 0;
    uint64_t refused_locks = 0;  // the lock table was full
    uint64_t refused_old = 0;
    uint64_t collected = 0;  // versions
    uint64_t expired = 0;
    uint64_t evicted = 0;
    uint64_t fetched = 0;
    uint64_t log_failures = 0;
    Nanoseconds gc_lag{};      // overdue time of the oldest version to collect
    Nanoseconds window_now{};  // S7
};

// Keeps the versions that a reader of the state at `timestamp` needs. Movable. Must be destroyed before the
// store; its destruction releases the versions.
class Pin {
  public:
    Pin() = default;
    Pin(Pin&& other) noexcept : store_(std::exchange(other.store_, nullptr)), timestamp_(other.timestamp_) {}
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { release(); }
    void release() noexcept;
    Timestamp timestamp() const { return timestamp_; }

  private:
    friend class Store;
    Pin(class Store* store, Timestamp timestamp) : store_(store), timestamp_(timestamp) {}
    class Store* store_ = nullptr;
    Timestamp timestamp_;
};

class Store final : public reactor::Source {
  public:
    // Page-aligned and zeroed; registered by the caller for remote reading, or plain memory.
    struct Memory {
        std::span<std::byte> arena;
        std::span<std::byte> index;  // SlotIndex::bytes_for(arena bytes); empty: no index
    };
    // `log` may be nullptr only for Durability::kMemory without eviction.
    static Result<std::unique_ptr<Store>> create(const Options& options, const Memory& memory, Clock& clock,
                                                 Log* log);
    ~Store() override;

    // Loads the log. Call it once, before anything else. Blocks. `seen` gets the timestamps of all recovered
    // transactions and versions, in any order and repeatedly.
    Status recover(const std::function<void(Timestamp)>& seen = {});

    ArenaView arena() const;
    IndexFacts index() const;
    // Call it when there is a remote reader: keys then get slots without being requested.
    void expect_readers();

    // --- transactions (S1, S2)
    Answer prepare(const Transaction& transaction, Continuation done);
    Answer put(const Transaction& transaction, Continuation done);  // prepare and commit in one
    Answer commit(Timestamp timestamp);
    // Aborts by decision of the participants; kAborted means success.
    Answer abort(Timestamp timestamp, Continuation done);
    // Aborts at the request of the writer. Returns kPrepared if an inquiry has received this answer. Only
    // termination can then abort the transaction (S10).
    Answer withdraw(Timestamp timestamp, Continuation done);
    // Visits the keys of an undecided transaction here, those of its conditions included; none if there is no
    // such transaction. `is_written` means that it writes the key.
    void visit_undecided(Timestamp timestamp,
                         const std::function<void(std::string_view key, bool is_written)>& visit) const;
    bool knows(Timestamp timestamp) const;  // prepared or put here, so a repetition gets the outcome
    Answer inquire(Timestamp timestamp, Continuation done);
    // Drops the continuations of operations, fetches and lock waits with this context, whose owner is gone.
    // The operations continue.
    void forget(void* context);

    // Transactions prepared for longer than `age`, at most `limit`: first up to half of them deferred ones,
    // in the order of their deferral, then the others, oldest first.
    std::vector<Overdue> overdue(Nanoseconds age, size_t limit) const;
    // Moves the transaction to the end of the deferred ones, because one of its participants cannot be
    // reached now.
    void defer(Timestamp timestamp);
    // True if as many transactions are deferred as may be prepared. The caller must then accept no more that
    // would wait for the same partition.
    bool defers_too_many() const;
    Timestamp floor() const;
    // The timestamp that the transaction must exceed (S11): that of the newest version of its keys, those of
    // its conditions included, which is committed or may have been acknowledged.
    Timestamp newest(const Transaction& transaction) const;
    // After kConflict: the index of the first condition that does not hold, or the number of conditions if
    // all hold.
    size_t failed(const Transaction& transaction) const;
    // The version that a condition on the key would have to expect now, for this timestamp.
    Timestamp present(std::string_view key, Timestamp timestamp) const;
    // From now on prepares at or below `floor` are refused, except under exclusive locks that were granted
    // below it and are still held. Already prepared ones stay.
    void raise_floor(Timestamp floor);

    // --- reads; see S5, S6
    // Expired versions are returned unchanged; the reader compares `expires` with its time. `addressed` means
    // that the reader needs the key's slot to read it one-sidedly; the slot is then created.
    Found get(std::string_view key, bool addressed = true) const;  // latest committed
    // Lookups by timestamp visit the versions of a key from the newest on. Each visit takes one from `looks`,
    // if it is given. If that becomes 0, the result is not valid.
    //
    // Looks up the version with this timestamp: round 2 of RAMP-Fast.
    Found get_exact(std::string_view key, Timestamp timestamp, bool addressed = true,
                    size_t* looks = nullptr) const;
    // Looks up the newest version with one of these timestamps, which are in ascending order: round 2 of
    // RAMP-Small and RAMP-Hybrid.
    Found get_newest(std::string_view key, std::span<const Timestamp> of, bool addressed = true,
                     size_t* looks = nullptr) const;
    Found get_at(std::string_view key, Timestamp at) const;  // newest committed ≤ at; pin(at) first
    // Reads a cold version from disk, and keeps it in memory if there is room.
    void fetch(std::string_view key, Timestamp timestamp, FetchDone done);

    // Visits the latest committed versions of keys that begin with `prefix` and are greater than `after`, in
    // order, excluding deleted ones. Ends when visit returns false, or after `looks_max` keys, including
    // deleted ones, which bounds the turn. `at` selects the state at that time (pin it first), or the latest
    // state if it is none.
    Scanned scan(std::string_view prefix, std::string_view after, Timestamp at,
                 const std::function<bool(const Found&)>& visit, size_t looks_max = kScanLooksMax) const;

    // --- snapshots: pin(S), raise_floor(S), wait for settled(S), then scan(…, S): all transactions ≤ S
    // True if no transaction at or below `at` is preparing or prepared, or may still come under a lock.
    bool settled(Timestamp at) const;
    // Fails with kNotFound if versions of that time may have been collected.
    Result<Pin> pin(Timestamp at);

    // --- two-phase locking (baselines)
    LockTable& locks() { return locks_; }

    // --- housekeeping
    // Collects, expires (versions with expires ≤ `now` become tombstones) and evicts; a bounded amount. Call
    // it every few milliseconds. Returns the amount done.
    size_t maintain(Timestamp now, size_t budget = 1024);
    Statistics statistics() const;

    // reactor::Source: handles the log's completions.
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override;

    struct Parts;  // parts.h

  private:
    friend class Pin;
    explicit Store(std::unique_ptr<Parts> parts, Clock& clock);
    const std::unique_ptr<Parts> parts_;
    LockTable locks_;
};

}  // namespace wss::kv::store
