// SPDX-License-Identifier: Apache-2.0
// Freezing (SE3): what the cache does not understand has the volume, or a part of it, for itself. And what
// waits for something of the cache on behalf of a volume.
#include "target/cache/cache.h"

namespace wss::se {

bool Cache::freeze(CachedVolume& volume, uint64_t offset, uint64_t length,
                   std::function<void(int error)> done, Asker asker) {
    if (!volume.gate.freeze()) return false;
    auto dropped = [this, &volume, offset, length, done = std::move(done)](int error) {
        if (error != 0) return done(error);
        drop_lines(volume, offset, length);
        // SE2. Nothing is dirty any more but in copies that were lost before.
        when_saved(volume, [&volume, done] { done(volume.removed() ? ENXIO : 0); });
    };
    auto home = [this, &volume, asker, dropped = std::move(dropped)] { flush(volume, dropped, asker); };
    auto quiet = [&volume, home = std::move(home)] { volume.gate.when_quiet(home); };
    if (volume.gate.active() > 0) hurry();
    waits(volume) ? postpone(after_recovery_, volume, std::move(quiet)) : quiet();
    return true;
}

// What engines hold the next target finds.
void Cache::end_waits() {
    waits_are_over_ = true;
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed() || !holds(*volume)) continue;
        while (Work* work = volume->gate.next_held()) {
            volume->open->release();
            end_unbegun(*work, {.kind = Ending::Kind::kBusy});
        }
    }
    run_postponed(after_recovery_, nullptr);
    look_again();
}

void Cache::thaw(CachedVolume& volume) noexcept {
    volume.gate.thaw();
    begin_held(volume);
}

// One of them may freeze the volume again.
void Cache::begin_held(CachedVolume& volume) noexcept {
    while (!volume.gate.frozen() && !holds(volume)) {
        Work* work = volume.gate.next_held();
        if (work == nullptr) return;
        admit(*work);
    }
}

void Cache::postpone(std::list<Postponed>& list, CachedVolume& volume, std::function<void()> task) {
    list.push_back({&volume, volume.gate.enter(), std::move(task)});
}

// All, or those of one volume. A task may postpone another.
void Cache::run_postponed(std::list<Postponed>& list, const CachedVolume* of) {
    std::list<Postponed> due;
    for (auto at = list.begin(); at != list.end();) {
        const auto one = at++;
        if (of == nullptr || one->volume == of) due.splice(due.end(), list, one);
    }
    for (Postponed& one : due) one.task();
}

}  // namespace wss::se
