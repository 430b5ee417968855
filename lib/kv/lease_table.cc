// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lease_table.h"

#include <algorithm>
#include <utility>

namespace wss::kv {

LeaseTable::LeaseTable(const Options& options)
    : lease_(options.lease),
      first_(1 + options.partition * (kClientIdMax / options.partitions)),
      last_((options.partition + 1) * (kClientIdMax / options.partitions)),
      next_(first_ + static_cast<uint32_t>(options.seed % range())) {}

void LeaseTable::hand_over(Lease& lease, uint64_t nonce) {
    if (lease.nonce != nonce) lease.after = lease.last;
    lease.nonce = nonce;
    lease.goodbye = false;
}

// In turn: what was given back last is given out last, when all partitions have heard of it.
LeaseTable::Lease* LeaseTable::take(uint64_t nonce, Nanoseconds now) {
    for (uint32_t tried = 0; tried < range(); ++tried) {
        const uint32_t id = std::exchange(next_, next_ == last_ ? first_ : next_ + 1);
        Lease& lease = leases_[id];
        if (!is_free(lease, now)) continue;
        lease.id = id;
        hand_over(lease, nonce);
        ++lease.connections;
        return &lease;
    }
    return nullptr;
}

LeaseTable::Lease* LeaseTable::join(uint32_t id, uint64_t nonce, Nanoseconds now) {
    Lease& lease = leases_[id];
    if (lease.nonce != nonce && !is_free(lease, now)) return nullptr;
    lease.id = id;
    hand_over(lease, nonce);
    ++lease.connections;
    return &lease;
}

void LeaseTable::leave(Lease& lease, Nanoseconds now, Timestamp clock) {
    --lease.connections;
    lease.until = lease.goodbye ? now : now + lease_;
    if (lease.last > clock) {
        const auto ahead_us = static_cast<int64_t>(lease.last.ticks() - clock.ticks());
        lease.until = std::max(lease.until, now + from_us(ahead_us));
    }
}

void LeaseTable::say_goodbye(Lease& lease, Timestamp last) {
    lease.last = std::max(lease.last, last);
    lease.goodbye = true;
}

uint32_t LeaseTable::leased(Nanoseconds now) const {
    return static_cast<uint32_t>(std::count_if(leases_.begin(), leases_.end(), [&](const auto& entry) {
        return entry.first >= first_ && entry.first <= last_ && !is_free(entry.second, now);
    }));
}

}  // namespace wss::kv
