// SPDX-License-Identifier: Apache-2.0
#include "target/block/throttle.h"

#include <xxhash.h>

#include <algorithm>

#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

using Kind = scsi::Action::Kind;

Throttle::~Throttle() {
    reactor_.cancel(timer_);
    drop_reservation();
}

void Throttle::drop_reservation() noexcept {
    if (reserved_.of != nullptr) reserved_.of->cancel(reserved_.bytes);
    reserved_.of.reset();
}

static uint64_t key_of(const Request& request) noexcept {
    return XXH3_64bits(request.command.cdb.data(), request.command.cdb.size());
}

bool Throttle::admit(LimitFlow& flow, Request& request, uint64_t bytes) noexcept {
    const std::shared_ptr<volume::RateLimiter>& limiter = volume_.limiter();
    if (limiter == nullptr) return true;
    const Nanoseconds now = reactor_.now();
    request.first_sent = flow.places.take(key_of(request), now).value_or(now);
    if (now - request.first_sent >= kThrottleTotal) {  // T3
        limiter->charge(1, bytes, now);
        return true;
    }
    if (queue_.empty() && reserved_.of == nullptr) {
        const Nanoseconds start = limiter->reserve(bytes, now);
        if (start <= now) return true;
        reserved_ = {limiter, start, bytes};
        next_look_ = now + kThrottleLook;
        reactor_.set(timer_, std::min(start, next_look_));
    }
    wait(flow, request, bytes, now);
    refuse_excess(now);
    return false;
}

// T1.
void Throttle::wait(LimitFlow& flow, Request& request, uint64_t bytes, Nanoseconds now) noexcept {
    request.state = State::kThrottled;
    request.throttled_bytes = bytes;
    request.throttled_since = now;
    request.limit_flow = &flow;
    ++flow.count;
    ++waiting_;
    waiting_bytes_ += bytes;
    Request* next = nullptr;
    if (request.first_sent < now)
        next =
            flow.waiting.find_if([&](const Request& each) { return each.first_sent > request.first_sent; });
    queue_.wait_before(next, flow, request);
}

// Stops counting a command that no longer waits.
void Throttle::forget(Request& request, Nanoseconds now) noexcept {
    --std::exchange(request.limit_flow, nullptr)->count;
    --waiting_;
    waiting_bytes_ -= request.throttled_bytes;
    const Nanoseconds waited = now - request.throttled_since;
    if (waited.count == 0) return;
    volume::Counters::add(volume_.counters().delayed);
    volume::Counters::add(volume_.counters().delayed_ns, static_cast<uint64_t>(waited.count));
}

void Throttle::leave(Request& request, bool place_kept) noexcept {
    const Nanoseconds now = reactor_.now();
    if (place_kept) request.limit_flow->places.keep(key_of(request), request.first_sent, now);
    static_cast<ListNode<>&>(request).unlink();
    forget(request, now);
}

// ---- Refusing commands -----------------------------------------------------------------------------------

void Throttle::refuse(Request& request) noexcept {
    const bool others = request.limit_flow->count > 1;
    leave(request, true);
    request.status = others ? wire::kTaskSetFull : wire::kBusy;
    request.channel->limit_over(request, false);
}

// The last command waits for the reserved time, and for all other commands except the one that has the
// reservation.
bool Throttle::is_too_long(Nanoseconds now) const noexcept {
    if (waiting_ == 0 || reserved_.of == nullptr) return false;
    const uint64_t bytes = waiting_bytes_ - std::min(waiting_bytes_, reserved_.bytes);
    const Nanoseconds wait =
        std::max(reserved_.start, now) - now + reserved_.of->time_for(waiting_ - 1, bytes);
    return wait > kThrottleMax;
}

// Returns the last command of the longest flow. Of equally long flows, it is the one whose last command was
// first sent most recently.
Request& Throttle::last_of_longest() noexcept {
    LimitFlow* longest = nullptr;
    Request* last = nullptr;
    queue_.for_each_flow([&](Flow& each) {
        auto& flow = static_cast<LimitFlow&>(each);
        if (flow.count == 0 || (longest != nullptr && flow.count < longest->count)) return;
        Request* candidate = flow.waiting.back();
        const bool longer = longest == nullptr || flow.count > longest->count;
        if (!longer && candidate->first_sent < last->first_sent) return;
        longest = &flow;
        last = candidate;
    });
    WSS_ASSERT(last != nullptr, "a flow has the waiting request");
    return *last;
}

// T2.
void Throttle::refuse_excess(Nanoseconds now) noexcept {
    while (is_too_long(now)) refuse(last_of_longest());
}

// ---- Time ------------------------------------------------------------------------------------------------

// Whether the command may begin now. The next command in turn uses the reserved time, even if it was reserved
// for another command.
bool Throttle::take(Request& request, Nanoseconds now) noexcept {
    const std::shared_ptr<volume::RateLimiter>& limiter = volume_.limiter();
    if (limiter != nullptr) {
        // A reservation for a command without bytes did not check the byte limit.
        if (reserved_.bytes == 0 && request.throttled_bytes > 0) drop_reservation();
        if (reserved_.of == nullptr)
            reserved_ = {limiter, limiter->reserve(request.throttled_bytes, now), request.throttled_bytes};
        if (reserved_.start > now) return false;
        limiter->exchange(reserved_.bytes, request.throttled_bytes);
        reserved_.of.reset();
    }
    forget(request, now);
    return true;
}

void Throttle::serve() noexcept {
    const Nanoseconds now = reactor_.now();
    if (now >= next_look_) look(now);
    queue_.serve([&](Request& request) { return take(request, now) ? &request : nullptr; },
                 [](Request& request, Request*) { request.channel->limit_over(request, true); });
    if (queue_.empty()) return drop_reservation();
    reactor_.set(timer_, std::min(reserved_.start, next_look_));
}

// Ends the wait of commands that have waited too long (T2, T3).
void Throttle::look(Nanoseconds now) noexcept {
    next_look_ = now + kThrottleLook;
    List<Request> refused, passed;
    auto is_due = [&](Request& request) {
        List<Request>* list = now - request.first_sent >= kThrottleTotal      ? &passed
                              : now - request.throttled_since >= kThrottleMax ? &refused
                                                                              : nullptr;
        if (list == nullptr) return;
        static_cast<ListNode<>&>(request).unlink();
        list->push_back(request);
    };
    queue_.for_each_flow([&](Flow& flow) { flow.waiting.for_each(is_due); });
    while (Request* request = refused.front()) refuse(*request);
    // A command that begins may end its channel and the channel's other waiting commands. Those commands
    // leave these lists by themselves.
    while (Request* request = passed.front()) {
        leave(*request, false);
        if (const auto& limiter = volume_.limiter()) limiter->charge(1, request->throttled_bytes, now);
        request->channel->limit_over(*request, true);
    }
}

void Throttle::limits_changed() noexcept {
    reserved_.of.reset();  // the reservation ends with the former limiter
    if (queue_.empty()) return;
    serve();
    refuse_excess(reactor_.now());
}

void Throttle::end_all() noexcept {
    queue_.for_each_flow([&](Flow& flow) {
        while (Request* request = flow.waiting.front()) {
            leave(*request, false);
            request->status = wire::kBusy;
            request->channel->limit_over(*request, false);
        }
    });
    queue_.clear();
    reactor_.cancel(timer_);
    drop_reservation();
}

// The command holds resources that others wait for: a range lock, a buffer, a freeze of the cached volume. So
// its steps do not wait.
void Throttle::charge_step(const Request& request, uint64_t bytes) noexcept {
    const std::shared_ptr<volume::RateLimiter>& limiter = volume_.limiter();
    if (limiter == nullptr) return;
    const bool first = request.progress == 0;  // the first operation was charged on admission
    limiter->charge(first ? 0 : 1, bytes, reactor_.now());
}

// ---- The channel's part ----------------------------------------------------------------------------------

// The bytes that a command is charged before it begins, or nullopt if no limit applies to it. Commands that
// move or change data are limited. VERIFY, UNMAP and WRITE SAME have several steps: they are charged one
// operation here. Each step is charged its bytes when it begins. Each step except the first is also charged
// one operation. COMPARE AND WRITE is charged in full here.
static std::optional<uint64_t> limited_bytes(const scsi::Action& action, uint64_t block) {
    switch (action.kind) {
        case Kind::kRead:
        case Kind::kWrite:
            return action.blocks * block;
        case Kind::kCompareAndWrite:
            return action.data_out_length;
        case Kind::kVerify:
        case Kind::kUnmap:
        case Kind::kWriteSame:
            return 0;
        default:
            return std::nullopt;
    }
}

bool Channel::within_limits(Request& request) noexcept {
    if (request.unit == nullptr || request.unit->open->limiter() == nullptr) return true;
    // The volume or the channel is ending: the command proceeds and ends with it.
    if (request.unit->removed || life_ != Life::kLive) return true;
    const std::optional<uint64_t> bytes = limited_bytes(request.action, request.unit_block());
    return !bytes || request.unit->throttle.admit(flows_[request.unit->lun()].limits, request, *bytes);
}

// The volume and the initiator's rights may have changed during the wait, so interpret the command again.
void Channel::limit_over(Request& request, bool passed) noexcept {
    if (!running()) return release(request);
    const bool gone = request.unit->open->closing() && !request.unit->open->reopening();
    if (gone || rights_.permission(*request.unit) == volume::Permission::kNone)
        return respond_sense(request, scsi::sense::lun_not_supported());
    if (!passed) return respond(request);
    request.is_charged = true;
    interpret(request);
}

// Ends any wait of the request. `place_kept`: see Throttle::leave().
void Channel::stop_waiting(Request& request, bool place_kept) noexcept {
    if (request.limit_flow != nullptr) return request.unit->throttle.leave(request, place_kept);
    if (request.state == State::kAwaiting) return request.unit->awaiting.forget(request);
    static_cast<ListNode<>&>(request).unlink();
}

}  // namespace wss::block
