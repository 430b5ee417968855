// SPDX-License-Identifier: Apache-2.0
// What a connection gets of what it wishes for. Functions of what the device and the peer offer; no state.
#pragma once

#include <infiniband/verbs.h>

#include <functional>

#include "lib/fabric/fabric.h"

namespace wss::fabric::verbs {

// Makes a queue pair and writes its capabilities to `attributes.cap`. Returns 0 or an errno.
using CreateQueuePair = std::function<int(ibv_qp_init_attr& attributes)>;

// A device does not report how many bytes it inlines, nor how inlined bytes, segments and depths limit each
// other: it refuses the queue pair. Asks for less after each refusal: half the inlined bytes, down to none,
// then half the segments, down to one. Returns 0, with what was made in `attributes`, or the last errno.
int create_queue_pair(ibv_qp_init_attr& attributes, const CreateQueuePair& create);

// Segments of one READ. Devices may scatter less than they gather; iWARP often takes one.
uint32_t read_segments(const ibv_device_attr& device);

inline uint32_t segments_max(Op op, const ConnectionLimits& limits) noexcept {
    return op == Op::kRead ? limits.read_segments_max : limits.segments_max;
}

// READs that this side may have in flight. A queue pair without any never completes the READ that it is
// given, and nothing that is posted after it.
Result<uint32_t> agree_on_reads(const ConnectionOptions& wish, uint8_t device_issues, uint8_t peer_answers);

}  // namespace wss::fabric::verbs
