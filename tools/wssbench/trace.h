// SPDX-License-Identifier: Apache-2.0
// Trace: block accesses for cache-sim, generated from a seed or read from a file.
//
// The file is text with one access per line, in the order of time; '#' begins a comment:
//
//   R VOLUME OFFSET LENGTH
//   W VOLUME OFFSET LENGTH
//
// VOLUME is a number, OFFSET and LENGTH are bytes. An access that spans several cache lines counts as one
// access to each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/cache/geometry.h"
#include "lib/cache/types.h"

namespace wss::wssbench {

struct Trace {
    std::string name;
    std::vector<cache::LineKey> accesses;
};

struct TraceOptions {
    uint64_t seed = 1;
    uint32_t lines = 50000;       // number of lines: of the zipf volumes, or of all tables of loops together
    uint32_t accesses = 1000000;  // approximate number
};

// Zipf with exponent 0.99; the popular lines are scattered over the volume.
Trace zipf_trace(const TraceOptions& options);
// The same, with several sequential scans of another volume: during a scan, its lines alternate with zipf
// accesses.
Trace zipf_scan_trace(const TraceOptions& options);
// Queries over tables with the proportions of TPC-H: each scans some tables completely and looks up others by
// index. The same tables are read repeatedly. The largest is many times larger than the cache.
Trace loops_trace(const TraceOptions& options);

// Two traces for which past frequency is misleading. In one, the accesses follow a Zipf distribution whose
// popular lines change after each tenth of the accesses. In the other, a uniform working set slides over the
// volume.
Trace shifting_zipf_trace(const TraceOptions& options);
Trace sliding_set_trace(const TraceOptions& options);

Result<Trace> read_trace(const std::string& path, const cache::LineGeometry& geometry);
Status write_trace(const Trace& trace, const std::string& path, const cache::LineGeometry& geometry);

uint64_t distinct_lines(const Trace& trace);

}  // namespace wss::wssbench
