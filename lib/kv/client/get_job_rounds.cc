// SPDX-License-Identifier: Apache-2.0
// The evaluation of a get_all: the versions that the RAMP algorithms require (from metadata), and the
// delivery.
#include <algorithm>

#include "lib/kv/client/get_job.h"
#include "lib/kv/metadata.h"
#include "lib/kv/mutation.h"

namespace wss::kv {

void GetJob::evaluate() noexcept {
    Algorithm algorithm = session_.options().algorithm;
    bool ramp = algorithm == Algorithm::kRampFast || algorithm == Algorithm::kRampSmall ||
                algorithm == Algorithm::kRampHybrid;
    // One partition answers one message from one state. One-sided reads see several states.
    bool one_state = only_partition_ && !one_sided();
    if (!ramp || ((one_state || request_->items.size() < 2) && session_.order() == nullptr) ||
        mutated(Mutation::kSkipSecondRound)) {
        // RAMP-Small's first round has no values.
        if (algorithm != Algorithm::kRampSmall || only_partition_) return deliver();
    }
    if (algorithm == Algorithm::kRampFast) set_.require_by_keys();
    if (algorithm == Algorithm::kRampHybrid) {
        // Keys were settled with respect to the previous set of timestamps.
        if (round_ > 1 && set_.has_learnt_new()) set_.require_anew();
        set_.require_by_filters();
    }
    if (algorithm == Algorithm::kRampSmall) {
        // The last round returned only the requested versions.
        if (round_ > 1 && !set_.has_learnt_new()) return deliver();
        set_.require_among_all();
    }
    if (!begin_next_round()) deliver();
}

// Returns false if all required versions have been read.
bool GetJob::begin_next_round() noexcept {
    Algorithm algorithm = session_.options().algorithm;
    bool all = algorithm == Algorithm::kRampSmall;
    auto lacks = [&](const KeyRead& key) { return all || (key.required > key.timestamp && !key.settled); };
    bool any = false;
    for (size_t i = 0; i < request_->items.size() && !any; ++i) any = lacks(set_[i]);
    if (!any) return false;
    // Versions that are read by timestamp are kept only for the window.
    if (round_ >= kRoundsMax || session_.now() - began_ > session_.read_window()) {
        restart(nullptr);
        return true;
    }
    set_.collect_among();
    if (round_ == 1) ++session_.statistics().second_rounds;
    ++round_;
    starting_ = true;
    for (uint32_t i = 0; i < request_->items.size(); ++i) {
        if (!lacks(set_[i])) continue;
        if (one_sided() && answer_from_view(i)) continue;
        if (one_sided()) fell_back(i, Fallback::kSecondRound);
        ask_later(i);
    }
    send_asks();
    starting_ = false;
    if (outstanding_ == 0 && !failed_)
        evaluate();  // all were in the slots; the recursion is bounded by kRoundsMax
    else
        step_done();
    return true;
}

// Raises the session's versions, and those of its siblings, to this one.
void GetJob::note_seen(const KeyRead& key) noexcept {
    if (key.timestamp.is_none()) return;
    SessionVersions& order = *session_.order();
    order.raise(key.fingerprint, key.timestamp);
    Metadata metadata(key.metadata);
    for (size_t k = 0; k < metadata.keys(); ++k) order.raise(metadata.key(k), key.timestamp);
}

void GetJob::deliver() noexcept {
    // The lease of the first lock may have ended, and another transaction may have written since.
    if (locked_ && session_.now() - began_ > kLockedFor) return restart(nullptr);
    if (locked_) locks_.release(owner_);
    locked_ = false;
    // All keys are compared with one time, which is not before any of the versions. If one sibling is already
    // an expiry tombstone, the others have expired as well, whatever the local time of day is.
    const Timestamp latest = set_.latest();
    session_.clock().observe(latest);
    const uint64_t now = std::max(session_.clock().now_ticks(), latest.ticks());
    for (size_t i = 0; i < request_->items.size(); ++i) {
        KeyRead& key = set_[i];
        GetAll::Item& item = request_->items[i];
        item.timestamp = key.timestamp;
        // All siblings have the same expiry, so that they vanish together.
        bool expired = key.expires != 0 && key.expires >> Timestamp::kClientBits <= now;
        item.found = !key.timestamp.is_none() && !key.deleted && !expired;
        item.expires = {item.found ? key.expires : 0};
        if (!item.found) item.value.clear();
        Metadata metadata(key.metadata);
        item.siblings.clear();
        for (size_t k = 0; k < metadata.keys(); ++k) item.siblings.push_back(metadata.key(k));
        if (session_.order() != nullptr) note_seen(key);
        base_->rounds = std::max(base_->rounds, item.explain.rounds);
    }
    end(Status::ok());
}

}  // namespace wss::kv
