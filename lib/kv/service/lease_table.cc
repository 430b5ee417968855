// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/lease_table.h"

#include <algorithm>
#include <utility>

#include "lib/kv/hlc.h"

namespace wss::kv {

namespace {

constexpr size_t kSpansMax = 8;  // spans of a client, or of its former clients
// An id is leased only if the clock is this far from a former client's timestamps.
constexpr uint64_t kDistance_ticks = 60 * kAheadMax_ticks;

Timestamp later(Timestamp than, uint64_t ticks) {
    return Timestamp::make(than.ticks() + ticks, 0);
}

// A stepped clock begins another span.
bool is_near(const LeaseTable::Span& span, Timestamp timestamp) {
    return timestamp <= later(span.last, kAheadMax_ticks) && span.first <= later(timestamp, kAheadMax_ticks);
}

void widen(LeaseTable::Span& span, const LeaseTable::Span& by) {
    span = {.first = std::min(span.first, by.first), .last = std::max(span.last, by.last)};
}

// With too many spans, the earliest two are merged.
void add(std::vector<LeaseTable::Span>& spans, const LeaseTable::Span& span) {
    spans.push_back(span);
    if (spans.size() <= kSpansMax) return;
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    widen(spans[0], spans[1]);
    spans.erase(spans.begin() + 1);
}

// True if the clock has not passed the span, and a client that writes now would soon reach it.
bool is_due(const LeaseTable::Span& span, Timestamp clock, uint64_t distance) {
    return span.last > clock && span.first <= later(clock, distance);
}

}  // namespace

LeaseTable::LeaseTable(const Options& options)
    : lease_(options.lease),
      first_(1 + options.partition * (kClientIdMax / options.partitions)),
      last_((options.partition + 1) * (kClientIdMax / options.partitions)),
      next_(first_ + static_cast<uint32_t>(options.seed % range())) {}

void LeaseTable::use(Lease& lease, Timestamp timestamp) {
    for (Span& span : lease.used)
        if (is_near(span, timestamp)) return widen(span, {timestamp, timestamp});
    add(lease.used, {timestamp, timestamp});
}

Timestamp LeaseTable::former_until(const Lease& lease, Timestamp timestamp) {
    if (timestamp <= lease.after) return lease.after;
    for (const Span& span : lease.former)
        if (span.first <= timestamp && timestamp <= span.last) return span.last;
    return {};
}

Timestamp LeaseTable::former_within(const Lease& lease, Timestamp from, uint64_t ticks) {
    Timestamp until = lease.after;
    for (const Span& span : lease.former)
        if (span.first <= later(from, ticks + 1) && from <= span.last) until = std::max(until, span.last);
    return until;
}

bool LeaseTable::is_spent(const Lease& lease, Timestamp clock) {
    return std::any_of(lease.former.begin(), lease.former.end(),
                       [&](const Span& span) { return is_due(span, clock, kAheadMax_ticks); });
}

// keep_until_passed() has set a time limit for timestamps that are slightly ahead, because the clock may
// stand still at the floor.
bool LeaseTable::is_free(const Lease& lease, Nanoseconds now, Timestamp clock) {
    if (lease.connections > 0 || lease.until > now) return false;
    for (const Span& span : lease.used)
        if (span.last > later(clock, kAheadMax_ticks) && is_due(span, clock, kDistance_ticks)) return false;
    return std::none_of(lease.former.begin(), lease.former.end(),
                        [&](const Span& span) { return is_due(span, clock, kDistance_ticks); });
}

void LeaseTable::hand_over(Lease& lease, uint64_t nonce, Timestamp clock) {
    if (lease.nonce != nonce) {
        for (const Span& span : std::exchange(lease.used, {})) add(lease.former, span);
        std::erase_if(lease.former, [&](const Span& span) {
            const bool is_ahead = span.first > later(clock, kDistance_ticks);
            if (!is_ahead) lease.after = std::max(lease.after, span.last);
            return !is_ahead;
        });
    }
    lease.nonce = nonce;
    lease.goodbye = false;
}

// Round-robin: the id returned last is leased last, when all partitions have seen its end.
LeaseTable::Lease* LeaseTable::take(uint64_t nonce, Nanoseconds now, Timestamp clock) {
    for (uint32_t tried = 0; tried < range(); ++tried) {
        const uint32_t id = std::exchange(next_, next_ == last_ ? first_ : next_ + 1);
        Lease& lease = leases_[id];
        if (!is_free(lease, now, clock)) continue;
        lease.id = id;
        hand_over(lease, nonce, clock);
        ++lease.connections;
        return &lease;
    }
    return nullptr;
}

LeaseTable::Lease* LeaseTable::join(uint32_t id, uint64_t nonce, Nanoseconds now, Timestamp clock) {
    Lease& lease = leases_[id];
    if (lease.nonce == 0 && is_of_range(id)) lease.nonce = nonce;
    if (lease.nonce == nonce ? is_spent(lease, clock) : !is_free(lease, now, clock)) return nullptr;
    lease.id = id;
    hand_over(lease, nonce, clock);
    ++lease.connections;
    return &lease;
}

void LeaseTable::leave(Lease& lease, Nanoseconds now, Timestamp clock) {
    --lease.connections;
    lease.until = lease.goodbye ? now : now + lease_;
    keep_until_passed(lease, now, clock);
}

void LeaseTable::recovered(Timestamp timestamp, Nanoseconds now, Timestamp clock) {
    if (timestamp.client() == 0) return;  // of the partition itself
    Lease& lease = leases_[timestamp.client()];
    use(lease, timestamp);
    keep_until_passed(lease, now, clock);
}

void LeaseTable::keep_until_passed(Lease& lease, Nanoseconds now, Timestamp clock) {
    for (const Span& span : lease.used) {
        if (span.last <= clock || span.last > later(clock, kAheadMax_ticks)) continue;
        const auto ahead_us = static_cast<int64_t>(span.last.ticks() - clock.ticks());
        lease.until = std::max(lease.until, now + from_us(ahead_us));
    }
}

void LeaseTable::say_goodbye(Lease& lease, Timestamp last) {
    if (!last.is_none()) use(lease, last);
    lease.goodbye = true;
}

uint32_t LeaseTable::leased(Nanoseconds now, Timestamp clock) const {
    return static_cast<uint32_t>(std::count_if(leases_.begin(), leases_.end(), [&](const auto& entry) {
        return is_of_range(entry.first) && !is_free(entry.second, now, clock);
    }));
}

}  // namespace wss::kv
