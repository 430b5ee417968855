// SPDX-License-Identifier: Apache-2.0
// Commands: what reads and writes of the cache have in common. Works are taken and released here; their lines
// are entered and left, their transfers and storage operations begun, their ends reported.
//
// It owns the works. It calls the lines, the engines' links, the storage nodes, the volume's gate and
// storage, and the WorkOwner of each work. It does not know which way a command goes: what follows a transfer
// or a storage operation is named by who begins it.
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
    // `paths`: what never changes of a work.
    void prepare(uint32_t works, uint32_t lines_per_work, const WorkPaths& paths);

    // ---- Works
    // `share`: of the session that asks; empty: nobody's.
    Work* take(CachedVolume& volume, const WorkShareRef& share) noexcept;
    void release(Work& work) noexcept;
    size_t works() const noexcept { return works_.size(); }
    // Waits for the volume's writes whose owners have left them.
    void fence_abandoned(const CachedVolume& volume, const Fence& fence);
    // Its commands go on without it.
    void forget(const Client& client) noexcept;
    // The end: the cache may end while commands wait for recovery or for stable storage.
    void drop_all() noexcept;

    // ---- Lines
    void name_lines(Work& work) noexcept;
    // False: a line is waited for, or the work has ended since there was none. Some may rest.
    bool enter_lines(Work& work) noexcept;
    // L3: it waits for storage or a buffer; … before it changes copies. False: `then` is called, in engines'
    // time.
    static void rest(Work& work) noexcept;
    bool resume(Work& work, void (*then)(Work& work) noexcept) noexcept;
    void resume_lines(Work& work) noexcept;

    // ---- Endings
    void end(Work& work, const Ending& ending) noexcept;
    // It has not begun and does not; … its volume is being removed.
    void end_unbegun(Work& work, const Ending& ending) noexcept;
    void refuse(Work& work) noexcept;
    // Our part is over: nothing of the work refers to lines, engines or storage. Then, when its owner was
    // notified, part_over().
    void finish_part(Work& work) noexcept;
    void part_over(Work& work) noexcept;

    // ---- Transfers
    // Filled in by the caller but for the slot and `done`.
    Transfer& next_transfer(Work& work, LineWork& line, cache::Slot slot, Transfer::Done done) noexcept;
    void note_failed(Work& work, const Transfer& transfer) noexcept;
    // The copies that the line's transfers went to are still its copies: no engine was lost and replaced.
    bool still_there(const LineWork& line) noexcept;
    // The client reaches the engine, which may move all of the command's data.
    bool attached(const Work& work, cache::Slot slot) noexcept;
    std::array<std::byte, wire::kCacheHeaderBytes> header_bytes(const LineWork& line, cache::Slot slot,
                                                                const CachedVolume& volume,
                                                                cache::Pieces valid, cache::Pieces dirty,
                                                                uint64_t generation);

    // ---- Real storage
    void start_storage(Work& work, io::Op op, void (*done)(io::Request& io) noexcept) noexcept;
    static void note_error(Work& work, const io::Request& io) noexcept;
    // On another node, straight between it and the client.
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
