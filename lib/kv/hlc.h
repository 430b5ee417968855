// SPDX-License-Identifier: Apache-2.0
// Hybrid logical clock: timestamps that grow with the time of day and with every timestamp seen, so that a
// client that has read a version always writes a later one, whatever its clock says (without that, writes of
// slow clocks are lost to the last-writer-wins rule, and readers see transactions in part).
//
// Thread-safety: none; SystemWallClock is stateless.
#pragma once

#include <algorithm>
#include <ctime>

#include "lib/kv/mutation.h"
#include "lib/kv/types.h"

namespace wss::kv {

// The seam of the time of day.
class WallClock {
  public:
    virtual ~WallClock() = default;
    virtual uint64_t unix_us() noexcept = 0;
    uint64_t ticks() noexcept {
        uint64_t now = unix_us();
        return now > kTicksEpoch_us ? now - kTicksEpoch_us : 0;
    }
};

class SystemWallClock final : public WallClock {
  public:
    uint64_t unix_us() noexcept override {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
    }
};

class HybridClock {
  public:
    explicit HybridClock(WallClock& wall) : wall_(wall) {}
    void set_client(uint32_t id) { client_ = id; }
    uint32_t client() const { return client_; }

    // Later than every timestamp issued or seen.
    // `lead`: as if the time of day were so many ticks later.
    Timestamp next(uint64_t lead = 0) noexcept {
        uint64_t now = wall_.ticks();
        if (mutated(Mutation::kNoHybridClock)) return Timestamp::make(now, client_);
        last_ = std::max(now + lead, last_ + 1);
        return Timestamp::make(last_, mutated(Mutation::kCollidingTimestamps) ? 1 : client_);
    }
    void observe(Timestamp seen) noexcept { last_ = std::max(last_, std::min(seen.ticks(), kTicksMax / 2)); }
    uint64_t now_ticks() noexcept { return std::max(wall_.ticks(), last_); }

  private:
    WallClock& wall_;
    uint32_t client_ = 0;
    uint64_t last_ = 0;
};

}  // namespace wss::kv
