// SPDX-License-Identifier: Apache-2.0
// The parts of the figure `affinity` that need no measurement.
#pragma once

#include <string>
#include <vector>

#include "lib/affinity/schedule.h"
#include "tools/wssbench/affinity_node.h"
#include "tools/wssbench/io_trace.h"

namespace wss::wssbench {

// The operators of a query whose blocks lie on several nodes.
struct PlacedQuery {
    uint32_t hot_percent = 0;                       // percentage of the blocks that are on node 0
    std::vector<std::vector<NodeAccess>> accesses;  // by operator
    affinity::Operators operators;
};

// Divides a trace into operators of `length` consecutive accesses. Node 0 is the home of `hot_percent` of
// them. The other nodes share the rest equally. In each operator, `stray_percent` of the accesses go to
// blocks of other nodes, which are chosen at random.
PlacedQuery place_trace(const IoTrace& trace, uint32_t nodes, uint32_t length, uint32_t hot_percent,
                        uint32_t stray_percent);

// Adds bounds for each fabric and query: the accesses per second that the rates in the rows of the same turn
// allow, the ratio of our placement to that bound, and our gain over the best other placement.
void add_affinity_bounds(Json& figure, affinity::Cluster cluster, const std::vector<PlacedQuery>& queries);

}  // namespace wss::wssbench
