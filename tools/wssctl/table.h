// SPDX-License-Identifier: Apache-2.0
// Columns for people. Numbers stand right, words left.
#pragma once

#include <string>
#include <vector>

namespace wss::wssctl {

class Table {
  public:
    explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
    // As many cells as the head has.
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.size() == 1; }
    void print() const;

  private:
    std::vector<std::vector<std::string>> rows_;  // the first is the head
};

}  // namespace wss::wssctl
