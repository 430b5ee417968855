// SPDX-License-Identifier: Apache-2.0
// The ratios of the Ceph figure.
#pragma once

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// Adds ratios to librbd: for warm reads of 4 KiB, of operations per second of processor time; for misses, and
// for reads through a target without engines, of latency. A miss is a read through a target with empty
// engines. Some reads of such a run hit, because the run fills the engines: `hit_ratio` of its row is their
// share.
void add_ceph_ratios(Json& figure);

}  // namespace wss::wssbench
