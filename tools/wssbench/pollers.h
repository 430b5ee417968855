// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/wssbench/figure.h"

namespace wss::wssbench {

// Adds the ratio of the static method to the dynamic one for each setting. The ratio of the figure is the one
// for a target without pollers.
void add_pollers_ratios(Json& figure);

}  // namespace wss::wssbench
