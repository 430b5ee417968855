// SPDX-License-Identifier: Apache-2.0
// Rate limits of a volume: operations and bytes per second, all initiators and all reactors together.
//
// One bucket per volume, not one share of it per reactor: initiators are spread over reactors by chance, and
// a volume whose only busy channel is on one of four reactors would get a quarter of its limit. The price is
// one compare-and-swap per command, on the cache lines of volumes that have a limit only; it is neither a
// lock nor an allocation.
//
// The bucket is a virtual clock for each of the two limits (GCRA, ITU-T I.371): the time at which the next
// command may begin. A command moves it on by what it costs. reserve() returns the time before that, so a
// caller that has to wait knows how long, and reactors that wait take turns: each has reserved one command.
// A volume that was idle may catch up kBurst.
//
// What cannot wait, because it holds what others need, is charged when it begins: a debt, of kDebtMax at
// most, that the next commands wait for.
//
// Thread-safety: any thread. Immutable but for the clocks: other limits are another RateLimiter.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "target/volume/options.h"

namespace wss::volume {

// One command of a megabyte takes no longer than initiators wait.
constexpr uint64_t kBandwidthMin = 64 * 1024;

Status check_limits(const RateLimits& limits);
// "500" or "none"; of bytes also "100M".
Result<uint64_t> parse_iops(std::string_view text);
Result<uint64_t> parse_bandwidth(std::string_view text);

class RateLimiter {
  public:
    static constexpr Nanoseconds kBurst = from_ms(100);
    static constexpr Nanoseconds kDebtMax = from_s(10);

    explicit RateLimiter(const RateLimits& limits) : limits_(limits) {}
    const RateLimits& limits() const noexcept { return limits_; }

    // When a command that moves `bytes` may begin; not after `now`: at once. It is charged.
    Nanoseconds reserve(uint64_t bytes, Nanoseconds now) noexcept;
    // A command that was charged does not begin.
    void cancel(uint64_t bytes) noexcept;
    // Another command, which moves `now`, begins in place of the one that was charged for `reserved`.
    void exchange(uint64_t reserved, uint64_t now) noexcept;
    // `operations` that move `bytes` together begin now, whatever the limits are.
    void charge(uint64_t operations, uint64_t bytes, Nanoseconds now) noexcept;
    // How long so many take.
    Nanoseconds time_for(uint64_t operations, uint64_t bytes) const noexcept;

  private:
    static int64_t take(std::atomic<int64_t>& next_ns, int64_t cost_ns, Nanoseconds now) noexcept;
    static void owe(std::atomic<int64_t>& next_ns, Nanoseconds cost, Nanoseconds now) noexcept;
    int64_t operation_cost() const noexcept;
    int64_t bytes_cost(uint64_t bytes) const noexcept;

    const RateLimits limits_;
    std::atomic<int64_t> next_operation_ns_{0}, next_bytes_ns_{0};
};

}  // namespace wss::volume
