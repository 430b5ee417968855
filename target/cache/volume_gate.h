// SPDX-License-Identifier: Apache-2.0
// VolumeGate: the commands that use a volume of the cache, the operations that freeze it, and the time when
// it may be freed.
//
//   command   enter() … begin() … end()      active between begin() and end(); while the volume is frozen it
//                                            waits (hold_back()) for the last thaw()
//   freeze    freeze() … when_quiet() … thaw()
//   removal   close(); freed when the gate reports that nothing refers to the volume
//
// Every command, freeze, flush, postponed task, destage job, erased line and read-ahead has a place in the
// gate (lib/base/gate.h) as long as it refers to the volume. So does the block service's unit.
//
// Thread-safety: belongs to the cache's reactor. Only freeze(), when_quiet() and close() allocate.
#pragma once

#include <functional>
#include <list>
#include <vector>

#include "lib/base/gate.h"
#include "target/cache/cache_command.h"

namespace wss::cache {

class VolumeGate {
  public:
    // ---- Life
    // Returns an empty holder if the volume is being removed.
    [[nodiscard]] Gate::Holder enter() noexcept { return gate_.enter(); }
    void close(std::function<void()> gone) { gate_.close(std::move(gone)); }
    bool closed() const noexcept { return gate_.closed(); }
    uint64_t users() const noexcept { return gate_.count(); }

    // ---- Commands
    void begin() noexcept { ++active_; }
    void end() noexcept;
    uint32_t active() const noexcept { return active_; }
    void hold_back(CacheCommand& command) noexcept { held_.push_back(command); }
    // The command that has waited longest, or nullptr if none waits.
    CacheCommand* next_held() noexcept { return held_.pop_front(); }

    // ---- Freezing (SE3)
    // Returns false if the volume is being removed; thaw() must not be called then.
    [[nodiscard]] bool freeze();
    // Requires an earlier freeze().
    void thaw() noexcept;
    bool frozen() const noexcept { return !freezes_.empty(); }
    // Runs the task when no command is active: now, or when the last one calls end().
    void when_quiet(std::function<void()> task, const Cancelled* cancelled = nullptr);
    // Runs the tasks of cancelled commands, which must check this, although commands are active.
    void run_cancelled();

  private:
    Gate gate_;
    uint32_t active_ = 0;
    std::vector<Gate::Holder> freezes_;
    List<CacheCommand> held_;
    struct Waiter {
        std::function<void()> run;
        const Cancelled* cancelled = nullptr;
    };
    std::list<Waiter> waiters_;
};

}  // namespace wss::cache
