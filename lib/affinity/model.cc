// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/affinity/schedule.h"

namespace wss::affinity {

namespace {

// One run of the model. A worker's speed changes only at moments when an operator ends.
class Simulation {
  public:
    Simulation(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed)
        : cluster_(cluster), operators_(operators), schedule_(cluster, operators, policy, seed) {}

    Outcome run() {
        for (uint32_t worker = 0; worker < cluster_.workers; ++worker)
            for (uint32_t node = 0; node < cluster_.nodes; ++node) start(node);
        while (!running_.empty()) advance();
        return {seconds_, all_ > 0 ? remote_ / all_ : 0};
    }

  private:
    struct Running {
        uint32_t index, node;
        double cost;      // seconds at full speed
        double left = 1;  // fraction of the operator that is not yet done
        double speed = 0;
    };

    void start(uint32_t node) {
        uint32_t index = schedule_.take(node, seconds_);
        if (index == Schedule::kNone) return;
        running_.push_back({index, node, schedule_.cost(index, node)});
        for (uint32_t home = 0; home < cluster_.nodes; ++home) {
            all_ += operators_[index].accesses[home];
            if (home != node) remote_ += operators_[index].accesses[home];
        }
    }

    // The most saturated storage that an operator reads determines its speed.
    void set_speeds() {
        std::vector<double> demand(cluster_.nodes);
        for (const Running& one : running_)
            for (uint32_t home = 0; home < cluster_.nodes; ++home)
                demand[home] += operators_[one.index].accesses[home] / one.cost;
        for (Running& one : running_) {
            double share = 1;
            for (uint32_t home = 0; home < cluster_.nodes; ++home)
                if (operators_[one.index].accesses[home] > 0)
                    share = std::min(share, cluster_.rates.storage / demand[home]);
            one.speed = share / one.cost;
        }
    }

    // Advances the time to the moment when the next operator ends.
    void advance() {
        constexpr double kRounding = 1e-9;
        set_speeds();
        double step = std::numeric_limits<double>::infinity();
        for (const Running& one : running_) step = std::min(step, one.left / one.speed);
        seconds_ += step;
        std::vector<uint32_t> free;
        for (Running& one : running_)
            if ((one.left -= step * one.speed) <= kRounding) {
                schedule_.ended(one.index);
                free.push_back(one.node);
            }
        std::erase_if(running_, [](const Running& one) { return one.left <= kRounding; });
        for (uint32_t node : free) start(node);
    }

    const Cluster& cluster_;
    const Operators& operators_;
    Schedule schedule_;
    std::vector<Running> running_;
    double seconds_ = 0, all_ = 0, remote_ = 0;
};

// True if the nodes can do all accesses within `seconds`. A node reads its own blocks first. If remote reads
// are faster than local ones, it reads none of its own.
bool feasible(const Cluster& cluster, const std::vector<double>& stored, double seconds) {
    const Rates& rates = cluster.rates;
    double left = 0, capacity = 0;
    for (double accesses : stored) {
        if (accesses > rates.storage * seconds) return false;
        double local = rates.remote > rates.local ? 0 : std::min(accesses, rates.local * seconds);
        left += accesses - local;
        capacity += (seconds - local / rates.local) * rates.remote;
    }
    return left <= capacity;
}

}  // namespace

Outcome model(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed) {
    return Simulation(cluster, operators, policy, seed).run();
}

Policy choose(const Cluster& cluster, const Operators& operators) {
    Policy best = Policy::kAffinity;
    double seconds = model(cluster, operators, best).seconds;
    for (Policy other : {Policy::kLocal, Policy::kRemote})
        if (double its = model(cluster, operators, other).seconds; its < seconds) {
            best = other;
            seconds = its;
        }
    return best;
}

double bound_seconds(const Cluster& cluster, const Operators& operators) {
    constexpr int kHalvings = 100;
    std::vector<double> stored(cluster.nodes);
    double all = 0;
    for (const Operator& one : operators)
        for (uint32_t home = 0; home < cluster.nodes; ++home) {
            stored[home] += one.accesses[home];
            all += one.accesses[home];
        }
    // `enough` is the time of all accesses one after the other, at the lowest rate.
    const Rates& rates = cluster.rates;
    double infeasible = 0, enough = all / std::min({rates.local, rates.remote, rates.storage});
    for (int i = 0; i < kHalvings; ++i) {
        double middle = (infeasible + enough) / 2;
        (feasible(cluster, stored, middle) ? enough : infeasible) = middle;
    }
    return infeasible;
}

}  // namespace wss::affinity
