// SPDX-License-Identifier: Apache-2.0
// Hybrid logical clock. Its timestamps grow with the time of day and with every timestamp that it has
// observed. A client that has read a version therefore writes a later one, even if its time of day is behind.
//
// A client follows observed timestamps at most kFollowMax_ticks beyond its own time of day. Otherwise one
// clock that is wrong by an hour would make every partition with a correct clock refuse the client's next
// writes. Only the transaction that needs a later timestamp goes further (next_after), and it leaves the
// clock unchanged. Timestamps within the bound are even, those beyond it are odd, so none is issued twice.
//
// Thread-safety: none; SystemWallClock is stateless.
#pragma once

#include <algorithm>
#include <ctime>
#include <map>

#include "lib/kv/mutation.h"
#include "lib/kv/types.h"

namespace wss::kv {

// The seam for the time of day.
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

// A partition refuses timestamps more than kAheadMax_ticks ahead of its clock. Half of that bound is reserved
// for the difference between the clocks of a client and a partition.
constexpr uint64_t kAheadMax_ticks = 60'000'000;
constexpr uint64_t kFollowMax_ticks = kAheadMax_ticks / 2;

// Beyond the bound, a client's timestamps increase within each interval of this length (HybridClock). So a
// timestamp may have to be later than the version that it follows by the rest of the version's interval, and
// rarely by the next interval. Partitions permit that.
constexpr uint64_t kFarInterval_ticks = kAheadMax_ticks;
constexpr uint64_t kNextVersion_ticks = 2 * kFarInterval_ticks;

// A write under locks may be this much later than the owner timestamp that took the locks. Partitions keep
// this part of their bound free when they grant an exclusive lock, so that few writes are refused after all
// locks were granted.
constexpr uint64_t kLockedLead_ticks = 10'000'000;

// The lead over the conflicting version for a write that was refused `conflicts` times because of later
// versions. It grows with the number of conflicts, so that many writers of one key all succeed. The largest
// lead exceeds the transit time of most messages, but is small enough that competing writers stay near the
// time of day.
constexpr uint64_t lead_of(uint32_t conflicts) {
    return conflicts == 0 ? 0 : uint64_t{64} << std::min(conflicts, 8u);
}

class HybridClock {
  public:
    explicit HybridClock(WallClock& wall) : wall_(wall) {}
    void set_client(uint32_t id) { client_ = id; }
    uint32_t client() const { return client_; }

    // Returns a timestamp later than all issued and observed ones within the bound. Adds `lead` ticks, as far
    // as the bound allows.
    Timestamp next(uint64_t lead = 0) noexcept {
        const uint64_t now = wall_.ticks();
        if (mutated(Mutation::kNoHybridClock)) return Timestamp::make(now, client_);
        const uint64_t base = std::max(now, last_ + 1);
        last_ = even(std::max(base, std::min(base + lead, now + kFollowMax_ticks)));
        return issue(last_);
    }
    // The same as next(), but also later than `past`, however far that is ahead of the time of day. Beyond
    // the bound no lead is added.
    Timestamp next_after(Timestamp past, uint64_t lead = 0) noexcept {
        if (past.ticks() <= wall_.ticks() + kFollowMax_ticks || mutated(Mutation::kNoHybridClock)) {
            observe(past);
            return next(lead);
        }
        return issue(next_far(std::min(past.ticks(), kTicksMax / 2)));
    }
    // True if the time of day was set back so far that partitions refuse every timestamp later than the
    // issued ones.
    bool is_stranded() noexcept { return last_ > wall_.ticks() + kAheadMax_ticks; }
    // Starts over for another client id; with the current id the clock might issue a timestamp twice.
    void restart() noexcept {
        last_ = passed_ = 0;
        far_.clear();
        issued_ = {};
    }
    void observe(Timestamp seen) noexcept {
        if (seen.ticks() <= last_) return;  // the usual case: saves reading the time of day
        last_ = std::max(last_, std::min(seen.ticks(), wall_.ticks() + kFollowMax_ticks));
    }
    uint64_t now_ticks() noexcept { return std::max(wall_.ticks(), last_); }
    uint64_t wall_ticks() noexcept { return wall_.ticks(); }
    // The latest issued timestamp.
    Timestamp issued() const { return issued_; }

  private:
    static constexpr size_t kIntervalsMax = 64;
    static uint64_t even(uint64_t ticks) { return (ticks + 1) & ~uint64_t{1}; }
    // Returns ticks that are odd, later than `past`, and were never issued before. Each interval has its own
    // latest timestamp. A partition that names a time in the far future therefore moves only the writes that
    // must pass it. Beyond kIntervalsMax the earliest interval is forgotten and never used again.
    uint64_t next_far(uint64_t past) {
        uint64_t ticks = (std::max(past, passed_) + 1) | 1;
        for (auto at = far_.find(ticks / kFarInterval_ticks); at != far_.end() && at->second >= ticks;
             at = far_.find(ticks / kFarInterval_ticks))
            ticks = at->second + 2;
        far_[ticks / kFarInterval_ticks] = ticks;
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
    std::map<uint64_t, uint64_t> far_;  // the latest timestamp issued beyond the bound, by interval
    uint64_t passed_ = 0;               // the latest timestamp of the forgotten intervals
    Timestamp issued_;
};

}  // namespace wss::kv
