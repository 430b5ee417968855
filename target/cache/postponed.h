// SPDX-License-Identifier: Apache-2.0
// Postponed: tasks that wait for an event of the cache (the end of recovery, a saved membership), most of
// them on behalf of a volume. A task holds a place in the gate of its volume. When the volume is removed, its
// tasks run at once. Each must check whether the volume was removed.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>
#include <list>

#include "target/cache/cached_volume.h"

namespace wss::cache {

class Postponed {
  public:
    void add(CachedVolume& volume, std::function<void()> task, const Cancelled* cancelled = nullptr) {
        tasks_.push_back({&volume, volume.gate.enter(), std::move(task), cancelled});
    }
    // Adds a task that belongs to no volume.
    void add(std::function<void()> task) { tasks_.push_back({nullptr, {}, std::move(task), nullptr}); }
    // Runs all tasks, or only those of one volume. A task may postpone another.
    void run(const CachedVolume* of);
    // Runs the tasks of cancelled commands, which must check this.
    void run_cancelled();
    void clear() noexcept { tasks_.clear(); }

  private:
    struct Task {
        CachedVolume* volume = nullptr;
        Gate::Holder place;
        std::function<void()> run;
        const Cancelled* cancelled = nullptr;
    };
    template <typename Which>
    void run_if(Which&& is_due);
    std::list<Task> tasks_;
};

}  // namespace wss::cache
