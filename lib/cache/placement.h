// SPDX-License-Identifier: Apache-2.0
// Placement: chooses the engines that hold a line. Weighted rendezvous hashing (the highest -weight /
// ln(hash) wins). Storage engines with the same cache engines compute the same placement without
// communication. An engine's share of the lines is proportional to its weight. When an engine joins, only the
// lines that it gains move. When one leaves, only the lines that it had move.
//
// Thread-safety: none; a value that belongs to one thread.
#pragma once

#include <array>
#include <cstdint>

#include "lib/cache/types.h"

namespace wss::cache {

struct Ranking {
    std::array<EngineIndex, kEnginesMax> engines;  // best first
    uint32_t count = 0;
};

class Placement {
  public:
    // `identity` is permanent, so that an engine that returns with a different index wins the same lines.
    // `weight` is its capacity in a unit common to all engines, at least 1.
    void add(EngineIndex engine, uint64_t identity, uint64_t weight);
    void remove(EngineIndex engine);
    bool contains(EngineIndex engine) const;
    uint32_t count() const { return count_; }

    // The engine for a line with one copy. EngineIndex::exists() is false if there are no engines.
    EngineIndex best(LineKey key) const;
    // The best `wanted` engines, all different; fewer if there are fewer engines.
    Ranking rank(LineKey key, uint32_t wanted) const;

  private:
    struct Entry {
        EngineIndex engine;
        uint64_t identity = 0;
        uint64_t weight = 0;
    };
    static double score(const Entry& entry, uint64_t key_hash);

    std::array<Entry, kEnginesMax> entries_;
    uint32_t count_ = 0;
};

}  // namespace wss::cache
