// SPDX-License-Identifier: Apache-2.0
// The report of `wssbench all`: one HTML file with the cards of all papers, then all measurements by command.
// It contains the data as JSON, and a script (page/*.js) that draws everything from it.
#pragma once

#include <string>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// `remarks`: what is missing from the report, and why.
std::string page(const std::vector<Json>& figures, const std::vector<std::string>& remarks);

// Adds the command "wssbench report".
void add_report(CLI::App& app, Context& context);

}  // namespace wss::wssbench
