// SPDX-License-Identifier: Apache-2.0
// Prefetch: brings lines into engines before a sequential reader asks for them (lib/cache/readahead.h).
//
// Each line is a work of its own, without a client: what misses is read by real storage into a buffer of ours
// and taken by an engine from there, like any other fill. A reader that is faster waits at the line, which it
// would have had to read itself. What cannot start at once waits in a short queue; what does not fit there is
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

// Where the works of read-ahead come from and go to.
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
    static constexpr uint32_t kBuffers = 32;  // of a line: so many are under way at a time

    // `works` outlives it, and has ended its works when it dies.
    Prefetch(WorkSource& works, const RecoveryRun& recovery, const cache::LineGeometry& geometry)
        : works_(works), recovery_(recovery), geometry_(geometry) {}
    Status prepare(const Nets& nets);

    // A client reads this of the volume, which is served and not frozen.
    void reads(CachedVolume& volume, cache::Stretch stretch) noexcept;
    // What waits is not begun.
    void forget(const CachedVolume& volume) noexcept;
    // Begins what there are buffers for; how many.
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
