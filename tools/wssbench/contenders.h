// SPDX-License-Identifier: Apache-2.0
// The replacement algorithms that cache-sim compares. Each function returns the hits on a trace with a cache
// of `lines` lines.
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

// The algorithm of WSS, which is lib/cache as the target uses it, through the index.
uint64_t wss_hits(const Trace& trace, uint32_t lines);
uint64_t lru_hits(const Trace& trace, uint32_t lines);
// ARC: Megiddo and Modha, FAST 2003.
uint64_t arc_hits(const Trace& trace, uint32_t lines);
// S3-FIFO: Yang and others, SOSP 2023. It has a small queue of a tenth, a main queue with two bits, and
// ghosts.
uint64_t s3fifo_hits(const Trace& trace, uint32_t lines);
// The optimum (Belady's MIN): evicts, or does not admit, the line whose next use is furthest away.
uint64_t belady_hits(const Trace& trace, uint32_t lines);

std::span<const Contender> contenders();

}  // namespace wss::wssbench
