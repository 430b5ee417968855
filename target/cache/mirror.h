// SPDX-License-Identifier: Apache-2.0
// Mirror: makes second copies of dirty lines that have one left (SingleCopies), since an engine was lost,
// or the target started again. Such lines are destaged first; but real storage may not take them for
// hours, its volume may not be open, and until then the loss of one more engine would lose what was
// acknowledged.
//
// The first holder writes the dirty pieces to our buffer, the second takes them from there with a header
// that claims them, in one step. Copying goes beside reads, destaging, and whoever waits for storage, and
// ahead of those that wait for them (lib/cache/line.h, L3); who is about to change copies waits, for as long
// as engines take. A line whose copies somebody is at work on is left for the next round.
//
// It owns SingleCopies, the jobs with their buffers, and the round under way. It calls the lines, the
// engines' links and the members.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "lib/reactor/reactor.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/engine_set.h"
#include "target/cache/job_memory.h"
#include "target/cache/life.h"
#include "target/cache/lines.h"
#include "target/cache/members.h"
#include "target/cache/single_copies.h"

namespace wss::se {

class Mirror {
  public:
    // What it calls.
    struct Uses {
        Lines& lines;
        EngineSet& engines;
        Members& members;
        CachedVolumes& volumes;
        const JobMemory& memory;
        const Life& life;
    };
    static constexpr uint32_t kJobs = 8;

    Mirror(const Uses& uses, reactor::Reactor& reactor, Turn& turn);
    ~Mirror();
    // Its buffers are those from `first_buffer` on.
    void prepare(uint32_t first_buffer);
    void tick();

    SingleCopies& single() noexcept { return single_; }
    // Lines that have one copy and shall have two; of a volume that is open or absent.
    uint64_t single_lines(uint32_t number) const;

  private:
    struct Job;
    bool may_copy() const;
    uint64_t all_single_lines() const;
    void tell(uint64_t lines);
    void begin_round();
    void visit(cache::Line& line, Lines::Ended ended);
    void begin_waiting();
    Job* free_job() noexcept;
    bool begin(cache::Line& line, Lines::Ended& ended);
    void fetch(Job& job) noexcept;
    void put(Job& job) noexcept;
    void settle(Job& job) noexcept;
    void submit(Job& job, EngineLink& engine) noexcept;
    void over(Job& job) noexcept;
    EngineLink* engine_of(const Job& job, size_t which) const noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    const Uses uses_;
    cache::Index& index_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    SingleCopies single_;
    std::vector<std::unique_ptr<Job>> jobs_;
    uint32_t walks_ = 0;  // of the round
    Nanoseconds next_round_{};
    std::deque<std::pair<cache::LineKey, Lines::Ended>> waiting_;  // for a job
    Nanoseconds single_since_ = kNever;
    bool told_ = false;
};

}  // namespace wss::se
