// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/listener.h"

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/fabric/resolve.h"

namespace wss::fabric::verbs {

// Number of requests that may wait for on_connect_request(): a burst of clients, each with one connection per
// core.
constexpr int kBacklog = 512;

static log::Limiter foreign_device_log(1);

Result<std::unique_ptr<Listener>> VerbsListener::create(VerbsPoller& poller, const Address& address,
                                                        ListenHandler& handler) {
    std::unique_ptr<VerbsListener> listener(new VerbsListener(poller, address, handler));
    WSS_TRY(listener->start());
    return std::unique_ptr<Listener>(std::move(listener));
}

static Status cannot_listen(const Address& address, int error) {
    if (error == EADDRINUSE)
        return Status::from_errno(
            error,
            fmt::format("{}: another program uses the port; choose a different one", address.to_string()));
    if (error == EADDRNOTAVAIL || error == ENODEV)
        return Status::from_errno(
            error, fmt::format("{}: no RDMA device of this machine has the address", address.to_string()));
    return Status::from_errno(error, fmt::format("{}: listening failed", address.to_string()));
}

Status VerbsListener::start() {
    Result<std::vector<SocketAddress>> where = resolve(address_);
    if (!where) return where.status();
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(poller_.channel(), &id, static_cast<CmHandler*>(this), RDMA_PS_TCP) != 0)
        return Status::from_errno(errno, address_.to_string() + ": cannot create a connection manager id");
    id_.reset(id);
    if (rdma_bind_addr(id, where->front().get()) != 0 || rdma_listen(id, kBacklog) != 0)
        return cannot_listen(address_, errno);
    address_.port = ntohs(rdma_get_src_port(id));
    return Status::ok();
}

void VerbsListener::on_cm_event(const CmEvent& event) noexcept {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        log::error("{}: the RDMA device is being removed; new connections are not possible",
                   address_.to_string());
        return;
    }
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    CmId id(event.id);
    id->context = nullptr;
    if (id->verbs != poller_.device().context()) {
        if (foreign_device_log.allow())
            log::warning("{}: a peer connected through {}, this fabric uses {}; rejected",
                         address_.to_string(), ibv_get_device_name(id->verbs->device),
                         poller_.device().name());
        rdma_reject(id.get(), nullptr, 0);
        return;
    }
    handler_.on_connect_request(std::make_unique<VerbsConnectRequest>(std::move(id), event));
}

VerbsConnectRequest::VerbsConnectRequest(CmId id, const CmEvent& event)
    : id_(std::move(id)),
      offer_{.initiator_depth = event.initiator_depth, .responder_resources = event.responder_resources},
      data_(event.data().begin(), event.data().end()) {}

VerbsConnectRequest::~VerbsConnectRequest() {
    reject({});
}

std::string VerbsConnectRequest::peer() const {
    return id_ == nullptr ? "a peer whose request was answered" : to_string(rdma_get_peer_addr(id_.get()));
}

Result<std::unique_ptr<Connection>> VerbsConnectRequest::create(Poller& poller,
                                                                const ConnectionOptions& options,
                                                                ConnectionHandler& handler) {
    if (id_ == nullptr) return failure(Code::kInvalid, "a connect request is answered once");
    // A poller of another fabric would be a bug of the caller. No peer can cause it.
    return VerbsConnection::accepting(static_cast<VerbsPoller&>(poller), id_, offer_, options, handler);
}

void VerbsConnectRequest::reject(std::span<const std::byte> data) noexcept {
    if (id_ == nullptr) return;
    constexpr size_t kRejectDataMax = 148;
    rdma_reject(id_.get(), data.data(), static_cast<uint8_t>(std::min(data.size(), kRejectDataMax)));
    id_.reset();
}

}  // namespace wss::fabric::verbs
