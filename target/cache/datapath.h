// SPDX-License-Identifier: Apache-2.0
// Datapath: takes commands, and starts the read or write path of each when it may begin. It may not begin
// while its volume is frozen (SE3) or recovery may find lines of the volume.
//
// It owns the paths (reads, writes, their common part) and the read-ahead. It calls these, the volumes'
// gates, and the recovery, to check whether it holds the volume.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing per command.
#pragma once

#include "target/cache/commands.h"
#include "target/cache/prefetch.h"
#include "target/cache/reads.h"
#include "target/cache/recovery_run.h"
#include "target/cache/writes.h"

namespace wss::cache {

class Datapath final : public CommandSource {
  public:
    // What it and its parts call.
    struct Uses {
        Lines& lines;
        EngineSet& engines;
        StorageNodes& nodes;
        Members& members;
        Losses& losses;
        SingleCopies& single;
        RecoveryRun& recovery;
        const Life& life;
    };
    Datapath(const Uses& uses, reactor::Reactor& reactor);
    Status prepare(const Nets& nets, uint32_t commands, uint32_t lines_per_command);

    // Takes a command object of the cache's own reactor (command_pool.h). Returns nullptr if none is
    // available now.
    CacheCommand* take_command(CachedVolume& volume, const CommandShareRef& share) noexcept override {
        return commands_.take(volume, share);
    }
    void begin(CacheCommand& command) noexcept override;  // a read or write
    // Like begin(), but for a command of another reactor. Its command objects are in make_pool().
    void begin_forwarded(CacheCommand& command) noexcept {
        commands_.arrived(command);
        begin(command);
    }
    CommandPool& make_pool(CommandHome& home) { return commands_.make_pool(home); }
    void buffer_ready(CacheCommand& command, std::byte* buffer,
                      const BufferRegions& regions) noexcept override;
    void buffer_failed(CacheCommand& command) noexcept;
    // Called by the owner after `ended` or `answered`.
    void release(CacheCommand& command) noexcept override { commands_.release(command); }
    // Like buffer_failed(), but called by an owner that is being destroyed. It is no longer notified of this
    // command.
    void abandon(CacheCommand& command) noexcept;
    // Makes `fence` wait for the volume's abandoned writes.
    void fence_abandoned(const CachedVolume& volume, const Fence& fence) {
        commands_.fence_abandoned(volume, fence);
    }

    // Begins the commands that wait at the volume's gate, for as long as they may begin: one of them may
    // freeze the volume again.
    void begin_held(CachedVolume& volume) noexcept;
    // Ends the commands that wait at the volume's gate with this outcome.
    void end_held(CachedVolume& volume, const CacheOutcome& outcome) noexcept;
    // The volume is being removed: waiting commands fail.
    void refuse_waiting(CachedVolume& volume) noexcept;
    void refuse_unacknowledged(const CachedVolume& volume) noexcept { writes_.wait_no_more(volume); }
    void forget(const Client& client) noexcept { commands_.forget(client); }
    // Ends cancelled commands that wait for recovery, for a frozen volume or for a line: nothing of them has
    // begun. The owners of those that wait only for a saved membership no longer wait.
    void end_cancelled() noexcept;
    void drop_all() noexcept { commands_.drop_all(); }
    void membership_saved() noexcept { writes_.membership_saved(); }
    size_t turn() noexcept { return prefetch_.turn(); }
    bool wants_turn() const noexcept { return prefetch_.wants_turn(); }

  private:
    void count_command(CacheCommand& command) noexcept;
    void admit(CacheCommand& command) noexcept;
    void go_on(CacheCommand& command) noexcept;
    void run(CacheCommand& command) noexcept;
    static void entered(LineUser& user) noexcept;

    Index& index_;
    StorageNodes& nodes_;
    RecoveryRun& recovery_;
    const Life& life_;
    reactor::Reactor& reactor_;
    Commands commands_;
    Reads reads_;
    Writes writes_;
    Prefetch prefetch_;
};

}  // namespace wss::cache
