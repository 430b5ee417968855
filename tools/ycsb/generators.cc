// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/generators.h"

#include <algorithm>
#include <cmath>

#include "tools/ycsb/hash.h"

namespace wss::ycsb {

constexpr uint64_t kScrambledItems = 10'000'000'000;
constexpr double kScrambledZeta = 26.46902820178302;  // zeta of kScrambledItems at 0.99 (from YCSB)

double unit(Random& random) {
    return static_cast<double>(random.next() >> 11) * 0x1p-53;
}

bool Insertions::acknowledge(uint64_t number) {
    std::lock_guard lock(mutex_);
    uint64_t limit = limit_.load(std::memory_order_relaxed);
    if (number - limit > kWindow) return false;
    done_[number % kWindow] = true;
    while (done_[(limit + 1) % kWindow]) {
        ++limit;
        done_[limit % kWindow] = false;
    }
    limit_.store(limit, std::memory_order_release);
    return true;
}

double zeta(uint64_t from, uint64_t to, double theta, double sum) {
    for (uint64_t i = from; i < to; ++i) sum += 1 / std::pow(static_cast<double>(i + 1), theta);
    return sum;
}

Zipfian::Zipfian(uint64_t first, uint64_t last, double theta)
    : Zipfian(first, last, theta, zeta(0, last - first + 1, theta, 0)) {}

Zipfian::Zipfian(uint64_t first, uint64_t last, double theta, double zeta_of_count)
    : first_(first),
      count_(last - first + 1),
      theta_(theta),
      alpha_(1 / (1 - theta)),
      zeta2_(zeta(0, 2, theta, 0)),
      zeta_(zeta_of_count) {
    update_eta();
}

void Zipfian::update_eta() {
    eta_ = (1 - std::pow(2.0 / static_cast<double>(count_), 1 - theta_)) / (1 - zeta2_ / zeta_);
}

uint64_t Zipfian::next_of(Random& random, uint64_t count) {
    if (count > count_) {
        zeta_ = zeta(count_, count, theta_, zeta_);
        count_ = count;
        update_eta();
    }
    double u = unit(random);
    double scaled = u * zeta_;
    if (scaled < 1) return first_;
    if (scaled < 1 + std::pow(0.5, theta_)) return first_ + 1;
    return first_ + static_cast<uint64_t>(static_cast<double>(count) * std::pow(eta_ * u - eta_ + 1, alpha_));
}

ScrambledZipfian::ScrambledZipfian(uint64_t first, uint64_t last)
    : first_(first),
      count_(last - first + 1),
      zipfian_(0, kScrambledItems, Zipfian::kTheta, kScrambledZeta) {}

uint64_t ScrambledZipfian::next(Random& random) {
    return first_ + fnv_hash(zipfian_.next(random)) % count_;
}

Latest::Latest(const Insertions& insertions)
    : insertions_(insertions),
      zipfian_(0, static_cast<uint64_t>(std::max<int64_t>(insertions.last(), 2)) - 1) {}

uint64_t Latest::next(Random& random) {
    auto last = static_cast<uint64_t>(std::max<int64_t>(insertions_.last(), 0));
    if (last == 0) return 0;
    return last - std::min(last, zipfian_.next_of(random, last));
}

static uint64_t part_of(uint64_t count, double fraction) {
    return static_cast<uint64_t>(static_cast<double>(count) * std::clamp(fraction, 0.0, 1.0));
}

Hotspot::Hotspot(uint64_t first, uint64_t last, double hot_data, double hot_operations)
    : first_(first),
      hot_(part_of(last - first + 1, hot_data)),
      cold_(last - first + 1 - hot_),
      hot_operations_(std::clamp(hot_operations, 0.0, 1.0)) {}

uint64_t Hotspot::next(Random& random) {
    bool hot = unit(random) < hot_operations_;
    if (cold_ == 0 || (hot && hot_ != 0)) return first_ + random.below(hot_);
    return first_ + hot_ + random.below(cold_);
}

Exponential::Exponential(double percentile, double range) : gamma_(-std::log(1 - percentile / 100) / range) {}

uint64_t Exponential::next(Random& random) {
    return static_cast<uint64_t>(-std::log(1 - unit(random)) / gamma_);
}

}  // namespace wss::ycsb
