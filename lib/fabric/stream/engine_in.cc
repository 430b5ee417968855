// SPDX-License-Identifier: Apache-2.0
// Engine, inbound: frames of the peer, which is not trusted.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lib/fabric/stream/engine.h"

namespace wss::fabric::stream {

// Time for the peer to read our refusal.
constexpr Nanoseconds kRefusalLasts = from_s(1);

void Engine::violation(std::string_view what) noexcept {
    fail(failure(Code::kInvalid, "{} broke the protocol: {}", peer_, what));
}

// From now on no request of the peer is executed. kRefuse will carry the number of the earliest refused
// request, because a READ that is still being answered may fail after a later request failed.
void Engine::refuse(uint32_t number, CompletionStatus status, Status why) noexcept {
    if (refusal_built_ || state_ >= State::kClosing) return;
    if (refusing_ && static_cast<int32_t>(number - refused_number_) >= 0) return;
    if (!refusing_) poller_.set_deadline(*this, poller_.now() + kRefusalLasts);
    refusing_ = true;
    refused_number_ = number;
    refused_status_ = status;
    why_ = std::move(why);
    activate();
}

// --- bytes ---

bool Engine::sink_region_valid() noexcept {
    RemoteAddress where{.address = sink_.frame.address + sink_.done, .rkey = sink_.frame.rkey};
    if (remote(where, sink_.remaining(), Access::kRemoteWrite) != nullptr) return true;
    refuse(executed_, CompletionStatus::kRemoteAccess,
           failure(Code::kPermission, "{}: a WRITE's region was revoked while it was written", peer_));
    sink_.kind = SinkKind::kDiscard;
    return false;
}

// Returns the destination of the rest of the current payload. For a region the caller must hold the guard.
size_t Engine::sink_vecs(std::span<iovec> out) noexcept {
    const Frame& frame = sink_.frame;
    switch (sink_.kind) {
        case SinkKind::kReceive:
            return gather(receives_.front_segments(), sink_.done, sink_.remaining(), out);
        case SinkKind::kReadData:
            return gather(sends_.segments(reads_out_.front()), frame.address + sink_.done, sink_.remaining(),
                          out);
        case SinkKind::kRegion:
            if (!sink_region_valid()) return 0;
            out[0] = iovec{.iov_base = reinterpret_cast<std::byte*>(frame.address) + sink_.done,
                           .iov_len = sink_.remaining()};
            return 1;
        default:
            return 0;
    }
}

size_t Engine::receive() noexcept {
    std::array<iovec, kSegmentsMax + 1> vecs;
    RegionTable::Guard guard;
    if (sink_.kind == SinkKind::kRegion) guard = table_->guard();
    size_t count = sink_vecs(std::span(vecs).first<kSegmentsMax>());
    size_t straight = count > 0 ? sink_.remaining() : 0;
    std::span<std::byte> staging = poller_.staging();
    vecs[count++] = iovec{.iov_base = staging.data(), .iov_len = staging.size()};
    ssize_t got = read({vecs.data(), count});
    if (guard) guard.unlock();

    if (got == -EINTR) return 1;
    if (got == -EAGAIN) {
        readable_ = false;
        return 0;
    }
    if (got < 0) {
        stream_failed(static_cast<int>(-got));
        return 1;
    }
    if (got == 0) {
        fail(failure(Code::kClosed, "{}: closed by the peer", peer_));
        return 1;
    }
    // A stream that returned less than requested is empty, and epoll reports when it has data again. After a
    // hang-up there is no further report, so the engine reads until the end.
    if (static_cast<size_t>(got) < straight + staging.size() && !hung_up_) readable_ = false;
    size_t taken = std::min(straight, static_cast<size_t>(got));
    if (taken > 0) {
        sink_.done += static_cast<uint32_t>(taken);
        if (sink_.remaining() == 0) end_payload();
    }
    consume(staging.first(static_cast<size_t>(got) - taken));
    return 1;
}

void Engine::place(std::span<const std::byte> bytes) noexcept {
    switch (sink_.kind) {
        case SinkKind::kReceive:
            scatter(receives_.front_segments(), sink_.done, bytes);
            break;
        case SinkKind::kReadData:
            scatter(sends_.segments(reads_out_.front()), sink_.frame.address + sink_.done, bytes);
            break;
        case SinkKind::kRegion: {
            RegionTable::Guard guard = table_->guard();
            if (sink_region_valid())
                std::memcpy(reinterpret_cast<std::byte*>(sink_.frame.address) + sink_.done, bytes.data(),
                            bytes.size());
            break;
        }
        default:
            break;
    }
    sink_.done += static_cast<uint32_t>(bytes.size());
}

void Engine::consume(std::span<const std::byte> bytes) noexcept {
    while (!bytes.empty() && state_ == State::kOpen) {
        size_t take;
        if (sink_.kind == SinkKind::kNone) {
            take = std::min(kFrameBytes - header_have_, bytes.size());
            std::memcpy(&header_[header_have_], bytes.data(), take);
            header_have_ += take;
            if (header_have_ == kFrameBytes) begin_frame();
        } else {
            take = std::min<size_t>(sink_.remaining(), bytes.size());
            place(bytes.first(take));
        }
        bytes = bytes.subspan(take);
        if (sink_.kind != SinkKind::kNone && sink_.remaining() == 0) end_payload();
        if (poller_.completions_low()) deliver();
    }
}

// --- frames ---

void Engine::begin_frame() noexcept {
    header_have_ = 0;
    Frame frame;
    if (!decode(header_, frame)) return violation("a malformed frame");
    if (!take_counts(frame)) return violation("counts that exceed what was sent, or that decrease");
    sink_ = Sink{.kind = payload_bytes(frame) > 0 ? SinkKind::kDiscard : SinkKind::kNone, .frame = frame};
    switch (frame.type) {
        case FrameType::kAcknowledge:
            return;
        case FrameType::kSend:
        case FrameType::kPlacedImmediate:
            return begin_message(frame);
        case FrameType::kWrite:
        case FrameType::kWriteImmediate:
            return begin_write(frame);
        case FrameType::kRead:
            return take_read(frame);
        case FrameType::kReadData:
            return begin_read_data(frame);
        case FrameType::kReadEnd:
            return take_read_end();
        case FrameType::kRefuse:
            return take_refusal(frame);
        case FrameType::kGrantAsk:
            if (!on_grant_ask(frame.rkey)) violation("an unexpected request for a grant");
            return;
        case FrameType::kGrant:
            if (!on_grant(frame.rkey, frame.status))
                violation("a grant that was not requested or is malformed");
            return;
    }
}

bool Engine::take_counts(const Frame& frame) noexcept {
    if (frame.acknowledged - acked_ > outbox_.sent_number() - acked_) return false;
    acked_ = frame.acknowledged;
    bool back = static_cast<int32_t>(frame.credits - peer_credits_) < 0;
    if (back || frame.credits - messages_sent_ > kDepthMax) return false;
    // More receives allow waiting messages to be sent.
    peer_credits_ = frame.credits;
    return true;
}

// A peer that counts correctly never sends more messages than this side has receives.
bool Engine::has_receive_for(const Frame&) noexcept {
    if (!receives_.empty()) return true;
    violation("a message without a receive for it");
    return false;
}

void Engine::begin_message(const Frame& frame) noexcept {
    if (refusing_ || !has_receive_for(frame)) return;
    if (frame.type == FrameType::kPlacedImmediate)
        return end_message(frame, static_cast<uint32_t>(frame.address));
    const ReceiveEntry& receive = receives_.front();
    CompletionStatus status = CompletionStatus::kOk;
    if (frame.length > receive.capacity) status = CompletionStatus::kLength;
    RegionTable::Guard guard = table_->guard();
    for (const Segment& segment : receives_.front_segments())
        if (segment.length > 0 && !table_->is_local(segment, received_to_))
            status = CompletionStatus::kLocalAccess;
    guard.unlock();
    if (status == CompletionStatus::kOk) {
        if (frame.length == 0) return end_message(frame, 0);
        sink_.kind = SinkKind::kReceive;
        return;
    }
    poller_.push({.cookie = receive.cookie, .kind = CompletionKind::kReceive, .status = status});
    bool too_long = status == CompletionStatus::kLength;
    refuse(executed_, too_long ? CompletionStatus::kLength : CompletionStatus::kOther,
           too_long ? failure(Code::kInvalid, "{}: a message of {} bytes exceeds the receive buffer of {}",
                              peer_, frame.length, receive.capacity)
                    : failure(Code::kInvalid, "a posted receive is not in the region that its lkey names"));
    receives_.pop();
    ++messages_taken_;
}

void Engine::end_message(const Frame& frame, uint32_t length) noexcept {
    bool plain = frame.type == FrameType::kSend;
    poller_.push({.cookie = receives_.front().cookie,
                  .kind = plain ? CompletionKind::kReceive : CompletionKind::kReceiveImmediate,
                  .length = length,
                  .immediate = plain ? 0 : frame.immediate});
    receives_.pop();
    ++messages_taken_;
    count_executed(frame);
}

// Call after the request is executed, so that no frame carries its count earlier.
void Engine::count_executed(const Frame& frame) noexcept {
    ++executed_;
    if (frame.flags & kWantsAcknowledge) acknowledge_wanted_ = true;
}

static std::string_view to_string(Access access) {
    return access == Access::kRemoteRead ? "READ" : "WRITE";
}

static Status access_refused(std::string_view peer, const Frame& frame, Access need) {
    return failure(Code::kPermission,
                   "{}: refused the peer's {} of {} bytes at {:#x}: key {:#010x} does not permit this access",
                   peer, to_string(need), frame.length, frame.address, frame.rkey);
}

void Engine::begin_write(const Frame& frame) noexcept {
    if (refusing_) return;
    if (frame.type == FrameType::kWriteImmediate && !has_receive_for(frame)) return;
    if (frame.length == 0) {  // touches nothing, so there is nothing to check
        sink_.kind = SinkKind::kRegion;
        return end_payload();
    }
    RegionTable::Guard guard = table_->guard();
    if (remote({frame.address, frame.rkey}, frame.length, Access::kRemoteWrite) == nullptr)
        return refuse(executed_, CompletionStatus::kRemoteAccess,
                      access_refused(peer_, frame, Access::kRemoteWrite));
    sink_.kind = SinkKind::kRegion;
}

void Engine::take_read(const Frame& frame) noexcept {
    if (refusing_) return;
    if (reads_in_.full()) return violation("more READs at once than agreed");
    RegionTable::Guard guard = table_->guard();
    RemoteAddress where{frame.address, frame.rkey};
    if (frame.length > 0 && remote(where, frame.length, Access::kRemoteRead) == nullptr)
        return refuse(executed_, CompletionStatus::kRemoteAccess,
                      access_refused(peer_, frame, Access::kRemoteRead));
    reads_in_.push({.where = where, .length = frame.length, .offset = 0, .number = executed_++});
}

void Engine::begin_read_data(const Frame& frame) noexcept {
    if (reads_out_.count == 0) return violation("data of a READ that was not requested");
    const SendEntry& entry = sends_.at(reads_out_.front());
    bool in_place = frame.address == entry.received && frame.length <= entry.length - entry.received;
    if (!in_place || frame.length == 0) return violation("data of a READ out of place");
    sink_.kind = SinkKind::kReadData;
}

// Completes a READ. Only kReadEnd does this: a revocation may cut the data of a READ short, and then kRefuse
// follows.
void Engine::take_read_end() noexcept {
    if (reads_out_.count == 0) return violation("the end of a READ that was not requested");
    SendEntry& entry = sends_.at(reads_out_.front());
    if (entry.received != entry.length) return violation("the end of a READ before all its data");
    entry.wait = Wait::kNothing;
    reads_out_.pop();
}

void Engine::end_payload() noexcept {
    Sink sink = std::exchange(sink_, Sink{});
    switch (sink.kind) {
        case SinkKind::kReceive:
            return end_message(sink.frame, sink.frame.length);
        case SinkKind::kRegion:
            if (sink.frame.type == FrameType::kWriteImmediate)
                return end_message(sink.frame, sink.frame.length);
            return count_executed(sink.frame);
        case SinkKind::kReadData:
            sends_.at(reads_out_.front()).received += sink.frame.length;
            return;
        default:
            return;
    }
}

void Engine::take_refusal(const Frame& frame) noexcept {
    auto status = static_cast<CompletionStatus>(frame.status);
    if (status != CompletionStatus::kRemoteAccess && status != CompletionStatus::kLength)
        status = CompletionStatus::kOther;
    for (uint32_t position = sends_.completed(); position != sends_.built(); ++position) {
        const SendEntry& entry = sends_.at(position);
        if (entry.number != frame.immediate || entry.wait == Wait::kNothing || is_done(entry)) continue;
        cause_position_ = position;
        Code code = status == CompletionStatus::kRemoteAccess ? Code::kPermission : Code::kInvalid;
        return fail(failure(code, "{} refused a request", peer_), status);
    }
    violation("a refusal of a request that is not outstanding");
}

void Engine::answer_grant(uint32_t rkey, uint8_t status) noexcept {
    answer_ = Frame{.type = FrameType::kGrant, .status = status, .rkey = rkey};
    activate();
}

}  // namespace wss::fabric::stream
