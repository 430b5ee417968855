// SPDX-License-Identifier: Apache-2.0
// Commands: the common part of reads and writes of the cache. It allocates and releases command objects
// (CacheCommand), enters and leaves their lines, starts their transfers and storage operations, and reports
// their outcome.
//
// It owns the command objects, also those of other reactors. It calls the lines, the links to engines, the
// storage nodes, the volume's gate and storage, and the CommandOwner of each command. It does not know the
// path of a command: the caller names the function that runs after a transfer or a storage operation.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing per command.
#pragma once

#include <memory>
#include <vector>

#include "lib/reactor/reactor.h"
#include "target/cache/cache_command.h"
#include "target/cache/clients.h"
#include "target/cache/command_pool.h"
#include "target/cache/life.h"
#include "target/cache/lines.h"
#include "target/cache/storage_nodes.h"

namespace wss::cache {

class Commands {
  public:
    Commands(Lines& lines, EngineSet& engines, StorageNodes& nodes, const Life& life,
             reactor::Reactor& reactor)
        : lines_(lines),
          index_(lines.index()),
          geometry_(lines.geometry()),
          engines_(engines),
          nodes_(nodes),
          life_(life),
          reactor_(reactor) {}
    // `paths`: the same for all commands.
    void prepare(uint32_t commands, uint32_t lines_per_command, const CommandPaths& paths);

    // ---- Command objects
    // Takes a command object of the cache's own reactor; see CommandPool::take().
    CacheCommand* take(CachedVolume& volume, const CommandShareRef& share) noexcept;
    // Makes the command objects of another reactor, as many as the cache's reactor has. `home` takes them
    // back.
    CommandPool& make_pool(CommandHome& home);
    // A forwarded command has arrived. It belongs to the cache until CommandHome::over().
    void arrived(CacheCommand& command) noexcept;
    void release(CacheCommand& command) noexcept;
    size_t commands() const noexcept { return own_->size(); }
    // Makes `fence` wait for the volume's writes that their owners have abandoned.
    void fence_abandoned(const CachedVolume& volume, const Fence& fence);
    // Detaches the client from its commands, which continue.
    void forget(const Client& client) noexcept;
    // Drops all commands at the end of the cache, which may come while commands wait for recovery or for
    // stable storage.
    void drop_all() noexcept;

    // ---- Lines
    void name_lines(CacheCommand& command) noexcept;
    // Returns false if the command waits for a line, or has ended because the index had no free line. Some of
    // its lines may rest then.
    bool enter_lines(CacheCommand& command) noexcept;
    // Lets engines copy the command's lines while it waits for storage or a buffer (L3).
    static void rest(CacheCommand& command) noexcept;
    // Called when the command is about to change copies. Returns false if engines are still copying its
    // lines, and calls `then` when they have finished.
    bool resume(CacheCommand& command, void (*then)(CacheCommand& command) noexcept) noexcept;
    void resume_lines(CacheCommand& command) noexcept;

    // ---- Endings
    // No command succeeds when the target has left its engines.
    void end(CacheCommand& command, const CacheOutcome& how) noexcept;
    // Notifies the owner (BUSY), which waits no longer. The command continues without it, until end().
    void end_early(CacheCommand& command) noexcept;
    // Ends a command that has not begun.
    void end_unbegun(CacheCommand& command, const CacheOutcome& outcome) noexcept;
    // Ends a command that has not begun, because its volume is being removed.
    void refuse(CacheCommand& command) noexcept;
    // The cache's part has ended: the command no longer refers to lines, engines or storage. part_over()
    // follows after the owner was notified.
    void finish_part(CacheCommand& command) noexcept;
    void part_over(CacheCommand& command) noexcept;

    // ---- Transfers
    // Sets the slot, `done` and `context`. The caller fills in the rest of the move and submits the transfer.
    Transfer& next_transfer(CacheCommand& command, LinePart& line, ArenaSlot slot,
                            Transfer::Done done) noexcept;
    void note_failed(CacheCommand& command, const Transfer& transfer) noexcept;
    // True if the copies to which the line's transfers went still belong to the line: no engine was lost and
    // replaced, or was released while the transfers were in flight.
    bool still_there(const LinePart& line) noexcept;
    // True if the client is connected to the engine, and the engine may move all of the command's data.
    bool attached(const CacheCommand& command, ArenaSlot slot) noexcept;
    std::array<std::byte, wire::kCacheHeaderBytes> header_bytes(const LinePart& line, ArenaSlot slot,
                                                                const CachedVolume& volume, SubBlocks valid,
                                                                SubBlocks dirty, uint64_t generation);

    // ---- Real storage
    void start_storage(CacheCommand& command, io::Op op, void (*done)(io::Request& io) noexcept) noexcept;
    static void note_error(CacheCommand& command, const io::Request& io) noexcept;
    // True if the client is connected to the storage process of the volume, so that the two can move the data
    // directly. remote_io() prepares such a transfer. The caller submits it.
    bool reaches_storage(const CacheCommand& command) noexcept;
    Transfer& remote_io(CacheCommand& command, wire::CacheStorage::Op op, Transfer::Done done) noexcept;

    // Visits the command objects of the cache's reactor, also unused ones, and the forwarded commands.
    template <typename Visit>
    void for_each(Visit&& visit) noexcept {
        own_->for_each(visit);
        forwarded_.for_each(visit);
    }

  private:
    bool is_wide(const CachedVolume& volume) noexcept;
    void leave_lines(CacheCommand& command) noexcept;

    Lines& lines_;
    Index& index_;
    const LineGeometry geometry_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    const Life& life_;
    reactor::Reactor& reactor_;
    CommandPaths paths_;
    uint32_t lines_per_command_ = 0;
    std::unique_ptr<CommandPool> own_;
    std::vector<std::unique_ptr<CommandPool>> others_;  // command objects of other reactors
    List<CacheCommand, ForwardedTag> forwarded_;        // commands of other reactors that the cache has
};

}  // namespace wss::cache
