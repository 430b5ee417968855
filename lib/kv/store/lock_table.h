// SPDX-License-Identifier: Apache-2.0
// Locks of keys for the two-phase-locking baselines: shared or exclusive, waiting in order (the paper's
// sequential locking) or refused at once (no-wait, the fair baseline). A lock is a lease: a holder that
// vanished loses it.
//
// A waiter is called from within unlock(), unlock_all(), forget(), expire() or notify(), never from within
// lock() or decided(). It may call the table.
//
// Undecided writes act as locks too: a key with one is granted to no owner until the write is decided. So a
// write that was prepared under locks no longer needs them, and lock holders see a write that was prepared
// without locks as a whole.
//
// If the floor rises after the locks of a transaction with one participant were granted, its write is
// accepted even below the floor. Each exclusive lock therefore stores the floor at the time of its grant.
//
// Thread-safety: none; belongs to the store's thread. Nothing here is durable.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kv/store/keyed_hash.h"
#include "lib/kv/types.h"

namespace wss::kv::store {

enum class LockMode : uint8_t { kShared, kExclusive };
enum class LockAnswer : uint8_t {
    kGranted,
    kWaiting,   // `done` will be called
    kRefused,   // no-wait and taken; or too many waiters; or the owner has given up
    kTimedOut,  // only passed to `done`: waited longer than the lease
    kFull,      // kOwnerMax or kLocksMax is reached
};

struct LockDone {
    void (*run)(void* context, LockAnswer answer) noexcept = nullptr;
    void* context = nullptr;
};

struct LockRequest {
    std::string_view key;
    uint64_t owner = 0;  // the transaction; a repeated request is granted and renews the lease
    LockMode mode = LockMode::kShared;
    bool wait = false;
    Nanoseconds lease = from_s(5);  // limit of holding, and of waiting
};

// The seam to the store's undecided writes.
class UndecidedWrites {
  public:
    virtual ~UndecidedWrites() = default;
    virtual bool is_undecided(std::string_view key) const = 0;
};

class LockTable {
  public:
    // `writes` may be nullptr: no writes.
    explicit LockTable(Clock& clock, const UndecidedWrites* writes = nullptr, uint64_t secret = 0)
        : clock_(clock), writes_(writes), keys_of_(0, KeyedHash(secret)), waits_of_(0, KeyedHash(secret)) {}
    LockTable(const LockTable&) = delete;
    LockTable& operator=(const LockTable&) = delete;

    // A shared holder that requests an exclusive lock gets it if it is the only holder. Otherwise it is
    // refused and never waits, because two such holders would deadlock.
    LockAnswer lock(const LockRequest& request, LockDone done);
    // Whether `owner` holds `key` in this mode or a stronger one. Check it before a write: the lease may have
    // ended.
    bool holds(std::string_view key, uint64_t owner, LockMode mode) const;
    // The floor when `owner` was granted `key`, if it still holds it exclusively.
    std::optional<Timestamp> granted_at(std::string_view key, uint64_t owner) const;
    // Whether any owner holds it exclusively.
    bool is_exclusive(std::string_view key) const;
    // Whether another owner holds it, so that a write of it is refused (S12 of store.h).
    bool excludes(std::string_view key, uint64_t owner) const;
    // A write of the key was decided: grants the lock to its waiters. They are called from within notify(),
    // unlock(), unlock_all(), forget() or expire().
    void decided(std::string_view key);
    void notify();
    void raise_floor(Timestamp floor) { floor_ = floor; }
    // True if an exclusive lock was granted while the floor was below `at`: its owner may write at or below
    // `at`.
    bool may_write_until(Timestamp at) const { return !exclusive_.empty() && exclusive_.begin()->first < at; }
    void unlock(std::string_view key, uint64_t owner);
    void unlock_all(uint64_t owner);  // the owner's waits are refused
    // Drops waits with this context without calling them.
    void forget(void* context);
    // Ends expired leases and grants locks to waiters. Returns the number of ended leases and waits. Visits a
    // bounded number of locks: if there are very many, a lease ends late, but holds() always checks the time.
    size_t expire();

    size_t held() const { return held_; }
    size_t waiting() const { return waiting_; }
    uint64_t refused() const { return refused_; }  // requests that were refused with kFull

    static constexpr size_t kOwnerMax =
        1024;  // keys that an owner holds or waits for: as many as a transaction has
    static constexpr size_t kLocksMax = size_t{1} << 18;  // held, of all owners
    static constexpr size_t kLooksMax = 1024;             // locks that a turn of expire() visits

  private:
    static constexpr size_t kWaitersMax = 1024;  // waiters of one key
    struct Holder {
        uint64_t owner = 0;
        Nanoseconds until{};
        Timestamp floor;  // the floor when an exclusive lock was granted
    };
    struct Waiter {
        uint64_t owner = 0;
        LockMode mode = LockMode::kShared;
        Nanoseconds lease{};
        Nanoseconds until{};
        LockDone done;
    };
    struct Lock {
        LockMode mode = LockMode::kShared;
        std::vector<Holder> holders;
        std::list<Waiter> waiters;
    };
    using Locks = std::map<std::string, Lock, std::less<>>;

    struct Ready {
        LockDone done;
        LockAnswer answer = LockAnswer::kGranted;
    };
    static constexpr Nanoseconds kLookEvery = from_ms(1);

    std::vector<Holder>::iterator holder(Lock& lock, uint64_t owner);
    bool is_full(uint64_t owner) const;
    LockAnswer lock_again(Lock& lock, Holder& mine, const LockRequest& request);
    void grant(Locks::iterator at, uint64_t owner, LockMode mode, Nanoseconds lease);
    void grant_waiters(Locks::iterator at);
    size_t end_leases(Lock& lock, const std::string& key, Nanoseconds now);
    void release(std::string_view key, uint64_t owner);
    void drop_if_free(Locks::iterator at);
    template <typename Waits, typename Which>
    void drop_waiters(Waits& waits, typename Waits::key_type whose, Which&& which);
    void wait_over(Locks::iterator at, const Waiter& waiter);
    bool is_undecided(const std::string& key) const {
        return writes_ != nullptr && writes_->is_undecided(key);
    }
    void begin_exclusive(Holder& holder);
    void end_exclusive(const Holder& holder);

    Clock& clock_;
    const UndecidedWrites* const writes_;
    Locks locks_;
    // Peers choose the owners. The keys are those in `locks_`.
    std::unordered_map<uint64_t, std::set<std::string_view>, KeyedHash> keys_of_;
    // Where each owner and each context waits, one entry for each wait, so that ending them needs no search.
    std::unordered_multimap<uint64_t, Locks::iterator, KeyedHash> waits_of_;
    std::unordered_multimap<void*, Locks::iterator> waits_by_;
    Timestamp floor_;
    std::map<Timestamp, size_t> exclusive_;  // locks held, by the floor of their grants
    size_t held_ = 0;
    size_t waiting_ = 0;
    uint64_t refused_ = 0;
    Nanoseconds next_look_{};
    std::string look_from_;    // where the next turn of expire() begins
    std::deque<Ready> ready_;  // waiters that must be called
    bool notifying_ = false;
};

}  // namespace wss::kv::store
