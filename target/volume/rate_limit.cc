// SPDX-License-Identifier: Apache-2.0
#include "target/volume/rate_limit.h"

#include <algorithm>
#include <charconv>

#include "lib/base/size.h"

namespace wss::volume {

static constexpr uint64_t kSecond_ns = 1'000'000'000;
// The highest cost of one command, so that the next one does not wait longer than initiators do.
static constexpr uint64_t kCostMax_ns = 20 * kSecond_ns;
// The longest result of time_for(), well within a 64-bit clock.
static constexpr uint64_t kTimeMax_ns = 3600 * kSecond_ns;

Status check_limits(const RateLimits& limits) {
    if (limits.bandwidth == 0 || limits.bandwidth >= kBandwidthMin) return Status::ok();
    return failure(
        Code::kInvalid,
        "a bandwidth limit of {} bytes per second is too low: the minimum is {}, so that one command "
        "completes before its initiator times out",
        limits.bandwidth, format_size(kBandwidthMin));
}

Result<uint64_t> parse_iops(std::string_view text) {
    if (text == "none") return uint64_t{0};
    uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc::result_out_of_range)
        return failure(Code::kInvalid, "limit '{}' is too large: at most 2^64 - 1 operations per second",
                       text);
    if (error != std::errc() || end != text.data() + text.size())
        return failure(Code::kInvalid,
                       "'{}' is not a limit: write operations per second, for example 500, or none", text);
    return number;
}

Result<uint64_t> parse_bandwidth(std::string_view text) {
    if (text == "none") return uint64_t{0};
    auto bytes = parse_size(text);
    if (!bytes) return bytes.status().within("bytes per second");
    return *bytes;
}

// Nanoseconds for `amount` at `per_second`, at most `most_ns`. `per_second` 0: no limit, hence no time.
static int64_t time_of(uint64_t amount, uint64_t per_second, uint64_t most_ns) {
    if (per_second == 0) return 0;
    const unsigned __int128 time =
        (static_cast<unsigned __int128>(amount) * kSecond_ns + per_second - 1) / per_second;
    return static_cast<int64_t>(std::min<unsigned __int128>(time, most_ns));
}

int64_t RateLimiter::bytes_cost(uint64_t bytes) const noexcept {
    return time_of(bytes, limits_.bandwidth, kCostMax_ns);
}

int64_t RateLimiter::operation_cost() const noexcept {
    return time_of(1, limits_.iops, kCostMax_ns);
}

Nanoseconds RateLimiter::time_for(uint64_t operations, uint64_t bytes) const noexcept {
    return {std::max(time_of(operations, limits_.iops, kTimeMax_ns),
                     time_of(bytes, limits_.bandwidth, kTimeMax_ns))};
}

int64_t RateLimiter::take(std::atomic<int64_t>& next_ns, int64_t cost_ns, Nanoseconds now) noexcept {
    if (cost_ns == 0) return INT64_MIN;
    int64_t seen = next_ns.load(std::memory_order_relaxed), start = 0;
    do {
        start = std::max(seen, (now - kBurst).count);
    } while (!next_ns.compare_exchange_weak(seen, start + cost_ns, std::memory_order_relaxed));
    return start;
}

void RateLimiter::owe(std::atomic<int64_t>& next_ns, Nanoseconds cost, Nanoseconds now) noexcept {
    if (cost.count == 0) return;
    const int64_t most = (now + kDebtMax).count;
    int64_t seen = next_ns.load(std::memory_order_relaxed), owed = 0;
    do {
        owed = std::max(seen, std::min(std::max(seen, (now - kBurst).count) + cost.count, most));
    } while (!next_ns.compare_exchange_weak(seen, owed, std::memory_order_relaxed));
}

void RateLimiter::charge(uint64_t operations, uint64_t bytes, Nanoseconds now) noexcept {
    owe(next_operation_ns_, {time_of(operations, limits_.iops, kCostMax_ns)}, now);
    owe(next_bytes_ns_, {bytes_cost(bytes)}, now);
}

Nanoseconds RateLimiter::reserve(uint64_t bytes, Nanoseconds now) noexcept {
    const int64_t by_operations = take(next_operation_ns_, operation_cost(), now);
    const int64_t by_bytes = take(next_bytes_ns_, bytes_cost(bytes), now);
    return {std::max(by_operations, by_bytes)};
}

void RateLimiter::cancel(uint64_t bytes) noexcept {
    next_operation_ns_.fetch_sub(operation_cost(), std::memory_order_relaxed);
    next_bytes_ns_.fetch_sub(bytes_cost(bytes), std::memory_order_relaxed);
}

void RateLimiter::exchange(uint64_t reserved, uint64_t now) noexcept {
    next_bytes_ns_.fetch_add(bytes_cost(now) - bytes_cost(reserved), std::memory_order_relaxed);
}

}  // namespace wss::volume
