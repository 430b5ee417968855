// SPDX-License-Identifier: Apache-2.0
// A line that the destager brings home, and neighbours that go together.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "target/cache/destager.h"

namespace wss::se {

// Neighbours that leave as one write. Their jobs have numbers side by side, and so buffers that lie side by
// side. All of them are fetched; then what is dirty without a gap from one line into the next is one request
// to storage. A job leaves the run and goes on alone if it waits for its line, has nothing to bring home any
// more, or waits for its engine longer than kPatience: writers of the other lines wait for the run.
class Destager::Runs {
  public:
    // Jobs that began together: those of `count` numbers from `first` on, less those that did without.
    struct Run {
        Run()
            : patience(
                  [](void* run) noexcept { static_cast<Run*>(run)->owner->part(*static_cast<Run*>(run)); },
                  this) {}
        Runs* owner = nullptr;
        uint32_t first = 0, count = 0;
        uint32_t fetching = 0;  // and 1 while they begin, or are stored; 0: unused
        reactor::Timer patience;
    };

    // Without a run that is unused a line goes home alone.
    Runs(Destager& destager, size_t jobs);
    ~Runs();
    // There is a free job. Begins with as many lines as there are numbers side by side.
    void begin(CachedVolume& volume, std::span<cache::Line* const> lines) noexcept;
    static void leave(Job& job) noexcept;
    // It is, or that failed.
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

//   kFetch: the primary writes the dirty pieces to `buffer` or `bay` → kStore: to real storage → kClear:
//   headers
// A line that was lost comes home the same way, from a slot of an engine that is no member, without the end.
struct Destager::Job : LineUser {
    enum class Phase : uint8_t { kFetch, kStore, kClear };

    Destager* owner = nullptr;
    std::byte* buffer = nullptr;  // of a line
    Bay bay;                      // … instead, for real storage on another node
    bool busy = false;
    Nanoseconds since;    // it is busy
    bool silent = false;  // for kSilentAfter
    bool again = false;   // the line was deferred

    CachedVolume* volume = nullptr;
    Gate::Holder place;  // in its gate
    cache::Line* line = nullptr;
    cache::LineKey key;
    cache::LineOp op;
    cache::Index::Destage token;
    cache::Pieces left;       // to be stored
    cache::EngineIndex from;  // the primary
    Phase phase = Phase::kFetch;
    bool begun = false, failed = false;
    bool salvage = false;
    SalvageQueue::Item item;  // of salvage: where the copy is
    int error = 0;
    uint64_t changes = 0;  // of storage elsewhere, when it began
    uint32_t outstanding = 0;
    uint32_t number = 0;       // in the destager; buffers of numbers side by side lie side by side
    Runs::Run* run = nullptr;  // until all of it is fetched, or this one does without; nullptr: none
    uint32_t merged = 1;       // numbers from this one on, whose lines this one's request stores
    std::array<Transfer, cache::kHoldersMax> transfers;
    io::Request io;
    // The volume ends, at byte `end`, within a piece: the rest of that is not stored.
    struct {
        cache::Pieces piece;
        uint64_t end = 0;
    } cut_off;
};

}  // namespace wss::se
