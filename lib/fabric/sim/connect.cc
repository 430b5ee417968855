// SPDX-License-Identifier: Apache-2.0
// Connection setup between two endpoints. It consists of a request, an accept or reject, and a ready-to-use
// message. The first two may get lost.
#include "lib/fabric/sim/endpoint.h"

namespace wss::fabric {

static void refuse(const EndpointPtr& end, Status why, std::vector<std::byte> data = {}) {
    if (!end->lives() || end->state != SimState::kConnecting) return;
    end->state = SimState::kClosing;
    end->poller->notify(
        {.kind = SimNews::Kind::kRefused, .endpoint = end, .why = std::move(why), .data = std::move(data)});
}

// The random ids of both ends.
static std::vector<std::byte> binding_of(const SimEndpoint& connecting, const SimEndpoint& accepting) {
    const uint64_t ids[] = {connecting.id, accepting.id};
    const auto bytes = std::as_bytes(std::span(ids));
    return {bytes.begin(), bytes.end()};
}

namespace {

class SimConnectRequest final : public ConnectRequest {
  public:
    SimConnectRequest(EndpointPtr from, SimFabric& fabric, std::vector<std::byte> data)
        : from_(std::move(from)), fabric_(fabric), data_(std::move(data)) {}
    ~SimConnectRequest() override { reject({}); }

    std::span<const std::byte> data() const override { return data_; }
    std::string peer() const override { return from_->node->name(); }

    Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                               ConnectionHandler& handler) override {
        WSS_ASSERT(!answered_, "a connect request is answered once");
        answered_ = true;
        EndpointPtr end = static_cast<SimPoller&>(poller).make_endpoint(options, handler, SimState::kCreated);
        end->peer = from_;
        end->peer_name = from_->node->name();
        from_->peer = end;
        if (fabric_.network().channel_binding) end->binding = from_->binding = binding_of(*from_, *end);
        return std::unique_ptr<Connection>(std::make_unique<SimConnection>(end));
    }

    void reject(std::span<const std::byte> data) noexcept override {
        if (answered_) return;
        answered_ = true;
        std::vector<std::byte> copy(data.begin(), data.end());
        if (!from_->lives() || !fabric_.node().alive()) return;
        if (!fabric_.world().connected(*from_->node, fabric_.node())) return;  // the requester times out
        fabric_.world().schedule_in(fabric_.delay(), [from = from_, copy = std::move(copy)] {
            refuse(from, Status(Code::kRefused, "the peer rejected the connection"), copy);
        });
    }

  private:
    EndpointPtr from_;
    SimFabric& fabric_;
    std::vector<std::byte> data_;
    bool answered_ = false;
};

}  // namespace

static void request_arrives(const EndpointPtr& from, const Address& address, std::vector<std::byte> data) {
    if (!from->lives() || from->state != SimState::kConnecting) return;
    sim::World& world = from->node->world();
    sim::Node* to = world.find(address.host);
    if (to == nullptr) return refuse(from, failure(Code::kNotFound, "no node named '{}'", address.host));
    if (!to->alive() || !world.connected(*from->node, *to)) return;  // no answer: the time limit ends it
    auto listener = to->services().find(address.port);
    if (listener == to->services().end() ||
        world.fault("sim.refuse", from->poller->fabric().network().refuse_one_in))
        return refuse(from, failure(Code::kRefused, "no process listens on {}", address.to_string()));
    auto* found = static_cast<SimListener*>(listener->second);
    auto request = std::make_unique<SimConnectRequest>(from, found->poller().fabric(), std::move(data));
    world.note(from->id);
    found->poller().notify({.kind = SimNews::Kind::kRequest,
                            .endpoint = nullptr,
                            .request = std::move(request),
                            .listener = found});
}

void request_connection(const EndpointPtr& from, const Address& address, std::vector<std::byte> data) {
    sim::World& world = from->node->world();
    world.schedule_in(from->poller->fabric().delay(),
                      [from, address, data = std::move(data)] { request_arrives(from, address, data); });
    world.schedule_in(from->options.connect_timeout, [from, address] {
        refuse(from, failure(Code::kTimedOut, "no answer from {}", address.to_string()));
    });
}

static void open_endpoint(const EndpointPtr& end, std::vector<std::byte> data) {
    end->state = SimState::kOpen;
    end->poller->notify({.kind = SimNews::Kind::kEstablished, .endpoint = end, .data = std::move(data)});
    if (EndpointPtr peer = end->peer.lock()) start_transmission(peer);
}

static void accept_arrives(const EndpointPtr& end, const EndpointPtr& from, std::vector<std::byte> data) {
    sim::World& world = end->node->world();
    if (!from->lives() || from->state != SimState::kConnecting || !world.connected(*from->node, *end->node))
        return;
    open_endpoint(from, std::move(data));
    world.schedule_in(from->poller->fabric().delay(), [end] {
        if (end->lives() && end->state == SimState::kCreated) open_endpoint(end, {});
    });
}

void accept_connection(const EndpointPtr& end, std::vector<std::byte> data) {
    sim::World& world = end->node->world();
    EndpointPtr from = end->peer.lock();
    if (from)
        world.schedule_in(end->poller->fabric().delay(),
                          [end, from, data = std::move(data)] { accept_arrives(end, from, data); });
    world.schedule_in(end->options.connect_timeout, [end] {
        if (end->lives() && end->state == SimState::kCreated)
            break_endpoint(end, Status(Code::kTimedOut, "the peer did not accept the connection"), nullptr,
                           CompletionStatus::kFlushed);
    });
}

}  // namespace wss::fabric
