// SPDX-License-Identifier: Apache-2.0
// What a session and a target count. One writer (the channel's reactor), any reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace wss::block {

class Counter {
  public:
    // An increment by the only writer needs no locked instruction.
    void add(uint64_t amount = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

// One line per counter: name, meaning. The structs and the names in `wssctl stats` come from this list.
#define WSS_BLOCK_COUNTERS(X)                                       \
    X(commands, "SRP commands received")                            \
    X(reads, "commands that read data")                             \
    X(writes, "commands that wrote data")                           \
    X(read_bytes, "bytes sent to the initiator")                    \
    X(written_bytes, "bytes taken from the initiator")              \
    X(data_requests, "commands whose data was moved by RDMA")       \
    X(rdma_reads, "RDMA READs issued for data")                     \
    X(rdma_writes, "RDMA WRITEs issued for data")                   \
    X(table_reads, "RDMA READs issued for descriptor tables")       \
    X(sends, "messages sent")                                       \
    X(fused, "completions carried by an RDMA WRITE WITH IMMEDIATE") \
    X(batched, "completions carried by a message for several")      \
    X(invalidates, "responses that revoked the initiator's region") \
    X(immediate, "writes whose data arrived inside the command")    \
    X(waited_for_buffer, "commands that had to wait for a buffer")  \
    X(waited_for_cache, "commands that had to wait for the cache")  \
    X(delegated, "reads answered by cache engines")                 \
    X(task_management, "task management requests")                  \
    X(aborted, "commands aborted")                                  \
    X(check_conditions, "commands that ended in CHECK CONDITION")   \
    X(medium_errors, "of these, the storage failed")                \
    X(illegal_requests, "of these, the command was wrong")          \
    X(other_errors, "of these, all others")                         \
    X(posts, "batches of work requests posted")                     \
    X(refused_logins, "initiators that authentication refused")     \
    X(violations, "messages that broke the protocol")

struct Counters {
#define X(name, meaning) Counter name;
    WSS_BLOCK_COUNTERS(X)
#undef X
};

// A sum of Counters, at rest.
struct CounterTotals {
#define X(name, meaning) uint64_t name = 0;
    WSS_BLOCK_COUNTERS(X)
#undef X
    void add(const Counters& counters) noexcept {
#define X(name, meaning) name += counters.name.get();
        WSS_BLOCK_COUNTERS(X)
#undef X
    }
    void add(const CounterTotals& other) noexcept {
#define X(name, meaning) name += other.name;
        WSS_BLOCK_COUNTERS(X)
#undef X
    }
    // visit(name, meaning, value)
    template <typename Visit>
    void for_each(Visit&& visit) const {
#define X(name, meaning) visit(#name, meaning, name);
        WSS_BLOCK_COUNTERS(X)
#undef X
    }
};

}  // namespace wss::block
