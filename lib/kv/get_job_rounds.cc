// SPDX-License-Identifier: Apache-2.0
// A get_all's evaluation: which versions must be there, by the RAMP algorithms (kv metadata), and what is
// delivered.
#include <algorithm>

#include "lib/kv/get_job.h"
#include "lib/kv/metadata.h"
#include "lib/kv/mutation.h"

namespace wss::kv {

void GetJob::require(Slot& slot, Timestamp timestamp) noexcept {
    if (timestamp <= slot.required) return;
    slot.required = timestamp;
    slot.settled = false;
}

// RAMP-Fast: each returned version names the keys that were written with it.
void GetJob::require_by_keys() noexcept {
    // Most siblings are not among the keys that are read: a bit for each of these says so without a search.
    uint64_t present = 0;
    for (size_t i = 0; i < request_->items.size(); ++i)
        present |= uint64_t{1} << (slots_[i].fingerprint & 63);
    for (size_t i = 0; i < request_->items.size(); ++i) {
        Metadata metadata(slots_[i].metadata);
        for (size_t k = 0; k < metadata.keys(); ++k) {
            uint64_t sibling = metadata.key(k);
            if ((present >> (sibling & 63) & 1) == 0) continue;
            auto at = std::lower_bound(
                by_fingerprint_.begin(), by_fingerprint_.end(), sibling,
                [this](uint32_t index, uint64_t wanted) { return slots_[index].fingerprint < wanted; });
            for (; at != by_fingerprint_.end() && slots_[*at].fingerprint == sibling; ++at)
                require(slots_[*at], slots_[i].timestamp);
        }
    }
}

// RAMP-Hybrid: the filters of newer versions say whether they may have written this key. All timestamps of
// round 1 go along as the set: any of them that this key has is a version whose sibling was returned.
void GetJob::require_by_filters() noexcept {
    for (size_t i = 0; i < request_->items.size(); ++i)
        for (size_t j = 0; j < request_->items.size(); ++j) {
            const Slot& other = slots_[j];
            if (i == j || other.timestamp <= std::max(slots_[i].timestamp, slots_[i].required)) continue;
            if (Metadata(other.metadata).may_contain(slots_[i].fingerprint))
                require(slots_[i], other.timestamp);
        }
}

// RAMP-Small: whatever has the highest of the timestamps that were seen.
void GetJob::require_among_all() noexcept {
    Timestamp highest;
    for (size_t i = 0; i < request_->items.size(); ++i) highest = std::max(highest, slots_[i].timestamp);
    for (size_t i = 0; i < request_->items.size(); ++i) slots_[i].required = highest;
}

// A version that was not in the set which the last round asked with (a partition had collected one that was):
// its siblings have not been looked for.
bool GetJob::learnt_new() const noexcept {
    for (size_t i = 0; i < request_->items.size(); ++i)
        if (!slots_[i].timestamp.is_none() &&
            !std::binary_search(among_.begin(), among_.end(), slots_[i].timestamp.value))
            return true;
    return false;
}

void GetJob::evaluate() noexcept {
    Algorithm algorithm = session_.options().algorithm;
    bool ramp = algorithm == Algorithm::kRampFast || algorithm == Algorithm::kRampSmall ||
                algorithm == Algorithm::kRampHybrid;
    // One partition answers one message from one state. One-sided reads come from several.
    bool one_state = only_partition_ && !one_sided();
    if (!ramp || ((one_state || request_->items.size() < 2) && !session_.keeps_order()) ||
        mutated(Mutation::kSkipSecondRound)) {
        // RAMP-Small's first round has no values.
        if (algorithm != Algorithm::kRampSmall || only_partition_) return deliver();
    }
    if (algorithm == Algorithm::kRampFast) require_by_keys();
    if (algorithm == Algorithm::kRampHybrid) {
        // What was settled, was so for the set that was asked with.
        if (round_ > 1 && learnt_new())
            for (Slot& slot : slots_) slot.settled = false, slot.required = {};
        require_by_filters();
    }
    if (algorithm == Algorithm::kRampSmall) {
        // The last round returned nothing but what it was asked for.
        if (round_ > 1 && !learnt_new()) return deliver();
        require_among_all();
    }
    if (!begin_next_round()) deliver();
}

// False: everything that is required is there.
bool GetJob::begin_next_round() noexcept {
    Algorithm algorithm = session_.options().algorithm;
    bool all = algorithm == Algorithm::kRampSmall;
    auto lacks = [&](const Slot& slot) { return all || (slot.required > slot.timestamp && !slot.settled); };
    bool any = false;
    among_.clear();
    for (size_t i = 0; i < request_->items.size(); ++i) {
        any = any || lacks(slots_[i]);
        if (!slots_[i].timestamp.is_none()) among_.push_back(slots_[i].timestamp.value);
    }
    if (!any) return false;
    // Versions that are asked for by name are kept for the window only.
    if (round_ >= kRoundsMax || session_.now() - began_ > session_.read_window()) {
        restart(nullptr);
        return true;
    }
    std::sort(among_.begin(), among_.end());
    among_.erase(std::unique(among_.begin(), among_.end()), among_.end());
    if (round_ == 1) ++session_.statistics().second_rounds;
    ++round_;
    starting_ = true;
    for (uint32_t i = 0; i < request_->items.size(); ++i) {
        if (!lacks(slots_[i])) continue;
        if (one_sided() && answer_from_view(i)) continue;
        if (one_sided()) fell_back(i, Fallback::kSecondRound);
        ask_later(i);
    }
    send_asks();
    starting_ = false;
    if (outstanding_ == 0 && !failed_)
        evaluate();  // all of it was in the slots; bounded by kRoundsMax
    else
        step_done();
    return true;
}

// From now on this session reads nothing older of these keys.
void GetJob::note_seen(const Slot& slot) noexcept {
    session_.raise_floor(slot.fingerprint, slot.timestamp);
    Metadata metadata(slot.metadata);
    for (size_t k = 0; k < metadata.keys(); ++k) session_.raise_floor(metadata.key(k), slot.timestamp);
}

void GetJob::deliver() noexcept {
    if (locked_) locks_.release(owner_);
    locked_ = false;
    // One time for all keys, and not before any version: where one sibling is a tombstone of expiry already,
    // the others have expired as well, whatever the time of day is here.
    Timestamp latest;
    for (size_t i = 0; i < request_->items.size(); ++i) latest = std::max(latest, slots_[i].timestamp);
    session_.clock().observe(latest);
    const uint64_t now = std::max(session_.clock().now_ticks(), latest.ticks());
    for (size_t i = 0; i < request_->items.size(); ++i) {
        Slot& slot = slots_[i];
        GetAll::Item& item = request_->items[i];
        item.timestamp = slot.timestamp;
        // All siblings carry the same expiry, so that they vanish together.
        bool expired = slot.expires != 0 && slot.expires >> Timestamp::kClientBits <= now;
        item.found = !slot.timestamp.is_none() && !slot.deleted && !expired;
        item.expires = {item.found ? slot.expires : 0};
        if (!item.found) item.value.clear();
        Metadata metadata(slot.metadata);
        item.siblings.clear();
        for (size_t k = 0; k < metadata.keys(); ++k) item.siblings.push_back(metadata.key(k));
        if (session_.keeps_order()) note_seen(slot);
        base_->rounds = std::max(base_->rounds, item.explain.rounds);
    }
    end(Status::ok());
}

}  // namespace wss::kv
