// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/table.h"

#include <algorithm>
#include <cstdio>

namespace wss::wssctl {

static bool is_number(const std::string& cell) {
    return !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
}

void Table::print() const {
    size_t columns = rows_[0].size();
    std::vector<size_t> width(columns);
    std::vector<bool> right(columns, rows_.size() > 1);
    for (size_t i = 0; i < columns; ++i)
        for (const auto& row : rows_) {
            width[i] = std::max(width[i], row[i].size());
            if (&row != &rows_[0] && !is_number(row[i]) && row[i] != "-") right[i] = false;
        }
    for (const auto& row : rows_) {
        std::string line;
        for (size_t i = 0; i < columns; ++i) {
            std::string space(width[i] - row[i].size(), ' ');
            line += (i == 0 ? "" : "  ") + (right[i] ? space + row[i] : row[i] + space);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        std::printf("%s\n", line.c_str());
    }
}

}  // namespace wss::wssctl
