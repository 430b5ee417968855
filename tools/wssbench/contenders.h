// SPDX-License-Identifier: Apache-2.0
// The replacement algorithms that cache-sim compares: hits that each has on a trace with so many lines of
// cache.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tools/wssbench/trace.h"

namespace wss::wssbench {

struct Contender {
    std::string_view name;
    uint64_t (*hits)(const Trace& trace, uint32_t lines);
};

// Ours: lib/cache as the target runs it, through the index.
uint64_t wss_hits(const Trace& trace, uint32_t lines);
uint64_t lru_hits(const Trace& trace, uint32_t lines);
// Megiddo and Modha, FAST 2003.
uint64_t arc_hits(const Trace& trace, uint32_t lines);
// Yang and others, SOSP 2023: a small queue of a tenth, a main queue with two bits, ghosts.
uint64_t s3fifo_hits(const Trace& trace, uint32_t lines);
// The most that any algorithm can have: the line that is used again last goes, or does not even come
// (Belady's MIN).
uint64_t belady_hits(const Trace& trace, uint32_t lines);

std::span<const Contender> contenders();

}  // namespace wss::wssbench
