// SPDX-License-Identifier: Apache-2.0
// Reads. A hit of a client that is connected to the engines is delegated: each engine writes its part
// straight to the client's memory, the last byte of each part carries the command's tag, and the client knows
// that the command is over when all bytes are there. No message of ours answers it; engines report in batches
// what they did. A miss is read from real storage, and fills the lines behind the answer.
//
//   hit.cc         the shortest way, which most reads go
//   reads.cc       hits out of band and through us, misses, filling
//   reads_past.cc  misses of volumes whose real storage is on another node
//
// It owns nothing but the reads under way. It calls the commands, the lines, the engines' links, the storage
// nodes and the losses.
//
// Thread-safety: belongs to the cache's reactor. Allocates nothing.
#pragma once

#include "target/cache/commands.h"
#include "target/cache/life.h"
#include "target/cache/losses.h"

namespace wss::se {

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

    // The short way. False: not this way, and nothing has changed.
    bool hit(Work& work) noexcept;
    // The long one; its lines are entered.
    void run(Work& work) noexcept;
    // … and it has the buffer that it wanted. Real storage elsewhere may answer the client, and the buffer
    // serves the fill only: that is tried first.
    bool fetches(Work& work) noexcept;
    void buffer_ready(Work& work) noexcept;

  private:
    void part_over(Work& work) noexcept;
    bool refuse_lost(Work& work) noexcept;
    void answer(Work& work) noexcept;
    bool can_delegate(const Work& work) noexcept;
    bool may_be_lazy(const Work& work) noexcept;
    void lazy_over(Work& work) noexcept;
    void begin_delegation(Work& work) noexcept;
    void delegate_to(Work& work, LineWork& line, uint32_t at, Transfer& transfer) noexcept;
    void delegate(Work& work) noexcept;
    void gather(Work& work) noexcept;
    void start_storage(Work& work) noexcept;
    void overlay(Work& work) noexcept;
    bool wants_fill(const LineWork& line) const noexcept;
    bool may_fill(const Work& work, const LineWork& line) const noexcept;
    void fill(Work& work) noexcept;
    void fill_over(Work& work) noexcept;
    void fill_failed(Work& work, const Transfer& transfer) noexcept;
    void settle_unfilled(Work& work) noexcept;
    static void hit_over(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void storage_done(io::Request& io) noexcept;

    // reads_past.cc
    bool can_fetch(const Work& work) noexcept;
    bool can_bring(const Work& work) const noexcept;
    void miss(Work& work) noexcept;
    Bay bay_for(const Work& work) noexcept;
    void fetch(Work& work) noexcept;
    void bring(Work& work) noexcept;
    static void fetched(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void brought(Transfer& transfer, wire::CacheStatus status) noexcept;

    Commands& commands_;
    Lines& lines_;
    cache::Index& index_;
    const cache::LineGeometry geometry_;
    EngineSet& engines_;
    StorageNodes& nodes_;
    Losses& losses_;
    const Life& life_;
};

}  // namespace wss::se
