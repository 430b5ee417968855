// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/check/serial_order.h"

#include <algorithm>
#include <unordered_set>

namespace wss::kv::check {

std::vector<uint64_t> SerialOrder::add(uint64_t transaction, std::span<const Condition> conditions,
                                       std::span<const uint64_t> written) {
    if (after_.size() >= kRemembered) {
        after_.clear();
        found_.clear();
    }
    for (const Condition& condition : conditions) {
        if (condition.writer != 0) after_[condition.writer].push_back(transaction);
        Found& found = found_[{condition.key, condition.version}];
        std::vector<uint64_t>& mine = after_[transaction];
        mine.insert(mine.end(), found.replaced_by.begin(), found.replaced_by.end());
        if (std::find(written.begin(), written.end(), condition.key) != written.end()) {
            for (uint64_t other : found.by) after_[other].push_back(transaction);
            found.replaced_by.push_back(transaction);
        }
        found.by.push_back(transaction);
    }
    return cycle_of(transaction);
}

// Depth-first search from the transaction back to itself.
std::vector<uint64_t> SerialOrder::cycle_of(uint64_t transaction) const {
    struct Step {
        uint64_t at;
        size_t next;
    };
    std::vector<Step> path{{transaction, 0}};
    std::unordered_set<uint64_t> seen;
    for (size_t steps = 0; !path.empty() && steps < kStepsMax; ++steps) {
        Step& step = path.back();
        const auto after = after_.find(step.at);
        if (after == after_.end() || step.next >= after->second.size()) {
            path.pop_back();
            continue;
        }
        const uint64_t next = after->second[step.next++];
        if (next == transaction) {
            std::vector<uint64_t> cycle;
            for (const Step& one : path) cycle.push_back(one.at);
            return cycle;
        }
        if (seen.insert(next).second) path.push_back({next, 0});
    }
    return {};
}

}  // namespace wss::kv::check
