// SPDX-License-Identifier: Apache-2.0
// Channel: commands, responses and keep-alive.
#include <cstring>

#include "lib/initiator/channel.h"

namespace wss::initiator {

namespace {

constexpr uint64_t kSlotMask = kQueueDepthMax - 1;
constexpr uint64_t kFusedMask = WSS_FUSED_TAG_MASK;
static_assert((kSlotMask & kFusedMask) == kSlotMask, "a fused completion must name the slot");

// Cookies identify the work request of a completion.
constexpr uint64_t kReceiveBit = uint64_t{1} << 63;
constexpr uint32_t kNoSlot = 0xffff;
constexpr uint64_t send_cookie(uint32_t slot, uint32_t retires) {
    return uint64_t{retires} << 16 | slot;
}

}  // namespace

Command& Channel::take() noexcept {
    Command& command = *free_.pop_front();
    command.state = Command::State::kTaken;
    return command;
}

void Channel::put_back(Command& command) noexcept {
    command.state = Command::State::kFree;
    // The command goes to the front, because its memory is in the CPU cache.
    free_.push_front(command);
}

void Channel::free_command(Command& command) noexcept {
    if (command.state != Command::State::kAnswered && command.state != Command::State::kOnWire &&
        command.state != Command::State::kTaken)
        return;
    command.request = nullptr;
    put_back(command);
}

bool Channel::send(Command& command, wire::CommandRequest& words) noexcept {
    command.arrived = 0;
    command.again = false;
    command.tag = ++uses_ * kQueueDepthMax | command.slot;
    words.tag = command.tag;
    std::byte* iu = slot_memory(command.slot);
    size_t length = wire::encode_command(words, {iu, slot_bytes_});
    if (length == 0) return false;
    if (command.payload.kind == Payload::Kind::kImmediate) {
        Cursor from = command.payload.where;
        from.gather(iu + length, command.payload.length);
        length += command.payload.length;
    }
    command.state = Command::State::kOnWire;
    --credits_;
    ++outstanding_;
    queue_send(iu, length, command.slot);
    return true;
}

// post() copies an inlined message. Its work request is signalled only occasionally, to free entries of the
// send queue.
void Channel::queue_send(std::byte* address, size_t length, uint32_t slot) noexcept {
    if (batched_ == kBatch) flush();
    if (batched_ == kBatch) return;  // closing: flush() could not post; commands will be abandoned
    bool inlined = length <= inline_max_;
    fabric::WorkRequest& work = batch_[batched_];
    work = fabric::WorkRequest{};
    work.op = fabric::Op::kSend;
    work.inlined = inlined;
    work.signalled = !inlined || unsignalled_ + 1 >= kSignalEvery;
    ++unsignalled_;
    ++queued_sends_;
    work.cookie = send_cookie(inlined ? kNoSlot : slot, unsignalled_);
    if (work.signalled) unsignalled_ = 0;
    if (!inlined && slot < commands_.size()) commands_[slot].send_pending = true;
    if (!inlined && slot >= commands_.size()) short_busy_[slot - commands_.size()] = true;
    batch_segments_[batched_] = {address, static_cast<uint32_t>(length), sends_->lkey()};
    work.segments = {&batch_segments_[batched_], 1};
    ++batched_;
    sent_ = true;
}

void Channel::flush() noexcept {
    if (batched_ == 0 || !talking()) return;
    Code code = connection_->post({batch_.data(), batched_});
    if (code == Code::kOk) {
        batched_ = 0;
        return;
    }
    // kClosed: on_closed() will give the reason. Any other code is a violation of C4.
    if (code != Code::kClosed) close(Status(Code::kInternal, "cannot post a command"));
}

void Channel::on_completions(fabric::Connection&, std::span<const fabric::Completion> completions) noexcept {
    for (const fabric::Completion& completion : completions) {
        if (!talking()) return;
        // After a failure on_closed() follows, which abandons the commands on the wire.
        if (completion.status == fabric::CompletionStatus::kOk) completed(completion);
    }
    flush_receives();
}

void Channel::completed(const fabric::Completion& completion) noexcept {
    switch (completion.kind) {
        case fabric::CompletionKind::kSend:
            return send_completed(completion.cookie);
        case fabric::CompletionKind::kReceive:
        case fabric::CompletionKind::kReceiveImmediate:
            return received(completion);
        default:
            return violation("a completion of an operation that was not posted");
    }
}

void Channel::send_completed(uint64_t cookie) noexcept {
    uint32_t slot = cookie & 0xffff;
    queued_sends_ -= static_cast<uint32_t>(cookie >> 16);
    if (slot == kNoSlot) return;
    if (slot >= commands_.size()) {
        short_busy_[slot - commands_.size()] = false;
        return;
    }
    Command& command = commands_[slot];
    command.send_pending = false;
    if (command.state == Command::State::kAnswered) free_command(command);
}

void Channel::received(const fabric::Completion& completion) noexcept {
    uint32_t index = static_cast<uint32_t>(completion.cookie & ~kReceiveBit);
    received_ = true;
    if (completion.kind == fabric::CompletionKind::kReceiveImmediate)
        fused(completion.immediate);
    else
        message({receive_memory(index), completion.length});
    repost(index);
}

void Channel::message(wire::Bytes bytes) noexcept {
    wire::Response response;
    wire::CreditRequest credit_request;
    wire::AsyncEvent event;
    wire::Notify notify;
    wire::CacheEngineNotice engine;
    wire::RetryNotice again;
    wire::TargetLogout logout;
    if (state_ == State::kProving) return auth_message(bytes);
    auto bad = [](wire::ParseError error) { return error != wire::ParseError::kNone; };
    switch (wire::opcode_of(bytes)) {
        case WSS_SRP_RSP:
            if (bad(wire::parse_response(bytes, response))) return violation("a malformed response");
            return answered(find(response.tag, ~uint64_t{0}), response);
        case WSS_SRP_BATCH_RSP:
            return several_done(bytes);
        case WSS_SRP_KEEPALIVE_RSP:
            return;  // only its arrival matters
        case WSS_SRP_NOTIFY:
            if (bad(wire::parse_notify(bytes, notify))) return violation("a malformed notification");
            return owner_.notified(notify);
        case WSS_SRP_CACHE_ENGINE:
            if (bad(wire::parse_cache_engine(bytes, engine))) return violation("a malformed CACHE_ENGINE");
            return engine_named(engine);
        case WSS_SRP_RETRY:
            if (bad(wire::parse_retry(bytes, again))) return violation("a malformed RETRY");
            return retry(again);
        case WSS_SRP_CRED_REQ:
            if (bad(wire::parse_credit_request(bytes, credit_request)))
                return violation("a malformed credit request");
            add_credits(credit_request.credits);
            return answer_target(WSS_SRP_CRED_RSP, credit_request.tag);
        case WSS_SRP_AER_REQ:
            if (bad(wire::parse_async_event(bytes, event))) return violation("a malformed event");
            add_credits(event.credits);
            owner_.notified({.event = 0, .lun = event.lun});
            return answer_target(WSS_SRP_AER_RSP, event.tag);
        case WSS_SRP_T_LOGOUT:
            if (bad(wire::parse_target_logout(bytes, logout))) return violation("a malformed logout");
            return close(failure(Code::kUnavailable, "the target ended the connection: {}",
                                 wire::logout_reason(logout.reason)));
        default:
            return violation("a message of unknown type");
    }
}

Command* Channel::find(uint64_t tag, uint64_t mask) noexcept {
    uint64_t slot = tag & kSlotMask;
    if (slot >= commands_.size()) return nullptr;
    Command& command = commands_[slot];
    if (command.state != Command::State::kOnWire || (command.tag & mask) != tag) return nullptr;
    return &command;
}

void Channel::fused(uint32_t immediate) noexcept {
    wire::FusedCompletion completion;
    if ((login_.caps & WSS_CAP_FUSED_COMPLETION) == 0)
        return violation("a fused completion, which was not negotiated");
    if (wire::unpack_fused(immediate, completion) != wire::ParseError::kNone)
        return violation("a malformed fused completion");
    wire::Response good;
    good.credits = completion.credits;
    answered(find(completion.tag, kFusedMask), good);
}

void Channel::several_done(wire::Bytes message) noexcept {
    wire::Done done;
    if ((login_.caps & WSS_CAP_BATCHED_COMPLETION) == 0)
        return violation("a batched completion, which was not negotiated");
    if (wire::parse_done(message, done) != wire::ParseError::kNone)
        return violation("a malformed batched completion");
    add_credits(done.credits);
    // The owner may close the channel during any of these calls.
    for (size_t i = 0; i < done.count() && talking(); ++i) answered(find(done.tag(i), kFusedMask), {});
}

void Channel::answered(Command* command, const wire::Response& response) noexcept {
    if (command == nullptr) return violation("a response to an unknown command");
    add_credits(response.credits);
    --outstanding_;
    command->state = Command::State::kAnswered;
    owner_.command_answered(*command, response);
    if (!command->send_pending) free_command(*command);
}

// Excess credits have no effect: the number of slots still ensures C1.
void Channel::add_credits(uint32_t credits) noexcept {
    credits_ = credits > kQueueDepthMax - credits_ ? kQueueDepthMax : credits_ + credits;
}

void Channel::answer_target(uint8_t opcode, uint64_t tag) noexcept {
    // SRP allows the target one unanswered request, so it cannot fill the slots of short messages without
    // breaking that rule.
    if (!send_short(opcode, tag)) violation("too many unanswered requests");
    flush();
}

bool Channel::send_short(uint8_t opcode, uint64_t tag) noexcept {
    if (queued_sends_ >= send_depth_) return false;
    uint32_t free = 0;
    while (free < kShortSlots && short_busy_[free]) ++free;
    if (free == kShortSlots) return false;
    uint32_t slot = static_cast<uint32_t>(commands_.size()) + free;
    std::byte* at = slot_memory(static_cast<uint32_t>(commands_.size())) + size_t{free} * kShortBytes;
    // The flush below copies an inlined message at once, before its slot can be taken again.
    size_t length = wire::encode_short({opcode, tag}, {at, kShortBytes});
    queue_send(at, length, slot);
    flush();
    return true;
}

void Channel::repost(uint32_t receive) noexcept {
    reposts_[reposted_++] = receive;
    if (reposted_ == kBatch) flush_receives();
}

void Channel::flush_receives() noexcept {
    if (reposted_ == 0 || (!talking() && state_ != State::kConnecting)) return;
    std::array<fabric::Receive, kBatch> receives;
    std::array<fabric::Segment, kBatch> segments;
    for (uint32_t i = 0; i < reposted_; ++i) {
        segments[i] = {receive_memory(reposts_[i]), WSS_SRP_MAX_TI_IU_LEN, receives_->lkey()};
        receives[i] = {kReceiveBit | reposts_[i], {&segments[i], 1}};
    }
    Code code = connection_->post_receives({receives.data(), reposted_});
    reposted_ = 0;
    if (code != Code::kOk && code != Code::kClosed) close(Status(Code::kInternal, "cannot post a receive"));
}

void Channel::violation(const char* what) noexcept {
    close(Status(Code::kInvalid, std::string("the target broke the protocol: it sent ") + what));
}

void Channel::tick(Nanoseconds now) noexcept {
    if (state_ == State::kProving) {
        if (proving_since_ == kNever) proving_since_ = now;
        if (now - proving_since_ > options_.connect_timeout)
            close(Status(Code::kTimedOut, "the target did not finish the authentication"));
        return;
    }
    if (state_ != State::kUp || keepalive_.count == 0) return;
    if (received_) unanswered_since_ = kNever;
    if (sent_) last_sent_ = now;
    received_ = sent_ = false;
    if (unanswered_since_ != kNever && now - unanswered_since_ > keepalive_)
        return close(failure(Code::kTimedOut, "the target has been silent for {} ms",
                             (now - unanswered_since_).count / 1'000'000));
    if (now - last_sent_ < Nanoseconds{keepalive_.count / 3}) return;
    if (!send_short(WSS_SRP_KEEPALIVE_REQ, ++uses_)) return;
    last_sent_ = now;
    sent_ = false;
    if (unanswered_since_ == kNever) unanswered_since_ = now;
}

}  // namespace wss::initiator
