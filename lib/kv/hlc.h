// SPDX-License-Identifier: Apache-2.0
// Hybrid logical clock: timestamps that grow with the time of day and with every timestamp seen, so that a
// client that has read a version writes a later one, though its time of day is behind.
//
// A client follows the timestamps of others no further than kFollowMax_ticks beyond its own time of day: else
// one clock that is wrong by an hour would make every partition with a right clock refuse what the client
// writes next. Only the transaction that needs it goes further (next_after), and leaves the clock as it was.
// Timestamps within that bound are even, those beyond it are odd: none is ever issued twice.
//
// Thread-safety: none; SystemWallClock is stateless.
#pragma once

#include <algorithm>
#include <ctime>
#include <map>

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

// A partition refuses timestamps further ahead of its clock than kAheadMax_ticks. Half of it is left for what
// the clocks of a client and of a partition differ by.
constexpr uint64_t kAheadMax_ticks = 60'000'000;
constexpr uint64_t kFollowMax_ticks = kAheadMax_ticks / 2;

// A write under locks may be so much later than the owner that took them: partitions keep as much of their
// bound free when they grant an exclusive lock, so that few writes are refused after all locks were granted.
constexpr uint64_t kLockedLead_ticks = 10'000'000;

// Of a write that later versions were in the way of so many times: the further ahead of them the more often,
// so that among many writers of a key all come to an end. The last is more than most messages take, and so
// little that writers who outbid each other stay near the time of day.
constexpr uint64_t lead_of(uint32_t conflicts) {
    return conflicts == 0 ? 0 : uint64_t{64} << std::min(conflicts, 8u);
}

class HybridClock {
  public:
    explicit HybridClock(WallClock& wall) : wall_(wall) {}
    void set_client(uint32_t id) { client_ = id; }
    uint32_t client() const { return client_; }

    // Later than every timestamp issued, and than those seen that are within the bound. `lead`: so many ticks
    // later still, as far as the bound allows.
    Timestamp next(uint64_t lead = 0) noexcept {
        const uint64_t now = wall_.ticks();
        if (mutated(Mutation::kNoHybridClock)) return Timestamp::make(now, client_);
        const uint64_t base = std::max(now, last_ + 1);
        last_ = even(std::max(base, std::min(base + lead, now + kFollowMax_ticks)));
        return issue(last_);
    }
    // Also later than `past`, however far that is from the time of day; then without a lead.
    Timestamp next_after(Timestamp past, uint64_t lead = 0) noexcept {
        if (past.ticks() <= wall_.ticks() + kFollowMax_ticks || mutated(Mutation::kNoHybridClock)) {
            observe(past);
            return next(lead);
        }
        return issue(next_far(std::min(past.ticks(), kTicksMax / 2)));
    }
    // The time of day was set back so far that partitions refuse what must follow the timestamps issued.
    bool is_stranded() noexcept { return last_ > wall_.ticks() + kAheadMax_ticks; }
    // Begins anew, for another client id: the present one may have issued the same timestamps before.
    void restart() noexcept {
        last_ = passed_ = 0;
        far_.clear();
        issued_ = {};
    }
    void observe(Timestamp seen) noexcept {
        if (seen.ticks() <= last_) return;  // most are: the time of day is not asked for
        last_ = std::max(last_, std::min(seen.ticks(), wall_.ticks() + kFollowMax_ticks));
    }
    uint64_t now_ticks() noexcept { return std::max(wall_.ticks(), last_); }
    uint64_t wall_ticks() noexcept { return wall_.ticks(); }
    // The latest that was issued.
    Timestamp issued() const { return issued_; }

  private:
    static constexpr uint64_t kInterval_ticks = kAheadMax_ticks;
    static constexpr size_t kIntervalsMax = 64;
    static uint64_t even(uint64_t ticks) { return (ticks + 1) & ~uint64_t{1}; }
    // Odd, later than `past`, never issued before. Each interval has its own latest one, so that a partition
    // that names the end of time moves none but the writes that must pass it. Of too many intervals the
    // earliest are forgotten and not entered again.
    uint64_t next_far(uint64_t past) {
        uint64_t ticks = (std::max(past, passed_) + 1) | 1;
        for (auto at = far_.find(ticks / kInterval_ticks); at != far_.end() && at->second >= ticks;
             at = far_.find(ticks / kInterval_ticks))
            ticks = at->second + 2;
        far_[ticks / kInterval_ticks] = ticks;
        if (far_.size() > kIntervalsMax) {
            passed_ = far_.begin()->second;
            far_.erase(far_.begin());
        }
        return ticks;
    }
    Timestamp issue(uint64_t ticks) noexcept {
        const Timestamp made = Timestamp::make(ticks, mutated(Mutation::kCollidingTimestamps) ? 1 : client_);
        issued_ = std::max(issued_, made);
        return made;
    }

    WallClock& wall_;
    uint32_t client_ = 0;
    uint64_t last_ = 0;
    std::map<uint64_t, uint64_t> far_;  // the latest issued beyond the bound, by interval
    uint64_t passed_ = 0;               // no later one of a forgotten interval was issued
    Timestamp issued_;
};

}  // namespace wss::kv
