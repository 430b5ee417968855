// SPDX-License-Identifier: Apache-2.0
// One owner per verbs object: a unique_ptr whose deleter is the object's destroy call. Owners declare an
// object after those that it needs (a CQ after its channel, a QP after its CQ), so that destruction runs in
// the right order.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace wss::fabric::verbs {

// A queue pair belongs to its id and is destroyed before it.
struct CmIdDeleter {
    void operator()(rdma_cm_id* id) const noexcept {
        if (id->qp != nullptr) rdma_destroy_qp(id);
        rdma_destroy_id(id);
    }
};
struct EventChannelDeleter {
    void operator()(rdma_event_channel* channel) const noexcept { rdma_destroy_event_channel(channel); }
};
struct DeviceListDeleter {
    void operator()(ibv_context** list) const noexcept { rdma_free_devices(list); }
};
struct PdDeleter {
    void operator()(ibv_pd* pd) const noexcept { ibv_dealloc_pd(pd); }
};
struct CompletionChannelDeleter {
    void operator()(ibv_comp_channel* channel) const noexcept { ibv_destroy_comp_channel(channel); }
};
struct CqDeleter {
    void operator()(ibv_cq* cq) const noexcept { ibv_destroy_cq(cq); }
};
struct MrDeleter {
    void operator()(ibv_mr* mr) const noexcept { ibv_dereg_mr(mr); }
};

using CmId = std::unique_ptr<rdma_cm_id, CmIdDeleter>;
using EventChannel = std::unique_ptr<rdma_event_channel, EventChannelDeleter>;
using DeviceList = std::unique_ptr<ibv_context*, DeviceListDeleter>;
using Pd = std::unique_ptr<ibv_pd, PdDeleter>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, CompletionChannelDeleter>;
using Cq = std::unique_ptr<ibv_cq, CqDeleter>;
using Mr = std::unique_ptr<ibv_mr, MrDeleter>;

}  // namespace wss::fabric::verbs
