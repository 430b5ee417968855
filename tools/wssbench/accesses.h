// SPDX-License-Identifier: Apache-2.0
// Accesses: the sequence of reads and writes of a load: random, sequential, or from a trace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/clock.h"

namespace wss::wssbench {

struct Access {
    bool write = false;
    uint64_t offset = 0;
    uint32_t length = 0;
};

// An object belongs to one thread.
class Accesses {
  public:
    virtual ~Accesses() = default;
    // Sets the next access. Returns false if there are no more.
    virtual bool next(Access& access) noexcept = 0;
};

struct Pattern {
    bool write = false;
    bool sequential = false;
    uint32_t bytes = 512;
    uint64_t span = 0;  // bytes of the volume that are used, from its start
};

class RandomAccesses final : public Accesses {
  public:
    RandomAccesses(const Pattern& pattern, uint64_t seed) : pattern_(pattern), random_(seed) {}
    bool next(Access& access) noexcept override {
        access = {pattern_.write, random_.below(pattern_.span / pattern_.bytes) * pattern_.bytes,
                  pattern_.bytes};
        return true;
    }

  private:
    const Pattern pattern_;
    Random random_;
};

// Thread `thread` of `threads` accesses its own part of the span sequentially, in a loop.
class SequentialAccesses final : public Accesses {
  public:
    SequentialAccesses(const Pattern& pattern, uint64_t thread, uint64_t threads)
        : pattern_(pattern),
          first_(pattern.span / pattern.bytes * thread / threads),
          // With more threads than blocks, some threads share a block.
          count_(std::max<uint64_t>(pattern.span / pattern.bytes * (thread + 1) / threads - first_, 1)) {}
    bool next(Access& access) noexcept override {
        access = {pattern_.write, (first_ + at_++ % count_) * pattern_.bytes, pattern_.bytes};
        return true;
    }

  private:
    const Pattern pattern_;
    const uint64_t first_, count_;
    uint64_t at_ = 0;
};

// One list for all threads: each access is taken once, in order.
struct SharedTrace {
    std::vector<Access> accesses;
    std::atomic<size_t> next{0};
};

class TraceAccesses final : public Accesses {
  public:
    explicit TraceAccesses(std::shared_ptr<SharedTrace> trace) : trace_(std::move(trace)) {}
    bool next(Access& access) noexcept override {
        size_t at = trace_->next.fetch_add(1, std::memory_order_relaxed);
        if (at >= trace_->accesses.size()) return false;
        access = trace_->accesses[at];
        return true;
    }

  private:
    const std::shared_ptr<SharedTrace> trace_;
};

inline std::unique_ptr<Accesses> make_accesses(const Pattern& pattern, uint64_t thread, uint64_t threads) {
    if (pattern.sequential) return std::make_unique<SequentialAccesses>(pattern, thread, threads);
    return std::make_unique<RandomAccesses>(pattern, thread + 1);
}

}  // namespace wss::wssbench
