// SPDX-License-Identifier: Apache-2.0
// Reach: the way from real storage (RS) to the engines with lines. The RS connects to each engine that its SE
// names, as clients do, with a token of its own; the engine WRITEs what is brought home to the RS's *bays*,
// and READs what it is to hold from there. The bays are one stretch of memory, of which the SE disposes: we
// only see to it that a disk operation stays inside.
//
// Rules
//  RE1  Bays are reached by these connections and no other: they are registered with a fabric (protection
//       domain) of their own, which has no listener.
//  RE2  What an SE named is answered by kEngineGone once: when nothing of that engine can reach the bays any
//       more. Until then the SE uses no bay again of which it does not know that the engine is done with it.
//  RE3  When the link to the SE is over all connections end, and we join again after that: a new SE, or one
//       that has given us up, finds bays that nobody writes.
//
// Thread-safety: belongs to the engine's reactor.
#pragma once

#include <list>

#include "lib/cache/engine/engine_parts.h"

namespace wss::cache {

class Engine::Reach {
  public:
    static Result<std::unique_ptr<Reach>> create(SeLink& link, const Net& net, std::span<std::byte> bays);
    ~Reach();

    void introduce(RecordLink& link) noexcept;
    // A kEngine; false: nobody may say this.
    bool named(const wire::Record& record) noexcept;
    // Memory of a disk operation; nullptr: not inside.
    std::byte* bay(uint64_t offset, uint64_t bytes) const noexcept;
    void close_all() noexcept;
    // Forgets connections that are over.
    size_t turn() noexcept;
    bool is_quiet() const noexcept { return channels_.empty(); }

  private:
    class Channel;
    Reach(SeLink& link, const Net& net, std::span<std::byte> bays);
    void close(uint16_t index) noexcept;

    SeLink& link_;
    const Net net_;
    const std::span<std::byte> bays_;
    std::unique_ptr<fabric::Region> region_;
    std::list<std::unique_ptr<Channel>> channels_;
    bool some_over_ = false;
};

}  // namespace wss::cache
