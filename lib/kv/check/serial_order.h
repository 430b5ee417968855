// SPDX-License-Identifier: Apache-2.0
// Decides whether transactions with conditions can have happened one after the other. A condition names the
// version of a key that the transaction found, and that was still the latest when it committed. Hence:
//   - the writer of a version precedes every transaction with a condition on it;
//   - a transaction with a condition on a version precedes every other one that has a condition on it and
//     replaces it.
//
// A cycle means that a condition did not hold until the commit: two transactions that have each written a key
// that the other had read (write skew), two that have replaced the same version (lost update), or longer
// cycles.
//
// Writes without conditions are not checked. Memory is bounded; forgetting can hide cycles, but cannot create
// any.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace wss::kv::check {

class SerialOrder {
  public:
    struct Condition {
        uint64_t key = 0;
        uint64_t version = 0;  // a version of that key
        uint64_t writer = 0;   // the transaction that wrote it; 0: not known
    };
    // Adds a committed transaction, whose name is not 0. If it closes a cycle, returns the cycle in order,
    // beginning with this transaction. Otherwise returns an empty list.
    std::vector<uint64_t> add(uint64_t transaction, std::span<const Condition> conditions,
                              std::span<const uint64_t> written);

  private:
    static constexpr size_t kRemembered = 1 << 20;  // transactions
    static constexpr size_t kStepsMax = 1 << 14;    // steps of one search

    struct Version {
        uint64_t key = 0, version = 0;
        bool operator==(const Version&) const = default;
    };
    struct HashVersion {
        size_t operator()(const Version& v) const {
            return (v.key * 0x9e3779b97f4a7c15u) ^ (v.version * 0xc2b2ae3d27d4eb4fu);
        }
    };
    struct Found {
        std::vector<uint64_t> by, replaced_by;
    };
    std::vector<uint64_t> cycle_of(uint64_t transaction) const;

    std::unordered_map<Version, Found, HashVersion> found_;
    std::unordered_map<uint64_t, std::vector<uint64_t>> after_;  // transaction → those that follow it
};

}  // namespace wss::kv::check
