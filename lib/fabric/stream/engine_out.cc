// SPDX-License-Identifier: Apache-2.0
// Engine, outbound: requests, answers to the peer's READs, counts.
#include <algorithm>
#include <cerrno>

#include "lib/fabric/stream/engine.h"

namespace wss::fabric::stream {

// Writes per turn. The number is bounded, because a peer that reads as fast as this side writes must not
// delay other connections.
constexpr int kWritesPerTurn = 4;
// Bytes that this side moves itself (shm) per turn: a few hundred microseconds of copying. The last transfer
// of a turn may exceed the limit.
constexpr int64_t kDirectBytesPerTurn = 1 << 20;

size_t Engine::transmit() noexcept {
    size_t events = 0;
    direct_budget_ = kDirectBytesPerTurn;
    for (int round = 0; round < kWritesPerTurn; ++round) {
        if (outbox_.empty()) {
            uint32_t built_before = sends_.built();
            build();
            events += sends_.built() - built_before;
        }
        if (outbox_.empty()) return events;
        if (!writable_) return events;
        if (!write_outbox()) return events;
        ++events;
        if (refusal_built_ && outbox_.empty()) {
            fail(Status(why_));
            return events;
        }
    }
    activate();
    return events;
}

// Returns true if the outbox is empty afterwards.
bool Engine::write_outbox() noexcept {
    while (!outbox_.empty()) {
        RegionTable::Guard guard;
        if (outbox_.has_region_parts()) {
            guard = table_->guard();
            if (std::optional<uint32_t> dropped = outbox_.drop_revoked(*table_)) refuse_read(*dropped);
        }
        if (outbox_.empty()) return true;
        ssize_t written = write(outbox_.pending());
        if (written == -EINTR) continue;
        if (written == -EAGAIN || written == 0) {
            writable_ = false;
            return false;
        }
        if (written < 0) {
            writable_ = false;
            if (written != -EPIPE && written != -ECONNRESET) {
                stream_failed(static_cast<int>(-written));
                return false;
            }
            // The engine reads what the peer sent before it left, and then reaches the end of the stream.
            readable_ = true;
            activate();
            return false;
        }
        outbox_.advance(static_cast<size_t>(written));
    }
    return true;
}

Frame Engine::counted(Frame frame) noexcept {
    frame.acknowledged = executed_told_ = executed_;
    frame.credits = credits_told_ = receives_.posted();
    acknowledge_wanted_ = false;
    return frame;
}

void Engine::build() noexcept {
    RegionTable::Guard guard;
    if (reads_in_.count > 0 || sends_.has_unbuilt()) guard = table_->guard();
    build_answers();
    if (answer_ && outbox_.has_room()) {
        outbox_.add(counted(*answer_), next_number_);
        answer_.reset();
    }
    if (refusing_) {
        if (reads_in_.count > 0 || refusal_built_ || !outbox_.has_room()) return;
        refusal_built_ = true;
        outbox_.add(counted({.type = FrameType::kRefuse,
                             .status = static_cast<uint8_t>(refused_status_),
                             .immediate = refused_number_}),
                    next_number_);
        return;
    }
    build_requests();
    if (ask_ && outbox_.has_room()) {
        outbox_.add(counted({.type = FrameType::kGrantAsk, .rkey = *ask_}), next_number_);
        ask_.reset();
    }
    if (outbox_.empty() && owes_counts()) build_acknowledge();
}

void Engine::build_acknowledge() noexcept {
    outbox_.add(counted({.type = FrameType::kAcknowledge}), next_number_);
}

// True if the counts need a frame of their own: the peer waits for them, or it may soon run out of receives,
// or very many executed requests are not yet reported. Otherwise they travel with the next frame.
bool Engine::owes_counts() const noexcept {
    if (executed_ != executed_told_ && acknowledge_wanted_) return true;
    if (executed_ - executed_told_ >= kDepthMax / 2) return true;
    if (receives_.posted() == credits_told_) return false;
    uint32_t peer_has = credits_told_ - messages_taken_;
    return peer_has <= receives_.depth() / 2;
}

void Engine::build_answers() noexcept {
    while (reads_in_.count > 0 && outbox_.has_room_for_region()) {
        PendingRead& read = reads_in_.front();
        if (read.offset == read.length) {
            outbox_.add(counted({.type = FrameType::kReadEnd}), next_number_);
            reads_in_.pop();
            continue;
        }
        uint32_t length = std::min(read.length - read.offset, kReadChunkMax);
        RemoteAddress where{.address = read.where.address + read.offset, .rkey = read.where.rkey};
        std::byte* data = remote(where, length, Access::kRemoteRead);
        if (data == nullptr) return refuse_read(read.number);
        Frame frame{.type = FrameType::kReadData, .length = length, .address = read.offset};
        outbox_.add_region(counted(frame), next_number_, where, data, read.number, table_->revocations());
        read.offset += length;
    }
}

// Refuses READ number `number`, and drops the READs after it.
void Engine::refuse_read(uint32_t number) noexcept {
    refuse(number, CompletionStatus::kRemoteAccess,
           failure(Code::kPermission, "{}: a READ's region was revoked while it was read", peer_));
    reads_in_.clear();
}

void Engine::build_requests() noexcept {
    while (!local_fault_ && sends_.has_unbuilt() && outbox_.has_room()) {
        if (!build_request(sends_.built())) return;
        sends_.advance_built();
    }
}

// Moves the data of a request directly where possible.
Engine::Settled Engine::settle(SendEntry& entry, uint32_t position) noexcept {
    if (!direct_ || entry.length == 0 || entry.op == Op::kSend) return Settled::kByFrame;
    switch (reach(entry.remote.rkey)) {
        case Reach::kFrames:
            return Settled::kByFrame;
        case Reach::kAsk:
            ask_ = entry.remote.rkey;
            [[fallthrough]];
        case Reach::kWait:
            return Settled::kLater;
        case Reach::kDirect:
            break;
    }
    // F1: this requires that every earlier frame is in the ring, and that the peer has counted every earlier
    // WRITE that it executes itself (those frames have kWantsAcknowledge).
    if (!outbox_.empty() || static_cast<int32_t>(acked_ - last_write_end_) < 0) return Settled::kLater;
    if (direct_budget_ <= 0) {
        activate();
        return Settled::kLater;
    }
    if (!move_directly(entry, sends_.segments(position))) return Settled::kByFrame;
    direct_budget_ -= entry.length;
    return Settled::kDone;
}

// Returns false when this request, and so every later one, must wait.
bool Engine::build_request(uint32_t position) noexcept {
    SendEntry& entry = sends_.at(position);
    if (!entry.inlined) {
        for (const Segment& segment : sends_.segments(position)) {
            if (segment.length == 0 || table_->is_local(segment, sent_from_)) continue;
            local_fault_ = true;  // reported when every earlier request is complete
            return false;
        }
    }
    bool takes_receive = entry.op == Op::kSend || entry.op == Op::kWriteImmediate;
    if (takes_receive && messages_sent_ == peer_credits_) return false;
    if (entry.op == Op::kRead && reads_out_.count >= limits_.read_depth) return false;
    const Settled settled = settle(entry, position);
    if (settled == Settled::kLater) return false;
    const bool placed = settled == Settled::kDone;
    if (placed && entry.op != Op::kWriteImmediate) {
        entry.wait = Wait::kNothing;
        return true;
    }

    bool wants_count = entry.signalled && entry.op != Op::kRead;  // kReadEnd completes a READ
    Frame frame{.flags = wants_count ? kWantsAcknowledge : uint8_t{0},
                .length = entry.length,
                .address = entry.remote.address,
                .rkey = entry.remote.rkey,
                .immediate = entry.immediate};
    entry.wait = entry.op == Op::kRead ? Wait::kData : Wait::kAcknowledge;
    entry.number = next_number_++;
    std::span<const Segment> payload = sends_.segments(position);
    switch (entry.op) {
        case Op::kSend:
            frame.type = FrameType::kSend;
            break;
        case Op::kRead:
            frame.type = FrameType::kRead;
            payload = {};
            reads_out_.push(position);
            break;
        default:
            frame.type = entry.op == Op::kWrite ? FrameType::kWrite : FrameType::kWriteImmediate;
            if (placed) {
                frame = {.type = FrameType::kPlacedImmediate,
                         .flags = frame.flags,
                         .address = entry.length,
                         .immediate = entry.immediate};
                payload = {};
            } else if (direct_) {
                frame.flags |= kWantsAcknowledge;
                last_write_end_ = next_number_;
            }
    }
    if (takes_receive) ++messages_sent_;
    outbox_.add(counted(frame), next_number_, payload);
    return true;
}

}  // namespace wss::fabric::stream
