// SPDX-License-Identifier: Apache-2.0
// The multi-version store of one partition: what a RAMP server keeps.
//
// Words. A *version* is one value of one key, named by its transaction's timestamp, immutable. It is
// *preparing* (waits for the log), *prepared*, or *committed*; a committed one is the key's *latest* or
// *superseded*. A *transaction* here is the state of one timestamp on this partition. The *floor* is a
// timestamp: decisions at or below it may be forgotten, prepares at or below it are refused. The *arena* is
// registered memory, readable by peers; slot_format.h says what they find in it.
//
// Rules
//  S1  One state per timestamp: unknown → preparing → prepared → committed | aborted; decisions never change.
//  prepare,
//      commit, abort, inquire of the same timestamp may come in any order and any number of times. A commit
//      of an unknown timestamp is remembered, so that its late prepare commits; an inquiry about one aborts
//      it first.
//  S2  A transaction is answered kOk (prepare) when it is as durable as Options::durability promises, and
//  becomes
//      visible to readers, local and remote, only then. Aborts and inquiries are answered when they are
//      durable. Commits are logged without waiting: the prepared state on every participant makes them
//      (termination).
//  S3  A commit makes all of the transaction's versions visible at once: nothing else runs in between, and
//  local
//      readers see all or none. (Remote readers see slots change one by one: RAMP's metadata is for that.)
//  S4  A version that is superseded, or loses (its commit came when a newer one was committed already), stays
//  readable
//      for Options::window of time, and as long as a pin covers it. The latest version and prepared ones
//      always stay. Versions of a transaction that wrote on this partition only need less, window_alone: who
//      asks for all keys in one message sees all of it or nothing and never asks for one by its timestamp;
//      who reads key by key, or in RAMP-Small's two rounds, is that quick, or is answered kNewer.
//      Of those without a slot, which nobody reads key by key, the newest retired_alone_max are enough.
//  S5  A lookup by timestamp answers kExact (prepared or committed), kNewer (that version is gone or was
//  never
//      here, a committed one with a higher timestamp is), or kGone (nothing: start again). kNewer's version
//      may be a tombstone: then the key was deleted since.
//  S6  A view points into the store and is valid until the next call that is not const.
//  S7  Memory is bounded: the arena, and Options::heap_limit for what is beside it. When full the window
//  shrinks to
//      Options::window_floor, cold values go to disk if there is one, and then writes are answered kNoMemory.
//      Reads go on, and so do deletes and expiry, which make room: a share of either memory is theirs alone.
//  S8  A cold version (on disk only) is found with `cold` set and no value; fetch() brings it back.
//  S9  After recover(), prepared transactions are back: overdue() lists them at once. The epoch is new, so
//  that every address given out before is dead.
//  S10 An inquiry answered kPrepared is a promise, kept across restarts: another participant may commit
//  because of it. From then on only termination aborts the transaction, not its writer. S11 A write prepared
//  `in_order` has a later timestamp than all committed versions of its keys, or is refused without a trace:
//  acknowledged behind one of them it would never be read.
//  S12 A key with an undecided write that would become its latest version is locked for nobody; a write of a
//      key that another owner has locked is answered kBusy.
//  S13 A transaction with conditions holds their keys, and its own, until it is decided (conditions.cc).
//
// Life of a write:  prepare → (log) → continuation kOk → commit.   put = both in one, for a transaction that
// lives on this partition alone. Whoever finds a transaction in overdue() asks its participants (inquire) and
// decides: any committed → commit; any aborted → abort; all prepared → commit.
//
// The caller bounds timestamps from above (a clock far ahead would win for years, and take the floor with
// it).
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
    kAsync,   // logged without waiting: a crash of the process loses milliseconds, of the machine seconds
    kSync,    // answered after it is on stable storage
};
std::string_view to_string(Durability durability);

struct Options {
    uint64_t epoch = 0;  // random, never 0, another one for each run
    Durability durability = Durability::kMemory;
    Nanoseconds window = from_s(5);            // S4
    Nanoseconds window_alone = from_ms(20);    // S4, of transactions that no other partition has a part of
    uint32_t retired_alone_max = 256;          // S4, of those that no slot shows
    Nanoseconds window_floor = from_ms(500);   // S7
    Nanoseconds decision_window = from_s(60);  // decisions are remembered that long
    uint64_t heap_limit = UINT64_MAX;          // bytes beside the arena
    uint32_t inline_cells = 2;                 // versions kept in a key's own extent: one READ brings them
    uint32_t inline_max = 2048;  // bytes of a record that may be kept so; larger ones live elsewhere
    // Transactions that were committed and are remembered: beyond it the oldest are forgotten before the
    // decision window ends, and the floor rises with them. Far more than termination needs at any rate.
    uint32_t finished_max = 1u << 22;
    // The same of those of several partitions, where no log has their decisions. None is forgotten early:
    // beyond it writes are answered kBusy.
    uint32_t finished_shared_max = 1u << 24;
    // Transactions prepared or preparing at a time, then kBusy. Those that wait in vain for another partition
    // (defer) do not count.
    uint32_t prepared_max = 1u << 16;
};

enum class Presence : uint8_t { kAbsent, kExact, kNewer, kGone };

// One answer of a lookup. For kAbsent and kGone only `slot` means something.
struct Found {
    Presence presence = Presence::kAbsent;
    bool committed = false;  // kExact: false for a prepared one
    bool cold = false;       // S8: value and metadata are on disk; fetch() them
    uint32_t bytes = 0;      // of the record, in memory or on disk
    RecordView version;      // key, metadata, value, timestamp, expires, tombstone
    SlotAddress slot;        // where remote readers find the key; bytes 0: nowhere
};

// How far a scan came. The view is valid as others (S6) are.
struct Scanned {
    bool is_over = false;   // no key is left
    std::string_view last;  // the key to continue after: the last one passed, or where the scan began
};

// Called from within poll() with what fetch() was asked for: kExact, or kGone when it was collected meanwhile
// (or the disk failed). The view is valid during the call.
struct FetchDone {
    void (*run)(void* context, const Found& found) noexcept = nullptr;
    void* context = nullptr;
};

struct Overdue {
    Timestamp timestamp;
    Nanoseconds age{};  // since it was prepared; of one that a restart found, very long
    Bytes participants;
    std::vector<std::string_view> keys;
};

struct Statistics {
    uint64_t keys = 0;
    uint64_t versions = 0;
    uint64_t prepared = 0;  // transactions, preparing ones too
    uint64_t deferred = 0;  // of these: a participant could not be asked
    uint64_t decisions = 0;
    uint64_t arena_bytes = 0;
    uint64_t arena_used = 0;
    uint64_t heap_used = 0;
    uint64_t indexed = 0;  // keys that the index has
    uint64_t index_used = 0;
    uint64_t cold_versions = 0;
    uint64_t prepares = 0;
    uint64_t commits = 0;
    uint64_t aborts = 0;
    uint64_t commits_lost = 0;  // a newer version was committed already
    uint64_t conflicts = 0;
    uint64_t refused_memory = 0;
    uint64_t refused_locks = 0;  // a limit of the lock table was reached
    uint64_t refused_old = 0;
    uint64_t collected = 0;  // versions
    uint64_t expired = 0;
    uint64_t evicted = 0;
    uint64_t fetched = 0;
    uint64_t log_failures = 0;
    Nanoseconds gc_lag{};      // how much older than the window the oldest version to collect is
    Nanoseconds window_now{};  // S7
};

// Keeps what a reader of the state at `timestamp` needs from being collected. Movable; released when it dies,
// before the store does.
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
    // Page-aligned, zeroed, registered by the caller for remote reading (or plain memory).
    struct Memory {
        std::span<std::byte> arena;
        std::span<std::byte> index;  // of SlotIndex::bytes_for(arena's); empty: there is no index
    };
    // `log`: nullptr only for Durability::kMemory without eviction.
    static Result<std::unique_ptr<Store>> create(const Options& options, const Memory& memory, Clock& clock,
                                                 Log* log);
    ~Store() override;

    // Reads what the log holds; call once, before anything else. Blocks: it is a part of starting.
    Status recover();

    ArenaView arena() const;
    IndexFacts index() const;
    // There is a remote reader: keys get slots without having been asked for.
    void expect_readers();

    // --- transactions (S1, S2)
    Answer prepare(const Transaction& transaction, Continuation done);
    Answer put(const Transaction& transaction, Continuation done);  // prepare and commit in one
    Answer commit(Timestamp timestamp);
    // As the participants have decided together; kAborted is its success.
    Answer abort(Timestamp timestamp, Continuation done);
    // As its writer wishes. kPrepared: an inquiry was answered so, and only termination can abort it now
    // (S10).
    Answer withdraw(Timestamp timestamp, Continuation done);
    bool knows(Timestamp timestamp) const;  // it was prepared or put here: to be told again what became of it
    Answer inquire(Timestamp timestamp, Continuation done);
    // Drops the continuations and lock waits with this context: their owner is gone. What they wait for goes
    // on.
    void forget(void* context);

    // Transactions prepared for longer than `age`, oldest first, at most `limit`. Those that were deferred
    // take up to half of it, in the order in which they were.
    std::vector<Overdue> overdue(Nanoseconds age, size_t limit) const;
    // A participant cannot be asked now: others first.
    void defer(Timestamp timestamp);
    // As many are deferred as may be prepared: what is sure to wait for the same partition is not taken on.
    bool defers_too_many() const;
    Timestamp floor() const;
    // The latest committed version of any key that the transaction writes, or has a condition on.
    Timestamp newest(const Transaction& transaction) const;
    // The first condition that does not hold: after kConflict. None: size().
    size_t failed(const Transaction& transaction) const;
    // What a condition of the key would expect now, for this timestamp.
    Timestamp present(std::string_view key, Timestamp timestamp) const;
    // No prepare at or below is accepted from now on (what is prepared already stays), except under exclusive
    // locks that are held already and were granted below it.
    void raise_floor(Timestamp floor);

    // --- reads; see S5, S6. Expired versions are returned as they are: the reader compares `expires` with
    // its time.
    // `addressed`: the asker wants to know where the key is, to read it one-sidedly; its slot is made now.
    Found get(std::string_view key, bool addressed = true) const;  // latest committed
    // RAMP-Fast's round 2
    Found get_exact(std::string_view key, Timestamp timestamp, bool addressed = true) const;
    // RAMP-Small's, -Hybrid's
    Found get_newest(std::string_view key, std::span<const Timestamp> of, bool addressed = true) const;
    Found get_at(std::string_view key, Timestamp at) const;  // newest committed ≤ at; pin(at) first
    // Reads a cold version from disk, and makes it warm if there is room.
    void fetch(std::string_view key, Timestamp timestamp, FetchDone done);

    // Latest committed versions of keys that begin with `prefix` and are greater than `after`, in order,
    // deleted ones left out, until visit returns false or `looks_max` keys were looked at, deleted ones too:
    // the turn of a scan is bounded. `at`: as of then (pin it), else the latest. A key whose version of then
    // was collected before the pin is visited as kGone.
    Scanned scan(std::string_view prefix, std::string_view after, Timestamp at,
                 const std::function<bool(const Found&)>& visit, size_t looks_max = kScanLooksMax) const;

    // --- snapshots: raise_floor(S), wait for settled(S), then pin(S) and scan(…, S): every transaction ≤ S
    // wholly.
    // Nothing at or below is preparing or prepared, or may still come under a lock.
    bool settled(Timestamp at) const;
    Pin pin(Timestamp at);

    // --- two-phase locking (baselines)
    LockTable& locks() { return locks_; }

    // --- housekeeping
    // Collects, expires (versions with expires ≤ `now` become tombstones), evicts; a bounded amount. Call it
    // every few milliseconds. Returns how much it did.
    size_t maintain(Timestamp now, size_t budget = 1024);
    Statistics statistics() const;

    // reactor::Source: what the log has finished.
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
