// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/io/request.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
// Calls of one request in librbd at once.
constexpr uint32_t kPartsMax = 32;
constexpr uint64_t kObjectsMax = 64;  // objects of one discard or write zeroes
constexpr Nanoseconds kTick = from_ms(500);
constexpr Nanoseconds kSettleTick = from_ms(1);  // polled: there is no notification of a settled doubt
// A call that is unanswered for this long is replaced, so that it does not keep other requests from librbd.
constexpr Nanoseconds kSlow = from_s(1);
// Limits of one reactor turn, because other sources wait meanwhile: the bytes to copy, and the bytes that a
// call without copied data counts for.
constexpr uint64_t kTurnMax = 1 << 20, kTurnCall = 4096;

struct RequestState {
    Nanoseconds since;    // submission, or end of the last round of calls
    uint64_t passed = 0;  // bytes passed to librbd
    uint64_t good = 0;    // bytes before the first failed one
    uint32_t parts = 0;   // calls in librbd
    int error = 0;
    bool again = false;  // must be read again: zeroes may stand for missing data
};
static_assert(sizeof(RequestState) <= sizeof(Request::scratch), "a request has room for its librbd state");

RequestState& state_of(Request& request) noexcept {
    return *std::launder(reinterpret_cast<RequestState*>(request.scratch));
}
const RequestState& state_of(const Request& request) noexcept {
    return *std::launder(reinterpret_cast<const RequestState*>(request.scratch));
}

// Bytes of the next call, of `left` bytes at `offset`. A call stays within one stripe unit, so that a silent
// OSD delays no other part. But librbd frees an object of several stripe units only with one call that covers
// all of it.
uint64_t part_of(Op op, uint64_t offset, uint64_t left, uint64_t unit, uint64_t object) noexcept {
    if ((op == Op::kDiscard || op == Op::kWriteZeroes) && unit < object) {
        const uint64_t most = kObjectsMax * object;
        return left <= most ? left : most - (offset + most) % object;
    }
    const uint64_t part = std::min(left, unit - offset % unit);
    return op == Op::kRead ? std::min(part, Call::kMemory) : part;
}

// The error of a request for an error of Ceph.
int request_error(int error) noexcept {
    if (error == EDQUOT || error == ENOSPC) return ENOSPC;
    return error == ETIMEDOUT || error == EFBIG ? error : EIO;
}

// True if the data of some stripe unit is all zeroes: its object may be missing. `unit`: the smallest of the
// image and its parents.
bool has_hole(const std::byte* data, uint64_t offset, uint64_t length, uint64_t unit) noexcept {
    for (uint64_t at = 0; at < length;) {
        const uint64_t bytes = std::min(length - at, unit - (offset + at) % unit);
        const std::byte* part = data + at;
        if (part[0] == std::byte{} && std::memcmp(part, part + 1, bytes - 1) == 0) return true;
        at += bytes;
    }
    return false;
}

// Called on a thread of librbd.
void completed(rbd_completion_t completion, void* argument) {
    Call& call = *static_cast<Call*>(argument);
    call.result = rbd_aio_get_return_value(completion);
    rbd_aio_release(completion);
    Calls& calls = *call.calls;
    calls.in_librbd.fetch_sub(1);
    calls.bytes_in_librbd.fetch_sub(call.length);
    calls.completions().push(call);
}

}  // namespace

RbdQueue::RbdQueue(std::shared_ptr<Client> client, reactor::Reactor& reactor, Calls& calls)
    : client_(std::move(client)), reactor_(reactor), calls_(calls), tick_([](void*) noexcept {}, nullptr) {}

RbdQueue::~RbdQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    reactor_.cancel(tick_);
    // Removes the late calls that have completed. The keeper takes those that complete from now on.
    for (; completed_ != nullptr; completed_ = completed_->next) client_->late_calls().remove(*completed_);
    calls_.orphan();
}

void RbdQueue::submit(Request& request) noexcept {
    new (request.scratch) RequestState{.since = reactor_.now(), .good = request.length};
    waiting_.push_back(request);
    ++waiting_count_;
    ++in_flight_;
}

size_t RbdQueue::poll() noexcept {
    if (in_flight_ == 0 && calls_.taken() == 0) return 0;
    size_t events = start_waiting();
    events += reap();
    events += confirm();
    events += end_late();
    if (events > 0) note_progress();
    wake_up_later();
    return events;
}

bool RbdQueue::arm() noexcept {
    // The reactor must not sleep while requests wait and no call is in flight that could wake it.
    return calls_.completions().arm() && (waiting_count_ == 0 || calls_.taken() > 0 || client_->holds());
}

void RbdQueue::note_progress() noexcept {
    Call* oldest = in_librbd_.front();
    calls_.oldest.store(oldest == nullptr ? 0 : state_of(*oldest->request).since.count,
                        std::memory_order_relaxed);
    calls_.requests.store(static_cast<uint32_t>(in_flight_), std::memory_order_relaxed);
}

void RbdQueue::wake_up_later() noexcept {
    if (in_flight_ == 0) return;
    if (!doubted_.empty()) return reactor_.set(tick_, reactor_.now() + kSettleTick);
    if (tick_.is_set()) return;
    next_tick_ = reactor_.now() + kTick;
    reactor_.set(tick_, next_tick_);
}

size_t RbdQueue::start_waiting() noexcept {
    if (!blocked_.empty() && client_->late_calls().ended() != late_ended_) {
        late_ended_ = client_->late_calls().ended();
        while (Request* request = blocked_.pop_front()) {
            waiting_.push_back(*request);
            ++waiting_count_;
        }
    }
    if (client_->holds() && !client_->unusable()) return end_flushes();
    size_t events = 0;
    // Starts only requests that wait now. done() may submit more, which the next turn starts.
    for (size_t left = waiting_count_; left > 0 && calls_.has_free(); --left, ++events) {
        Request& request = *waiting_.pop_front();
        --waiting_count_;
        const int error =
            client_->unusable() ? EIO : refusal(request, client_->size(), kBlock, client_->read_only());
        if (error != 0 || request.op == Op::kFlush || request.length == 0)
            end(request, error);
        else
            start(request);
    }
    return events;
}

// Acknowledged writes are stable, so flushes have nothing to wait for.
size_t RbdQueue::end_flushes() noexcept {
    size_t events = 0;
    waiting_.for_each([&](Request& request) {
        if (request.op != Op::kFlush) return;
        request.unlink();
        --waiting_count_;
        end(request, refusal(request, client_->size(), kBlock, client_->read_only()));
        ++events;
    });
    return events;
}

// Passes parts of the request to librbd while calls are free. The rest follows when these are done.
void RbdQueue::start(Request& request) noexcept {
    RequestState& state = state_of(request);
    LateCalls& late = client_->late_calls();
    const uint64_t unit = client_->stripe_unit();
    while (state.passed < request.length && state.parts < kPartsMax && calls_.has_free()) {
        const uint64_t offset = request.offset + state.passed, left = request.length - state.passed;
        const uint64_t length = part_of(request.op, offset, left, unit, client_->object_bytes());
        // Read before touch(), so that a call that ends in between is noticed.
        if (blocked_.empty()) late_ended_ = late.ended();
        if (late.touch(offset, length, unit)) {
            if (state.parts == 0) blocked_.push_back(request);
            return;
        }
        state.passed += length;
        ++state.parts;
        begin_call(request, offset, length);
    }
}

void RbdQueue::begin_call(Request& request, uint64_t offset, uint64_t length) noexcept {
    Call& call = calls_.take();
    call.request = &request;
    call.reads = request.op == Op::kRead;
    call.offset = offset;
    call.length = length;
    call.held = call.reads || request.op == Op::kWrite ? length : 0;
    call.begun = reactor_.now();
    call.of_clone = client_->is_clone();
    calls_.in_librbd.fetch_add(1);
    calls_.bytes_in_librbd.fetch_add(length);
    call.ahead = client_->in_librbd();
    in_librbd_.push_back(call);
    const int result = pass_on(call);
    if (result >= 0) return;
    // librbd has not accepted the call, and will not call back.
    calls_.in_librbd.fetch_sub(1);
    calls_.bytes_in_librbd.fetch_sub(length);
    call.result = result;
    call.completed = true;
    call.next = std::exchange(completed_, &call);
}

// Passes the call to librbd, which owns it until it completes.
int RbdQueue::pass_on(Call& call) noexcept {
    rbd_completion_t completion = nullptr;
    if (int result = rbd_aio_create_completion(&call, completed, &completion); result < 0) return result;
    const Request& request = *call.request;
    rbd_image_t image = client_->image();
    int result = 0;
    if (request.op == Op::kRead)
        result =
            rbd_aio_read(image, call.offset, call.length, reinterpret_cast<char*>(call.memory), completion);
    else if (request.op == Op::kWrite)
        result = rbd_aio_write(image, call.offset, call.length,
                               reinterpret_cast<const char*>(request.data) + (call.offset - request.offset),
                               completion);
    else
        // This call is also used for discards: discarded blocks of a volume must read as zeroes, but librbd's
        // discard may skip parts of objects. rbd_aio_write_zeroes() frees whole objects and zeroes the rest.
        result = rbd_aio_write_zeroes(image, call.offset, call.length, completion, 0, 0);
    if (result < 0) rbd_aio_release(completion);
    return result;
}

void RbdQueue::gather() noexcept {
    Call** end = &completed_;
    while (*end != nullptr) end = &(*end)->next;
    *end = calls_.completions().take_all();
}

size_t RbdQueue::reap() noexcept {
    size_t events = 0;
    if (completed_ == nullptr) gather();
    for (uint64_t done = 0; completed_ != nullptr && done < kTurnMax; ++events) {
        Call& call = *std::exchange(completed_, completed_->next);
        done += call.reads ? std::max(call.length, kTurnCall) : kTurnCall;
        complete(call);
    }
    return events;
}

// Continues changes that waited until the object map was settled (object_map.cc), which takes milliseconds
// unless Ceph is silent.
size_t RbdQueue::confirm() noexcept {
    size_t events = 0;
    while (!doubted_.empty() && (!client_->doubts_map() || client_->unusable())) {
        Request& request = *doubted_.pop_front();
        state_of(request).good = request.length;
        go_on(request);
        ++events;
    }
    return events;
}

bool RbdQueue::is_late(const Request& request) const noexcept {
    return reactor_.now() - state_of(request).since >= client_->limit();
}

bool RbdQueue::is_late(const Call& call) const noexcept {
    return !call.completed &&
           reactor_.now() >= client_->throttles().let_go(call.begun, call.ahead) + client_->limit();
}

size_t RbdQueue::end_late() noexcept {
    const Nanoseconds now = reactor_.now();
    if (now < next_tick_) return 0;
    // After a pause of this process or its machine, Ceph's answers from that time are processed first.
    const bool paused = now - next_tick_ >= kTick;
    next_tick_ = now + kTick;
    gather();
    size_t events = 0;
    auto end_those_of = [&](List<Request>& list) {
        list.for_each([&](Request& request) {
            if (!is_late(request)) return;
            request.unlink();
            waiting_count_ -= &list == &waiting_;
            end(request, ETIMEDOUT);
            ++events;
        });
    };
    in_librbd_.for_each([&](Call& call) {
        if (now - call.begun >= kSlow) calls_.replace(call);
        if (!is_late(call)) return;
        give_up(call);
        ++events;
    });
    if (paused && completed_ != nullptr) return events;
    // With limits of the image, calls in librbd may be delayed, so that requests in waiting_ may wait longer.
    const bool full = !calls_.has_free() && (!client_->throttles().any() || in_librbd_.empty());
    if (full || client_->holds()) end_those_of(waiting_);
    end_those_of(blocked_);
    end_those_of(doubted_);
    return events;
}

// Fails the request's part. The call continues without the request.
void RbdQueue::give_up(Call& call) noexcept {
    Request& request = *std::exchange(call.request, nullptr);
    call.unlink();
    client_->late_calls().add(call, client_->stripe_unit());
    part_over(request, ETIMEDOUT, call.offset - request.offset);
}

// librbd returns zeroes for a missing object.
bool RbdQueue::reads_hole(const Call& call) const noexcept {
    return has_hole(call.memory, call.offset, static_cast<uint64_t>(call.result), client_->smallest_unit());
}

// For zeroes that were read: fails the call if a pool is deleted, which the client's cluster map shows before
// librbd detects it. Repeats the read of a clone whose parents are in doubt, or that was flattened meanwhile.
void RbdQueue::check_hole(const Call& call, int& error) noexcept {
    if (!client_->pools_exist()) {
        client_->lose(Loss::kDeleted);
        error = EIO;
    } else if (call.of_clone && (client_->doubts_parents() || !client_->is_clone())) {
        RequestState& state = state_of(*call.request);
        state.again = true;
        state.good = std::min(state.good, call.offset - call.request->offset);
    }
}

// For a call that has completed, or that librbd has not accepted.
void RbdQueue::complete(Call& call) noexcept {
    Request* request = call.request;
    int error = static_cast<int>(-std::min<int64_t>(call.result, 0));
    client_->note_answer(call.reads, error);
    if (request == nullptr) {
        client_->late_calls().remove(call);
        return calls_.give_back(call);
    }
    call.unlink();
    const uint64_t at = call.offset - request->offset;
    uint64_t good = 0;
    if (call.reads && error == 0) {
        good = static_cast<uint64_t>(call.result);
        if (reads_hole(call)) check_hole(call, error);
        if (error != 0) good = 0;
        std::memcpy(request->data + at, call.memory, good);
        if (good < call.length) error = EIO;  // the image became smaller
    }
    // While others shrink the image, which may take minutes, librbd already uses the new size, but the header
    // still has the old one. rbd_get_size() may read the header, which would block the reactor.
    if (!call.reads && error == EINVAL) error = EFBIG;
    calls_.give_back(call);
    part_over(*request, error, at + good / kBlock * kBlock);
}

// `good`: bytes of the request before the failed one.
void RbdQueue::part_over(Request& request, int error, uint64_t good) noexcept {
    RequestState& state = state_of(request);
    if (error != 0) {
        state.good = std::min(state.good, good);
        if (state.error == 0) state.error = request_error(error);
    }
    if (--state.parts > 0) return;
    if (state.error != 0) return end(request, state.error);
    if (state.again)
        state = RequestState{.since = state.since, .good = request.length};
    else
        state.since = reactor_.now();
    if (request.op == Op::kRead || !client_->doubts_map()) return go_on(request);
    state.good = 0;
    doubted_.push_back(request);
}

// Continues or ends a request whose last round of calls is done and confirmed.
void RbdQueue::go_on(Request& request) noexcept {
    // Data read after the image was lost may be old.
    if (client_->unusable()) {
        state_of(request).good = 0;
        return end(request, EIO);
    }
    if (state_of(request).passed == request.length) return end(request, 0);
    waiting_.push_front(request);
    ++waiting_count_;
}

void RbdQueue::end(Request& request, int error) noexcept {
    --in_flight_;
    const RequestState& state = state_of(request);
    finish(request, error, error == 0 ? request.length : std::min(state.good, state.passed));
}

}  // namespace wss::io::rbd
