// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace wss {

uint64_t raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    rlimit raised{limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? limit.rlim_max : limit.rlim_cur;
}

static uint64_t limit_of_descriptors() noexcept {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

static uint64_t reserve_of(uint64_t limit) noexcept {
    return std::min<uint64_t>(kDescriptorReserve, limit / 4);
}

uint64_t descriptor_reserve() noexcept {
    return reserve_of(limit_of_descriptors());
}

uint64_t descriptors_left() noexcept {
    const uint64_t limit = limit_of_descriptors();
    if (limit == RLIM_INFINITY) return RLIM_INFINITY;
    DIR* directory = opendir("/proc/self/fd");
    if (directory == nullptr) return errno == EMFILE || errno == ENFILE ? 0 : RLIM_INFINITY;
    uint64_t open = 0;
    while (const dirent* entry = readdir(directory)) open += entry->d_name[0] != '.';
    closedir(directory);
    --open;  // the descriptor of the directory itself
    return limit - std::min(open, limit);
}

bool within_descriptor_budget(int fd) noexcept {
    const uint64_t limit = limit_of_descriptors();
    return limit == RLIM_INFINITY || static_cast<uint64_t>(fd) < limit - reserve_of(limit);
}

}  // namespace wss
