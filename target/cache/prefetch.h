// SPDX-License-Identifier: Apache-2.0
// Prefetch: loads lines into engines ahead of a sequential reader (lib/cache/readahead.h).
//
// Each line is a command of its own, without a client. A miss is read from real storage into a buffer of the
// target and an engine takes it from there, like any other fill. With real storage on another node it may go
// directly to the engine (Reads::bring()). A faster reader waits for the line, which it would have had to
// read itself. A line that cannot start at once waits in a short queue. If the queue is full, the line is
// left to the reader's own miss.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing after prepare().
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/cache/geometry.h"
#include "lib/cache/readahead.h"
#include "target/cache/cached_volume.h"
#include "target/cache/nets.h"
#include "target/cache/recovery_run.h"
#include "target/cache/work.h"

namespace wss::se {

// Allocates, starts and releases the commands of read-ahead.
class WorkSource {
  public:
    virtual Work* take_work(CachedVolume& volume, const WorkShareRef& share) noexcept = 0;
    virtual void begin(Work& work) noexcept = 0;
    virtual void buffer_ready(Work& work, std::byte* buffer, const BufferRegions& regions) noexcept = 0;
    virtual void release(Work& work) noexcept = 0;

  protected:
    ~WorkSource() = default;
};

class Prefetch final : public WorkOwner, public BufferHome {
  public:
    static constexpr uint32_t kBuffers = 32;  // each of one line; limits the lines being loaded

    // `works` outlives it, and has ended its commands before it is destroyed.
    Prefetch(WorkSource& works, const RecoveryRun& recovery, const cache::LineGeometry& geometry)
        : works_(works), recovery_(recovery), geometry_(geometry) {}
    Status prepare(const Nets& nets);

    // A client reads this range of the volume, which is served and not frozen.
    void reads(CachedVolume& volume, cache::Stretch stretch) noexcept;
    // Drops the waiting lines of the volume.
    void forget(const CachedVolume& volume) noexcept;
    // Begins as many waiting lines as there are buffers; returns their number.
    size_t turn() noexcept;
    bool wants_turn() const noexcept { return waiting_ > 0 && !free_.empty(); }

    void need_buffer(Work& work) noexcept override;
    void delegated(Work&) noexcept override;
    void answered(Work&) noexcept override;
    void ended(Work& work, const Ending& ending) noexcept override;
    void give_back(std::byte* buffer, uint32_t bytes) noexcept override;

  private:
    struct Wanted {
        CachedVolume* volume = nullptr;  // nullptr: forgotten
        Gate::Holder place;              // in its gate
        uint64_t line = 0;
    };
    struct FreeBuffer {
        void operator()(std::byte* memory) const { std::free(memory); }
    };

    bool begin(const Wanted& wanted) noexcept;

    WorkSource& works_;
    const RecoveryRun& recovery_;
    const cache::LineGeometry geometry_;
    std::unique_ptr<std::byte, FreeBuffer> memory_;
    std::unique_ptr<BufferRegions> regions_;
    std::vector<std::byte*> free_;
    std::array<Wanted, 2 * kBuffers> queue_;  // a ring
    uint32_t first_ = 0, waiting_ = 0;
};

}  // namespace wss::se
