// SPDX-License-Identifier: Apache-2.0
// The results of the papers, shown next to the measured ones in every table and plot. Papers: A RAMP over
// RDMA (Murata, Kawashima, Tatebe 2016), B and C remote I/O over RDMA (Kato, Ozawa, Goda, Kitsuregawa), D
// Wire Speed Storage (Watanabe, Oe, Nishikawa).
#pragma once

#include <string>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// A list of {text[, x, value, series, where]}. `value` is in the figure's unit; `where` has the labels of
// comparable rows.
Json paper_values(const std::string& figure);

}  // namespace wss::wssbench
