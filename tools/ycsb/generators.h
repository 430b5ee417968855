// SPDX-License-Identifier: Apache-2.0
// YCSB's distributions of record numbers, with a seeded generator instead of Java's.
//
// A generator belongs to one thread: each thread has its own, with the same parameters. All threads share
// Insertions. The sources are the classes of the same names in YCSB's core. Surprising behaviour of YCSB
// (ranges that include both ends, the constant of the scrambled zipfian) is kept and noted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/clock.h"

namespace wss::ycsb {

// Returns a uniformly distributed number in [0, 1), with the 53 bits that a double has.
double unit(Random& random);

class Generator {
  public:
    virtual ~Generator() = default;
    virtual uint64_t next(Random& random) = 0;
};

// The numbers of the existing records. An insert takes a number. It counts as existing only when all smaller
// numbers do (YCSB's AcknowledgedCounterGenerator). So no record is read before it exists.
class Insertions {
  public:
    static constexpr uint64_t kWindow = 1 << 20;  // how many numbers may be taken and not yet acknowledged

    explicit Insertions(uint64_t start) : next_(start), limit_(start - 1), done_(kWindow) {}
    uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }
    // Returns false if more than kWindow numbers are outstanding; `number` was then not recorded.
    bool acknowledge(uint64_t number);
    // The last existing number, or start - 1 (possibly -1) if there is none.
    int64_t last() const { return static_cast<int64_t>(limit_.load(std::memory_order_acquire)); }

  private:
    std::atomic<uint64_t> next_;
    std::atomic<uint64_t> limit_;
    std::mutex mutex_;  // protects done_ and moving limit_
    std::vector<bool> done_;
};

class Uniform final : public Generator {
  public:
    Uniform(uint64_t first, uint64_t last) : first_(first), count_(last - first + 1) {}
    uint64_t next(Random& random) override { return first_ + random.below(count_); }

  private:
    const uint64_t first_, count_;
};

// Rank 0 is the most popular. The algorithm is that of Gray et al., "Quickly generating billion-record
// synthetic databases".
class Zipfian final : public Generator {
  public:
    static constexpr double kTheta = 0.99;

    Zipfian(uint64_t first, uint64_t last, double theta = kTheta);
    Zipfian(uint64_t first, uint64_t last, double theta, double zeta_of_count);
    uint64_t next(Random& random) override { return next_of(random, count_); }
    // Chooses one of the first `count` items. A larger count extends the sum. A smaller one leaves the sum as
    // it is, as in YCSB.
    uint64_t next_of(Random& random, uint64_t count);

  private:
    void update_eta();
    const uint64_t first_;
    uint64_t count_;
    const double theta_, alpha_, zeta2_;
    double zeta_, eta_ = 0;
};
// The sum of 1/i^theta for i in (from, to], added to `sum`.
double zeta(uint64_t from, uint64_t to, double theta, double sum);

// A zipfian distribution whose popular items are spread over the range by the hash. As YCSB does, it draws
// from 10^10 + 1 items for any range, with a precomputed sum.
class ScrambledZipfian final : public Generator {
  public:
    ScrambledZipfian(uint64_t first, uint64_t last);
    uint64_t next(Random& random) override;

  private:
    const uint64_t first_, count_;
    Zipfian zipfian_;
};

// A distribution in which the newest record is the most popular.
class Latest final : public Generator {
  public:
    explicit Latest(const Insertions& insertions);
    uint64_t next(Random& random) override;

  private:
    const Insertions& insertions_;
    Zipfian zipfian_;
};

class Hotspot final : public Generator {
  public:
    Hotspot(uint64_t first, uint64_t last, double hot_data, double hot_operations);
    uint64_t next(Random& random) override;

  private:
    const uint64_t first_, hot_, cold_;
    const double hot_operations_;
};

class Exponential final : public Generator {
  public:
    // `percentile` percent of the values are below `range`.
    Exponential(double percentile, double range);
    uint64_t next(Random& random) override;

  private:
    const double gamma_;
};

// Returns one number after another, cyclically. Threads share the counter.
class Sequential final : public Generator {
  public:
    Sequential(uint64_t first, uint64_t last, std::shared_ptr<std::atomic<uint64_t>> counter)
        : first_(first), count_(last - first + 1), counter_(std::move(counter)) {}
    uint64_t next(Random&) override {
        return first_ + counter_->fetch_add(1, std::memory_order_relaxed) % count_;
    }

  private:
    const uint64_t first_, count_;
    const std::shared_ptr<std::atomic<uint64_t>> counter_;
};

class Constant final : public Generator {
  public:
    explicit Constant(uint64_t value) : value_(value) {}
    uint64_t next(Random&) override { return value_; }

  private:
    const uint64_t value_;
};

}  // namespace wss::ycsb
