// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/locks.h"

#include <algorithm>

namespace wss::kv {

Locks::~Locks() {
    waits_.clear([this](Wait& wait) { partition_.store().forget(&wait); });
}

// The timestamp that a write of these keys by this owner must exceed. It covers timestamps of former clients
// of the id, if the write could meet them. It excludes the clock and versions of other keys: these may be so
// far ahead that another partition of the transaction would refuse a later timestamp.
Timestamp Locks::newest_of(const Peer& peer, uint64_t owner, std::span<const std::string_view> keys) {
    writes_.clear();
    for (std::string_view key : keys) writes_.push_back({.key = key});
    const store::Store& store = partition_.store();
    const Timestamp former = LeaseTable::former_within(*peer.lease, {owner}, kLockedLead_ticks);
    return std::max({store.newest({.writes = writes_}), former, store.floor()});
}

void Locks::answered(void* context, store::LockAnswer answer) noexcept {
    Wait& wait = *static_cast<Wait*>(context);
    Locks& locks = *wait.locks;
    Peer* peer = wait.peer();
    const bool granted = answer == store::LockAnswer::kGranted;
    const bool is_of_use = locks.is_of_use(wait);
    if (granted && !is_of_use) locks.partition_.store().locks().unlock_all(wait.owner);
    const std::string_view key = wait.key;
    if (peer != nullptr)
        locks.partition_.answer(*peer, wait.header(),
                                granted && is_of_use ? wire::KvStatus::kOk : wire::KvStatus::kLockConflict,
                                locks.newest_of(*peer, wait.owner, {&key, 1}).value);
    locks.waits_.give(wait);
}

// A lock is of no use if its client is gone, or if the client's writes or reads are refused by now, because
// the clock or the rights have changed.
bool Locks::is_of_use(const Wait& wait) const {
    const Peer* peer = wait.peer();
    if (peer == nullptr || (wait.exclusive && is_spent(*peer))) return false;
    return peer->rights == nullptr ||
           (wait.exclusive ? peer->rights->may_write(wait.key) : peer->rights->may_read(wait.key));
}

// True if this partition would refuse the client's writes, so that a lock is useless.
bool Locks::is_spent(const Peer& peer) const {
    return LeaseTable::is_spent(*peer.lease, partition_.lease_clock());
}

void Locks::lock(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    // Two clients that each wait for several keys could deadlock.
    if (!wire::parse(message, lock_) || lock_.keys.empty() || (lock_.wait && lock_.keys.size() > 1))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed lock");
    if (!access_.allows(peer, header, lock_)) return;
    if (Timestamp{lock_.owner}.client() != peer.client_id)
        return partition_.answer(peer, header, wire::KvStatus::kNotLeased);
    if (lock_.exclusive && partition_.is_too_far_ahead({lock_.owner}, kLockedLead_ticks))
        return partition_.refuse_write(peer, header, wire::KvStatus::kTooFarAhead, {lock_.owner});
    if (lock_.exclusive && is_spent(peer))
        return partition_.refuse_write(peer, header, wire::KvStatus::kTooOld, {lock_.owner});
    store::LockTable& table = partition_.store().locks();
    for (std::string_view key : lock_.keys) {
        ++partition_.counters().locks;
        store::LockRequest request{
            .key = key,
            .owner = lock_.owner,
            .mode = lock_.exclusive ? store::LockMode::kExclusive : store::LockMode::kShared,
            .wait = lock_.wait};
        Wait& wait = waits_.take();
        const store::LockAnswer given = table.lock(request, {.run = &Locks::answered, .context = &wait});
        if (given == store::LockAnswer::kWaiting) {
            wait.locks = this;
            wait.owner = lock_.owner;
            wait.exclusive = lock_.exclusive;
            wait.key = key;
            return wait.owe(peer, header);
        }
        waits_.give(wait);
        if (given == store::LockAnswer::kGranted) continue;
        table.unlock_all(lock_.owner);
        return partition_.answer(
            peer, header,
            given == store::LockAnswer::kFull ? wire::KvStatus::kNoMemory : wire::KvStatus::kLockConflict);
    }
    partition_.answer(peer, header, wire::KvStatus::kOk, newest_of(peer, lock_.owner, lock_.keys).value);
}

void Locks::unlock(Peer& peer, wire::Bytes message) {
    if (!wire::parse(message, lock_)) return peer.channel()->close("malformed unlock");
    if (Timestamp{lock_.owner}.client() == peer.client_id) partition_.store().locks().unlock_all(lock_.owner);
}

}  // namespace wss::kv
