// SPDX-License-Identifier: Apache-2.0
// Destager: writes dirty lines to real storage, and completes flushes when the lines that they wait for are
// there.
//
// The primary writes dirty sub-blocks into a buffer of the target, which writes them to real storage. Then
// every copy clears its dirty bits, and only then the line counts as clean (lib/cache/header.h, H3). In the
// meantime reads of the line continue, and writes wait. If storage fails, the line stays dirty and the
// planner retries later. Lost lines that an engine returns with are destaged in the same way (salvage).
//
// All volumes share the jobs. Storage that fails or does not answer for one volume, or for a part of it, does
// not delay other volumes or other parts:
//   - A volume without a job always gets the next free one. The others share CacheOptions::destages.
//   - A job that takes longer than kSilentAfter is silent and does not count as one of these jobs. Another
//     job continues elsewhere in the volume. For that there are kJobsFor times as many jobs. A volume leaves
//     twice as many jobs free as it has.
//   - A volume whose storage rejected the last line has one job at a time, apart from the silent ones.
//
// Neighbouring lines are fetched together and stored with one write (destage_job.h). With real storage on
// another node each line has its own staging buffer and is stored alone. If the common write fails, each line
// is written alone.
//
// It owns the jobs, whose buffers are in JobMemory, and the queues of lines to be salvaged. It calls the
// lines, the links to engines, the storage nodes, the losses and the volumes' storage. Flushes end through
// their callbacks.
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

namespace wss::cache {

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
    static constexpr uint32_t kJobsFor = 4;  // jobs for each line that may be destaged at a time
    static constexpr Nanoseconds kSilentAfter = from_s(1);
    void prepare(uint32_t destages);

    void tick() noexcept;
    void turn() noexcept {
        if (salvage_due_) salvage();
    }
    bool start(CachedVolume& volume) noexcept;  // true if a job has begun
    // Calls `done` when all earlier writes are in real storage; the caller then flushes the storage. Fails
    // with EAGAIN for clients while Losses::awaits() is true. `holds`: commands of the volume wait for this
    // flush. If so, it fails with EFBIG instead of waiting for a volume that follows the size of its storage.
    void flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker, bool holds = false,
               const Cancelled* cancelled = nullptr);
    void end_cancelled(CachedVolume& volume) noexcept;

    // ---- Lost lines that an engine returned with
    void add_salvage(EngineLink& engine, const wire::CacheHeader& item);
    void engine_returned(const EngineLink& engine);
    void engine_lost(EngineIndex engine) { salvages_.erase(engine.value); }
    uint64_t salvage_checks() const noexcept { return salvage_checks_; }

  private:
    struct Job;
    class Runs;  // destage_job.h
    struct Load {
        uint32_t free = 0, working = 0;  // free jobs; jobs that are busy and not silent
        uint32_t of_volume = 0, working_of_volume = 0;
        uint32_t volumes = 0;  // number of volumes with a working job, this one included
    };
    Job* free_job() noexcept;
    Load load_of(const CachedVolume& volume) const noexcept;
    static bool leaves_room(const CachedVolume& volume, const Load& load) noexcept;
    struct Room {
        uint32_t jobs = 0;      // jobs that may begin
        uint32_t together = 1;  // longest run of neighbours: half of the volume's share
        bool grows = false;     // more jobs may begin when working jobs of the volume end
    };
    Room room_for(const CachedVolume& volume) noexcept;
    DestagePlanner::Look look_at(const Line& line) const noexcept;
    void note_silent() noexcept;
    void start_all() noexcept;
    bool is_refused(CachedVolume& volume, const Job& job) noexcept;
    bool follows_storage(CachedVolume& volume) noexcept;
    void begin_job(Job& job, CachedVolume& volume, Line& line, Access access) noexcept;
    bool choose_copy(Job& job, ArenaSlot& slot) noexcept;
    void entered(Job& job) noexcept;
    void count_stored(Job& job, uint64_t bytes) noexcept;
    SubBlocks next_run(Job& job) const noexcept;
    void go_on(Job& job) noexcept;
    void step(Job& job) noexcept;
    bool store_from_staging(Job& job, uint64_t at, uint32_t begin, uint64_t length) noexcept;
    void done(Job& job, int error) noexcept;
    // Errors of the destaging that a flush waits for; 0 if there was none.
    struct Failure {
        int plain = 0;
        int holding = 0;  // for a flush that holds the volume's commands
    };
    void check_flushes(CachedVolume& volume, Failure failure) noexcept;
    void fail_flushes() noexcept;
    SalvageQueue& salvage_of(const EngineLink& engine);
    void salvage() noexcept;
    void salvage_again() noexcept;
    bool start_salvage(Job& job, const SalvageQueue::Item& item) noexcept;
    SubBlocks salvageable(const SalvageQueue::Item& item) const noexcept;
    uint64_t end_of(const SalvageQueue::Item& item, SubBlocks sub_blocks) const noexcept;
    void salvage_failed(Job& job) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void stored_from_staging(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;

    const Uses uses_;
    Index& index_;
    const LineGeometry geometry_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    std::vector<std::unique_ptr<Job>> jobs_;  // by number
    std::unique_ptr<Runs> runs_;
    uint32_t destages_ = 0;
    bool short_of_jobs_ = false;  // a volume got no job
    uint32_t next_volume_ = 0;    // the first one that start_all() serves
    bool salvage_due_ = false;
    uint64_t salvage_checks_ = 0;
    std::map<size_t, SalvageQueue> salvages_;  // by index of the engine that returned
};

}  // namespace wss::cache
