// SPDX-License-Identifier: Apache-2.0
// The bounds of the scaling table.
#pragma once

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// Adds a row for each kind of object: the growth of the cost from the first to the last point, compared with
// logarithmic growth, and the memory of one object. The figure's bound and ratio are those of the kind with
// the smallest ratio.
void add_growth_bounds(Json& figure);

}  // namespace wss::wssbench
