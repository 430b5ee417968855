// SPDX-License-Identifier: Apache-2.0
// Reach: the connections of a storage process (RS) to the cache engines that hold lines. For each engine that
// the SE names, the RS connects as clients do, with a token of its own. The engine WRITEs data to destage
// into the RS's *staging buffers*, and READs data to cache from there. The staging buffers are one memory
// range, which the SE manages. The RS only checks that a disk operation stays inside.
//
// Rules
//  RE1  Only these connections reach the staging buffers: they are registered with a separate fabric
//       (protection domain) that has no listener.
//  RE2  Each kEngine that adds an engine is answered by one kEngineGone, when that engine can no longer
//       access the staging buffers. Until then the SE reuses no staging buffer that the engine may still
//       access.
//  RE3  When the link to the SE ends, all connections are closed, and the RS joins again only after that. So
//       no engine writes to the staging buffers of the next session, with a new SE or with the same one.
//
// Thread-safety: belongs to the engine's reactor.
#pragma once

#include <list>

#include "lib/cache/engine/engine_parts.h"

namespace wss::cache {

class Engine::Reach {
  public:
    static Result<std::unique_ptr<Reach>> create(SeLink& link, const Net& net, std::span<std::byte> staging);
    ~Reach();

    void introduce(RecordLink& link) noexcept;
    // Handles a kEngine record. Returns false if it violates the protocol.
    bool named(const wire::Record& record) noexcept;
    // The staging buffer for a disk operation; nullptr if the range is outside.
    std::byte* staging_buffer(uint64_t offset, uint64_t bytes) const noexcept;
    void close_all() noexcept;
    // Removes closed connections and reports their engines as gone.
    size_t turn() noexcept;
    bool is_quiet() const noexcept { return connections_.empty(); }

  private:
    class EngineConnection;
    Reach(SeLink& link, const Net& net, std::span<std::byte> staging);
    void close(uint16_t index) noexcept;

    SeLink& link_;
    const Net net_;
    const std::span<std::byte> staging_;
    std::unique_ptr<fabric::Region> region_;
    size_t device_ = 0;  // the link's device: the SE passes its rkey to engines
    std::list<std::unique_ptr<EngineConnection>> connections_;
    bool some_over_ = false;
};

}  // namespace wss::cache
