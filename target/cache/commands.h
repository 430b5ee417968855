// SPDX-License-Identifier: Apache-2.0
// Commands: the common part of reads and writes of the cache. It allocates and releases command objects
// (Work), enters and leaves their lines, starts their transfers and storage operations, and reports their
// outcome.
//
// It owns the command objects. It calls the lines, the links to engines, the storage nodes, the volume's gate
// and storage, and the WorkOwner of each command. It has no notion of the path of a command: the caller names
// the function to run after a transfer or a storage operation.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing per command.
#pragma once

#include <memory>
#include <vector>

#include "lib/reactor/reactor.h"
#include "target/cache/clients.h"
#include "target/cache/lines.h"
#include "target/cache/storage_nodes.h"
#include "target/cache/work.h"

namespace wss::se {

class Commands {
  public:
    Commands(Lines& lines, EngineSet& engines, StorageNodes& nodes, reactor::Reactor& reactor)
        : lines_(lines),
          index_(lines.index()),
          geometry_(lines.geometry()),
          engines_(engines),
          nodes_(nodes),
          reactor_(reactor) {}
    // `paths`: the same for all commands.
    void prepare(uint32_t works, uint32_t lines_per_work, const WorkPaths& paths);

    // ---- Command objects
    // `share`: of the requesting session; empty for commands of the cache itself. nullptr: no command object
    // is free for this volume or session now.
    Work* take(CachedVolume& volume, const WorkShareRef& share) noexcept;
    void release(Work& work) noexcept;
    size_t works() const noexcept { return works_.size(); }
    // Waits for the volume's writes that their owners have abandoned.
    void fence_abandoned(const CachedVolume& volume, const Fence& fence);
    // Detaches the client from its commands, which continue.
    void forget(const Client& client) noexcept;
    // Drops all commands at the end of the cache, which may come while commands wait for recovery or for
    // stable storage.
    void drop_all() noexcept;

    // ---- Lines
    void name_lines(Work& work) noexcept;
    // False: the command waits for a line, or has ended because the index had no free line. Some lines may
    // rest.
    bool enter_lines(Work& work) noexcept;
    // L3. rest(): the command waits for storage or a buffer. resume(): it is about to change copies; if
    // false, `then` is called later, after engines have ended their operations.
    static void rest(Work& work) noexcept;
    bool resume(Work& work, void (*then)(Work& work) noexcept) noexcept;
    void resume_lines(Work& work) noexcept;

    // ---- Endings
    void end(Work& work, const Ending& ending) noexcept;
    // Ends a command that has not begun; refuse(): because its volume is being removed.
    void end_unbegun(Work& work, const Ending& ending) noexcept;
    void refuse(Work& work) noexcept;
    // The cache's part is over: the command no longer refers to lines, engines or storage. After the owner
    // was notified, part_over() follows.
    void finish_part(Work& work) noexcept;
    void part_over(Work& work) noexcept;

    // ---- Transfers
    // The caller fills in the rest, except slot and `done`.
    Transfer& next_transfer(Work& work, LineWork& line, cache::Slot slot, Transfer::Done done) noexcept;
    void note_failed(Work& work, const Transfer& transfer) noexcept;
    // True if the copies that the line's transfers went to are still its copies: no engine was lost and
    // replaced.
    bool still_there(const LineWork& line) noexcept;
    // True if the client is connected to the engine, and the engine may move all of the command's data.
    bool attached(const Work& work, cache::Slot slot) noexcept;
    std::array<std::byte, wire::kCacheHeaderBytes> header_bytes(const LineWork& line, cache::Slot slot,
                                                                const CachedVolume& volume,
                                                                cache::Pieces valid, cache::Pieces dirty,
                                                                uint64_t generation);

    // ---- Real storage
    void start_storage(Work& work, io::Op op, void (*done)(io::Request& io) noexcept) noexcept;
    static void note_error(Work& work, const io::Request& io) noexcept;
    // Real storage on another node, directly between it and the client.
    bool reaches_storage(const Work& work) noexcept;
    Transfer& remote_io(Work& work, wire::CacheStorage::Op op, Transfer::Done done) noexcept;

  private:
    bool is_wide(const CachedVolume& volume) noexcept;
    void leave_lines(Work& work) noexcept;

    Lines& lines_;
    cache::Index& index_;
    const cache::LineGeometry geometry_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    reactor::Reactor& reactor_;
    std::vector<std::unique_ptr<Work>> works_;
    List<Work> free_;
    uint32_t free_count_ = 0;
    uint32_t lines_per_work_ = 0;
};

}  // namespace wss::se
