// SPDX-License-Identifier: Apache-2.0
// Connection setup. Closing is in connection_close.cc, posting and completing in connection_datapath.cc.
#include "lib/fabric/verbs/connection.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lib/fabric/verbs/negotiation.h"

namespace wss::fabric::verbs {

// Number of retransmissions without an answer until a peer counts as lost. Each of the 7 transmissions waits
// 4.096 µs × 2^17 = 0.54 s, together 3.8 s (a device may wait up to four times as long). The default wait,
// 2.1 s, would detect a dead peer after 17 s. A much shorter wait would treat a paused virtual machine as
// lost. The maximum, 7, is not used because soft RoCE treats it as infinite.
constexpr uint8_t kRetries = 6;
constexpr uint8_t kAckTimeoutExponent = 17;
// How long a sender waits when no receive is posted: code 12 = 0.64 ms. The default, code 0, is 655 ms. The
// receiver chooses the time and sends it with each refusal. The sender waits at least as long (IBTA C9-130).
constexpr uint8_t kReceiverNotReadyTimer = 12;
// 7 means no limit, but TakeWatch applies one. The largest finite value, 6, would close a connection after 6
// × 0.64 = 3.84 ms in which the peer's thread did not run. With timer code 0, senders would stop for 655 ms
// even if a busy receiver is only 1 µs late (F3).
constexpr uint8_t kReceiverNotReadyRetries = 7;
// The marker that closing posts after all other work requests.
constexpr uint32_t kMarkers = 1;

VerbsConnection::VerbsConnection(VerbsPoller& poller, const ConnectionOptions& options,
                                 ConnectionHandler& handler)
    : handler_(handler), poller_(poller), options_(options), caps_(poller.caps()) {}

VerbsConnection::~VerbsConnection() {
    WSS_ASSERT(state_ == State::kClosed || !is_handed_over_,
               "a connection is destroyed after on_closed or on_refused, not before");
}

Status VerbsConnection::take_place() {
    auto place = poller_.attach(*this);
    if (!place) return place.status();
    place_ = std::move(*place);
    tag_ = place_.tag();
    return Status::ok();
}

Status VerbsConnection::use_device(rdma_cm_id& id) {
    auto used = poller_.use(id);
    if (!used) return used.status();
    const Device& device = *(*used)->device;
    if (options_.device != kAnyDevice && options_.device != device.index())
        return failure(Code::kInvalid,
                       "{}: reachable only through device {}, on which the keys of this connection's regions "
                       "are not valid",
                       what_, device.name());
    WSS_TRY(check_options(device));
    auto share = (*used)->completions.reserve(options_.send_depth + options_.receive_depth + kMarkers);
    if (!share) return share.status();
    completions_ = std::move(*share);
    used_ = *used;
    port_ = id.port_num;
    device_ = device.index();
    return Status::ok();
}

// The queue pair must be destroyed first.
void VerbsConnection::leave_device() noexcept {
    completions_ = {};
    used_ = nullptr;
    keys_ = nullptr;
}

Status VerbsConnection::check_options(const Device& device) const {
    const DeviceLimits& limits = device.limits();
    if (options_.send_depth == 0 || options_.receive_depth == 0)
        return failure(Code::kInvalid, "a connection's queues have a depth of at least 1");
    if (std::max(options_.send_depth, options_.receive_depth) > limits.queue_depth_max - kMarkers)
        return failure(Code::kInvalid,
                       "{}: queues of {} and {} work requests were requested; the limit is {}", device.name(),
                       options_.send_depth, options_.receive_depth, limits.queue_depth_max - kMarkers);
    if (std::max(options_.send_segments, options_.receive_segments) > caps_.segments_max)
        return failure(Code::kInvalid, "{}: {} and {} segments were requested; the limit is {}",
                       device.name(), options_.send_segments, options_.receive_segments, caps_.segments_max);
    return Status::ok();
}

Status VerbsConnection::create_queues(rdma_cm_id* id) {
    const Device& device = *used_->device;
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions_.cq();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = options_.send_depth + kMarkers;
    wanted.cap.max_recv_wr = options_.receive_depth;
    wanted.cap.max_send_sge = std::max(options_.send_segments, 1u);
    wanted.cap.max_recv_sge = std::max(options_.receive_segments, 1u);
    wanted.cap.max_inline_data = options_.inline_bytes;
    auto create = [&](ibv_qp_init_attr& attributes) {
        return rdma_create_qp(id, device.pd(), &attributes) == 0 ? 0 : errno;
    };
    if (int error = create_queue_pair(wanted, create); error != 0)
        return Status::from_errno(
            error,
            fmt::format("{}: cannot create a queue pair with {} sends of {} segments and {} receives of {}",
                        device.name(), options_.send_depth, options_.send_segments, options_.receive_depth,
                        options_.receive_segments));
    qp_ = id->qp;
    keys_ = &device;
    sends_.resize(std::bit_ceil(options_.send_depth + kMarkers));
    receives_.resize(std::bit_ceil(options_.receive_depth));
    send_mask_ = static_cast<uint32_t>(sends_.size() - 1);
    receive_mask_ = static_cast<uint32_t>(receives_.size() - 1);
    limits_.inline_max = wanted.cap.max_inline_data;
    limits_.segments_max = std::min(options_.send_segments, wanted.cap.max_send_sge);
    limits_.read_segments_max = std::min(limits_.segments_max, device.limits().read_segments_max);
    receive_segments_max_ = std::min(options_.receive_segments, wanted.cap.max_recv_sge);
    // Requests are signalled often enough that unsignalled ones never fill the queue.
    signal_every_ = std::max(options_.send_depth / 4, 1u);
    return Status::ok();
}

// The receiving side defines RNR waits and may set them from state RTR on.
void VerbsConnection::shorten_receiver_wait() noexcept {
    ibv_qp_attr attributes{};
    attributes.min_rnr_timer = kReceiverNotReadyTimer;
    // A device that refuses keeps its default, which is slower but works.
    ibv_modify_qp(qp_, &attributes, IBV_QP_MIN_RNR_TIMER);
}

void VerbsConnection::set_deadline(Nanoseconds deadline) {
    deadline_ = deadline;
    poller_.watch_deadline(deadline);
}

void VerbsConnection::bind(uint32_t peer_queue_pair) noexcept {
    const bool iwarp = caps_.read_sink_remote_write;
    rdma_cm_id* const id = id_.get();
    const BoundEnd here{rdma_get_local_addr(id), iwarp ? ntohs(rdma_get_src_port(id)) : qp_->qp_num};
    const BoundEnd peer{rdma_get_peer_addr(id), iwarp ? ntohs(rdma_get_dst_port(id)) : peer_queue_pair};
    binding_ = connector_ ? make_binding(here, peer) : make_binding(peer, here);
}

rdma_conn_param VerbsConnection::parameters(std::span<const std::byte> data, uint8_t initiator_depth,
                                            uint8_t responder_resources) const {
    rdma_conn_param parameters{};
    parameters.private_data = data.data();
    parameters.private_data_len = static_cast<uint8_t>(data.size());
    parameters.initiator_depth = initiator_depth;
    parameters.responder_resources = responder_resources;
    parameters.flow_control = 1;
    parameters.retry_count = kRetries;
    parameters.rnr_retry_count = kReceiverNotReadyRetries;
    return parameters;
}

static uint8_t clip(uint32_t wish, uint8_t limit) {
    return static_cast<uint8_t>(std::min<uint32_t>(wish, limit));
}

static void set_ack_timeout(rdma_cm_id* id) {
    uint8_t exponent = kAckTimeoutExponent;
    // This is an option of RoCE. Other transports keep the value of their path record.
    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent);
}

// --- the connecting side ---

static int to_timeout_ms(Nanoseconds timeout) {
    return static_cast<int>(std::clamp<int64_t>(timeout.count / from_ms(1).count, 1, 60'000));
}

Result<std::unique_ptr<Connection>> VerbsConnection::connect(VerbsPoller& poller, const Address& address,
                                                             std::span<const std::byte> data,
                                                             const ConnectionOptions& options,
                                                             ConnectionHandler& handler) {
    std::unique_ptr<VerbsConnection> connection(new VerbsConnection(poller, options, handler));
    WSS_TRY(connection->start(address, data));
    return std::unique_ptr<Connection>(std::move(connection));
}

Status VerbsConnection::start(const Address& address, std::span<const std::byte> data) {
    connector_ = true;
    what_ = address.to_string();
    if (data.size() > caps_.connect_data_max)
        return failure(Code::kInvalid, "{}: {} bytes of private data; a connect request holds {}", what_,
                       data.size(), caps_.connect_data_max);
    if (!data.empty()) memcpy(data_.data(), data.data(), data.size());
    data_length_ = static_cast<uint8_t>(data.size());
    peer_ = what_;
    connect_by_ = SystemClock().now() + options_.connect_timeout;
    WSS_TRY(take_place());
    addresses_ = parse_numeric(address);
    WSS_TRY(addresses_.empty() ? look_up(address) : dial());
    is_handed_over_ = true;
    return Status::ok();
}

Status VerbsConnection::look_up(const Address& address) {
    auto resolution = start_resolving(address);
    if (!resolution) return resolution.status();
    WSS_TRY(poller_.watch_look_up(tag_, (*resolution)->done.get()));
    resolution_ = std::move(*resolution);
    state_ = State::kLookingUp;
    set_deadline(connect_by_);
    return Status::ok();
}

void VerbsConnection::on_looked_up() noexcept {
    if (state_ != State::kLookingUp || !resolution_->finished.load(std::memory_order_acquire)) return;
    const std::shared_ptr<Resolution> resolution = std::move(resolution_);
    if (!resolution->status) return fail(resolution->status);
    addresses_ = resolution->addresses;
    // The resolver returns the preferred address first, and dial() takes from the back.
    std::reverse(addresses_.begin(), addresses_.end());
    if (Status dialled = dial(); !dialled) fail(std::move(dialled));
}

// Starts with the next address that an RDMA device can reach. That address may use its share of the remaining
// time, so that the others get theirs.
Status VerbsConnection::dial() noexcept {
    Status why;
    while (!addresses_.empty()) {
        const Nanoseconds now = SystemClock().now();
        const Nanoseconds share{(connect_by_ - now).count / static_cast<int64_t>(addresses_.size())};
        SocketAddress remote = addresses_.back();
        addresses_.pop_back();
        peer_ = remote.to_string();
        qp_ = nullptr;  // belongs to the previous address and its id
        rdma_cm_id* id = nullptr;
        id_.reset();
        leave_device();
        if (rdma_create_id(poller_.channel(), &id, static_cast<CmHandler*>(this), RDMA_PS_TCP) != 0)
            return Status::from_errno(errno, fmt::format("{}: cannot create a connection manager id", what_));
        id_.reset(id);
        set_ack_timeout(id);
        state_ = State::kResolvingAddress;
        if (rdma_resolve_addr(id, nullptr, remote.get(), to_timeout_ms(share)) == 0) {
            set_deadline(now + share);
            return Status::ok();
        }
        why = Status::from_errno(errno, fmt::format("{}: no RDMA device has a route to it", what_));
    }
    return why;
}

void VerbsConnection::try_next(Status why) noexcept {
    if (!connector_ || state_ >= State::kEstablished || addresses_.empty()) return fail(std::move(why));
    if (!dial()) fail(std::move(why));
}

void VerbsConnection::on_address_resolved() noexcept {
    if (Status usable = use_device(*id_); !usable) return try_next(std::move(usable));
    state_ = State::kResolvingRoute;
    if (rdma_resolve_route(id_.get(), to_timeout_ms(options_.connect_timeout)) != 0)
        try_next(Status::from_errno(errno, fmt::format("{}: no route", what_)));
}

void VerbsConnection::on_route_resolved() noexcept {
    if (Status made = create_queues(id_.get()); !made) return fail(std::move(made));
    state_ = State::kConnecting;
    const DeviceLimits& limits = used_->device->limits();
    rdma_conn_param wish =
        parameters({data_.data(), data_length_}, clip(options_.read_depth, limits.initiated_reads_max),
                   clip(options_.read_depth, limits.answered_reads_max));
    if (rdma_connect(id_.get(), &wish) != 0)
        fail(Status::from_errno(errno, fmt::format("{}: connecting failed", what_)));
}

// --- the accepting side ---

Result<std::unique_ptr<Connection>> VerbsConnection::accepting(VerbsPoller& poller, CmId& id,
                                                               const Offer& offer,
                                                               const ConnectionOptions& options,
                                                               ConnectionHandler& handler) {
    std::unique_ptr<VerbsConnection> connection(new VerbsConnection(poller, options, handler));
    connection->peer_ = to_string(rdma_get_peer_addr(id.get()));
    connection->what_ = "connection from " + connection->peer_;
    connection->offer_ = offer;
    WSS_TRY(connection->use_device(*id));
    auto reads = agree_on_reads(options, connection->used_->device->limits().initiated_reads_max,
                                offer.initiator_depth);
    if (!reads) return reads.status();
    connection->limits_.read_depth = *reads;
    connection->state_ = State::kRequested;
    if (id->channel != poller.channel() && rdma_migrate_id(id.get(), poller.channel()) != 0)
        return Status::from_errno(errno, connection->what_ + ": cannot be moved to another thread");
    set_ack_timeout(id.get());
    WSS_TRY(connection->take_place());
    if (Status made = connection->create_queues(id.get()); !made)
        return made.within(connection->what_ + ", which the peer may have cancelled");
    connection->is_handed_over_ = true;
    id->context = static_cast<CmHandler*>(connection.get());
    connection->id_ = std::move(id);
    connection->bind(offer.queue_pair);
    return std::unique_ptr<Connection>(std::move(connection));
}

Status VerbsConnection::accept(std::span<const std::byte> data) {
    if (state_ == State::kClosing || state_ == State::kClosed)
        return Status(Code::kClosed, what_ + ": closed");
    if (state_ != State::kRequested) return Status(Code::kInvalid, what_ + ": already accepted");
    if (data.size() > caps_.accept_data_max)
        return failure(Code::kInvalid, "{}: {} bytes of private data; an accept holds {}", what_, data.size(),
                       caps_.accept_data_max);
    const uint8_t answered = clip(options_.read_depth, std::min(offer_.responder_resources,
                                                                used_->device->limits().answered_reads_max));
    rdma_conn_param answer = parameters(data, static_cast<uint8_t>(limits_.read_depth), answered);
    if (rdma_accept(id_.get(), &answer) != 0) {
        Status why =
            Status::from_errno(errno, what_ + ": it cannot be accepted (the peer may have cancelled it)");
        begin_close(why);
        return why;
    }
    shorten_receiver_wait();
    state_ = State::kAccepting;
    set_deadline(SystemClock().now() + options_.connect_timeout);
    return Status::ok();
}

// --- both ---

void VerbsConnection::establish(std::span<const std::byte> data) noexcept {
    state_ = State::kEstablished;
    set_deadline(SystemClock().now() + kTakeTick);
    if (connector_) shorten_receiver_wait();
    handler_.on_established(*this, data);
}

// The connecting side gets the peer's limits only now.
void VerbsConnection::on_connected(const CmEvent& event) noexcept {
    // iWARP providers disagree about which of the two fields is the peer's. The device enforces the right one
    // itself.
    const bool iwarp = caps_.read_sink_remote_write;
    const uint8_t peer_answers =
        iwarp ? std::max(event.initiator_depth, event.responder_resources) : event.initiator_depth;
    auto reads = agree_on_reads(options_, used_->device->limits().initiated_reads_max, peer_answers);
    if (!reads) return fail(reads.status().within(what_));
    limits_.read_depth = *reads;
    bind(event.queue_pair);
    establish(event.data());
}

// The reasons are those of the InfiniBand connection manager. iWARP reports an errno.
static bool nobody_listens(int reason) {
    constexpr int kInvalidService = 8;
    return reason == kInvalidService || reason == -ECONNREFUSED;
}

static Status rejection(const std::string& what, int reason) {
    constexpr int kConsumer = 28;
    if (nobody_listens(reason))
        return failure(Code::kRefused, "{}: connection refused: no process listens there", what);
    if (reason == kConsumer) return failure(Code::kRefused, "{}: the peer rejected the connection", what);
    return failure(Code::kRefused, "{}: connection rejected (reason {} of the connection manager)", what,
                   reason);
}

void VerbsConnection::on_rejected(const CmEvent& event) noexcept {
    if (state_ >= State::kClosing) return;
    if (nobody_listens(event.status)) return try_next(rejection(what_, event.status));
    fail(rejection(what_, event.status));
    // The message has a fixed size. Without data it contains only zeros.
    std::span<const std::byte> data = event.data();
    if (std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; })) return;
    memcpy(data_.data(), data.data(), data.size());
    data_length_ = event.length;
}

void VerbsConnection::on_cm_event(const CmEvent& event) noexcept {
    Status status = Status::from_errno(event.status < 0 ? -event.status : ECONNRESET, "");
    switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            if (state_ == State::kResolvingAddress) on_address_resolved();
            break;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            if (state_ == State::kResolvingRoute) on_route_resolved();
            break;
        case RDMA_CM_EVENT_ADDR_ERROR:
            return try_next(Status::from_errno(status.sys_errno(), what_ + ": the address does not answer"));
        case RDMA_CM_EVENT_ROUTE_ERROR:
            return try_next(Status::from_errno(status.sys_errno(), what_ + ": no route"));
        case RDMA_CM_EVENT_UNREACHABLE:
            return try_next(
                Status(Code::kUnavailable, what_ + ": the peer's connection manager does not answer"));
        case RDMA_CM_EVENT_CONNECT_ERROR:
            return try_next(
                Status::from_errno(status.sys_errno(), what_ + ": the connection was not completed"));
        case RDMA_CM_EVENT_REJECTED:
            return on_rejected(event);
        case RDMA_CM_EVENT_ESTABLISHED:
            if (state_ == State::kConnecting) return on_connected(event);
            // The first message may have arrived earlier and established the connection.
            if (state_ == State::kAccepting) establish({});
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            await_goodbye_ = false;
            goodbye_received_ = true;
            if (state_ >= State::kClosing) return advance_close();
            return begin_close(Status(Code::kClosed, what_ + ": the peer closed the connection"));
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            return on_lost(Status(Code::kUnavailable, "the RDMA device is being removed"));
        default:
            break;
    }
}

}  // namespace wss::fabric::verbs
