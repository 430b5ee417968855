// SPDX-License-Identifier: Apache-2.0
// Schedule: decides on which node of a parallel database each operator of a query runs.
//
// Every node has storage of its own, and reads the storage of other nodes over the network, at a lower rate.
// An operator is a part of a query that reads some blocks and runs on one node. Its home is the node that
// stores most of its blocks. Running every operator at its home leaves nodes idle if the blocks are
// distributed unevenly. Ignoring the homes wastes the network. Policy kAffinity avoids both:
//
//  AF1  A node runs the operators whose home it is, the longest one first.
//  AF2  A node that has no such operators left takes the shortest operator from the queue of the node with
//       the most time left. It does so only if it would end that operator before the other node could end all
//       of its own.
//  AF3  A decision examines every node and every worker once, but only the end of each queue.
//
// AF2 uses measured rates. If they are correct and storage is not saturated, no steal delays the last
// operator of a node, so kAffinity is never slower than kLocal. choose() covers the other cases with the
// model.
//
// Work stealing: Blumofe and Leiserson, JACM 1999; longest operator first: Graham, SIAM 1969.
//
// Thread-safety: none; the caller serialises take() and ended().
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

namespace wss::affinity {

// Accesses per second.
struct Rates {
    double local = 0;   // one node's workers together, from its own storage
    double remote = 0;  // one node's workers together, from other nodes' storage
    double storage = std::numeric_limits<double>::infinity();  // one node's storage, for all nodes together
};

struct Cluster {
    uint32_t nodes = 1;
    uint32_t workers = 1;  // operators that a node runs at a time
    Rates rates;
};

struct Operator {
    std::vector<uint32_t> accesses;  // indexed by the node that stores the blocks
};
using Operators = std::vector<Operator>;

enum class Policy : uint8_t {
    kRandom,    // any node
    kLocal,     // the home
    kRemote,    // any node but the home, in equal shares
    kAffinity,  // AF1, AF2
};

class Schedule {
  public:
    static constexpr uint32_t kNone = UINT32_MAX;

    // REQUIRES: all rates are above zero; each operator has at least one access, and one count for each node.
    Schedule(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed = 1);

    // The operator that a free worker of `node` runs next, or kNone if the worker is no longer needed. `now`
    // is in seconds since any fixed moment.
    uint32_t take(uint32_t node, double now);
    // REQUIRES: take() has returned `index`, and this is the first call for it.
    void ended(uint32_t index);

    // Seconds that one worker of `node` needs for the operator, if storage is not saturated.
    double cost(uint32_t index, uint32_t node) const;

  private:
    struct Running {
        uint32_t index;
        double end;  // when the operator is expected to end, in seconds
    };
    struct Node {
        std::deque<uint32_t> queue;  // the longest operator first
        double queued = 0;           // time that one worker would need for the queue, in seconds
        std::vector<Running> running;
    };

    void fill(Policy policy, uint64_t seed);
    double seconds_left(const Node& node, double now) const;
    uint32_t victim_of(uint32_t thief, double now) const;

    const Cluster cluster_;
    const Operators operators_;
    const bool steals_;
    std::vector<Node> nodes_;
    std::vector<uint32_t> runs_on_;  // the node that runs each operator
};

// The node that stores most of the operator's blocks. In a tie, it is the first such node.
uint32_t home_of(const Operator& one);

// ---- The model: workers that read at exactly these rates. If storage is saturated, all operators that read
// it slow down by the same factor.

struct Outcome {
    double seconds = 0;
    double remote_share = 0;  // share of the accesses that are remote
};
Outcome model(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed = 1);

// The fastest of kAffinity, kLocal and kRemote in the model; kAffinity in a tie.
Policy choose(const Cluster& cluster, const Operators& operators);

// The shortest time that the local and remote rates allow, even if each access could be placed on any node.
// No schedule is faster in the model.
double bound_seconds(const Cluster& cluster, const Operators& operators);

}  // namespace wss::affinity
