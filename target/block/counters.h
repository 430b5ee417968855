// SPDX-License-Identifier: Apache-2.0
// Counters of a channel, and their totals for a session and for the target. A channel's counters have one
// writer (its reactor) and any number of readers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace wss::block {

class Counter {
  public:
    // The only writer needs no locked instruction to increment.
    void add(uint64_t amount = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

// Latency histogram: bucket i counts commands that took at least 2^(i-1) and less than 2^i microseconds. The
// last bucket counts all longer ones.
constexpr size_t kLatencyBuckets = 24;

struct LatencyTotals {
    std::array<uint64_t, kLatencyBuckets> buckets{};
    uint64_t total_ns = 0;
};

class LatencyCounter {
  public:
    void add(Nanoseconds took) noexcept {
        const auto ns = static_cast<uint64_t>(std::max<int64_t>(took.count, 0));
        buckets_[std::min<size_t>(std::bit_width(ns / 1000), kLatencyBuckets - 1)].add();
        total_ns_.add(ns);
    }
    void add_to(LatencyTotals& totals) const noexcept {
        for (size_t i = 0; i < kLatencyBuckets; ++i) totals.buckets[i] += buckets_[i].get();
        totals.total_ns += total_ns_.get();
    }

  private:
    std::array<Counter, kLatencyBuckets> buckets_;
    Counter total_ns_;
};

// One line per counter: name, meaning. The structs and the names in `wssctl stats` come from this list.
#define WSS_BLOCK_COUNTERS(X)                                       \
    X(commands, "SRP commands received")                            \
    X(reads, "commands that read data")                             \
    X(writes, "commands that wrote data")                           \
    X(read_bytes, "bytes sent to the initiator")                    \
    X(written_bytes, "bytes received from the initiator")           \
    X(data_requests, "commands whose data was moved by RDMA")       \
    X(rdma_reads, "RDMA READs issued for data")                     \
    X(rdma_writes, "RDMA WRITEs issued for data")                   \
    X(table_reads, "RDMA READs issued for descriptor tables")       \
    X(sends, "messages sent")                                       \
    X(fused, "completions carried by an RDMA WRITE WITH IMMEDIATE") \
    X(batched, "completions carried by a batched message")          \
    X(invalidates, "responses that revoked the initiator's region") \
    X(immediate, "writes whose data arrived inside the command")    \
    X(waited_for_buffer, "commands that had to wait for a buffer")  \
    X(waited_for_cache, "commands that had to wait for the cache")  \
    X(delegated, "reads answered by cache engines")                 \
    X(task_management, "task management requests")                  \
    X(aborted, "commands aborted")                                  \
    X(check_conditions, "commands that ended in CHECK CONDITION")   \
    X(medium_errors, "CHECK CONDITIONs because the storage failed") \
    X(illegal_requests, "CHECK CONDITIONs for invalid commands")    \
    X(other_errors, "other CHECK CONDITIONs")                       \
    X(posts, "batches of work requests posted")                     \
    X(refused_logins, "initiators refused by authentication")       \
    X(violations, "messages that violated the protocol")

struct Counters {
#define X(name, meaning) Counter name;
    WSS_BLOCK_COUNTERS(X)
#undef X
    LatencyCounter read_latency, write_latency;
};

// A sum of Counters, in plain integers.
struct CounterTotals {
#define X(name, meaning) uint64_t name = 0;
    WSS_BLOCK_COUNTERS(X)
#undef X
    LatencyTotals read_latency, write_latency;

    void add(const Counters& counters) noexcept {
#define X(name, meaning) name += counters.name.get();
        WSS_BLOCK_COUNTERS(X)
#undef X
        counters.read_latency.add_to(read_latency);
        counters.write_latency.add_to(write_latency);
    }
    void add(const CounterTotals& other) noexcept {
#define X(name, meaning) name += other.name;
        WSS_BLOCK_COUNTERS(X)
#undef X
        add(other.read_latency, read_latency);
        add(other.write_latency, write_latency);
    }
    // visit(name, meaning, value)
    template <typename Visit>
    void for_each(Visit&& visit) const {
#define X(name, meaning) visit(#name, meaning, name);
        WSS_BLOCK_COUNTERS(X)
#undef X
    }

  private:
    static void add(const LatencyTotals& other, LatencyTotals& totals) noexcept {
        for (size_t i = 0; i < kLatencyBuckets; ++i) totals.buckets[i] += other.buckets[i];
        totals.total_ns += other.total_ns;
    }
};

}  // namespace wss::block
