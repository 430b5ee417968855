// SPDX-License-Identifier: Apache-2.0
// Job: one line that the destager writes to real storage. Runs: the groups of neighbouring lines that are
// stored together.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "target/cache/destager.h"

namespace wss::cache {

// Neighbouring lines that are stored with one write. Their jobs have adjacent numbers, and so adjacent
// buffers. First all lines are fetched. Then dirty data that continues from one line into the next without a
// gap is stored by one request. A job leaves the run if its line is no longer dirty. It leaves the run and
// continues alone if it waits for its line, or if it waits for its engine longer than kPatience, because
// writers of the other lines wait for the run.
class Destager::Runs {
  public:
    // Jobs that began together. Their `count` numbers start with `first`. Jobs that have left the run are not
    // included.
    struct Run {
        Run()
            : patience(
                  [](void* run) noexcept { static_cast<Run*>(run)->owner->part(*static_cast<Run*>(run)); },
                  this) {}
        Runs* owner = nullptr;
        uint32_t first = 0, count = 0;
        uint32_t fetching = 0;  // jobs that are fetching, plus 1 while jobs begin or are stored; 0: unused
        reactor::Timer patience;
    };

    // If no run is unused, a line is destaged alone.
    Runs(Destager& destager, size_t jobs);
    ~Runs();
    // Requires a free job. Begins with as many lines as there are adjacent free numbers.
    void begin(CachedVolume& volume, std::span<Line* const> lines) noexcept;
    static void leave(Job& job) noexcept;
    // The fetch of this job's line has ended, successfully or not.
    void fetched(Job& job) noexcept;

  private:
    uint32_t free_numbers(uint32_t wanted, uint32_t& found) const noexcept;
    void part(Run& run) noexcept;
    void store(Run& run) noexcept;
    uint32_t neighbours(const Job& job, const Run* run, uint32_t most) const noexcept;
    void store_together(Job& job, uint32_t count) noexcept;
    static void stored(io::Request& io) noexcept;

    static constexpr Nanoseconds kPatience = from_ms(20);

    Destager& destager_;
    std::vector<std::unique_ptr<Job>>& jobs_;
    std::vector<std::unique_ptr<Run>> runs_;
};

// Phases: kFetch: the primary writes the dirty sub-blocks to `buffer` or `staging` → kStore: they are written
// to real storage → kClear: headers are written.
// A lost line is destaged in the same way, but from an arena slot of an engine that is not a member, and
// without kClear.
struct Destager::Job : LineUser {
    enum class Phase : uint8_t { kFetch, kStore, kClear };

    Destager* owner = nullptr;
    std::byte* buffer = nullptr;  // one line
    StagingBuffer staging;        // used instead of `buffer` for real storage on another node
    bool busy = false;
    Nanoseconds since;    // when the job began
    bool silent = false;  // busy for longer than kSilentAfter
    bool again = false;   // the line was deferred before

    CachedVolume* volume = nullptr;
    Gate::Holder place;  // in the volume's gate
    Line* line = nullptr;
    LineKey key;
    LineOp op;
    Index::Destage token;
    SubBlocks left;    // still to be stored
    EngineIndex from;  // the primary
    Phase phase = Phase::kFetch;
    bool begun = false, failed = false;
    bool salvage = false;
    SalvageQueue::Item item;  // for salvage: the location of the copy
    int error = 0;
    uint64_t changes = 0;  // StorageNodes::changes() when it began
    uint32_t outstanding = 0;
    uint32_t number = 0;       // in the destager; adjacent numbers have adjacent buffers
    Runs::Run* run = nullptr;  // until all lines are fetched, or this job leaves the run; nullptr: none
    uint32_t merged = 1;       // number of jobs, starting with this one, whose lines this job's request
                               // stores
    std::array<Transfer, kHoldersMax> transfers;
    io::Request io;
    // The volume ends at byte `end`, within this sub-block. The rest of the sub-block is not stored.
    struct {
        SubBlocks last;
        uint64_t end = 0;
    } cut_off;
};

}  // namespace wss::cache
