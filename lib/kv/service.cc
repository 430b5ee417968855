// SPDX-License-Identifier: Apache-2.0
// A partition's life: starting, connections, greeting, stopping. service_reads.cc and service_writes.cc have
// the messages, termination.cc what becomes of transactions whose clients are gone.
#include "lib/kv/service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/kv/placement.h"
#include "lib/kv/service_peer.h"

namespace wss::kv {

namespace {

constexpr uint32_t kPeersMax = 4096;
constexpr Nanoseconds kTick = from_ms(5);

log::Limiter& peer_log() {
    static log::Limiter limiter(10);
    return limiter;
}

std::string why_no_lease(wire::KvStatus status, const ServiceOptions& options) {
    switch (status) {
        case wire::KvStatus::kIdTaken:
            return "this client id belongs to another client";
        case wire::KvStatus::kNoMemory:
            return fmt::format(
                "all client ids of partition {} are leased: that of a client that vanished is free after {} "
                "s",
                options.partition, options.lease.count / 1'000'000'000);
        default:
            return "this is no client id";
    }
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

Service::Service(reactor::Reactor& reactor, WallClock& wall, ServiceOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      clock_(wall),
      random_(options_.seed),
      incarnation_(random_.next() | 1),
      leases_({.partition = options_.partition,
               .partitions = static_cast<uint32_t>(options_.partitions.size()),
               .lease = options_.lease,
               .seed = random_.next()}),
      timer_(&Service::on_tick, this),
      started_(reactor.clock().now()) {}

Service::~Service() {
    snapshot_.reset();
    reactor_.cancel(timer_);
    // Continuations refer to this service.
    if (store_) {
        for (auto& pending : pending_) store_->forget(pending.get());
        reactor_.remove(*store_);
    }
}

Result<std::unique_ptr<Service>> Service::create(reactor::Reactor& reactor,
                                                 std::vector<fabric::Fabric*> fabrics, WallClock& wall,
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
        return failure(Code::kInvalid, "partition {} of {}: the map names every partition, this one too",
                       options.partition, options.partitions.size());
    std::unique_ptr<Service> service(new Service(reactor, wall, std::move(options)));
    service->lanes_ = std::move(lanes);
    if (Status status = service->open(log); !status) return status;
    return service;
}

Status Service::open(store::Log* log) {
    WSS_TRY(open_arena());
    store::Options store_options = options_.store;
    store_options.epoch = random_.next() | 1;
    auto made = store::Store::create(store_options, arena_->bytes(), reactor_.clock(), log);
    if (!made) return made.status();
    store_ = std::move(*made);
    WSS_TRY(store_->recover());
    reactor_.add(*store_);
    links_.resize(options_.partitions.size());
    ready_ = store_->overdue({0}, 1).empty();
    reactor_.set(timer_, reactor_.clock().now() + kTick);
    return Status::ok();
}

Status Service::open_arena() {
    for (size_t i = 0; i < lanes_.size(); ++i)
        if (lanes_[i]->fabric().caps().name == "shm") arena_lane_ = i;
    auto arena = lanes_[arena_lane_]->fabric().allocate(options_.arena_bytes, fabric::Access::kRemoteRead);
    if (!arena) return arena.status().within("the arena of the key-value store");
    arena_ = std::move(*arena);
    registered_.resize(lanes_.size());
    for (size_t i = 0; i < lanes_.size(); ++i) {
        if (i == arena_lane_) continue;
        auto region = lanes_[i]->fabric().register_memory(arena_->bytes(), fabric::Access::kRemoteRead);
        if (!region) return region.status().within("the arena of the key-value store");
        registered_[i] = std::move(*region);
    }
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
    if (stopping_ || peers_.size() >= kPeersMax || !is_ours(request->data())) {
        request->reject({});
        return;
    }
    accept(lane, *request);
}

void Service::accept(size_t lane, fabric::ConnectRequest& request) {
    auto peer = std::make_unique<Peer>(*this, lane);
    if (Status status = peer->accept(request); !status) {
        if (peer_log().allow())
            log::warning("key-value service: a connection failed: {}", status.to_string());
        return;
    }
    ++counters_.connections;
    peers_.push_back(std::move(peer));
}

void Service::peer_gone(Peer& peer) {
    for (auto& pending : pending_)
        if (pending->peer == &peer) pending->peer = nullptr;
    if (snapshot_peer_ == &peer) snapshot_peer_ = nullptr;
    for (auto& cold : cold_)
        if (cold->peer == &peer) cold->peer = nullptr;
    for (auto& cold : cold_scans_)
        if (cold->peer == &peer) cold->peer = nullptr;
    if (peer.lease != nullptr)
        leases_.leave(*peer.lease, reactor_.now(), std::max(clock_stamp(), store_->floor()));
    std::erase_if(peers_, [&](const auto& one) { return one.get() == &peer; });
}

bool Service::lanes_empty() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->empty(); });
}

void Service::stop(std::function<void()> done) {
    stopping_ = true;
    snapshot_.reset();
    ready_ = false;
    ports_.clear();
    for (auto& peer : peers_) peer->channel()->close("the server is shutting down");
    for (auto& [timestamp, job] : terminations_)
        for (auto& ask : job->asks)
            if (links_[ask->partition]) links_[ask->partition]->forget(ask->call);
    terminations_.clear();
    for (auto& link : links_)
        if (link) link->close();
    stopped_done_ = std::move(done);
}

// --- messages ---

void Service::message_arrived(Peer& peer, wire::Bytes message) noexcept {
    ++counters_.messages;
    wire::KvHeader header;
    if (!wire::parse_header(message, header) || header.is_reply) {
        ++counters_.malformed;
        return peer.channel()->close("the peer sent what is no request");
    }
    if (!peer.greeted && header.kind != wire::KvKind::kHello)
        return peer.channel()->close("the peer did not greet");
    dispatch(peer, header, message);
}

void Service::dispatch(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    using Kind = wire::KvKind;
    bool of_client = header.kind != Kind::kHello && header.kind != Kind::kCheck &&
                     header.kind != Kind::kInfo && header.kind != Kind::kPing &&
                     header.kind != Kind::kGoodbye;
    // Another partition, which has no business with our keys.
    if (of_client && peer.lease == nullptr) return answer(peer, header, wire::KvStatus::kNotLeased);
    if (of_client && !ready_) return answer(peer, header, wire::KvStatus::kNotReady);
    if (of_client && header.epoch != map_epoch(static_cast<uint32_t>(options_.partitions.size())))
        return answer(peer, header, wire::KvStatus::kWrongPartition);
    // One frame holds very many requests for much: the channel looks only when it takes the next.
    const bool is_read =
        header.kind == Kind::kGet || header.kind == Kind::kScan || header.kind == Kind::kInfo;
    if (is_read && peer.channel()->backlog() > kBacklogMax) {
        ++counters_.refused_backlog;
        return answer(peer, header, wire::KvStatus::kNotReady);
    }
    switch (header.kind) {
        case Kind::kHello:
            return hello(peer, header, message);
        case Kind::kGet:
            return get(peer, header, message);
        case Kind::kPrepare:
            return prepare(peer, header, message);
        case Kind::kCommit:
        case Kind::kAbort:
        case Kind::kCheck:
            return decide(peer, header, message);
        case Kind::kPutIf:
            return put_if(peer, header, message);
        case Kind::kScan:
            return scan(peer, header, message);
        case Kind::kLock:
            return lock(peer, header, message);
        case Kind::kUnlock:
            return unlock(peer, message);
        case Kind::kInfo: {
            std::string text = info_json();
            return peer.channel()->send(reply_to(header, wire::KvStatus::kOk), wire::KvText{.text = text});
        }
        case Kind::kSnapshot:
            return snapshot(peer, header, message);
        case Kind::kPing:
            count_one_sided(message);
            return answer(peer, header, wire::KvStatus::kOk);
        case Kind::kGoodbye:
            return goodbye(peer, message);
    }
}

// A ping tells how many keys its client has read since the last one without asking us.
void Service::count_one_sided(wire::Bytes message) {
    wire::KvDecision told;
    if (wire::parse(message, told)) counters_.one_sided_keys += told.timestamp;
}

wire::KvHeader Service::reply_to(const wire::KvHeader& request, wire::KvStatus status) const {
    return {.kind = request.kind,
            .is_reply = true,
            .status = status,
            .flags = 0,
            .id = request.id,
            .epoch = map_epoch(static_cast<uint32_t>(options_.partitions.size()))};
}

void Service::answer(Peer& peer, const wire::KvHeader& request, wire::KvStatus status, uint64_t timestamp) {
    if (request.id == 0 && request.kind != wire::KvKind::kHello) return;  // no reply is wanted
    peer.channel()->send(reply_to(request, status), wire::KvDecision{.timestamp = timestamp});
}

void Service::refuse(Peer& peer, const wire::KvHeader& request, wire::KvStatus status, std::string_view why) {
    ++counters_.refused;
    if (status == wire::KvStatus::kMalformed) ++counters_.malformed;
    peer.channel()->send(reply_to(request, status), wire::KvText{.text = why});
}

// --- greeting ---

void Service::hello(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    if (peer.greeted || !wire::parse(message, hello_))
        return peer.channel()->close("the peer's greeting is malformed");
    if (stopping_) return peer.channel()->close("the server is shutting down");
    if (hello_.nonce != 0) {
        wire::KvStatus leased = lease_id(peer);
        if (leased != wire::KvStatus::kOk)
            return refuse(peer, header, leased, why_no_lease(leased, options_));
    }
    peer.greeted = true;
    const fabric::Region& arena = registered_[peer.lane] ? *registered_[peer.lane] : *arena_;
    std::string map = join_map(options_.partitions);
    wire::KvHelloReply reply{.client_id = peer.client_id,
                             .partition = options_.partition,
                             .partitions = static_cast<uint32_t>(options_.partitions.size()),
                             .incarnation = incarnation_,
                             .ticks = clock_.now_ticks(),
                             .window_ms = static_cast<uint32_t>(options_.store.window.count / 1'000'000),
                             .arena_rkey = arena.rkey(),
                             .arena_address = arena.remote_address(),
                             .arena_bytes = store_->arena().bytes,
                             .arena_epoch = store_->arena().epoch,
                             .ring = {},
                             .map = map};
    const bool ring = hello_.ring.bytes != 0;
    if (ring)
        reply.ring = hello_.ring.likewise ? peer.channel()->offer_ring(hello_.ring.announced)
                                          : peer.channel()->offer_ring();
    peer.channel()->send(reply_to(header, wire::KvStatus::kOk), reply);
    if (!ring || reply.ring.bytes == 0) return;
    // The answer still goes as a message.
    lanes_[peer.lane]->flush_now();
    if (!peer.channel()->use_ring(hello_.ring, hello_.nonce))
        peer.channel()->close("the peer offers no ring of ours");
}

wire::KvStatus Service::lease_id(Peer& peer) {
    if (hello_.client_id > kClientIdMax) return wire::KvStatus::kMalformed;
    peer.lease = hello_.client_id == 0 ? leases_.take(hello_.nonce, reactor_.now())
                                       : leases_.join(hello_.client_id, hello_.nonce, reactor_.now());
    if (peer.lease == nullptr)
        return hello_.client_id == 0 ? wire::KvStatus::kNoMemory : wire::KvStatus::kIdTaken;
    peer.client_id = peer.lease->id;
    return wire::KvStatus::kOk;
}

void Service::goodbye(Peer& peer, wire::Bytes message) {
    wire::KvDecision last;
    // Timestamps of others say nothing about the id that is given back.
    if (peer.lease == nullptr || !wire::parse(message, last) ||
        (last.timestamp != 0 && Timestamp{last.timestamp}.client() != peer.client_id))
        return peer.channel()->close("malformed goodbye");
    // What was issued beyond the bound was accepted nowhere.
    const uint64_t now = std::max(clock_.now_ticks(), store_->floor().ticks());
    const Timestamp bound = Timestamp::make(now + static_cast<uint64_t>(options_.ahead_max.count / 1000), 0);
    LeaseTable::say_goodbye(*peer.lease, std::min(Timestamp{last.timestamp}, bound));
}

// --- what is waited for ---

Service::Pending& Service::expect(Peer& peer, const wire::KvHeader& request, Timestamp timestamp) {
    if (pending_free_.empty()) pending_free_.push_back(std::make_unique<Pending>());
    pending_.push_back(std::move(pending_free_.back()));
    pending_free_.pop_back();
    Pending& pending = *pending_.back();
    pending = {.service = this,
               .peer = &peer,
               .header = request,
               .timestamp = timestamp,
               .since = reactor_.clock().now()};
    return pending;
}

void Service::drop(Pending& pending) {
    for (size_t i = pending_.size(); i-- > 0;) {
        if (pending_[i].get() != &pending) continue;
        pending_free_.push_back(std::move(pending_[i]));
        pending_[i] = std::move(pending_.back());
        pending_.pop_back();
        return;
    }
}

// --- time ---

void Service::on_tick(void* self) noexcept {
    static_cast<Service*>(self)->tick();
}

void Service::tick() {
    if (stopping_) {
        if (stopped() && stopped_done_) return std::exchange(stopped_done_, nullptr)();
        reactor_.set(timer_, reactor_.now() + kTick);
        return;
    }
    store_->maintain(Timestamp::make(clock_.now_ticks(), 0));
    store_->locks().expire();
    std::erase_if(cold_, [](const auto& cold) { return cold->is_over; });
    std::erase_if(cold_scans_, [](const auto& cold) { return cold->is_over; });
    terminate_overdue();
    work_on_snapshot();
    reactor_.set(timer_, reactor_.now() + kTick);
}

}  // namespace wss::kv
