// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include "lib/base/clock.h"

namespace wss::io::rbd {

// Includes the time that the machine is suspended, because others may take the image in that time.
inline Nanoseconds boot_time() noexcept {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return from_s(time.tv_sec) + Nanoseconds{time.tv_nsec};
}

}  // namespace wss::io::rbd
