// SPDX-License-Identifier: Apache-2.0
// Mirror: makes second copies of dirty lines that have only one copy left (SingleCopies), because an engine
// was lost or the target restarted. Such lines are destaged first. But real storage may reject them for
// hours, or the volume may not be open, and until then the loss of one more engine would lose acknowledged
// data.
//
// The first holder writes the dirty sub-blocks to a buffer of the target. The second holder reads them from
// there and stores them in one step with a header that claims them. Copying runs concurrently with reads,
// destaging and operations that wait for storage, and before operations that wait for those
// (lib/cache/line.h, L3). An operation that is about to change copies waits until engines have copied the
// line. A line whose copies are being changed is left for the next round.
//
// It owns SingleCopies, the jobs, whose buffers are in JobMemory, and the current round. It calls the lines,
// the links to engines and the members.
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

namespace wss::cache {

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
    // Uses the buffers of JobMemory, starting with `first_buffer`.
    void prepare(uint32_t first_buffer);
    void tick();

    SingleCopies& single() noexcept { return single_; }
    // Number of lines that have one copy and should have two, of an open or absent volume.
    uint64_t single_lines(uint32_t number) const;

  private:
    struct Job;
    bool may_copy() const;
    uint64_t all_single_lines() const;
    void log_single(uint64_t lines);
    void begin_round();
    void visit(Line& line, Lines::Ended ended);
    void begin_waiting();
    Job* free_job() noexcept;
    bool begin(Line& line, Lines::Ended& ended);
    void fetch(Job& job) noexcept;
    void put(Job& job) noexcept;
    void settle(Job& job) noexcept;
    void submit(Job& job, EngineLink& engine) noexcept;
    void over(Job& job) noexcept;
    EngineLink* engine_of(const Job& job, size_t which) const noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    const Uses uses_;
    Index& index_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    SingleCopies single_;
    std::vector<std::unique_ptr<Job>> jobs_;
    uint32_t walks_ = 0;  // walks of the round
    Nanoseconds next_round_{};
    std::deque<std::pair<LineKey, Lines::Ended>> waiting_;  // lines that wait for a job
    Nanoseconds single_since_ = kNever;
    bool logged_ = false;
};

}  // namespace wss::cache
