// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/lock_table.h"

#include <algorithm>

namespace wss::kv::store {

LockAnswer LockTable::lock(const LockRequest& request, LockDone done) {
    auto at = locks_.find(request.key);
    const bool again = at != locks_.end() && holder(at->second, request.owner) != at->second.holders.end();
    if (!again && is_full(request.owner)) {
        refused_++;
        return LockAnswer::kFull;
    }
    if (at == locks_.end()) at = locks_.emplace(std::string(request.key), Lock{}).first;
    Lock& lock = at->second;
    const Nanoseconds now = clock_.now();
    end_leases(lock, at->first, now);
    auto mine = holder(lock, request.owner);
    if (mine != lock.holders.end()) return lock_again(lock, *mine, request);
    const bool compatible =
        lock.holders.empty() || (lock.mode == LockMode::kShared && request.mode == LockMode::kShared);
    // Requests do not overtake waiters; otherwise writers could starve.
    if (compatible && lock.waiters.empty() && !is_undecided(at->first)) {
        grant(at, request.owner, request.mode, request.lease);
        return LockAnswer::kGranted;
    }
    if (!request.wait || lock.waiters.size() >= kWaitersMax) {
        drop_if_free(at);
        return LockAnswer::kRefused;
    }
    lock.waiters.push_back({request.owner, request.mode, request.lease, now + request.lease, done});
    waits_of_.emplace(request.owner, at);
    waits_by_.emplace(done.context, at);
    waiting_++;
    grant_waiters(at);
    return LockAnswer::kWaiting;
}

bool LockTable::is_full(uint64_t owner) const {
    if (held_ + waiting_ >= kLocksMax) return true;
    auto keys = keys_of_.find(owner);
    const size_t held = keys != keys_of_.end() ? keys->second.size() : 0;
    return held + waits_of_.count(owner) >= kOwnerMax;
}

LockAnswer LockTable::lock_again(Lock& lock, Holder& mine, const LockRequest& request) {
    const bool upgrade = request.mode == LockMode::kExclusive && lock.mode == LockMode::kShared;
    if (upgrade && lock.holders.size() > 1) return LockAnswer::kRefused;
    if (lock.mode == LockMode::kExclusive) end_exclusive(mine);
    if (upgrade) lock.mode = LockMode::kExclusive;
    if (lock.mode == LockMode::kExclusive) begin_exclusive(mine);
    mine.until = clock_.now() + request.lease;
    return LockAnswer::kGranted;
}

std::vector<LockTable::Holder>::iterator LockTable::holder(Lock& lock, uint64_t owner) {
    return std::find_if(lock.holders.begin(), lock.holders.end(),
                        [owner](const Holder& holder) { return holder.owner == owner; });
}

void LockTable::grant(Locks::iterator at, uint64_t owner, LockMode mode, Nanoseconds lease) {
    Lock& lock = at->second;
    lock.mode = mode;
    // An owner that waited twice for a shared lock holds it once.
    if (auto mine = holder(lock, owner); mine != lock.holders.end()) {
        mine->until = clock_.now() + lease;
        return;
    }
    lock.holders.push_back({.owner = owner, .until = clock_.now() + lease, .floor = {}});
    if (mode == LockMode::kExclusive) begin_exclusive(lock.holders.back());
    keys_of_[owner].insert(at->first);
    held_++;
}

// Removes the key from the owner's list, so that the list has only keys that it holds.
size_t LockTable::end_leases(Lock& lock, const std::string& key, Nanoseconds now) {
    const size_t ended = std::erase_if(lock.holders, [&](const Holder& holder) {
        if (holder.until > now) return false;
        auto keys = keys_of_.find(holder.owner);
        keys->second.erase(key);
        if (keys->second.empty()) keys_of_.erase(keys);
        if (lock.mode == LockMode::kExclusive) end_exclusive(holder);
        return true;
    });
    held_ -= ended;
    return ended;
}

void LockTable::grant_waiters(Locks::iterator at) {
    Lock& lock = at->second;
    if (lock.waiters.empty() || is_undecided(at->first)) return;
    while (!lock.waiters.empty()) {
        const Waiter next = lock.waiters.front();
        const bool shared = lock.mode == LockMode::kShared && next.mode == LockMode::kShared;
        if (!lock.holders.empty() && !shared) return;
        lock.waiters.pop_front();
        wait_over(at, next);
        grant(at, next.owner, next.mode, next.lease);
        ready_.push_back({next.done, LockAnswer::kGranted});
    }
}

// A waiter may lock and unlock, so the table is consistent before any is called.
void LockTable::notify() {
    if (notifying_) return;
    notifying_ = true;
    while (!ready_.empty()) {
        const Ready next = ready_.front();
        ready_.pop_front();
        if (next.done.run != nullptr) next.done.run(next.done.context, next.answer);
    }
    notifying_ = false;
}

void LockTable::drop_if_free(Locks::iterator at) {
    if (at->second.holders.empty() && at->second.waiters.empty()) locks_.erase(at);
}

void LockTable::begin_exclusive(Holder& holder) {
    holder.floor = floor_;
    exclusive_[floor_]++;
}

void LockTable::end_exclusive(const Holder& holder) {
    const auto at = exclusive_.find(holder.floor);
    if (--at->second == 0) exclusive_.erase(at);
}

std::optional<Timestamp> LockTable::granted_at(std::string_view key, uint64_t owner) const {
    auto at = locks_.find(key);
    if (at == locks_.end() || at->second.mode != LockMode::kExclusive) return std::nullopt;
    const Nanoseconds now = clock_.now();
    for (const Holder& holder : at->second.holders)
        if (holder.owner == owner && holder.until > now) return holder.floor;
    return std::nullopt;
}

bool LockTable::holds(std::string_view key, uint64_t owner, LockMode mode) const {
    auto at = locks_.find(key);
    if (at == locks_.end()) return false;
    const Lock& lock = at->second;
    if (mode == LockMode::kExclusive && lock.mode != LockMode::kExclusive) return false;
    const Nanoseconds now = clock_.now();
    return std::any_of(lock.holders.begin(), lock.holders.end(),
                       [&](const Holder& holder) { return holder.owner == owner && holder.until > now; });
}

bool LockTable::is_exclusive(std::string_view key) const {
    if (held_ == 0) return false;
    auto at = locks_.find(key);
    return at != locks_.end() && !at->second.holders.empty() && at->second.mode == LockMode::kExclusive;
}

bool LockTable::excludes(std::string_view key, uint64_t owner) const {
    if (held_ == 0) return false;
    auto at = locks_.find(key);
    if (at == locks_.end()) return false;
    const Nanoseconds now = clock_.now();
    const auto& holders = at->second.holders;
    return std::any_of(holders.begin(), holders.end(),
                       [&](const Holder& holder) { return holder.owner != owner && holder.until > now; });
}

void LockTable::decided(std::string_view key) {
    if (waiting_ == 0) return;
    if (auto at = locks_.find(key); at != locks_.end()) grant_waiters(at);
}

void LockTable::release(std::string_view key, uint64_t owner) {
    auto at = locks_.find(key);
    if (at == locks_.end()) return;
    Lock& lock = at->second;
    if (auto mine = holder(lock, owner); mine != lock.holders.end()) {
        if (lock.mode == LockMode::kExclusive) end_exclusive(*mine);
        lock.holders.erase(mine);
        held_--;
    }
    grant_waiters(at);
    drop_if_free(at);
}

void LockTable::unlock(std::string_view key, uint64_t owner) {
    if (auto keys = keys_of_.find(owner); keys != keys_of_.end()) {
        keys->second.erase(key);
        if (keys->second.empty()) keys_of_.erase(keys);
    }
    release(key, owner);
    notify();
}

void LockTable::unlock_all(uint64_t owner) {
    drop_waiters(waits_of_, owner, [this, owner](const Waiter& waiter) {
        if (waiter.owner != owner) return false;
        ready_.push_back({waiter.done, LockAnswer::kRefused});
        return true;
    });
    if (auto keys = keys_of_.find(owner); keys != keys_of_.end()) {
        const std::set<std::string_view> held = std::move(keys->second);
        keys_of_.erase(keys);
        for (std::string_view key : held) release(key, owner);
    }
    notify();
}

void LockTable::forget(void* context) {
    std::erase_if(ready_, [context](const Ready& ready) { return ready.done.context == context; });
    drop_waiters(waits_by_, context,
                 [context](const Waiter& waiter) { return waiter.done.context == context; });
    notify();
}

template <typename Waits, typename Which>
void LockTable::drop_waiters(Waits& waits, typename Waits::key_type whose, Which&& which) {
    for (auto first = waits.find(whose); first != waits.end(); first = waits.find(whose)) {
        const Locks::iterator at = first->second;
        at->second.waiters.remove_if([&](const Waiter& waiter) {
            if (!which(waiter)) return false;
            wait_over(at, waiter);
            return true;
        });
        grant_waiters(at);
        drop_if_free(at);
    }
}

void LockTable::wait_over(Locks::iterator at, const Waiter& waiter) {
    const auto take = [at](auto& waits, auto whose) {
        auto [first, last] = waits.equal_range(whose);
        waits.erase(std::find_if(first, last, [at](const auto& wait) { return wait.second == at; }));
    };
    take(waits_of_, waiter.owner);
    take(waits_by_, waiter.done.context);
    waiting_--;
}

size_t LockTable::expire() {
    notify();
    if (held_ + waiting_ == 0) return 0;
    const Nanoseconds now = clock_.now();
    if (now < next_look_) return 0;
    next_look_ = now + kLookEvery;
    size_t ended = 0;
    auto at = locks_.lower_bound(look_from_);
    look_from_.clear();
    for (size_t looked = 0; at != locks_.end(); ++looked) {
        if (looked == kLooksMax) {
            look_from_ = at->first;
            break;
        }
        auto next = std::next(at);
        Lock& lock = at->second;
        ended += end_leases(lock, at->first, now);
        ended += lock.waiters.remove_if([&](const Waiter& waiter) {
            if (waiter.until > now) return false;
            ready_.push_back({waiter.done, LockAnswer::kTimedOut});
            wait_over(at, waiter);
            return true;
        });
        grant_waiters(at);
        drop_if_free(at);
        at = next;
    }
    notify();
    return ended;
}

}  // namespace wss::kv::store
