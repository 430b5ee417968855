// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/assert.h"

namespace wss::cache {

void Placement::add(EngineIndex engine, uint64_t identity, uint64_t weight) {
    WSS_ASSERT(engine.exists() && !contains(engine), "an engine is added once");
    WSS_ASSERT(count_ < kEnginesMax, "the index is below kEnginesMax, and no index is repeated");
    entries_[count_++] = {engine, identity, std::max<uint64_t>(weight, 1)};
}

void Placement::remove(EngineIndex engine) {
    auto end = entries_.begin() + count_;
    auto found = std::find_if(entries_.begin(), end, [engine](const Entry& e) { return e.engine == engine; });
    if (found == end) return;
    *found = entries_[--count_];
}

bool Placement::contains(EngineIndex engine) const {
    auto end = entries_.begin() + count_;
    return std::any_of(entries_.begin(), end, [engine](const Entry& e) { return e.engine == engine; });
}

double Placement::score(const Entry& entry, uint64_t key_hash) {
    // 53 bits: a uniform number above 0, whose logarithm is finite. Rounding makes the largest number 1, with
    // probability 2^-53. Its score is minus infinity, which still has a place in the order.
    uint64_t drawn = mix(key_hash ^ mix(entry.identity)) >> 11;
    double uniform = (static_cast<double>(drawn) + 0.5) * 0x1p-53;
    return static_cast<double>(entry.weight) / -std::log(uniform);
}

EngineIndex Placement::best(LineKey key) const {
    if (count_ == 1) return entries_[0].engine;
    return rank(key, 1).engines[0];
}

Ranking Placement::rank(LineKey key, uint32_t wanted) const {
    std::array<std::pair<double, uint32_t>, kEnginesMax> scored;
    uint64_t key_hash = hash(key);
    for (uint32_t i = 0; i < count_; ++i) scored[i] = {score(entries_[i], key_hash), i};
    Ranking ranking;
    ranking.count = std::min(wanted, count_);
    // Equal scores (equal identities) are ordered by the index, so that the result is always the same.
    std::partial_sort(scored.begin(), scored.begin() + ranking.count, scored.begin() + count_,
                      [this](const auto& a, const auto& b) {
                          return a.first != b.first ? a.first > b.first
                                                    : entries_[a.second].engine < entries_[b.second].engine;
                      });
    for (uint32_t i = 0; i < ranking.count; ++i) ranking.engines[i] = entries_[scored[i].second].engine;
    return ranking;
}

}  // namespace wss::cache
