// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/sim/sim_fabric.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "lib/fabric/sim/endpoint.h"

namespace wss::fabric {

constexpr size_t kNewsPerPoll = 64;
constexpr size_t kPage = 4096;
constexpr uint32_t kInlineMax = 256;

std::unique_ptr<Fabric> open_sim(sim::Node& node, const SimNetwork& network) {
    return std::make_unique<SimFabric>(node, network);
}

// --- fabric and regions ---

namespace {

class SimRegion final : public Region {
  public:
    // `mapped` is the number of bytes to unmap at the end; 0 for memory of the caller.
    SimRegion(SimFabric& fabric, std::span<std::byte> memory, Access access, size_t mapped)
        : fabric_(fabric), mapped_(mapped) {
        bytes_ = memory;
        remote_address_ = reinterpret_cast<uintptr_t>(memory.data());
        lkey_ = fabric.add(memory, access);
        set_rkey(0, lkey_);
    }
    ~SimRegion() override {
        fabric_.revoke(lkey_);
        if (mapped_ > 0) munmap(bytes_.data(), mapped_);
    }

  private:
    SimFabric& fabric_;
    const size_t mapped_;
};

}  // namespace

SimFabric::SimFabric(sim::Node& node, const SimNetwork& network) : node_(node), network_(network) {
    caps_ = {.name = "sim",
             .write_immediate = true,
             .segments_max = 16,
             .read_depth_max = 16,
             .message_max = 1 << 20,
             .transfer_max = 64 << 20};
}

SimFabric::~SimFabric() {
    WSS_ASSERT(registrations_.empty(), "regions are destroyed before their fabric");
}

Result<std::unique_ptr<Poller>> SimFabric::create_poller() {
    return std::unique_ptr<Poller>(std::make_unique<SimPoller>(*this));
}

Result<std::unique_ptr<Region>> SimFabric::allocate(size_t bytes, Access access) {
    if (world().fault("sim.register", network_.register_one_in))
        return failure(Code::kExhausted, "{} bytes cannot be registered", bytes);
    size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    // mmap() returns zeroed memory without touching it, which matters in runs with many short-lived targets.
    void* memory =
        mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WSS_ASSERT(memory != MAP_FAILED, "the simulation has enough memory");
    std::span<std::byte> bytes_mapped(static_cast<std::byte*>(memory), bytes);
    return std::unique_ptr<Region>(std::make_unique<SimRegion>(*this, bytes_mapped, access, rounded));
}

Result<std::unique_ptr<Region>> SimFabric::register_memory(std::span<std::byte> memory, Access access) {
    if (world().fault("sim.register", network_.register_one_in))
        return failure(Code::kExhausted, "{} bytes cannot be registered", memory.size());
    return std::unique_ptr<Region>(std::make_unique<SimRegion>(*this, memory, access, 0));
}

uint32_t SimFabric::add(std::span<std::byte> memory, Access access) {
    uint32_t key = 0;
    // The key is random, so that a stale key hits another region only with the probability that RDMA hardware
    // has, too.
    while (key == 0 || registrations_.contains(key)) key = static_cast<uint32_t>(world().random().next());
    registrations_.emplace(key, SimRegistration{memory.data(), memory.size(), access});
    return key;
}

std::byte* SimFabric::reach(const RemoteAddress& remote, uint32_t length, bool write) {
    auto found = registrations_.find(remote.rkey);
    if (found == registrations_.end()) return nullptr;
    const SimRegistration& region = found->second;
    auto wanted = static_cast<uint8_t>(write ? Access::kRemoteWrite : Access::kRemoteRead);
    if ((static_cast<uint8_t>(region.access) & wanted) == 0) return nullptr;
    uint64_t base = reinterpret_cast<uintptr_t>(region.base);
    if (remote.address < base || remote.address - base > region.size) return nullptr;
    if (length > region.size - (remote.address - base)) return nullptr;
    return region.base + (remote.address - base);
}

bool SimFabric::local_ok(const Segment& segment) const {
    auto found = registrations_.find(segment.lkey);
    if (found == registrations_.end()) return false;
    const SimRegistration& region = found->second;
    return segment.address >= region.base && segment.address <= region.base + region.size &&
           segment.length <= static_cast<size_t>(region.base + region.size - segment.address);
}

Nanoseconds SimFabric::delay() {
    if (world().fault("sim.slow", network_.slow_one_in)) return network_.slow_delay;
    int64_t spread = network_.delay_max.count - network_.delay_min.count;
    return {network_.delay_min.count +
            static_cast<int64_t>(world().random().below(static_cast<uint64_t>(spread) + 1))};
}

// --- poller ---

SimPoller::~SimPoller() {
    for (const EndpointPtr& end : endpoints_) {
        WSS_ASSERT(!end->lives() || end->state == SimState::kClosed,
                   "connections close before their poller is destroyed");
        end->poller = nullptr;
    }
}

EndpointPtr SimPoller::make_endpoint(const ConnectionOptions& options, ConnectionHandler& handler,
                                     SimState state) {
    auto end = std::make_shared<SimEndpoint>();
    end->poller = this;
    end->handler = &handler;
    end->node = &fabric_.node();
    end->incarnation = fabric_.node().incarnation();
    end->id = fabric_.world().random().next();
    end->options = options;
    end->state = state;
    endpoints_.push_back(end);
    return end;
}

Result<std::unique_ptr<Listener>> SimPoller::listen(const Address& address, ListenHandler& handler) {
    if (address.host != fabric_.node().name())
        return failure(Code::kInvalid, "{} is not an address of node {}", address.to_string(),
                       fabric_.node().name());
    if (fabric_.node().services().contains(address.port))
        return failure(Code::kBusy, "{}: another listener uses this address", address.to_string());
    return std::unique_ptr<Listener>(std::make_unique<SimListener>(*this, address, handler));
}

Result<std::unique_ptr<Connection>> SimPoller::connect(const Address& address,
                                                       std::span<const std::byte> data,
                                                       const ConnectionOptions& options,
                                                       ConnectionHandler& handler) {
    if (data.size() > fabric_.caps().connect_data_max)
        return failure(Code::kInvalid, "{} bytes of private data, more than {}", data.size(),
                       fabric_.caps().connect_data_max);
    EndpointPtr end = make_endpoint(options, handler, SimState::kConnecting);
    end->peer_name = address.host;
    auto connection = std::make_unique<SimConnection>(end);
    request_connection(end, address, {data.begin(), data.end()});
    return std::unique_ptr<Connection>(std::move(connection));
}

void SimPoller::forget(SimListener* listener) {
    std::erase_if(news_, [&](const SimNews& news) { return news.listener == listener; });
}

void SimPoller::deliver(SimNews& news) noexcept {
    if (news.kind == SimNews::Kind::kRequest)
        return news.listener->handler().on_connect_request(std::move(news.request));
    SimEndpoint& end = *news.endpoint;
    switch (news.kind) {
        case SimNews::Kind::kEstablished:
            return end.handler->on_established(*end.connection, news.data);
        case SimNews::Kind::kRefused:
        case SimNews::Kind::kClosed: {
            end.state = SimState::kClosed;
            std::erase(endpoints_, news.endpoint);
            if (news.kind == SimNews::Kind::kRefused)
                return end.handler->on_refused(*end.connection, news.why, news.data);
            return end.handler->on_closed(*end.connection, news.why);
        }
        default:
            return;
    }
}

size_t SimPoller::poll() noexcept {
    size_t handled = 0;
    while (handled < kNewsPerPoll && !news_.empty()) {
        SimNews news = std::move(news_.front());
        news_.pop_front();
        ++handled;
        if (news.kind != SimNews::Kind::kCompletion) {
            deliver(news);
            continue;
        }
        std::vector<Completion> run{news.completion};
        while (!news_.empty() && news_.front().kind == SimNews::Kind::kCompletion &&
               news_.front().endpoint == news.endpoint && run.size() < 16) {
            run.push_back(news_.front().completion);
            news_.pop_front();
        }
        handled += run.size() - 1;
        news.endpoint->handler->on_completions(*news.endpoint->connection, run);
    }
    return handled;
}

// --- listener and connection ---

SimListener::SimListener(SimPoller& poller, Address address, ListenHandler& handler)
    : poller_(poller), address_(std::move(address)), handler_(handler) {
    poller_.fabric().node().services().emplace(address_.port, this);
}

SimListener::~SimListener() {
    poller_.forget(this);
    auto& services = poller_.fabric().node().services();
    if (auto found = services.find(address_.port); found != services.end() && found->second == this)
        services.erase(found);
}

SimConnection::SimConnection(EndpointPtr endpoint) : endpoint_(std::move(endpoint)) {
    endpoint_->connection = this;
    const Caps& caps = endpoint_->poller->fabric().caps();
    const uint32_t segments = std::min(caps.segments_max, endpoint_->options.send_segments);
    limits_ = {.inline_max = kInlineMax,
               .segments_max = segments,
               .read_segments_max = segments,
               .read_depth = caps.read_depth_max};
}

SimConnection::~SimConnection() {
    WSS_ASSERT(!endpoint_->lives() || endpoint_->state == SimState::kClosed,
               "F5: a connection is destroyed after on_closed");
}

static uint32_t length_of(std::span<const Segment> segments) {
    uint64_t length = 0;
    for (const Segment& segment : segments) length += segment.length;
    return static_cast<uint32_t>(std::min<uint64_t>(length, UINT32_MAX));
}

static bool acceptable(const WorkRequest& request, const Caps& caps, const ConnectionLimits& limits) {
    uint32_t length = length_of(request.segments);
    if (request.op == Op::kSendInvalidate || request.segments.size() > limits.segments_max) return false;
    if (request.inlined && (length > limits.inline_max || request.op == Op::kRead)) return false;
    return length <= (request.op == Op::kSend ? caps.message_max : caps.transfer_max);
}

static std::shared_ptr<SimOperation> make_operation(const WorkRequest& request, Nanoseconds now) {
    auto operation = std::make_shared<SimOperation>();
    operation->op = request.op;
    operation->signalled = request.signalled;
    operation->cookie = request.cookie;
    operation->segments.assign(request.segments.begin(), request.segments.end());
    operation->is_inlined = request.inlined;
    operation->length = length_of(request.segments);
    operation->remote = request.remote;
    operation->immediate = request.immediate;
    operation->posted = now;
    if (request.inlined)
        for (const Segment& segment : request.segments)
            operation->inlined.insert(operation->inlined.end(), segment.address,
                                      segment.address + segment.length);
    return operation;
}

Code SimConnection::post(std::span<const WorkRequest> requests) noexcept {
    SimEndpoint& end = *endpoint_;
    if (!end.open()) return Code::kClosed;
    SimFabric& fabric = end.poller->fabric();
    for (const WorkRequest& request : requests)
        if (!acceptable(request, fabric.caps(), limits_)) return Code::kInvalid;
    if (end.sends.size() + requests.size() > end.options.send_depth) return Code::kExhausted;
    bool failed = false;  // requests after the failed one are not executed, only flushed (F5)
    for (const WorkRequest& request : requests) {
        auto operation = make_operation(request, fabric.world().now());
        end.sends.push_back(operation);
        if (failed) continue;
        bool local = request.inlined || std::all_of(request.segments.begin(), request.segments.end(),
                                                    [&](const Segment& s) { return fabric.local_ok(s); });
        if (local) {
            end.wire.push_back(operation);
            continue;
        }
        failed = true;
        fabric.world().schedule_in({0}, [end = endpoint_, operation] {
            break_connection(end, Status(Code::kInvalid, "a local segment is not registered"),
                             operation.get(), CompletionStatus::kLocalAccess);
        });
    }
    start_transmission(endpoint_);
    return Code::kOk;
}

Code SimConnection::post_receives(std::span<const Receive> receives) noexcept {
    SimEndpoint& end = *endpoint_;
    if (!end.lives() || (end.state != SimState::kOpen && end.state != SimState::kCreated))
        return Code::kClosed;
    if (end.receives.size() + receives.size() > end.options.receive_depth) return Code::kExhausted;
    for (const Receive& receive : receives) {
        for (const Segment& segment : receive.segments)
            if (!end.poller->fabric().local_ok(segment)) return Code::kInvalid;
        end.receives.push_back({receive.cookie, {receive.segments.begin(), receive.segments.end()}});
    }
    if (EndpointPtr peer = end.peer.lock()) start_transmission(peer);
    return Code::kOk;
}

bool SimConnection::move_now(Op op, const Segment& local, RemoteAddress remote) noexcept {
    SimEndpoint& end = *endpoint_;
    if (!end.open() || !end.sends.empty()) return false;
    SimFabric& fabric = end.poller->fabric();
    EndpointPtr peer = end.peer.lock();
    if (!fabric.network().direct || !peer || !peer->open() || !fabric.local_ok(local)) return false;
    if (!fabric.world().connected(*end.node, *peer->node)) return false;
    if (fabric.world().fault("sim.indirect", fabric.network().indirect_one_in)) return false;
    std::byte* memory = peer->poller->fabric().reach(remote, local.length, op == Op::kWrite);
    if (memory == nullptr) return false;
    if (op == Op::kRead)
        std::memcpy(local.address, memory, local.length);
    else
        std::memcpy(memory, local.address, local.length);
    return true;
}

Status SimConnection::accept(std::span<const std::byte> data) {
    if (endpoint_->state != SimState::kCreated)
        return Status(Code::kInvalid, "only a created connection is accepted");
    accept_connection(endpoint_, {data.begin(), data.end()});
    return Status::ok();
}

void SimConnection::close() noexcept {
    if (!endpoint_->lives()) return;
    endpoint_->node->world().note(endpoint_->id ^ 0xc105eu);
    break_connection(endpoint_, Status(Code::kClosed, "closed here"), nullptr, CompletionStatus::kFlushed);
}

}  // namespace wss::fabric
