// SPDX-License-Identifier: Apache-2.0
// Engine: posting, completion, closing.
#include "lib/fabric/stream/engine.h"

#include <algorithm>
#include <cerrno>

#include "lib/fabric/stream/listener.h"

namespace wss::fabric::stream {

Caps caps(std::string_view name, uint32_t dead_peer_ms) {
    return {.name = name,
            .write_immediate = true,
            .segments_max = kSegmentsMax,
            .read_depth_max = kReadDepthMax,
            .message_max = kMessageMax,
            .transfer_max = kTransferMax,
            .connect_data_max = kConnectDataMax,
            .accept_data_max = kHelloDataMax,
            .reject_data_max = kRejectDataMax,
            .dead_peer_ms = dead_peer_ms};
}

static uint32_t clip(uint32_t wish, uint32_t most) {
    return std::clamp<uint32_t>(wish, 1, most);
}

Engine::Engine(const Setup& setup)
    : poller_(setup.poller),
      table_(setup.table),
      handler_(setup.handler),
      state_(setup.state),
      sends_(clip(setup.options.send_depth, kDepthMax), clip(setup.options.send_segments, kSegmentsMax),
             kInlineMax),
      receives_(clip(setup.options.receive_depth, kDepthMax),
                clip(setup.options.receive_segments, kSegmentsMax)),
      reads_out_(clip(setup.options.read_depth, kReadDepthMax)),
      reads_in_(clip(setup.options.read_depth, kReadDepthMax)) {
    poller_.count_connection(+1);
    limits_ = {.inline_max = kInlineMax,
               .segments_max = sends_.segments_max(),
               .read_segments_max = sends_.segments_max()};
}

Engine::~Engine() {
    WSS_ASSERT(state_ == State::kClosed, "a connection is destroyed only after on_closed or on_refused");
    ListNode<ActiveTag>::unlink();
    poller_.count_connection(-1);
}

void Engine::set_state(State next) noexcept {
    WSS_ASSERT(next > state_, "a connection's states only grow");
    state_ = next;
}

Hello Engine::hello(HelloKind kind) const noexcept {
    Hello hello;
    hello.kind = kind;
    hello.read_depth = static_cast<uint8_t>(reads_in_.items.size());
    return hello;
}

// --- posting ---

Code Engine::check(const WorkRequest& request) const noexcept {
    uint64_t length = bytes_of(request.segments);
    if (request.segments.size() > limits_.segments_max) return Code::kInvalid;
    if (request.op == Op::kSendInvalidate) return Code::kInvalid;
    if (length > (request.op == Op::kSend ? kMessageMax : kTransferMax)) return Code::kInvalid;
    if (request.inlined && (length > limits_.inline_max || request.op == Op::kRead)) return Code::kInvalid;
    return Code::kOk;
}

Code Engine::post(std::span<const WorkRequest> requests) noexcept {
    if (state_ != State::kOpen) return Code::kClosed;
    for (const WorkRequest& request : requests)
        if (Code code = check(request); code != Code::kOk) return code;
    if (requests.size() > sends_.room()) return Code::kExhausted;
    for (const WorkRequest& request : requests)
        sends_.push(request, static_cast<uint32_t>(bytes_of(request.segments)));
    activate();
    return Code::kOk;
}

Code Engine::post_receives(std::span<const Receive> receives) noexcept {
    if (state_ == State::kConnecting || state_ >= State::kClosing) return Code::kClosed;
    for (const Receive& receive : receives) {
        if (receive.segments.size() > receives_.segments_max()) return Code::kInvalid;
        if (bytes_of(receive.segments) > UINT32_MAX) return Code::kInvalid;
    }
    if (receives.size() > receives_.room()) return Code::kExhausted;
    for (const Receive& receive : receives)
        receives_.push(receive, static_cast<uint32_t>(bytes_of(receive.segments)));
    if (state_ == State::kOpen) activate();
    return Code::kOk;
}

// --- one turn ---

size_t Engine::progress() noexcept {
    size_t events = 0;
    if (state_ == State::kAccepted) {
        set_state(State::kOpen);
        std::vector<std::byte> data = std::move(hello_data_);
        handler_.on_established(*this, data);
        ++events;
    }
    if (state_ == State::kOpen && readable_) events += receive();
    events += reap();
    events += deliver();
    if (state_ == State::kOpen) events += transmit();
    events += reap();
    events += deliver();
    if (state_ == State::kClosing) {
        finish();  // may destroy this connection
        return events + 1;
    }
    if (state_ == State::kOpen && readable_) activate();
    return events;
}

bool Engine::is_done(const SendEntry& entry) const noexcept {
    if (entry.wait == Wait::kAcknowledge) return static_cast<int32_t>(acked_ - entry.number) > 0;
    return entry.wait == Wait::kNothing;
}

static CompletionKind kind_of(Op op) {
    if (op == Op::kRead) return CompletionKind::kRead;
    return op == Op::kSend || op == Op::kSendInvalidate ? CompletionKind::kSend : CompletionKind::kWrite;
}

// Completions are delivered in posting order: an incomplete request delays those after it.
size_t Engine::reap() noexcept {
    size_t reaped = 0;
    while (sends_.completed() != sends_.built()) {
        const SendEntry& entry = sends_.at(sends_.completed());
        if (!is_done(entry)) break;
        // The cookie is copied first, because deliver() may post, which may reuse the entry.
        Completion completion{.cookie = entry.cookie, .kind = kind_of(entry.op)};
        bool signalled = entry.signalled;
        sends_.advance_completed();
        ++reaped;
        if (!signalled) continue;
        poller_.push(completion);
        if (poller_.completions_low()) reaped += deliver();
    }
    if (local_fault_ && state_ == State::kOpen && sends_.completed() == sends_.built())
        fail(failure(Code::kInvalid, "a posted segment is not in the region that its lkey names"),
             CompletionStatus::kLocalAccess);
    return reaped;
}

// --- establishing ---

void Engine::establish(uint8_t read_depth, std::span<const std::byte> data) noexcept {
    limits_.read_depth = static_cast<uint32_t>(std::min<size_t>(read_depth, reads_out_.items.size()));
    hello_data_.assign(data.begin(), data.end());
    set_state(State::kAccepted);
    activate();
}

void Engine::refuse_connect(Status why, std::span<const std::byte> data) noexcept {
    if (state_ >= State::kClosing) return;
    connecting_failed_ = true;
    hello_data_.assign(data.begin(), data.end());
    fail(std::move(why));
}

// --- closing ---

void Engine::close() noexcept {
    if (state_ >= State::kClosing) return;
    orderly_ = true;
    fail(failure(Code::kClosed, "{}: closed by this side", peer_));
}

void Engine::fail(Status why, CompletionStatus cause) noexcept {
    if (state_ >= State::kClosing) return;
    // If this side has refused a request, the refusal is the cause, however the peer left afterwards.
    if (!refusing_) why_ = std::move(why);
    cause_ = cause;
    set_state(State::kClosing);
    activate();
}

// The stream returned `error`. Timeouts and unreachable hosts mean a lost peer. Other errors mean a closed
// connection.
void Engine::stream_failed(int error) noexcept {
    bool lost = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    fail(Status::from_errno(error, peer_), lost ? CompletionStatus::kPeerLost : CompletionStatus::kFlushed);
}

void Engine::on_deadline() noexcept {
    if (refusing_) fail(Status(why_));  // the peer has not read our refusal in time
}

void Engine::flush() noexcept {
    reap();
    sends_.build_all();
    uint32_t cause_position = cause_position_.value_or(sends_.completed());
    while (sends_.completed() != sends_.posted()) {
        const SendEntry& entry = sends_.at(sends_.completed());
        Completion completion{.cookie = entry.cookie, .kind = kind_of(entry.op)};
        completion.status = sends_.completed() == cause_position ? cause_ : CompletionStatus::kFlushed;
        sends_.advance_completed();
        poller_.push(completion);
        if (poller_.completions_low()) deliver();
    }
    while (!receives_.empty()) {
        poller_.push({.cookie = receives_.front().cookie,
                      .kind = CompletionKind::kReceive,
                      .status = CompletionStatus::kFlushed});
        receives_.pop();
        if (poller_.completions_low()) deliver();
    }
    deliver();
}

void Engine::finish() noexcept {
    if (orderly_ && !connecting_failed_) {
        // Send the last counts if the stream accepts them now: the peer's requests that we executed are
        // complete.
        if (outbox_.empty() && executed_ != executed_told_) build_acknowledge();
        if (writable_ && !outbox_.empty()) write_outbox();
    }
    detach(orderly_ || refusing_);
    poller_.forget(*this);
    flush();
    ListNode<ActiveTag>::unlink();
    std::vector<std::byte> data = std::move(hello_data_);
    Status why = std::move(why_);
    set_state(State::kClosed);
    if (connecting_failed_)
        handler_.on_refused(*this, why, data);
    else
        handler_.on_closed(*this, why);
}

}  // namespace wss::fabric::stream
