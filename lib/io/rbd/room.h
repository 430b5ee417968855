// SPDX-License-Identifier: Apache-2.0
// What a client of Ceph needs of this process: descriptors and threads, and what is reported when they run
// out. librados counts on them. Where one of its own threads finds none left it ends the process, which
// nobody can catch: so an image is only opened while there is room for it.
//
// Thread-safety: functions.
#pragma once

#include <exception>

#include "lib/base/status.h"

namespace wss::io::rbd {

// Measured with librados 16.2. One more descriptor for each OSD that the image's requests go to.
constexpr uint32_t kImageDescriptors = 15;
constexpr uint32_t kImageThreads = 20;

// kExhausted: another image would be more than the process can have. Starts and ends a few threads.
Status check_room();

// What librados or librbd threw: which resource ran out, and who limits it.
Status exhausted(const std::exception& thrown);

}  // namespace wss::io::rbd
