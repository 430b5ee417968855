// SPDX-License-Identifier: Apache-2.0
#include "target/cache/volume_gate.h"

#include <utility>

namespace wss::cache {

void VolumeGate::end() noexcept {
    WSS_ASSERT(active_ > 0, "each end() has its begin()");
    if (--active_ > 0 || waiters_.empty()) return;
    for (Waiter& waiter : std::exchange(waiters_, {})) waiter.run();
}

bool VolumeGate::freeze() {
    Gate::Holder place = gate_.enter();
    if (!place) return false;
    freezes_.push_back(std::move(place));
    return true;
}

void VolumeGate::thaw() noexcept {
    WSS_ASSERT(!freezes_.empty(), "each thaw() has its freeze()");
    // The freeze is removed from the list before its destructor leaves the gate.
    Gate::Holder place = std::move(freezes_.back());
    freezes_.pop_back();
}

void VolumeGate::when_quiet(std::function<void()> task, const Cancelled* cancelled) {
    if (active_ == 0 || is_cancelled(cancelled)) return task();
    waiters_.push_back({std::move(task), cancelled});
}

void VolumeGate::run_cancelled() {
    std::list<Waiter> due;
    for (auto at = waiters_.begin(); at != waiters_.end();) {
        const auto one = at++;
        if (is_cancelled(one->cancelled)) due.splice(due.end(), waiters_, one);
    }
    for (Waiter& waiter : due) waiter.run();
}

}  // namespace wss::cache
