// SPDX-License-Identifier: Apache-2.0
// IoTrace: a trace of block I/O for `replay`, read from a file or generated.
//
// The format is that of `cache-sim` (trace.h). It is text with one access per line, in the order of time; '#'
// begins a comment:
//
//   R VOLUME OFFSET LENGTH
//   W VOLUME OFFSET LENGTH
//
// Offsets and lengths are in bytes, multiples of 512; lengths are at most 1 MiB. The volumes of a trace are
// placed one after another on the measured storage. If they do not fit, offsets wrap around.
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/wssbench/accesses.h"

namespace wss::wssbench {

struct IoTrace {
    std::string name;
    std::vector<Access> accesses;  // offsets within `span`
    uint32_t bytes_max = 0;
    uint32_t volumes = 0;
};

// Fails if the storage of `span` bytes is smaller than an access.
Result<IoTrace> read_io_trace(const std::string& path, uint64_t span);

// Generates a trace like the log of TPC-H Q3 in a database that reads pages of `bytes`: several readers scan
// customer in parallel, orders are looked up by index, and the lineitems of an order are adjacent. Fails if
// `span` has fewer than 64 pages.
Result<IoTrace> make_q3_trace(uint32_t bytes, uint64_t span, size_t accesses, uint64_t seed);

Status write_io_trace(const IoTrace& trace, const std::string& path);

}  // namespace wss::wssbench
