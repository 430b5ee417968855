// SPDX-License-Identifier: Apache-2.0
// Measurers: programs of the source tree (tests/bench/measurers) that measure what needs the lab's virtual
// machines or a Ceph cluster. They print samples or rows for the figures, one JSON object per line.
#pragma once

#include <string>
#include <vector>

#include "tools/wssbench/context.h"
#include "tools/wssbench/program.h"

namespace wss::wssbench {

// The root of the source tree: WSS_SOURCE, the current directory, or the directory two levels above that of
// this program (a build directory inside the tree).
Result<std::string> source_tree();

// The version of the source tree, or that of WSS if there is none.
std::string source_version();

// Starts the measurer `name` with `words`. When the user interrupts it, it prints what it has finished.
Result<std::unique_ptr<Child>> start_measurer(const std::string& name, const std::vector<std::string>& words,
                                              const ChildOptions& options);

// The next object that it prints. {"error": TEXT} is returned as an error.
Result<Json> next_object(Child& measurer, double seconds);

}  // namespace wss::wssbench
