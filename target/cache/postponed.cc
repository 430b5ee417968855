// SPDX-License-Identifier: Apache-2.0
#include "target/cache/postponed.h"

namespace wss::cache {

template <typename Which>
void Postponed::run_if(Which&& is_due) {
    std::list<Task> due;
    for (auto at = tasks_.begin(); at != tasks_.end();) {
        const auto one = at++;
        if (is_due(*one)) due.splice(due.end(), tasks_, one);
    }
    for (Task& one : due) one.run();
}

void Postponed::run(const CachedVolume* of) {
    run_if([of](const Task& task) { return of == nullptr || task.volume == of; });
}

void Postponed::run_cancelled() {
    run_if([](const Task& task) { return is_cancelled(task.cancelled); });
}

}  // namespace wss::cache
