// SPDX-License-Identifier: Apache-2.0
// Jobs of the cache's own: a line that is brought home, a line that is erased. For target/cache only.
#pragma once

#include "target/cache/cache.h"

namespace wss::se {

//   kFetch: the primary writes the dirty pieces to `buffer` or `bay` → kStore: to real storage → kClear:
//   headers
// A line that was lost comes home the same way, from a slot of an engine that is no member, without the end.
struct alignas(8) Cache::Destage {
    enum class Phase : uint8_t { kFetch, kStore, kClear };

    Cache* cache = nullptr;
    std::byte* buffer = nullptr;  // of a line
    Bay bay;                      // … instead, for real storage on another node
    bool busy = false;

    CachedVolume* volume = nullptr;
    Gate::Holder place;  // in its gate
    cache::Line* line = nullptr;
    cache::LineKey key;
    cache::LineOp op;
    cache::Index::Destage token;
    cache::Pieces left;       // to be stored
    cache::EngineIndex from;  // the primary
    Phase phase = Phase::kFetch;
    bool begun = false, failed = false;
    bool salvage = false;
    SalvageQueue::Item item;  // of salvage: where the copy is
    int error = 0;
    uint64_t changes = 0;  // of storage elsewhere, when it began
    uint32_t outstanding = 0;
    std::array<Transfer, cache::kHoldersMax> transfers;
    io::Request io;
};

// A line of a volume that is gone, or lies beyond its end: contents zeroed, slots free afterwards. Or the
// line in which it ends now, which is cut.
struct alignas(8) Cache::Erase {
    Cache* cache = nullptr;
    uint32_t keep = 0;            // bytes of the line that stay; 0: none
    uint64_t wwid = 0;            // … for its header
    std::function<void()> ended;  // may be empty
    Gate::Holder place;           // in the volume's gate
    cache::Line* line = nullptr;
    cache::LineOp op;
    uint32_t outstanding = 0;
    bool over = false;
    std::array<Transfer, cache::kHoldersMax> transfers;
    // Where `transfers` go, if a line is cut.
    std::array<cache::EngineIndex, cache::kHoldersMax> engines;
    std::array<uint32_t, cache::kHoldersMax> incarnations{};
};

}  // namespace wss::se
