// SPDX-License-Identifier: Apache-2.0
// Table: prints aligned columns. Numbers are right-aligned, words left-aligned.
#pragma once

#include <string>
#include <vector>

namespace wss::wssctl {

class Table {
  public:
    explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
    // `row` must have as many cells as the head.
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.size() == 1; }
    void print() const;

  private:
    std::vector<std::vector<std::string>> rows_;  // the first is the head
};

}  // namespace wss::wssctl
