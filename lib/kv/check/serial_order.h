// SPDX-License-Identifier: Apache-2.0
// Whether transactions with conditions can have happened one after the other. A condition says which version
// of a key the transaction has found, and found still there when it committed. So
//   who wrote a version comes before who has a condition on it
//   who has a condition on a version comes before who has one too and replaces the version
// and a cycle of these is a condition that was not held until the commit: two transactions that have each
// written what the other had read (write skew), two that have replaced the same version (lost update), or
// more.
//
// Nothing is said of writes without conditions. What is remembered is bounded; what is forgotten hides
// cycles, and makes none.
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
        uint64_t version = 0;  // of that key
        uint64_t writer = 0;   // the transaction that wrote it; 0: none that is known
    };
    // A committed transaction; its name is not 0. Returns a cycle that it closes, in order and beginning with
    // it; else nothing.
    std::vector<uint64_t> add(uint64_t transaction, std::span<const Condition> conditions,
                              std::span<const uint64_t> written);

  private:
    static constexpr size_t kRemembered = 1 << 20;  // transactions
    static constexpr size_t kStepsMax = 1 << 14;    // of one search

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
    std::unordered_map<uint64_t, std::vector<uint64_t>> after_;  // of a transaction: those that come after it
};

}  // namespace wss::kv::check
