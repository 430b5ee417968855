// SPDX-License-Identifier: Apache-2.0
// Posting and completing. This code does not allocate, lock or log. Only the device's library makes system
// calls.
#include <arpa/inet.h>

#include <algorithm>

#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/negotiation.h"
#include "lib/fabric/verbs/tag.h"

namespace wss::fabric::verbs {

// Work requests per doorbell. The chain is built on the stack.
constexpr size_t kChainMax = 16;
constexpr size_t kChainSegmentsMax = kChainMax * 16;

// --- posting ---

static ibv_wr_opcode opcode_of(Op op) {
    switch (op) {
        case Op::kSend:
            return IBV_WR_SEND;
        case Op::kSendInvalidate:
            return IBV_WR_SEND_WITH_INV;
        case Op::kWrite:
            return IBV_WR_RDMA_WRITE;
        case Op::kWriteImmediate:
            return IBV_WR_RDMA_WRITE_WITH_IMM;
        case Op::kRead:
            return IBV_WR_RDMA_READ;
    }
    return IBV_WR_SEND;
}

static ibv_sge* copy_segments(std::span<const Segment> segments, const Device& device, ibv_sge* to) {
    for (const Segment& segment : segments)
        *to++ = {.addr = reinterpret_cast<uint64_t>(segment.address),
                 .length = segment.length,
                 .lkey = device.lkey(segment.lkey)};
    return to;
}

static uint64_t length_of(std::span<const Segment> segments) {
    uint64_t length = 0;
    for (const Segment& segment : segments) length += segment.length;
    return length;
}

Code VerbsConnection::check(std::span<const WorkRequest> requests) const noexcept {
    for (const WorkRequest& request : requests) {
        if (request.segments.size() > segments_max(request.op, limits_)) return Code::kInvalid;
        if (request.inlined && (request.op == Op::kRead || length_of(request.segments) > limits_.inline_max))
            return Code::kInvalid;
        if (request.op == Op::kWriteImmediate && !caps_.write_immediate) return Code::kInvalid;
        if (request.op == Op::kSendInvalidate && !caps_.send_invalidate) return Code::kInvalid;
    }
    if (requests.size() > options_.send_depth - (send_next_ - send_done_)) return Code::kExhausted;
    return Code::kOk;
}

Code VerbsConnection::post(std::span<const WorkRequest> requests) noexcept {
    if (state_ != State::kEstablished) return Code::kClosed;
    if (Code code = check(requests); code != Code::kOk) return code;
    while (!requests.empty()) {
        size_t count = std::min(requests.size(), kChainMax);
        // A chain that the device refuses closes the connection. The rest counts as posted and is flushed.
        post_chain(requests.first(count));
        requests = requests.subspan(count);
    }
    return Code::kOk;
}

void VerbsConnection::post_chain(std::span<const WorkRequest> requests) noexcept {
    ibv_send_wr chain[kChainMax];
    ibv_sge segments[kChainSegmentsMax];
    ibv_sge* free_segment = segments;
    for (size_t i = 0; i < requests.size(); ++i) {
        const WorkRequest& request = requests[i];
        ibv_send_wr& wr = chain[i];
        // Signals some requests for internal use, so that the slots of unsignalled ones become free.
        bool signalled = request.signalled || ++send_unsignalled_ >= signal_every_;
        if (signalled) send_unsignalled_ = 0;
        sends_[send_next_ & send_mask_] = {request.cookie, request.op, request.signalled};
        wr.wr_id = send_id(tag_, send_next_++);
        if (signalled) send_awaited_ = send_next_;
        wr.next = &chain[i + 1];
        wr.sg_list = free_segment;
        wr.num_sge = static_cast<int>(request.segments.size());
        wr.opcode = opcode_of(request.op);
        wr.send_flags = 0;
        if (signalled) wr.send_flags |= IBV_SEND_SIGNALED;
        if (request.inlined) wr.send_flags |= IBV_SEND_INLINE;
        if (request.op == Op::kSendInvalidate)
            wr.invalidate_rkey = request.immediate;
        else
            wr.imm_data = htonl(request.immediate);
        wr.wr.rdma.remote_addr = request.remote.address;
        wr.wr.rdma.rkey = request.remote.rkey;
        free_segment = copy_segments(request.segments, *keys_, free_segment);
    }
    chain[requests.size() - 1].next = nullptr;
    if (state_ != State::kEstablished) return;
    ibv_send_wr* bad = nullptr;
    if (int error = ibv_post_send(qp_, chain, &bad); error != 0) broken(error);
}

Code VerbsConnection::post_receives(std::span<const Receive> receives) noexcept {
    if (state_ >= State::kClosing) return Code::kClosed;
    if (qp_ == nullptr) return Code::kInvalid;
    for (const Receive& receive : receives)
        if (receive.segments.size() > receive_segments_max_) return Code::kInvalid;
    if (receives.size() > options_.receive_depth - (receive_next_ - receive_done_)) return Code::kExhausted;
    while (!receives.empty()) {
        size_t count = std::min(receives.size(), kChainMax);
        post_receive_chain(receives.first(count));
        receives = receives.subspan(count);
    }
    return Code::kOk;
}

void VerbsConnection::post_receive_chain(std::span<const Receive> receives) noexcept {
    ibv_recv_wr chain[kChainMax];
    ibv_sge segments[kChainSegmentsMax];
    ibv_sge* free_segment = segments;
    for (size_t i = 0; i < receives.size(); ++i) {
        receives_[receive_next_ & receive_mask_] = receives[i].cookie;
        chain[i] = {.wr_id = receive_id(tag_, receive_next_++),
                    .next = &chain[i + 1],
                    .sg_list = free_segment,
                    .num_sge = static_cast<int>(receives[i].segments.size())};
        free_segment = copy_segments(receives[i].segments, *keys_, free_segment);
    }
    chain[receives.size() - 1].next = nullptr;
    if (state_ >= State::kClosing) return;
    ibv_recv_wr* bad = nullptr;
    if (int error = ibv_post_recv(qp_, chain, &bad); error != 0) broken(error);
}

// --- completing ---

static CompletionKind kind_of(ibv_wc_opcode opcode) {
    switch (opcode) {
        case IBV_WC_RDMA_WRITE:
            return CompletionKind::kWrite;
        case IBV_WC_RDMA_READ:
            return CompletionKind::kRead;
        case IBV_WC_RECV:
            return CompletionKind::kReceive;
        case IBV_WC_RECV_RDMA_WITH_IMM:
            return CompletionKind::kReceiveImmediate;
        default:
            return CompletionKind::kSend;
    }
}

static CompletionStatus send_status(ibv_wc_status status, Op op) {
    switch (status) {
        case IBV_WC_SUCCESS:
            return CompletionStatus::kOk;
        case IBV_WC_WR_FLUSH_ERR:
            return CompletionStatus::kFlushed;
        case IBV_WC_REM_ACCESS_ERR:
            return CompletionStatus::kRemoteAccess;
        case IBV_WC_REM_INV_REQ_ERR:
            // The responder's status for a message that does not fit, and for an access that it never allows.
            return op == Op::kSend || op == Op::kSendInvalidate ? CompletionStatus::kLength
                                                                : CompletionStatus::kRemoteAccess;
        case IBV_WC_REM_OP_ERR:  // a fault of the receiver; for soft RoCE, the message does not fit
            return op == Op::kSend || op == Op::kSendInvalidate ? CompletionStatus::kLength
                                                                : CompletionStatus::kOther;
        case IBV_WC_LOC_LEN_ERR:
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_ACCESS_ERR:
            return CompletionStatus::kLocalAccess;
        case IBV_WC_LOC_QP_OP_ERR:  // soft RoCE: unknown lkey
            return CompletionStatus::kLocalAccess;
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RNR_RETRY_EXC_ERR:
        case IBV_WC_RESP_TIMEOUT_ERR:
        case IBV_WC_REM_ABORT_ERR:
            return CompletionStatus::kPeerLost;
        default:
            return CompletionStatus::kOther;
    }
}

static CompletionStatus receive_status(ibv_wc_status status) {
    switch (status) {
        case IBV_WC_SUCCESS:
            return CompletionStatus::kOk;
        case IBV_WC_WR_FLUSH_ERR:
            return CompletionStatus::kFlushed;
        case IBV_WC_LOC_LEN_ERR:
        case IBV_WC_LOC_QP_OP_ERR:  // soft RoCE: the message does not fit
            return CompletionStatus::kLength;
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_ACCESS_ERR:
            return CompletionStatus::kLocalAccess;
        default:
            return CompletionStatus::kOther;
    }
}

// Returns false for completions that are only for internal use.
bool VerbsConnection::take_send(const ibv_wc& done, Completion& completion) noexcept {
    uint32_t sequence = sequence_of(done.wr_id);
    const SendSlot& slot = sends_[sequence & send_mask_];
    send_done_ = sequence + 1;
    if (slot.marker) {
        marker_done_ = true;
        return false;
    }
    completion = {.cookie = slot.cookie, .status = send_status(done.status, slot.op)};
    if (done.status == IBV_WC_SUCCESS) completion.kind = kind_of(done.opcode);
    return slot.report || done.status != IBV_WC_SUCCESS;
}

void VerbsConnection::take_receive(const ibv_wc& done, Completion& completion) noexcept {
    uint32_t sequence = sequence_of(done.wr_id);
    receive_done_ = sequence + 1;
    completion = {.cookie = receives_[sequence & receive_mask_], .status = receive_status(done.status)};
    if (done.status != IBV_WC_SUCCESS) return;
    completion.kind = kind_of(done.opcode);
    completion.length = done.byte_len;
    completion.invalidated = (done.wc_flags & IBV_WC_WITH_INV) != 0;
    if (completion.invalidated)
        completion.immediate = done.invalidated_rkey;
    else if ((done.wc_flags & IBV_WC_WITH_IMM) != 0)
        completion.immediate = ntohl(done.imm_data);
}

void VerbsConnection::on_done(std::span<const ibv_wc> done) noexcept {
    if (qp_ == nullptr) return;  // give_up_draining() has flushed the rings
    Completion completions[32];
    size_t count = 0;
    const ibv_wc* failed = nullptr;
    CompletionStatus cause = CompletionStatus::kOk;
    bool delivers = false;
    for (const ibv_wc& one : done) {
        Completion& completion = completions[count];
        if (is_receive(one.wr_id)) {
            take_receive(one, completion);
            ++count;
        } else if (take_send(one, completion)) {
            ++count;
        } else {
            continue;
        }
        if (one.status == IBV_WC_SUCCESS) {
            delivers = true;
        } else if (failed == nullptr) {
            failed = &one;
            cause = completion.status;
        }
    }
    // The peer's first message arrived before the connection manager's event.
    if (delivers && state_ == State::kAccepting) establish({});
    if (failed != nullptr) take_cause(cause, *failed);
    if (count > 0) handler_.on_completions(*this, {completions, count});
    advance_close();
}

}  // namespace wss::fabric::verbs
