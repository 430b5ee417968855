// SPDX-License-Identifier: Apache-2.0
// Writes. lib/cache/policy.h says what each line needs; here it is done: real storage, engines, or both at
// once.
//
// When an engine fails under a write, the write goes the safe way from its beginning: through our buffer to
// real storage, and to the copies that are left. Lines stay entered meanwhile, so that nobody sees the
// middle.
//
// It owns the writes that wait for the membership. It calls the commands, the lines, the engines' links, the
// storage nodes, the members and the losses.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing, but for a write that is given up.
#pragma once

#include "target/cache/commands.h"
#include "target/cache/losses.h"
#include "target/cache/members.h"
#include "target/cache/single_copies.h"

namespace wss::se {

class Writes {
  public:
    Writes(Commands& commands, Lines& lines, EngineSet& engines, StorageNodes& nodes, Members& members,
           Losses& losses, SingleCopies& single, reactor::Reactor& reactor)
        : commands_(commands),
          index_(lines.index()),
          engines_(engines),
          nodes_(nodes),
          members_(members),
          losses_(losses),
          single_(single),
          reactor_(reactor) {}

    // Its lines are entered.
    void run(Work& work) noexcept;
    // … and it has the buffer that it wanted.
    void start(Work& work) noexcept;
    void give_up(Work& work, const Ending& ending) noexcept;
    // SE2: those that wait for that are acknowledged; … those of a volume that is being removed fail.
    void membership_saved() noexcept;
    void wait_no_more(const CachedVolume& volume) noexcept;

  private:
    void plan_line(Work& work, LineWork& line) noexcept;
    bool engine_leaves(const LineWork& line) const noexcept;
    bool refuse_lost(Work& work) noexcept;
    void update_copies(Work& work, LineWork& line, bool from_client) noexcept;
    void store_from_client(Work& work, bool fua) noexcept;
    void one_over(Work& work) noexcept;
    void part_over(Work& work) noexcept;
    void settle(Work& work) noexcept;
    static bool may_differ(const LineWork& line) noexcept;
    void repair(Work& work) noexcept;
    void repaired(Work& work) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;
    static void stored(Transfer& transfer, wire::CacheStatus status) noexcept;

    Commands& commands_;
    cache::Index& index_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    Members& members_;
    Losses& losses_;
    SingleCopies& single_;
    reactor::Reactor& reactor_;
    List<Work> unacknowledged_;  // SE2: wait for the membership
};

}  // namespace wss::se
