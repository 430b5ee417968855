// SPDX-License-Identifier: Apache-2.0
// Destager: brings dirty lines home, and ends flushes when what they wait for is there.
//
// The primary writes dirty pieces into our buffer, we write them to real storage, every copy clears its dirty
// bits, and only then the line counts as clean (lib/cache/header.h, H3). Reads of the line go on meanwhile;
// writes wait. Storage that fails keeps the line dirty; the planner tries again later. A line that was lost
// comes home the same way, from an engine that came back with it (salvage).
//
// All volumes share the jobs. Storage that fails or is silent for one volume, or for a part of it, holds up
// no other volume and no other part:
//   - A volume that has no job always gets the next free one; the others share CacheOptions::destages.
//   - A job that takes longer than kSilentAfter is silent, and is not counted among these: another one goes
//     on elsewhere in the volume. There are kJobsFor times as many jobs for that. A volume leaves twice as
//     many free as it has.
//   - A volume whose storage did not take the last line has one job at a time, beside the silent ones.
//
// Neighbours are fetched together and leave as one write (destage_job.h), but for storage elsewhere, where
// each is in a bay of its own. If that write fails each line is written alone.
//
// It owns the jobs with their buffers, and the queues of lines to be salvaged. It calls the lines, the
// engines' links, the storage nodes, the losses and the volumes' storage; flushes it ends by their tasks.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing per job.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lib/reactor/reactor.h"
#include "target/cache/engine_set.h"
#include "target/cache/job_memory.h"
#include "target/cache/lines.h"
#include "target/cache/losses.h"
#include "target/cache/recovery_run.h"
#include "target/cache/salvage.h"
#include "target/cache/single_copies.h"
#include "target/cache/storage_nodes.h"

namespace wss::se {

class Destager {
  public:
    // What it calls.
    struct Uses {
        Lines& lines;
        EngineSet& engines;
        StorageNodes& nodes;
        Members& members;
        CachedVolumes& volumes;
        Losses& losses;
        SingleCopies& single;
        RecoveryRun& recovery;
        const JobMemory& memory;
        const Life& life;
    };
    Destager(const Uses& uses, reactor::Reactor& reactor, Turn& turn);
    ~Destager();
    static constexpr uint32_t kJobsFor = 4;  // each line that is brought home at a time
    static constexpr Nanoseconds kSilentAfter = from_s(1);
    void prepare(uint32_t destages);

    void tick() noexcept;
    void turn() noexcept {
        if (salvage_due_) salvage();
    }
    bool start(CachedVolume& volume) noexcept;  // whether a job has begun
    // Everything written before is in real storage when `done` is called, which then flushes that. EAGAIN, to
    // clients: see Losses::awaits(). `holds`: commands of the volume wait for it. It fails with EFBIG then,
    // instead of waiting for a volume that follows its storage.
    void flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker, bool holds = false);

    // ---- Lost lines that an engine came back with
    void add_salvage(EngineLink& engine, const wire::CacheHeader& item);
    void engine_returned(const EngineLink& engine);
    void engine_lost(cache::EngineIndex engine) { salvages_.erase(engine.value); }
    uint64_t salvage_checks() const noexcept { return salvage_checks_; }

  private:
    struct Job;
    class Runs;  // destage_job.h
    struct Load {
        uint32_t free = 0, working = 0;  // of all jobs; working: neither free nor silent
        uint32_t of_volume = 0, working_of_volume = 0;
        uint32_t volumes = 0;  // that have a job which works, and this one
    };
    Job* free_job() noexcept;
    Load load_of(const CachedVolume& volume) const noexcept;
    static bool leaves_room(const CachedVolume& volume, const Load& load) noexcept;
    struct Room {
        uint32_t jobs = 0;      // that may begin
        uint32_t together = 1;  // of a run of neighbours: half of the volume's share
        bool grows = false;     // when those end that work for the volume
    };
    Room room_for(const CachedVolume& volume) noexcept;
    cache::DestagePlanner::Look look_at(const cache::Line& line) const noexcept;
    void note_silent() noexcept;
    void start_all() noexcept;
    bool is_refused(CachedVolume& volume, const Job& job) noexcept;
    bool follows_storage(CachedVolume& volume) noexcept;
    void begin_job(Job& job, CachedVolume& volume, cache::Line& line, cache::Access access) noexcept;
    bool choose_copy(Job& job, cache::Slot& slot) noexcept;
    void entered(Job& job) noexcept;
    void count_stored(Job& job, uint64_t bytes) noexcept;
    cache::Pieces next_run(Job& job) const noexcept;
    void go_on(Job& job) noexcept;
    void step(Job& job) noexcept;
    bool store_from_bay(Job& job, uint64_t at, uint32_t begin, uint64_t length) noexcept;
    void done(Job& job, int error) noexcept;
    // Of what a flush waits for; 0: none.
    struct Failure {
        int plain = 0;
        int holding = 0;  // … that holds the volume's commands
    };
    void check_flushes(CachedVolume& volume, Failure failure) noexcept;
    void fail_flushes() noexcept;
    SalvageQueue& salvage_of(const EngineLink& engine);
    void salvage() noexcept;
    void salvage_again() noexcept;
    bool start_salvage(Job& job, const SalvageQueue::Item& item) noexcept;
    cache::Pieces salvageable(const SalvageQueue::Item& item) const noexcept;
    uint64_t end_of(const SalvageQueue::Item& item, cache::Pieces pieces) const noexcept;
    void salvage_failed(Job& job) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void stored_from_bay(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;

    const Uses uses_;
    cache::Index& index_;
    const cache::LineGeometry geometry_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    std::vector<std::unique_ptr<Job>> jobs_;  // by number
    std::unique_ptr<Runs> runs_;
    uint32_t destages_ = 0;
    bool short_of_jobs_ = false;  // since a volume got none
    uint32_t next_volume_ = 0;    // which start_all() begins with
    bool salvage_due_ = false;
    uint64_t salvage_checks_ = 0;
    std::map<size_t, SalvageQueue> salvages_;  // by number of the engine that came back
};

}  // namespace wss::se
