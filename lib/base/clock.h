// SPDX-License-Identifier: Apache-2.0
// The seams of time and randomness. Code that runs in the deterministic simulation gets the time, and all
// random numbers that affect its behaviour, through these interfaces and not from the operating system. So
// the simulation runs the shipped code. Nonces come from fill_unpredictable() (hmac.h).
//
// Thread-safety: SystemClock is stateless. A Random belongs to one thread.
#pragma once

#include <compare>
#include <cstdint>

namespace wss {

// A point in monotonic time, or a duration.
struct Nanoseconds {
    int64_t count = 0;
    auto operator<=>(const Nanoseconds&) const = default;
    friend constexpr Nanoseconds operator+(Nanoseconds a, Nanoseconds b) { return {a.count + b.count}; }
    friend constexpr Nanoseconds operator-(Nanoseconds a, Nanoseconds b) { return {a.count - b.count}; }
};
constexpr Nanoseconds from_us(int64_t us) {
    return {us * 1000};
}
constexpr Nanoseconds from_ms(int64_t ms) {
    return {ms * 1000 * 1000};
}
constexpr Nanoseconds from_s(int64_t s) {
    return {s * 1000 * 1000 * 1000};
}
constexpr Nanoseconds kNever{INT64_MAX};

class Clock {
  public:
    virtual ~Clock() = default;
    virtual Nanoseconds now() noexcept = 0;
};

class SystemClock final : public Clock {
  public:
    Nanoseconds now() noexcept override;  // CLOCK_MONOTONIC
};

// xoshiro256**: a full 64-bit generator. The same seed gives the same sequence on every platform, which the
// distributions of the standard library do not guarantee.
class Random {
  public:
    explicit Random(uint64_t seed) noexcept;
    static uint64_t entropy() noexcept;  // a seed from the operating system

    uint64_t next() noexcept;
    uint64_t below(uint64_t bound) noexcept;  // uniform in [0, bound); 0 if `bound` is 0
    bool chance(uint32_t one_in) noexcept { return one_in != 0 && below(one_in) == 0; }

  private:
    uint64_t state_[4];
};

}  // namespace wss
