// SPDX-License-Identifier: Apache-2.0
// Traces of block I/O for `replay`: read from a file, or made.
//
// The format is that of `cache-sim` (trace.h): text, one access a line in the order of time, '#' begins a
// comment:
//
//   R VOLUME OFFSET LENGTH
//   W VOLUME OFFSET LENGTH
//
// Offsets and lengths are bytes, multiples of 512, of at most 1 MiB. The volumes of a trace are laid one
// after the other on the storage that is measured; where they are larger than that, offsets wrap around.
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

Result<IoTrace> read_io_trace(const std::string& path, uint64_t span);

// As the log of TPC-H Q3 in an engine that reads pages of `bytes`: customer is scanned by several readers at
// once, its orders are looked up by index, and of each the lineitems, which lie near each other.
IoTrace make_q3_trace(uint32_t bytes, uint64_t span, size_t accesses, uint64_t seed);

Status write_io_trace(const IoTrace& trace, const std::string& path);

}  // namespace wss::wssbench
