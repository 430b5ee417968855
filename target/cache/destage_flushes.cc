// SPDX-License-Identifier: Apache-2.0
// Flushes: requests that wait until the lines of a volume that are dirty now are in real storage.
#include <algorithm>

#include "target/cache/destager.h"

namespace wss::cache {

void Destager::check_flushes(CachedVolume& volume, Failure failure) noexcept {
    auto& flushes = volume.flushes;
    const bool reports = !flushes.empty() && uses_.losses.fails_flushes(volume, Asker::kClient);
    // If the target leaves the engines, real storage lacks the lines that they hold.
    const bool leaves = uses_.life.leaving();
    for (auto at = flushes.begin(); at != flushes.end();) {
        const bool done = index_.dirty(volume.number).flushed(at->mark);
        const bool clients = at->asker == Asker::kClient;
        const bool lost = clients ? reports : uses_.losses.fails_flushes(volume, at->asker);
        const int error = at->holds && failure.plain == 0 ? failure.holding : failure.plain;
        const bool refused = leaves || is_cancelled(at->cancelled);
        if (!done && error == 0 && !lost && !refused) {
            ++at;
            continue;
        }
        const Gate::Holder place = std::move(at->place);
        auto report = std::move(at->done);
        at = flushes.erase(at);
        if (refused) {
            report(EBUSY);
            continue;
        }
        if (lost && clients && uses_.losses.awaits(volume)) {
            report(uses_.life.waits_are_over() ? EBUSY : EAGAIN);
            continue;
        }
        if (lost && clients) uses_.losses.told(volume);
        report(lost ? EIO : done ? 0 : error);
    }
    if (!flushes.empty()) return;
    volume.planner->want_no_more();
    uses_.single.want(volume);
}

// Fails flushes that were waiting when lines were lost.
void Destager::fail_flushes() noexcept {
    if (uses_.members.now().lost.empty()) return;
    for (CachedVolume& volume : uses_.volumes.open())
        if (!volume.flushes.empty() && uses_.losses.fails_flushes(volume, Asker::kOperator))
            check_flushes(volume, {.plain = EIO});
}

void Destager::end_cancelled(CachedVolume& volume) noexcept {
    const auto ends = [](const CachedVolume::Flush& flush) { return is_cancelled(flush.cancelled); };
    if (std::any_of(volume.flushes.begin(), volume.flushes.end(), ends)) check_flushes(volume, {});
}

void Destager::flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker, bool holds,
                     const Cancelled* cancelled) {
    if (uses_.life.leaving() || is_cancelled(cancelled)) return done(EBUSY);
    Gate::Holder place = volume.gate.enter();
    if (!place) return done(ENXIO);
    if (uses_.recovery.waits(volume))
        return uses_.recovery.when_over(
            volume,
            [this, &volume, done = std::move(done), asker, holds, cancelled] {
                flush(volume, done, asker, holds, cancelled);
            },
            cancelled);
    if (uses_.recovery.holds(volume)) return done(EBUSY);
    if (asker == Asker::kClient && uses_.losses.awaits(volume))
        return done(uses_.life.waits_are_over() ? EBUSY : EAGAIN);
    ++volume.counters.flushes;
    const uint64_t mark = index_.flush_mark();
    const bool lost = uses_.losses.fails_flushes(volume, asker);
    if (!lost && index_.dirty(volume.number).flushed(mark)) return done(0);
    volume.flushes.push_back({std::move(place), mark, asker, holds, std::move(done), cancelled});
    if (lost) return check_flushes(volume, {.plain = EIO});
    volume.planner->want(mark);
    start(volume);
}

}  // namespace wss::cache
