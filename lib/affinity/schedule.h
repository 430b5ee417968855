// SPDX-License-Identifier: Apache-2.0
// Schedule: decides on which node of a parallel database each operator of a query runs.
//
// Every node has storage of its own, and reads the storage of other nodes over the network, at a lower rate.
// An operator is a part of a query that reads some blocks and runs on one node. Its home is the node that
// stores most of its blocks. Running every operator at its home leaves nodes idle if the blocks are
// distributed unevenly. Ignoring the homes wastes the network. Policy kAffinity avoids both:
//
//  AF1  A node runs the operators whose home it is, the longest one first.
//  AF2  A node without such operators steals the shortest operator of the node with the most time left, if
//       it ends that operator before that node could have ended all of its own.
//  AF3  A decision examines every node and every worker once, and of each queue only the end.
//
// AF2 uses measured rates. If they are correct and storage is not saturated, no steal delays the last
// operator of a node, so kAffinity is never slower than kLocal. choose() covers the other cases with the
// model.
//
// Work stealing: Blumofe and Leiserson, JACM 1999; the longest first: Graham, SIAM 1969.
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
    double local = 0;   // of a node, with all its workers, to its own storage
    double remote = 0;  // of a node, with all its workers, to the storage of other nodes
    double storage = std::numeric_limits<double>::infinity();  // of one node's storage, to all nodes
};

struct Cluster {
    uint32_t nodes = 1;
    uint32_t workers = 1;  // operators that a node runs at a time
    Rates rates;
};

struct Operator {
    std::vector<uint32_t> accesses;  // by the node that stores the blocks
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

    // REQUIRES: rates above zero; each operator has an access, and a count for each node.
    Schedule(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed = 1);

    // The operator that a free worker of `node` runs next, or kNone: the worker is not needed any more.
    // `now`: seconds since any fixed moment.
    uint32_t take(uint32_t node, double now);
    // REQUIRES: take() has returned `index`, and this is the first call for it.
    void ended(uint32_t index);

    // Seconds that one worker of `node` needs for the operator, if storage is not saturated.
    double cost(uint32_t index, uint32_t node) const;

  private:
    struct Running {
        uint32_t index;
        double end;  // expected
    };
    struct Node {
        std::deque<uint32_t> queue;  // the longest operator first
        double queued = 0;           // seconds of one worker for them
        std::vector<Running> running;
    };

    void fill(Policy policy, uint64_t seed);
    double seconds_left(const Node& node, double now) const;
    uint32_t victim_of(uint32_t thief, double now) const;

    const Cluster cluster_;
    const Operators operators_;
    const bool steals_;
    std::vector<Node> nodes_;
    std::vector<uint32_t> runs_on_;  // by operator
};

// The node that stores most of the operator's blocks, the first one of several.
uint32_t home_of(const Operator& one);

// ---- The model: workers that read at exactly these rates. The operators on a saturated storage slow down
// alike.

struct Outcome {
    double seconds = 0;
    double remote_share = 0;  // of the accesses
};
Outcome model(const Cluster& cluster, const Operators& operators, Policy policy, uint64_t seed = 1);

// The fastest of kAffinity, kLocal and kRemote in the model; kAffinity if others are as fast.
Policy choose(const Cluster& cluster, const Operators& operators);

// The shortest time that local and remote capacity allow together, for any placement of single accesses.
// No schedule is faster in the model.
double bound_seconds(const Cluster& cluster, const Operators& operators);

}  // namespace wss::affinity
