// SPDX-License-Identifier: Apache-2.0
// Closing a connection: the only path from any state to the last call (see the comment at the head of
// connection.h).
#include <cerrno>
#include <cstring>

#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/tag.h"

namespace wss::fabric::verbs {

// Flushing takes a device microseconds. A device that has not finished by then has failed.
constexpr Nanoseconds kDrainMax = from_s(5);
// Maximum wait for the peer's disconnect message. A live peer sends it as soon as it polls.
constexpr Nanoseconds kGoodbyeMax = from_s(1);

void VerbsConnection::close() noexcept {
    begin_close(failure(Code::kClosed, "{}: closed by this side", what_));
}

void VerbsConnection::fail(Status why) noexcept {
    if (state_ >= State::kClosing) return;
    refused_ = connector_;
    data_length_ = 0;
    begin_close(std::move(why));
}

void VerbsConnection::on_lost(const Status& why) noexcept {
    if (connector_ && state_ < State::kEstablished) return fail(why.within(what_));
    begin_close(why.within(what_));
}

void VerbsConnection::begin_close(Status why) noexcept {
    if (state_ >= State::kClosing) return;
    bool connected = state_ == State::kAccepting || state_ == State::kEstablished;
    if (state_ == State::kRequested) rdma_reject(id_.get(), nullptr, 0);
    why_ = std::move(why);
    // A peer that does not answer our data will not answer a disconnect. After the peer's own disconnect no
    // answer is due.
    await_goodbye_ = connected && !goodbye_received_ && why_.code() != Code::kUnavailable;
    state_ = State::kClosing;
    resolution_.reset();
    set_deadline(SystemClock().now() + kDrainMax);
    if (qp_ != nullptr) stop_queues(connected);
    advance_close();
}

void VerbsConnection::stop_queues(bool connected) noexcept {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    bool stopped = ibv_modify_qp(qp_, &attributes, IBV_QP_STATE) == 0;
    if (!stopped || !post_marker()) set_deadline(SystemClock().now());
    // rdma_disconnect() also moves the queue pair to the error state once more. Only then does soft RoCE
    // flush receives that were posted after it had detected an error itself.
    if (connected) rdma_disconnect(id_.get());
}

bool VerbsConnection::post_marker() noexcept {
    ibv_send_wr marker{};
    marker.wr_id = send_id(tag_, send_next_);
    marker.opcode = IBV_WR_SEND;
    marker.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &marker, &bad) != 0) return false;
    sends_[send_next_ & send_mask_] = {.marker = true};
    ++send_next_;
    return true;
}

bool VerbsConnection::drained() const noexcept {
    return qp_ == nullptr || (marker_done_ && receive_done_ == receive_next_);
}

void VerbsConnection::advance_close() noexcept {
    if (state_ != State::kClosing || linked() || !drained()) return;
    if (await_goodbye_)
        set_deadline(SystemClock().now() + kGoodbyeMax);
    else
        poller_.finish_soon(*this);
}

void VerbsConnection::on_deadline() noexcept {
    deadline_ = kNever;
    if (state_ == State::kClosing) {
        if (!drained()) give_up_draining();
        await_goodbye_ = false;
        return advance_close();
    }
    if (state_ == State::kEstablished) return check_taking();
    if (state_ == State::kClosed) return;
    const char* why = state_ == State::kLookingUp ? "no answer from a name server" : "not connected";
    try_next(failure(Code::kTimedOut, "{}: {} within {} ms", what_, why,
                     options_.connect_timeout.count / from_ms(1).count));
}

void VerbsConnection::check_taking() noexcept {
    const bool waits = static_cast<int32_t>(send_awaited_ - send_done_) > 0;
    if (take_watch_.is_stuck(waits, send_done_))
        return begin_close(failure(Code::kUnavailable,
                                   "{}: the peer accepted no data for {} s (it posts no receives)", what_,
                                   kTakeTick.count / from_s(1).count));
    set_deadline(SystemClock().now() + kTakeTick);
}

void VerbsConnection::take_cause(CompletionStatus status, const ibv_wc& done) noexcept {
    if (state_ >= State::kClosing) return;
    Code code = status == CompletionStatus::kPeerLost       ? Code::kUnavailable
                : status == CompletionStatus::kRemoteAccess ? Code::kPermission
                : status == CompletionStatus::kFlushed      ? Code::kClosed
                                                            : Code::kIo;
    if (status == CompletionStatus::kFlushed)
        return begin_close(failure(code, "{}: the device closed the connection", what_));
    // Soft RoCE reports the same for a port that is down as for an unknown lkey, and before the port's event.
    if (done.status == IBV_WC_LOC_QP_OP_ERR && !used_->device->context().is_active(port_))
        return begin_close(failure(Code::kUnavailable, "{}: port {} of RDMA device {} is down", what_, port_,
                                   used_->device->name()));
    begin_close(failure(code, "{}: {} ({}, vendor code {:#x})", what_, to_string(status),
                        ibv_wc_status_str(done.status), done.vendor_err));
}

// The device refused a valid work request, so nothing about this queue pair is reliable. The connection does
// not even wait for it to flush.
void VerbsConnection::broken(int error) noexcept {
    begin_close(Status::from_errno(error, what_ + ": the device does not accept work requests"));
    if (state_ == State::kClosing && !drained()) set_deadline(SystemClock().now());
}

void VerbsConnection::give_up_draining() noexcept {
    rdma_destroy_qp(id_.get());
    qp_ = nullptr;
    Completion flushed[32];
    while (size_t count = take_flushed(flushed)) handler_.on_completions(*this, {flushed, count});
}

// Takes the remaining entries of the rings. Unsignalled requests are also reported, because they failed.
size_t VerbsConnection::take_flushed(std::span<Completion> flushed) noexcept {
    size_t count = 0;
    while (count < flushed.size() && send_done_ != send_next_) {
        const SendSlot& slot = sends_[send_done_++ & send_mask_];
        if (!slot.marker) flushed[count++] = {.cookie = slot.cookie, .status = CompletionStatus::kFlushed};
    }
    while (count < flushed.size() && receive_done_ != receive_next_)
        flushed[count++] = {.cookie = receives_[receive_done_++ & receive_mask_],
                            .status = CompletionStatus::kFlushed};
    return count;
}

void VerbsConnection::finish() noexcept {
    state_ = State::kClosed;
    deadline_ = kNever;
    qp_ = nullptr;
    id_.reset();
    leave_device();
    // The handler may destroy this object: its arguments must not be members.
    Status why = std::move(why_);
    std::array<std::byte, 256> data = data_;
    if (refused_)
        handler_.on_refused(*this, why, {data.data(), data_length_});
    else
        handler_.on_closed(*this, why);
}

}  // namespace wss::fabric::verbs
