// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/read_set.h"

#include <algorithm>

#include "lib/kv/metadata.h"

namespace wss::kv {

void ReadSet::begin(size_t count) {
    count_ = count;
    if (keys_.size() < count) keys_.resize(count);
}

void ReadSet::sort() {
    by_fingerprint_.resize(count_);
    for (size_t i = 0; i < count_; ++i) by_fingerprint_[i] = static_cast<uint32_t>(i);
    std::sort(by_fingerprint_.begin(), by_fingerprint_.end(),
              [this](uint32_t a, uint32_t b) { return keys_[a].fingerprint < keys_[b].fingerprint; });
}

Timestamp ReadSet::latest() const noexcept {
    Timestamp latest;
    for (size_t i = 0; i < count_; ++i) latest = std::max(latest, keys_[i].timestamp);
    return latest;
}

void ReadSet::collect_among() {
    among_.clear();
    for (size_t i = 0; i < count_; ++i)
        if (!keys_[i].timestamp.is_none()) among_.push_back(keys_[i].timestamp.value);
    std::sort(among_.begin(), among_.end());
    among_.erase(std::unique(among_.begin(), among_.end()), among_.end());
}

void ReadSet::require_anew() noexcept {
    for (KeyRead& key : keys_) key.settled = false, key.required = {};
}

void ReadSet::require(KeyRead& key, Timestamp timestamp) noexcept {
    if (timestamp <= key.required) return;
    key.required = timestamp;
    key.settled = false;
}

void ReadSet::require_by_keys() noexcept {
    // Most siblings are not among the keys being read. A bit mask of these skips most searches.
    uint64_t present = 0;
    for (size_t i = 0; i < count_; ++i) present |= uint64_t{1} << (keys_[i].fingerprint & 63);
    for (size_t i = 0; i < count_; ++i) {
        Metadata metadata(keys_[i].metadata);
        for (size_t k = 0; k < metadata.keys(); ++k) {
            uint64_t sibling = metadata.key(k);
            if ((present >> (sibling & 63) & 1) == 0) continue;
            auto at = std::lower_bound(
                by_fingerprint_.begin(), by_fingerprint_.end(), sibling,
                [this](uint32_t index, uint64_t wanted) { return keys_[index].fingerprint < wanted; });
            for (; at != by_fingerprint_.end() && keys_[*at].fingerprint == sibling; ++at)
                require(keys_[*at], keys_[i].timestamp);
        }
    }
}

// Round 2 sends all timestamps of round 1 as the set. A version of this key with one of them is a sibling of
// a version that was returned.
void ReadSet::require_by_filters() noexcept {
    for (size_t i = 0; i < count_; ++i)
        for (size_t j = 0; j < count_; ++j) {
            const KeyRead& other = keys_[j];
            if (i == j || other.timestamp <= std::max(keys_[i].timestamp, keys_[i].required)) continue;
            if (Metadata(other.metadata).may_contain(keys_[i].fingerprint))
                require(keys_[i], other.timestamp);
        }
}

void ReadSet::require_among_all() noexcept {
    const Timestamp highest = latest();
    for (size_t i = 0; i < count_; ++i) keys_[i].required = highest;
}

bool ReadSet::has_learnt_new() const noexcept {
    for (size_t i = 0; i < count_; ++i)
        if (!keys_[i].timestamp.is_none() &&
            !std::binary_search(among_.begin(), among_.end(), keys_[i].timestamp.value))
            return true;
    return false;
}

}  // namespace wss::kv
