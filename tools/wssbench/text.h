// SPDX-License-Identifier: Apache-2.0
// Figures as text: cells, tables, the lines below a table, and doubts about a ratio.
#pragma once

#include <string>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// A value in a table; "" for null.
std::string cell(const Json& value);
// The keys of all rows, in the order of their first appearance, without those of lists and objects.
std::vector<std::string> columns_of(const Json& rows);
// The rows as text, with the columns of columns_of() except "error".
std::string table(const Json& rows);
// The text below the table: method, bound, ratio, doubts, and the cards of the paper's figures.
std::string notes(const Json& figure);

// Why the ratio of a figure, or of one of its bounds, shows less than it seems to: its interval is wide,
// there were few turns, or it exceeds a limit ("bound_is_limit").
std::vector<std::string> doubts(const Json& figure);

}  // namespace wss::wssbench
