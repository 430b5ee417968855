// SPDX-License-Identifier: Apache-2.0
// The objects of the simulated fabric. Private to lib/fabric/sim.
//
// An Endpoint is the state of one end of a connection. It is shared by the Connection (which the user may
// destroy) and by the pending events of the world. An event whose endpoint has closed meanwhile does nothing.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/fabric/sim/sim_fabric.h"

namespace wss::fabric {

class SimFabric;
class SimPoller;
class SimListener;

struct SimRegistration {
    std::byte* base;
    size_t size;
    Access access;
};

// One posted work request, from post() to its completion.
struct SimOperation {
    Op op;
    bool signalled;
    uint64_t cookie;
    std::vector<Segment> segments;
    std::vector<std::byte> inlined;  // the payload that post() copied
    bool is_inlined;
    uint32_t length;
    RemoteAddress remote;
    uint32_t immediate;
    Nanoseconds posted;
    bool done = false;
    CompletionStatus status = CompletionStatus::kOk;
};

struct SimReceive {
    uint64_t cookie;
    std::vector<Segment> segments;
};

enum class SimState : uint8_t { kConnecting, kCreated, kOpen, kClosing, kClosed };

struct SimEndpoint {
    SimPoller* poller = nullptr;  // nullptr once the poller is destroyed
    Connection* connection = nullptr;
    ConnectionHandler* handler = nullptr;
    sim::Node* node = nullptr;
    uint32_t incarnation = 0;
    uint64_t id = 0;
    ConnectionOptions options;
    SimState state = SimState::kConnecting;
    std::weak_ptr<SimEndpoint> peer;
    std::string peer_name;
    std::vector<std::byte> binding;  // the connection's channel binding, once both ends exist
    std::deque<std::shared_ptr<SimOperation>> sends;  // posted and not completed, oldest first
    std::deque<std::shared_ptr<SimOperation>> wire;   // operations that are not yet delivered, oldest first
    bool delivering = false;                          // an event for wire.front() is pending
    std::deque<SimReceive> receives;

    bool lives() const { return poller != nullptr && node->alive() && node->incarnation() == incarnation; }
    bool open() const { return lives() && state == SimState::kOpen; }
};
using EndpointPtr = std::shared_ptr<SimEndpoint>;

// An event that a poller delivers.
struct SimNews {
    enum class Kind : uint8_t { kCompletion, kEstablished, kRefused, kClosed, kRequest } kind;
    EndpointPtr endpoint;
    Completion completion{};
    Status why{};
    std::vector<std::byte> data{};
    std::unique_ptr<ConnectRequest> request{};
    SimListener* listener = nullptr;
};

class SimFabric final : public Fabric {
  public:
    SimFabric(sim::Node& node, const SimNetwork& network);
    ~SimFabric() override;
    const Caps& caps() const noexcept override { return caps_; }
    Result<std::unique_ptr<Poller>> create_poller() override;
    Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) override;
    Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) override;

    uint32_t add(std::span<std::byte> memory, Access access);
    void revoke(uint32_t key) { registrations_.erase(key); }
    // Returns memory that a peer may access, or nullptr.
    std::byte* reach(const RemoteAddress& remote, uint32_t length, bool write);
    bool local_ok(const Segment& segment) const;

    sim::Node& node() { return node_; }
    sim::World& world() { return node_.world(); }
    const SimNetwork& network() const { return network_; }
    Nanoseconds delay();

  private:
    sim::Node& node_;
    const SimNetwork& network_;
    Caps caps_;
    std::unordered_map<uint32_t, SimRegistration> registrations_;
};

class SimPoller final : public Poller {
  public:
    explicit SimPoller(SimFabric& fabric) : fabric_(fabric) {}
    ~SimPoller() override;
    size_t poll() noexcept override;
    bool arm() noexcept override { return news_.empty(); }
    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;

    SimFabric& fabric() { return fabric_; }
    void notify(SimNews news) {
        news_.push_back(std::move(news));
        fabric_.node().wake();
    }
    EndpointPtr make_endpoint(const ConnectionOptions& options, ConnectionHandler& handler, SimState state);
    void forget(SimListener* listener);

  private:
    void deliver(SimNews& news) noexcept;
    SimFabric& fabric_;
    std::deque<SimNews> news_;
    std::vector<EndpointPtr> endpoints_;
};

class SimListener final : public Listener {
  public:
    SimListener(SimPoller& poller, Address address, ListenHandler& handler);
    ~SimListener() override;
    Address address() const override { return address_; }
    SimPoller& poller() { return poller_; }
    ListenHandler& handler() { return handler_; }

  private:
    SimPoller& poller_;
    Address address_;
    ListenHandler& handler_;
};

class SimConnection final : public Connection {
  public:
    explicit SimConnection(EndpointPtr endpoint);
    ~SimConnection() override;
    Code post(std::span<const WorkRequest> requests) noexcept override;
    Code post_receives(std::span<const Receive> receives) noexcept override;
    bool move_now(Op op, const Segment& local, RemoteAddress remote) noexcept override;
    Status accept(std::span<const std::byte> data) override;
    void close() noexcept override;
    std::string peer() const override { return endpoint_->peer_name; }
    std::span<const std::byte> channel_binding() const noexcept override { return endpoint_->binding; }

  private:
    EndpointPtr endpoint_;
};

// connect.cc: connection setup.
void request_connection(const EndpointPtr& from, const Address& address, std::vector<std::byte> data);
void accept_connection(const EndpointPtr& end, std::vector<std::byte> data);

// transmit.cc: operations in flight.
void start_transmission(const EndpointPtr& from);
// Fails the connection at `end`: all posted requests are flushed, and `culprit` (may be nullptr) completes
// with `cause`. Then on_closed() follows, or on_refused() if `end` is still connecting.
void break_endpoint(const EndpointPtr& end, const Status& why, SimOperation* culprit, CompletionStatus cause);
// Does the same as break_endpoint(), and also notifies the peer unless the link is cut.
void break_connection(const EndpointPtr& end, const Status& why, SimOperation* culprit,
                      CompletionStatus cause);

}  // namespace wss::fabric
