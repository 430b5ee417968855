// SPDX-License-Identifier: Apache-2.0
// Eraser: lines that go. Those of a volume that is gone are wiped in their engines; so are those beyond the
// end of a volume that became smaller, and the line in which it ends is cut.
//
// It owns the erasures under way. It calls the lines and the engines' links; the end of a cut it reports by
// the task that came with it.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "lib/base/gate.h"
#include "target/cache/engine_set.h"
#include "target/cache/job_memory.h"
#include "target/cache/lines.h"

namespace wss::se {

class Eraser {
  public:
    Eraser(Lines& lines, EngineSet& engines, const JobMemory& memory, Turn& turn);
    ~Eraser();

    // All lines of a volume, some each turn; `removal` is empty for one that is not open. `done` is called
    // when that is over.
    void wipe(uint32_t number, Gate::Holder removal, std::function<void()> done);
    // What `keep` bytes of the line leave. `ended` is called when that is over.
    void cut(cache::Line& line, uint32_t keep, uint64_t wwid, std::function<void()> ended);
    // Frees erasures that are over.
    void turn() noexcept {
        if (!erases_.empty()) free_over();
    }

  private:
    struct Erase;
    std::unique_ptr<Erase> erase_of(cache::Line& line);
    void begin(std::unique_ptr<Erase> erase);
    void entered(Erase& erase) noexcept;
    void trim(Erase& erase) noexcept;
    void over(Erase& erase) noexcept;
    void free_over() noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void trim_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    Lines& lines_;
    cache::Index& index_;
    const cache::LineGeometry geometry_;
    EngineSet& engines_;
    const JobMemory& memory_;
    Turn& turn_;
    std::list<std::unique_ptr<Erase>> erases_;
};

}  // namespace wss::se
