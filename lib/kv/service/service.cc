// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "lib/kv/placement.h"

namespace wss::kv {

namespace {

constexpr Nanoseconds kTick = from_ms(5);

// kOk if the message may be handled, otherwise the status of the reply.
wire::KvStatus admit(Partition& partition, const Peer& peer, const wire::KvHeader& header) {
    using Kind = wire::KvKind;
    const bool of_client = header.kind != Kind::kHello && header.kind != Kind::kInquire &&
                           header.kind != Kind::kInfo && header.kind != Kind::kPing &&
                           header.kind != Kind::kGoodbye;
    // The peer is another partition, which must not access keys.
    if (of_client && peer.lease == nullptr) return wire::KvStatus::kNotLeased;
    if (of_client && !partition.ready()) return wire::KvStatus::kNotReady;
    if (of_client && header.epoch != map_epoch(partition.count())) return wire::KvStatus::kWrongPartition;
    // One frame can hold very many requests with large replies: the channel checks its backlog only before
    // the next frame.
    const bool is_read =
        header.kind == Kind::kGet || header.kind == Kind::kScan || header.kind == Kind::kInfo;
    if (!is_read || peer.channel()->backlog() <= kBacklogMax) return wire::KvStatus::kOk;
    ++partition.counters().refused_backlog;
    return wire::KvStatus::kNotReady;
}

}  // namespace

class Service::Port final : public fabric::ListenHandler {
  public:
    Port(Service& service, size_t lane) : service_(service), lane_(lane) {}
    Result<fabric::Address> open(const fabric::Address& address) {
        auto listener = service_.lanes_[lane_]->poller().listen(address, *this);
        if (!listener) return listener.status();
        listener_ = std::move(*listener);
        return listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        service_.connect_requested(lane_, std::move(request));
    }

  private:
    Service& service_;
    const size_t lane_;
    std::unique_ptr<fabric::Listener> listener_;
};

Service::Service(reactor::Reactor& reactor, std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
                 ServiceOptions options)
    : lanes_(std::move(lanes)),
      partition_(reactor, wall, std::move(options)),
      access_(partition_),
      terminations_(partition_, lanes_),
      greeter_(partition_, access_, arena_),
      reads_(partition_, access_, disk_),
      scans_(partition_, access_, disk_),
      locks_(partition_, access_),
      writes_(partition_, access_, terminations_),
      snapshots_(partition_),
      timer_(&Service::on_tick, this) {}

Service::~Service() {
    partition_.reactor().cancel(timer_);
}

Result<std::unique_ptr<Service>> Service::create(reactor::Reactor& reactor,
                                                 const std::vector<fabric::Fabric*>& fabrics, WallClock& wall,
                                                 store::Log* log, ServiceOptions options) {
    std::vector<std::shared_ptr<Lane>> lanes;
    for (fabric::Fabric* fabric : fabrics) {
        auto lane = Lane::create(reactor, *fabric);
        if (!lane) return lane.status();
        lanes.push_back(std::move(*lane));
    }
    return create(reactor, std::move(lanes), wall, log, std::move(options));
}

Result<std::unique_ptr<Service>> Service::create(reactor::Reactor& reactor,
                                                 std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
                                                 store::Log* log, ServiceOptions options) {
    if (options.partitions.empty() || options.partitions.size() > kPartitionsMax ||
        options.partition >= options.partitions.size())
        return failure(Code::kInvalid,
                       "partition {} of {}: the map must name every partition, including this one",
                       options.partition, options.partitions.size());
    std::unique_ptr<Service> service(new Service(reactor, std::move(lanes), wall, std::move(options)));
    if (Status status = service->open(log); !status) return status;
    return service;
}

Status Service::open(store::Log* log) {
    WSS_TRY(arena_.open(lanes_, partition_.options().arena_bytes));
    WSS_TRY(partition_.open({.arena = arena_.arena(), .index = arena_.index()}, log,
                            [this](Timestamp timestamp) { greeter_.recovered(timestamp); }));
    reactor::Reactor& reactor = partition_.reactor();
    reactor.set(timer_, reactor.clock().now() + kTick);
    return Status::ok();
}

Result<fabric::Address> Service::listen(size_t fabric_index, const fabric::Address& address) {
    auto port = std::make_unique<Port>(*this, fabric_index);
    auto bound = port->open(address);
    if (bound) ports_.push_back(std::move(port));
    return bound;
}

// --- connections ---

bool Service::is_ours(wire::Bytes data) {
    return data.size() >= sizeof wire::kKvMagic &&
           std::memcmp(data.data(), wire::kKvMagic, sizeof wire::kKvMagic) == 0;
}

void Service::on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    connect_requested(0, std::move(request));
}

void Service::connect_requested(size_t lane, std::unique_ptr<fabric::ConnectRequest> request) {
    if (stopping_ || !is_ours(request->data())) return request->reject({});
    accept(lane, *request);
}

void Service::accept(size_t lane, fabric::ConnectRequest& request) {
    auto peer = std::make_unique<Peer>(*lanes_[lane], lane, *this);
    const std::string source = fabric::source_of(request.peer());
    if (!places_.take(*peer, source, partition_.reactor().now())) return request.reject({});
    if (Status status = peer->accept(request); !status) {
        places_.left(*peer);
        static log::SourceLimiter limiter(10);
        if (limiter.allow(source))
            log::warning("key-value service: {}: a connection failed: {}", source, status.to_string());
        return;
    }
    access_.apply(*peer);
    ++partition_.counters().connections;
    peer->at = peers_.size();
    peers_.push_back(std::move(peer));
}

void Service::peer_gone(Peer& peer) noexcept {
    greeter_.leave(peer);
    places_.left(peer);
    const size_t at = peer.at;
    std::swap(peers_[at], peers_.back());
    peers_[at]->at = at;
    peers_.pop_back();
}

bool Service::stopped() const {
    return stopping_ && peers_.empty() &&
           std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->empty(); });
}

void Service::set_access(std::shared_ptr<const AccessRules> rules) {
    access_.set_rules(std::move(rules));
    for (auto& peer : peers_) access_.apply(*peer);
}

void Service::stop(std::function<void()> done) {
    stopping_ = true;
    snapshots_.stop();
    partition_.set_ready(false);
    ports_.clear();
    for (auto& peer : peers_) peer->channel()->close("the server is shutting down");
    terminations_.stop();
    stopped_done_ = std::move(done);
}

// --- messages ---

void Service::message_arrived(Peer& peer, wire::Bytes message) noexcept {
    ServiceCounters& counters = partition_.counters();
    ++counters.messages;
    wire::KvHeader header;
    if (!wire::parse_header(message, header) || header.is_reply) {
        ++counters.malformed;
        return peer.channel()->close("the peer sent a malformed request");
    }
    if (!peer.greeted && header.kind != wire::KvKind::kHello)
        return peer.channel()->close("the peer sent no greeting");
    if (!access_.admits(peer, header)) return;
    const wire::KvStatus status = admit(partition_, peer, header);
    if (status != wire::KvStatus::kOk) return partition_.answer(peer, header, status);
    dispatch(peer, header, message);
}

void Service::dispatch(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    using Kind = wire::KvKind;
    switch (header.kind) {
        case Kind::kHello:
            if (stopping_) return peer.channel()->close("the server is shutting down");
            greeter_.hello(peer, header, message);
            if (peer.greeted) places_.greeted(peer);
            return;
        case Kind::kGet:
            return reads_.get(peer, header, message);
        case Kind::kPrepare:
            return writes_.prepare(peer, header, message);
        case Kind::kCommit:
        case Kind::kAbort:
        case Kind::kInquire:
            return writes_.decide(peer, header, message);
        case Kind::kPutIf:
            return writes_.put_if(peer, header, message);
        case Kind::kScan:
            return scans_.scan(peer, header, message);
        case Kind::kLock:
            return locks_.lock(peer, header, message);
        case Kind::kUnlock:
            return locks_.unlock(peer, message);
        case Kind::kInfo: {
            std::string text = info_json();
            return peer.channel()->send(partition_.reply_to(header, wire::KvStatus::kOk),
                                        wire::KvText{.text = text});
        }
        case Kind::kSnapshot:
            return snapshots_.begin(peer, header, message);
        case Kind::kPing:
            if (peer.may_access_memory) count_one_sided(message);
            return partition_.answer(peer, header, wire::KvStatus::kOk);
        case Kind::kGoodbye:
            return greeter_.goodbye(peer, message);
    }
}

// A ping reports how many keys its client has read one-sidedly since the last one.
void Service::count_one_sided(wire::Bytes message) {
    wire::KvDecision told;
    if (wire::parse(message, told)) partition_.counters().one_sided_keys += told.timestamp;
}

// --- time ---

void Service::on_tick(void* self) noexcept {
    static_cast<Service*>(self)->tick();
}

void Service::tick() {
    reactor::Reactor& reactor = partition_.reactor();
    if (stopping_) {
        if (stopped() && stopped_done_) return std::exchange(stopped_done_, nullptr)();
        reactor.set(timer_, reactor.now() + kTick);
        return;
    }
    store().maintain(partition_.clock_stamp());
    store().locks().expire();
    reads_.tick();
    scans_.tick();
    terminations_.tick();
    snapshots_.tick();
    places_.tick(reactor.now());
    reactor.set(timer_, reactor.now() + kTick);
}

}  // namespace wss::kv
