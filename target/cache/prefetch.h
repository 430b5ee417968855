// SPDX-License-Identifier: Apache-2.0
// Prefetch: loads lines into engines ahead of a sequential reader (lib/cache/readahead.h).
//
// Each line is loaded by a command of its own, without a client. A miss is read from real storage into a
// buffer of the target, from which an engine reads it, like any other fill. With real storage on another node
// the data may go directly to the engine (Reads::stage()). A reader that arrives earlier waits for the line,
// which it would otherwise have to read itself. A line that cannot start at once waits in a short queue. If
// the queue is full, the line is left to the reader's own miss.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing after prepare().
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/cache/geometry.h"
#include "lib/cache/readahead.h"
#include "target/cache/cache_command.h"
#include "target/cache/cached_volume.h"
#include "target/cache/nets.h"
#include "target/cache/recovery_run.h"

namespace wss::cache {

// Allocates, starts and releases the commands of read-ahead.
class CommandSource {
  public:
    virtual CacheCommand* take_command(CachedVolume& volume, const CommandShareRef& share) noexcept = 0;
    virtual void begin(CacheCommand& command) noexcept = 0;
    virtual void buffer_ready(CacheCommand& command, std::byte* buffer,
                              const BufferRegions& regions) noexcept = 0;
    virtual void release(CacheCommand& command) noexcept = 0;

  protected:
    ~CommandSource() = default;
};

class Prefetch final : public CommandOwner, public BufferHome {
  public:
    static constexpr uint32_t kBuffers = 32;  // number of buffers, each for one line; limits the lines that
                                              // are being loaded

    // `commands` outlives it, and has ended its commands before it is destroyed.
    Prefetch(CommandSource& commands, const RecoveryRun& recovery, const LineGeometry& geometry)
        : commands_(commands), recovery_(recovery), geometry_(geometry) {}
    Status prepare(const Nets& nets);

    // A client reads this range of the volume. The volume is served and not frozen.
    void reads(CachedVolume& volume, Stretch stretch) noexcept;
    // Drops the waiting lines of the volume.
    void forget(const CachedVolume& volume) noexcept;
    // Begins as many waiting lines as there are buffers; returns their number.
    size_t turn() noexcept;
    bool wants_turn() const noexcept { return waiting_ > 0 && !free_.empty(); }

    void need_buffer(CacheCommand& command) noexcept override;
    void delegated(CacheCommand&) noexcept override;
    void answered(CacheCommand&) noexcept override;
    void ended(CacheCommand& command, const CacheOutcome& outcome) noexcept override;
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

    CommandSource& commands_;
    const RecoveryRun& recovery_;
    const LineGeometry geometry_;
    std::unique_ptr<std::byte, FreeBuffer> memory_;
    std::unique_ptr<BufferRegions> regions_;
    std::vector<std::byte*> free_;
    std::array<Wanted, 2 * kBuffers> queue_;  // a ring
    uint32_t first_ = 0, waiting_ = 0;
};

}  // namespace wss::cache
