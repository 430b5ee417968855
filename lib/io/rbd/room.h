// SPDX-License-Identifier: Apache-2.0
// Checks whether the process has enough descriptors and threads left for a client of Ceph, and reports which
// of them ran out. When librados cannot get one of these, it ends the process, which cannot be prevented. So
// an image is opened only while enough are left.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <exception>

#include "lib/base/status.h"

namespace wss::io::rbd {

// Measured with librados 16.2. Each OSD that receives requests of the image takes one more descriptor.
constexpr uint32_t kImageDescriptors = 15;
constexpr uint32_t kImageThreads = 20;

// Fails with kExhausted when too little is left for another image. Starts and ends a few threads.
Status check_room();

// For an exception of librados or librbd: names the resource that ran out, and the limit to raise.
Status exhausted(const std::exception& thrown);

}  // namespace wss::io::rbd
