// SPDX-License-Identifier: Apache-2.0
#include "target/cache/postponed.h"

namespace wss::cache {

void Postponed::run(const CachedVolume* of) {
    std::list<Task> due;
    for (auto at = tasks_.begin(); at != tasks_.end();) {
        const auto one = at++;
        if (of == nullptr || one->volume == of) due.splice(due.end(), tasks_, one);
    }
    for (Task& one : due) one.run();
}

}  // namespace wss::cache
