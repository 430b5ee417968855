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

static log::Limiter unusable_device_log(1);

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
    where_ = where->front();
    WSS_TRY(listen());
    address_.port = ntohs(rdma_get_src_port(id_.get()));
    where_.set_port(address_.port);
    return Status::ok();
}

Status VerbsListener::listen() {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(poller_.channel(), &id, static_cast<CmHandler*>(this), RDMA_PS_TCP) != 0)
        return Status::from_errno(errno, address_.to_string() + ": cannot create a connection manager id");
    CmId fresh(id);
    if (rdma_bind_addr(id, where_.get()) != 0 || rdma_listen(id, kBacklog) != 0)
        return cannot_listen(address_, errno);
    id_ = std::move(fresh);
    return Status::ok();
}

void VerbsListener::interrupt() noexcept {
    id_.reset();
    if (!listen_again()) poller_.interrupted(*this);
}

bool VerbsListener::listen_again() noexcept {
    if (!listen()) return false;
    log::info("{}: listening again after the removal of an RDMA device", address_.to_string());
    return true;
}

void VerbsListener::on_cm_event(const CmEvent& event) noexcept {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) return interrupt();
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    CmId id(event.id);
    id->context = nullptr;
    if (auto usable = poller_.use(*id); !usable) {
        if (unusable_device_log.allow())
            log::warning("{}: a connection is rejected: {}", address_.to_string(),
                         usable.status().to_string());
        rdma_reject(id.get(), nullptr, 0);
        return;
    }
    handler_.on_connect_request(std::make_unique<VerbsConnectRequest>(std::move(id), event));
}

VerbsConnectRequest::VerbsConnectRequest(CmId id, const CmEvent& event)
    : id_(std::move(id)),
      offer_{.initiator_depth = event.initiator_depth,
             .responder_resources = event.responder_resources,
             .queue_pair = event.queue_pair},
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
