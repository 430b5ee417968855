// SPDX-License-Identifier: Apache-2.0
// Reads: the read path. A hit of a client that is connected to the engines is delegated. Each engine writes
// its part directly to the client's memory, and the last RDMA WRITE of each part carries the command's tag as
// its immediate value. The client considers the command complete when it has all bytes. The target sends no
// response. Engines report completions in batches. A miss is read from real storage. The lines are filled
// after the client was answered.
//
//   hit.cc         the fast path, which most reads take
//   reads.cc       delegated hits, hits through the target, misses, fills
//   reads_past.cc  misses of volumes whose real storage is on another node
//
// It has no state of its own. It calls the commands, the lines, the links to engines, the storage nodes and
// the losses.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing.
#pragma once

#include "target/cache/commands.h"
#include "target/cache/life.h"
#include "target/cache/losses.h"

namespace wss::cache {

class Reads {
  public:
    Reads(Commands& commands, Lines& lines, EngineSet& engines, StorageNodes& nodes, Losses& losses,
          const Life& life)
        : commands_(commands),
          lines_(lines),
          index_(lines.index()),
          geometry_(lines.geometry()),
          engines_(engines),
          nodes_(nodes),
          losses_(losses),
          life_(life) {}

    // The fast path. Returns false if it does not apply; it has then changed nothing.
    bool hit(CacheCommand& command) noexcept;
    // The full path. Requires that the command's lines are entered.
    void run(CacheCommand& command) noexcept;
    // Called when the command has the buffer that it requested. fetches() is tried first: real storage on
    // another node may answer the client, so that the buffer is used only for the fill. If it returns false,
    // buffer_ready() continues.
    bool fetches(CacheCommand& command) noexcept;
    void buffer_ready(CacheCommand& command) noexcept;

  private:
    void part_over(CacheCommand& command) noexcept;
    bool refuse_lost(CacheCommand& command) noexcept;
    void answer(CacheCommand& command) noexcept;
    bool can_delegate(const CacheCommand& command) noexcept;
    bool may_coalesce(const CacheCommand& command) noexcept;
    void coalesced_over(CacheCommand& command) noexcept;
    void begin_delegation(CacheCommand& command) noexcept;
    void delegate_to(CacheCommand& command, LinePart& line, uint32_t at, Transfer& transfer) noexcept;
    void delegate(CacheCommand& command) noexcept;
    void gather(CacheCommand& command) noexcept;
    void start_storage(CacheCommand& command) noexcept;
    void overlay(CacheCommand& command) noexcept;
    bool wants_fill(const LinePart& line) const noexcept;
    bool may_fill(const CacheCommand& command, const LinePart& line) const noexcept;
    void fill(CacheCommand& command) noexcept;
    void fill_over(CacheCommand& command) noexcept;
    void fill_failed(CacheCommand& command, const Transfer& transfer) noexcept;
    void settle_unfilled(CacheCommand& command) noexcept;
    static void hit_over(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;

    // reads_past.cc
    bool can_fetch(const CacheCommand& command) noexcept;
    bool can_stage(const CacheCommand& command) const noexcept;
    void miss(CacheCommand& command) noexcept;
    StagingBuffer staging_for(const CacheCommand& command) noexcept;
    void fetch(CacheCommand& command) noexcept;
    void stage(CacheCommand& command) noexcept;
    static void fetched(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void staged(Transfer& transfer, wire::CacheStatus status) noexcept;

    Commands& commands_;
    Lines& lines_;
    Index& index_;
    const LineGeometry geometry_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    Losses& losses_;
    const Life& life_;
};

}  // namespace wss::cache
