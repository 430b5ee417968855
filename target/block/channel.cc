// SPDX-License-Identifier: Apache-2.0
// The life of a channel, and its handling of completions and messages.
#include "target/block/channel.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "target/block/service.h"

namespace wss::block {

// Limits log lines that a peer can cause.
static bool may_log(const ChannelRecord& record) {
    static log::SourceLimiter limiter(10);
    return limiter.allow(record.source);
}

// Cookies of receives have this bit. Others are 0, a constant of request.h, or the address of a Request.
static constexpr uint64_t kReceiveBit = 1;

static uint32_t send_depth_for(const ChannelTerms& terms) {
    return terms.credits * kSendDepthPerCredit + kSendDepthExtra;
}

Channel::Channel(Lane& lane, std::shared_ptr<ChannelRecord> record)
    : lane_(lane),
      worker_(lane.worker()),
      record_(std::move(record)),
      terms_(record_->terms),
      send_depth_(send_depth_for(terms_)),
      slots_max_(receive_slots(terms_)),
      counters_(record_->counters),
      credits_(terms_.credits),
      rights_(*record_),
      signalled_(send_depth_ + 1) {
    record_->channel = this;
    reposts_.reserve(slots_max_);
    receive_segments_.resize(slots_max_);
    if (record_->session_id != 0) share_ = lane_.initiator_share(*record_);
    record_->last_heard_ns.store(worker_.reactor().now().count, std::memory_order_relaxed);
}

Channel::~Channel() {
    for (auto& [lun, flows] : flows_) flows.unlink();
    record_->channel = nullptr;
}

// Adds slots, in memory of their own, and posts their receives with the next post_receives().
Status Channel::add_slots(uint32_t count) {
    const size_t stride = slot_bytes(terms_);
    auto memory = lane_.fabric().allocate(stride * count, fabric::Access::kLocal);
    if (!memory) return memory.status().within("receive buffers");
    std::byte* slot = (*memory)->bytes().data();
    for (const uint32_t end = slots_ + count; slots_ < end; ++slots_, slot += stride) {
        Request& request = requests_.emplace_back();
        request.channel = this;
        request.slot = slot;
        request.slot_lkey = (*memory)->lkey();
        request.index = static_cast<uint16_t>(slots_);
        request.io.done = storage_done;
        request.io.context = &request;
        receive_segments_[slots_] = {request.iu(), terms_.max_it_iu, request.slot_lkey};
        reposts_.push_back({uint64_t{slots_} << 1 | kReceiveBit, {&receive_segments_[slots_], 1}});
    }
    slot_memory_.push_back(std::move(*memory));
    return Status::ok();
}

Status Channel::open(fabric::ConnectRequest& request, std::span<const std::byte> accept_data) {
    constexpr size_t kShortBytes = kBatch * sizeof(ShortBytes);
    auto messages =
        lane_.fabric().allocate(kShortBytes + sizeof(wss_srp_cache_engine), fabric::Access::kLocal);
    if (!messages) return messages.status().within("send buffers");
    messages_ = std::move(*messages);
    short_posting_ = {reinterpret_cast<ShortBytes*>(messages_->bytes().data()), kBatch};
    notice_memory_ = messages_->bytes().subspan(kShortBytes);
    WSS_TRY(add_slots(terms_.authenticate() ? kAuthSlots : slots_max_));
    if (terms_.authenticate())
        auth_ = std::make_unique<auth::Authenticator>(record_->secrets, record_->login_request, accept_data);
    fabric::ConnectionOptions options;
    options.send_depth = send_depth_;
    options.receive_depth = slots_max_;
    options.send_segments = 1;
    options.inline_bytes = kInlineWish;
    options.read_depth = kReadDepth;
    auto connection = request.create(lane_.poller(), options, *this);
    if (!connection) return connection.status();
    connection_ = std::move(*connection);
    if (auth_) auth_->bind(connection_->channel_binding());
    // After this, the connection ends only by on_closed() or on_refused().
    if (!post_receives()) return Status::ok();
    if (Status accepted = connection_->accept(accept_data); !accepted) close(accepted.to_string());
    return Status::ok();
}

void Channel::set_life(Life next) noexcept {
    WSS_ASSERT(next > life_, "the states of a channel only advance");
    life_ = next;
    // A peer that accepts no data cannot keep a channel forever: the session table closes it after a timeout.
    if (next == Life::kDraining) record_->draining_since_ns = worker_.reactor().now().count;
    // The channel ends with its last command, so request coalesced completions now.
    if (next >= Life::kDraining && cache_client_ != nullptr) worker_.gateway()->flush_completions();
    if (next != Life::kDraining) return;
    // End the waits for engines and limits now. They may last too long, and these commands have not begun.
    for (uint32_t i = 0; i < slots_; ++i) {
        Request& request = requests_[i];
        if (request.state != State::kAwaiting && request.state != State::kThrottled) continue;
        stop_waiting(request, false);
        // After BUSY the initiator repeats the command, on its next channel.
        request.status = wire::kBusy;
        request.state == State::kAwaiting ? wait_over(request) : limit_over(request, false);
    }
}

void Channel::close(std::string_view why) noexcept {
    if (life_ >= Life::kClosing) return;
    set_life(Life::kClosing);
    log::debug("{}: closing the channel: {}", record_->peer, why);
    connection_->close();
}

void Channel::drain(std::string_view why, wss_srp_logout_reason reason) noexcept {
    if (life_ == Life::kConnecting) return close(why);
    if (life_ != Life::kLive) return;
    set_life(Life::kDraining);
    drain_reason_ = why;
    goodbye_ = reason;
    mark_dirty();
}

void Channel::log_out(Request& request) noexcept {
    recycle(request);
    if (life_ != Life::kLive) return;
    set_life(Life::kDraining);
    drain_reason_ = "the initiator logged out";
    mark_dirty();
}

// Called at the end of each turn in which something was posted or completed.
void Channel::finish_drain_if_idle() noexcept {
    if (life_ != Life::kDraining || in_flight_ > 0 || batch_count_ > 0 || short_count_ > 0) return;
    if (goodbye_) {
        ShortBytes message{};
        wire::encode_target_logout({.reason = *std::exchange(goodbye_, std::nullopt)}, message.bytes);
        send_short(message);
        return;
    }
    if (sends_outstanding_ == since_signal_) close(drain_reason_);
}

// A T_LOGOUT gives the peer the reason, because the operator searches in the peer's log first. The cause may
// also be a network that has damaged the peer's messages. Commands received before are completed. Commands
// received later are dropped.
void Channel::violation(wss_srp_logout_reason reason) noexcept {
    if (life_ == Life::kDraining) return;
    counters_.violations.add();
    if (running() && may_log(*record_))
        log::warning("{}: closing the channel, the peer broke the protocol: {}", record_->peer,
                     wire::logout_reason(reason));
    drain("protocol violation", reason);
}

void Channel::mark_dirty() noexcept {
    lane_.mark_dirty(*this);
}

bool Channel::take_credit() noexcept {
    if (credits_ == 0 && cache_client_ != nullptr) worker_.gateway()->take_messages();
    if (credits_ == 0) {
        violation(WSS_SRP_LOGOUT_BEYOND_CREDITS);
        return false;
    }
    --credits_;
    return true;
}

// Number of tags in one message that can be inlined.
static size_t done_max(uint32_t inline_max) {
    if (inline_max < wire::done_bytes(0)) return 0;
    return std::min((inline_max - wire::done_bytes(0)) / sizeof(uint16_t), wire::kDoneMax);
}

void Channel::on_established(fabric::Connection& connection, std::span<const std::byte>) noexcept {
    inline_max_ = std::min(connection.limits().inline_max, kInlineWish);
    done_max_ = done_max(inline_max_);
    read_depth_ = std::min(connection.limits().read_depth, kReadDepth);
    if (life_ == Life::kConnecting) set_life(Life::kLive);
    join_cache();
    record_->established.store(true, std::memory_order_relaxed);
}

void Channel::on_refused(fabric::Connection& connection, const Status& why,
                         std::span<const std::byte>) noexcept {
    on_closed(connection, why);
}

void Channel::on_closed(fabric::Connection&, const Status& why) noexcept {
    // An initiator whose secret is wrong leaves when it has received this target's proof.
    if (running() && auth_ != nullptr && auth_->expects_proof()) {
        counters_.refused_logins.add();
        audit_failure(record_->source, record_->peer, auth_->name(),
                      fmt::format("left after the challenge: {}", auth_->suspicion()));
    }
    if (running() && may_log(*record_)) log::info("{}: connection lost: {}", record_->peer, why.to_string());
    set_life(Life::kClosed);
    if (cache_client_ != nullptr) worker_.gateway()->remove_client(cache_client_);
    cache_client_ = nullptr;
    batch_count_ = 0;
    while (fence_job_ != nullptr) fence_passed();
    for (uint32_t i = 0; i < slots_; ++i) {
        State state = requests_[i].state;
        const bool stays = state == State::kStorage || state == State::kLocking || state == State::kReserving;
        if (!stays) release(requests_[i]);
        if (state == State::kStorage) requests_[i].aborted = true;
    }
    if (busy_ == 0) return lane_.channel_died();
    if (worker_.gateway() != nullptr) worker_.gateway()->end_cancelled();
}

void Channel::on_completions(fabric::Connection&, std::span<const fabric::Completion> completions) noexcept {
    bool heard = false;
    for (const fabric::Completion& completion : completions) {
        if (completion.status != fabric::CompletionStatus::kOk) {
            completion_failed(completion);
        } else if ((completion.cookie & kReceiveBit) == 0) {
            sent(completion.cookie);
        } else if (completion.kind != fabric::CompletionKind::kReceive) {
            violation(WSS_SRP_LOGOUT_NOT_AGREED);
        } else {
            heard = true;
            received(requests_[completion.cookie >> 1], completion.length);
        }
    }
    if (heard) record_->last_heard_ns.store(worker_.reactor().now().count, std::memory_order_relaxed);
}

void Channel::completion_failed(const fabric::Completion& completion) noexcept {
    if (completion.status == fabric::CompletionStatus::kFlushed || !running()) return;
    if (may_log(*record_))
        log::warning("{}: the channel failed: {}{}", record_->peer, fabric::to_string(completion.status),
                     completion.status == fabric::CompletionStatus::kRemoteAccess
                         ? " (a command referred to memory that the initiator has not registered)"
                         : "");
    close(fabric::to_string(completion.status));
}

void Channel::received(Request& request, uint32_t length) noexcept {
    // A command may arrive before on_established().
    if (life_ == Life::kConnecting) set_life(Life::kLive);
    if (!running()) return;
    request.iu_length = length;
    if (auth_ != nullptr) return received_auth(request);
    switch (wire::opcode_of({request.iu(), length})) {
        case WSS_SRP_CMD:
            // A draining channel starts no commands. Those that arrive are still unanswered when the
            // connection closes, so the peer can repeat them.
            return life_ == Life::kLive ? start_command(request) : recycle(request);
        case WSS_SRP_TSK_MGMT:
            return life_ == Life::kLive ? start_task_management(request) : recycle(request);
        case WSS_SRP_I_LOGOUT:
            return log_out(request);
        case WSS_SRP_CRED_RSP:
        case WSS_SRP_AER_RSP:
        case WSS_SRP_KEEPALIVE_REQ:
            return received_short(request);
        default:
            return violation(WSS_SRP_LOGOUT_UNKNOWN_MESSAGE);
    }
}

void Channel::received_short(Request& request) noexcept {
    wire::ShortMessage message;
    if (wire::parse_short({request.iu(), request.iu_length}, message) != wire::ParseError::kNone)
        return violation(WSS_SRP_LOGOUT_MALFORMED);
    recycle(request);
    if (message.opcode != WSS_SRP_KEEPALIVE_REQ) return;
    if ((terms_.caps & WSS_CAP_KEEPALIVE) == 0) return violation(WSS_SRP_LOGOUT_NOT_AGREED);
    ShortBytes answer{};
    wire::encode_short({.opcode = WSS_SRP_KEEPALIVE_RSP, .tag = message.tag}, answer.bytes);
    send_short(answer);
}

void Channel::sent(uint64_t cookie) noexcept {
    sends_outstanding_ -= signalled_[signalled_head_];
    signalled_head_ = (signalled_head_ + 1) % signalled_.size();
    record_->sending_since_ns.store(signalled_head_ == signalled_tail_ ? 0 : worker_.reactor().now().count,
                                    std::memory_order_relaxed);
    if (!answers_.empty() || !fetches_.empty() || short_count_ > 0 || !notices_.empty() || batch_count_ > 0 ||
        fence_wanted_ || life_ == Life::kDraining)
        mark_dirty();
    if (cookie == kShortCookie) short_busy_ = false;
    if (cookie == kNoticeCookie) notice_busy_ = false;
    if (cookie == kFenceCookie) fence_passed();
    if (cookie <= kNoticeCookie || !running()) return;
    Request& request = *reinterpret_cast<Request*>(cookie);
    if (request.state == State::kSending) return recycle(request);
    --reads_outstanding_;
    if (--request.outstanding == 0 && request.moved == request.to_move) fetched(request);
}

// If the queue is full the message is dropped. That does no harm. A peer that floods the target with
// keep-alives gets enough answers anyway. A notification is only a hint, and those already in the queue have
// the same effect.
void Channel::send_short(const ShortBytes& message) noexcept {
    if (!running() || short_count_ == kShortQueue) return;
    short_queue_[(short_head_ + short_count_++) % kShortQueue] = message;
    mark_dirty();
}

void Channel::send_notify(uint8_t event, uint64_t lun) noexcept {
    ShortBytes message{};
    wire::encode_notify({.event = event, .lun = lun}, message.bytes);
    send_short(message);
}

void Channel::notify_everything() noexcept {
    if (running() && auth_ == nullptr && terms_.notify()) send_notify(0, 0);
}

void Channel::probe() noexcept {
    if (life_ != Life::kLive || auth_ != nullptr) return;
    ShortBytes message{};
    wire::encode_credit_request({.tag = 0, .credits = 0}, message.bytes);
    send_short(message);
}

// An initiator is not notified of a volume that is hidden from it before and after the change.
void Channel::volume_changed(volume::Change change, const volume::OpenVolume& volume) noexcept {
    using Change = volume::Change;
    const uint64_t lun = volume.volume().lun();
    if (change == Change::kLimits) return;
    if (change == Change::kAccess || change == Change::kRemoved) rights_.access_changed(lun);
    if (change == Change::kRemoved) rights_.reservations_changed(lun);
    if (share_ != nullptr && change == Change::kRemoved) share_->forget(lun);
    if (!running() || auth_ != nullptr) return;
    const volume::Permission now = volume.access().of(record_->name);
    const volume::Permission before =
        change == Change::kAccess ? volume.former_access().of(record_->name) : now;
    const bool seen = now != volume::Permission::kNone, was_seen = before != volume::Permission::kNone;
    if ((!seen && !was_seen) || (change == Change::kAccess && now == before)) return;
    if (!terms_.notify())
        return attentions_.volume_changed(
            change, lun, change == Change::kAdded || change == Change::kRemoved || seen != was_seen,
            worker_.units().luns());
    // Indexed by Change, without kLimits. The event 0 reports a changed access list; the initiator then
    // rescans.
    constexpr uint8_t kEvents[] = {WSS_SRP_NOTIFY_CREATED, WSS_SRP_NOTIFY_DELETED, WSS_SRP_NOTIFY_RESIZED,
                                   WSS_SRP_NOTIFY_READ_ONLY, 0};
    // One channel of each session sends the notifications.
    if (record_->speaks.load(std::memory_order_relaxed))
        send_notify(kEvents[static_cast<size_t>(change)], lun);
}

void Channel::reservations_changed(const Unit& unit, const volume::Reservations& change) noexcept {
    rights_.reservations_changed(unit.lun());
    if (running() && auth_ == nullptr)
        attentions_.reservations_changed(unit.lun(), change, registrant_of(*record_));
}

// Ends a request in any state: returns all resources that it holds (Q2).
void Channel::release(Request& request) noexcept {
    if (request.state == State::kReceiving) return;
    stop_waiting(request, false);
    leave_cache(request);
    end_change(request);
    give_buffers(request);
    if (request.unit != nullptr) worker_.units().release(*request.unit);
    request.unit = nullptr;
    request.state = State::kReceiving;
    --in_flight_;
    if (AbortJob* job = std::exchange(request.abort_job, nullptr)) job->drop();
}

// Ends a request and posts its receive again.
void Channel::recycle(Request& request) noexcept {
    release(request);
    if (!running()) return;
    reposts_.push_back({uint64_t{request.index} << 1 | kReceiveBit, {&receive_segments_[request.index], 1}});
    mark_dirty();
}

}  // namespace wss::block
