// SPDX-License-Identifier: Apache-2.0
// Eraser: wipes lines in their engines: all lines of a volume that was removed, and the lines beyond the end
// of a volume that became smaller. The line in which such a volume now ends is cut.
//
// It owns the active erasures. It calls the lines and the links to engines. It reports the end of a cut
// through the function passed with it.
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

namespace wss::cache {

class Eraser {
  public:
    Eraser(Lines& lines, EngineSet& engines, const JobMemory& memory, Turn& turn);
    ~Eraser();

    // Wipes all lines of a volume, some each turn. `removal` is empty for a volume that is not open. When all
    // lines are wiped, calls `done` and then releases `removal`.
    void wipe(uint32_t number, Gate::Holder removal, std::function<void()> done);
    // Erases the line except for its first `keep` bytes. `ended` is called when that is done.
    void cut(Line& line, uint32_t keep, uint64_t wwid, std::function<void()> ended);
    // Frees completed erasures.
    void turn() noexcept {
        if (!erases_.empty()) free_over();
    }

  private:
    struct Erase;
    std::unique_ptr<Erase> erase_of(Line& line);
    void begin(std::unique_ptr<Erase> erase);
    void entered(Erase& erase) noexcept;
    void trim(Erase& erase) noexcept;
    void over(Erase& erase) noexcept;
    void free_over() noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void trim_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    Lines& lines_;
    Index& index_;
    const LineGeometry geometry_;
    EngineSet& engines_;
    const JobMemory& memory_;
    Turn& turn_;
    std::list<std::unique_ptr<Erase>> erases_;
};

}  // namespace wss::cache
