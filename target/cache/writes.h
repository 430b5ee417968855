// SPDX-License-Identifier: Apache-2.0
// Writes: the write path. It carries out the plan of lib/cache/policy.h for each line: write to real storage,
// to engines, or to both at once.
//
// When an engine fails during a write, the write starts again through a buffer of the target, to real storage
// and to the remaining copies. Its lines stay entered during that time, so no other command reads an
// intermediate state.
//
// It owns the writes that wait for the membership. It calls the commands, the lines, the links to engines,
// the storage nodes, the members and the losses.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing, except for a write that is given up.
#pragma once

#include "target/cache/commands.h"
#include "target/cache/losses.h"
#include "target/cache/members.h"
#include "target/cache/single_copies.h"

namespace wss::cache {

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

    // Requires that the command's lines are entered.
    void run(CacheCommand& command) noexcept;
    // Continues when the command has the buffer that it requested.
    void start(CacheCommand& command) noexcept;
    void give_up(CacheCommand& command, const CacheOutcome& outcome) noexcept;
    // Acknowledges the writes that wait for the membership, which is now on stable storage (SE2).
    void membership_saved() noexcept;
    // Fails those waiting writes that belong to `volume`, which is being removed.
    void wait_no_more(const CachedVolume& volume) noexcept;
    // The owners of cancelled writes no longer wait for the membership.
    void end_cancelled() noexcept;

  private:
    void plan_line(CacheCommand& command, LinePart& line) noexcept;
    bool engine_leaves(const LinePart& line) const noexcept;
    bool refuse_lost(CacheCommand& command) noexcept;
    void update_copies(CacheCommand& command, LinePart& line, bool from_client) noexcept;
    void store_from_client(CacheCommand& command, bool fua) noexcept;
    void one_over(CacheCommand& command) noexcept;
    void part_over(CacheCommand& command) noexcept;
    void settle(CacheCommand& command) noexcept;
    static bool may_differ(const LinePart& line) noexcept;
    void repair(CacheCommand& command) noexcept;
    void repaired(CacheCommand& command) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;
    static void stored(Transfer& transfer, wire::CacheStatus status) noexcept;

    Commands& commands_;
    Index& index_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    Members& members_;
    Losses& losses_;
    SingleCopies& single_;
    reactor::Reactor& reactor_;
    List<CacheCommand> unacknowledged_;  // SE2: writes that wait for the membership
};

}  // namespace wss::cache
