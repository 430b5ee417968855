// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace wss {

uint64_t raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    rlimit raised{limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? limit.rlim_max : limit.rlim_cur;
}

bool within_descriptor_budget(int fd) noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
    const uint64_t reserve = std::min<uint64_t>(kDescriptorReserve, limit.rlim_cur / 4);
    return static_cast<uint64_t>(fd) < limit.rlim_cur - reserve;
}

}  // namespace wss
