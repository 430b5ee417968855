// SPDX-License-Identifier: Apache-2.0
// Placement: which engines hold a line. Rendezvous hashing with weights (highest of -weight / ln(hash)):
// every storage engine that knows the same engines places alike without asking anyone, a line's share of each
// engine follows its weight, and when an engine joins or leaves only the lines that it wins or held move.
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
    // `identity` is the engine's name for life, so that it wins the same lines when it returns under another
    // index; `weight` is its capacity in any unit common to all, at least 1.
    void add(EngineIndex engine, uint64_t identity, uint64_t weight);
    void remove(EngineIndex engine);
    bool contains(EngineIndex engine) const;
    uint32_t count() const { return count_; }

    // The engine for the only copy, without index if there are none.
    EngineIndex best(LineKey key) const;
    // The best `wanted` engines, fewer if there are not so many; all different.
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
