// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/negotiation.h"

#include <algorithm>

namespace wss::fabric::verbs {

// The shortest message of this project.
constexpr uint32_t kInlineMin = 16;

static bool request_less(ibv_qp_cap& cap) {
    if (cap.max_inline_data > 0) {
        cap.max_inline_data /= 2;
        if (cap.max_inline_data < kInlineMin) cap.max_inline_data = 0;
        return true;
    }
    if (cap.max_send_sge <= 1 && cap.max_recv_sge <= 1) return false;
    cap.max_send_sge = std::max(cap.max_send_sge / 2, 1u);
    cap.max_recv_sge = std::max(cap.max_recv_sge / 2, 1u);
    return true;
}

int create_queue_pair(ibv_qp_init_attr& attributes, const CreateQueuePair& create) {
    // A failed attempt may change its argument, so each attempt starts from a copy.
    ibv_qp_init_attr wanted = attributes;
    for (;;) {
        attributes = wanted;
        const int error = create(attributes);
        if (error == 0 || !request_less(wanted.cap)) return error;
    }
}

uint32_t read_segments(const ibv_device_attr& device) {
    const int segments = device.max_sge_rd > 0 ? std::min(device.max_sge, device.max_sge_rd) : device.max_sge;
    return static_cast<uint32_t>(std::max(segments, 1));
}

Result<uint32_t> agree_on_reads(const ConnectionOptions& wish, uint8_t device_issues, uint8_t peer_answers) {
    const uint32_t agreed = std::min<uint32_t>({wish.read_depth, device_issues, peer_answers});
    if (agreed == 0 && wish.posts_reads)
        return failure(Code::kUnsupported,
                       "RDMA READ is needed: the peer answers {} at a time (responder resources), and this "
                       "device issues {}",
                       peer_answers, device_issues);
    return agreed;
}

}  // namespace wss::fabric::verbs
