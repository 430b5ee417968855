// SPDX-License-Identifier: Apache-2.0
#include "lib/affinity/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/base/assert.h"
#include "lib/base/clock.h"

namespace wss::affinity {

namespace {

double all_accesses(const Operator& one) {
    return std::accumulate(one.accesses.begin(), one.accesses.end(), 0.0);
}

// The node with the fewest accesses so far, other than `except`.
uint32_t least_loaded(const std::vector<double>& load, uint32_t except) {
    uint32_t least = except;
    for (uint32_t node = 0; node < load.size(); ++node)
        if (node != except && (least == except || load[node] < load[least])) least = node;
    return least;  // `except` if there is only one node
}

}  // namespace

uint32_t home_of(const Operator& one) {
    auto most = std::max_element(one.accesses.begin(), one.accesses.end());
    return static_cast<uint32_t>(most - one.accesses.begin());
}

Schedule::Schedule(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed)
    : cluster_(cluster),
      operators_(operators),
      steals_(policy == Policy::kAffinity),
      nodes_(cluster.nodes),
      runs_on_(operators.size(), kNone) {
    WSS_ASSERT(cluster.rates.local > 0 && cluster.rates.remote > 0 && cluster.rates.storage > 0,
               "rates are above zero");
    for (const Operator& one : operators)
        WSS_ASSERT(one.accesses.size() == cluster.nodes && all_accesses(one) > 0,
                   "an operator has accesses, with a count for each node");
    fill(policy, seed);
    for (uint32_t node = 0; node < cluster.nodes; ++node)
        std::stable_sort(nodes_[node].queue.begin(), nodes_[node].queue.end(),
                         [&](uint32_t a, uint32_t b) { return cost(a, node) > cost(b, node); });
}

void Schedule::fill(Policy policy, uint64_t seed) {
    Random random(seed);
    std::vector<double> load(cluster_.nodes);
    for (uint32_t index = 0; index < operators_.size(); ++index) {
        uint32_t node = home_of(operators_[index]);
        if (policy == Policy::kRandom) node = static_cast<uint32_t>(random.below(cluster_.nodes));
        if (policy == Policy::kRemote) node = least_loaded(load, node);
        load[node] += all_accesses(operators_[index]);
        nodes_[node].queue.push_back(index);
        nodes_[node].queued += cost(index, node);
    }
}

double Schedule::cost(uint32_t index, uint32_t node) const {
    const Operator& one = operators_[index];
    double local = one.accesses[node], remote = all_accesses(one) - local;
    return (local / cluster_.rates.local + remote / cluster_.rates.remote) * cluster_.workers;
}

double Schedule::seconds_left(const Node& node, double now) const {
    double left = node.queued;
    for (const Running& one : node.running) left += std::max(one.end - now, 0.0);
    return left / cluster_.workers;
}

// AF2
uint32_t Schedule::victim_of(uint32_t thief, double now) const {
    uint32_t victim = kNone;
    double most = 0;
    for (uint32_t number = 0; number < cluster_.nodes; ++number) {
        const Node& node = nodes_[number];
        if (node.queue.empty()) continue;
        double left = seconds_left(node, now);
        if (left <= most || cost(node.queue.back(), thief) > left) continue;
        victim = number;
        most = left;
    }
    return victim;
}

uint32_t Schedule::take(uint32_t node, double now) {
    bool own = !nodes_[node].queue.empty();
    uint32_t from = own ? node : steals_ ? victim_of(node, now) : kNone;
    if (from == kNone) return kNone;
    std::deque<uint32_t>& queue = nodes_[from].queue;
    uint32_t index = own ? queue.front() : queue.back();
    if (own)
        queue.pop_front();
    else
        queue.pop_back();
    nodes_[from].queued = queue.empty() ? 0 : nodes_[from].queued - cost(index, from);
    nodes_[node].running.push_back({index, now + cost(index, node)});
    runs_on_[index] = node;
    return index;
}

void Schedule::ended(uint32_t index) {
    uint32_t node = std::exchange(runs_on_[index], kNone);
    std::erase_if(nodes_[node].running, [index](const Running& one) { return one.index == index; });
}

}  // namespace wss::affinity
