// SPDX-License-Identifier: Apache-2.0
// Negotiation: limits of a connection, from its options, the device and the peer. Pure functions.
#pragma once

#include <infiniband/verbs.h>

#include <functional>

#include "lib/fabric/fabric.h"

namespace wss::fabric::verbs {

// Creates a queue pair and writes its capabilities to `attributes.cap`. Returns 0 or an errno.
using CreateQueuePair = std::function<int(ibv_qp_init_attr& attributes)>;

// A device does not report how many bytes it inlines, nor how inlined bytes, segments and depths limit each
// other: it refuses the queue pair. After each refusal this function requests less: half the inlined bytes,
// down to none, then half the segments, down to one. Returns 0 with the result in `attributes`, or the last
// errno.
int create_queue_pair(ibv_qp_init_attr& attributes, const CreateQueuePair& create);

// Segments of one READ. Devices may scatter less than they gather. iWARP often allows only one.
uint32_t read_segments(const ibv_device_attr& device);

inline uint32_t segments_max(Op op, const ConnectionLimits& limits) noexcept {
    return op == Op::kRead ? limits.read_segments_max : limits.segments_max;
}

// Returns the number of READs that this side may have in flight. Fails if it is 0 although `wish.posts_reads`
// is set: on such a queue pair a READ, and all requests after it, would never complete.
Result<uint32_t> agree_on_reads(const ConnectionOptions& wish, uint8_t device_issues, uint8_t peer_answers);

}  // namespace wss::fabric::verbs
