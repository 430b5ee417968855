// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include "lib/base/clock.h"

namespace wss::io::rbd {

// Goes on while the machine sleeps, when others may take the image as while it is cut off.
inline Nanoseconds boot_time() noexcept {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return from_s(time.tv_sec) + Nanoseconds{time.tv_nsec};
}

}  // namespace wss::io::rbd
