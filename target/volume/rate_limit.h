// SPDX-License-Identifier: Apache-2.0
// Rate limits of a volume: operations and bytes per second, for all initiators and reactors together.
//
// There is one bucket per volume, not one per reactor: initiators are spread over reactors by chance, and a
// volume whose only busy channel is on one of four reactors would get a quarter of its limit. The price is
// one compare-and-swap per command and limit, only for volumes with limits. There is no lock and no
// allocation.
//
// Each of the two limits is a virtual clock (GCRA, ITU-T I.371): the time at which the next command may
// begin. A command advances it by its cost. reserve() returns the time before that advance, which is when the
// caller's command may begin. Waiting reactors take turns, because each reserves one command at a time. An
// idle volume accumulates at most kBurst of unused time.
//
// A command that must not wait, because it holds resources that others need, is charged when it begins. This
// debt is at most kDebtMax. The next commands wait for it.
//
// Thread-safety: any thread. Immutable except for the clocks: changed limits need a new RateLimiter.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "target/volume/options.h"

namespace wss::volume {

// At this limit a command of one megabyte completes before initiators time out.
constexpr uint64_t kBandwidthMin = 64 * 1024;

Status check_limits(const RateLimits& limits);
// "500" or "none"; for bytes also "100M".
Result<uint64_t> parse_iops(std::string_view text);
Result<uint64_t> parse_bandwidth(std::string_view text);

class RateLimiter {
  public:
    static constexpr Nanoseconds kBurst = from_ms(100);
    static constexpr Nanoseconds kDebtMax = from_s(10);

    explicit RateLimiter(const RateLimits& limits) : limits_(limits) {}
    const RateLimits& limits() const noexcept { return limits_; }

    // Charges a command that moves `bytes`. Returns when it may begin; a time not after `now` means at once.
    Nanoseconds reserve(uint64_t bytes, Nanoseconds now) noexcept;
    // Refunds the charge of a command that does not begin.
    void cancel(uint64_t bytes) noexcept;
    // A command of `now` bytes begins in place of the one that was charged for `reserved` bytes.
    void exchange(uint64_t reserved, uint64_t now) noexcept;
    // Charges `operations` that together move `bytes` and begin now, regardless of the limits.
    void charge(uint64_t operations, uint64_t bytes, Nanoseconds now) noexcept;
    // The time that these operations and bytes take at the limits, at most an hour.
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
