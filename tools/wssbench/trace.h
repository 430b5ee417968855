// SPDX-License-Identifier: Apache-2.0
// Traces of block accesses: generated from a seed, or recorded in a file.
//
// The file is text, one access a line, in the order of time; '#' begins a comment:
//
//   R VOLUME OFFSET LENGTH
//   W VOLUME OFFSET LENGTH
//
// VOLUME is a number, OFFSET and LENGTH are bytes. An access of several lines is one access of each.
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
    uint32_t lines = 50000;       // of the zipf volumes; the loops' tables together
    uint32_t accesses = 1000000;  // about so many
};

// Zipf with exponent 0.99, the popular lines scattered over the volume.
Trace zipf_trace(const TraceOptions& options);
// The same; now and then somebody reads another volume from end to end meanwhile, one line of it for each of
// ours.
Trace zipf_scan_trace(const TraceOptions& options);
// Queries over tables with the proportions of TPC-H: each scans some tables from end to end and looks up
// others by index. The same tables come again and again; the largest exceeds the cache many times.
Trace loops_trace(const TraceOptions& options);

// Two that frequency misleads. Zipf whose popular lines are others after each tenth of the time; and a
// working set, uniform, that slides over the volume.
Trace shifting_zipf_trace(const TraceOptions& options);
Trace sliding_set_trace(const TraceOptions& options);

Result<Trace> read_trace(const std::string& path, const cache::LineGeometry& geometry);
Status write_trace(const Trace& trace, const std::string& path, const cache::LineGeometry& geometry);

uint64_t distinct_lines(const Trace& trace);

}  // namespace wss::wssbench
