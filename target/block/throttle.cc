// SPDX-License-Identifier: Apache-2.0
#include "target/block/throttle.h"

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

bool Throttle::admit(Flow& flow, Request& request, uint64_t bytes) noexcept {
    const std::shared_ptr<volume::RateLimiter>& limiter = volume_.limiter();
    if (limiter == nullptr) return true;
    const Nanoseconds now = reactor_.now();
    if (queue_.empty() && reserved_.of == nullptr) {
        const Nanoseconds start = limiter->reserve(bytes, now);
        if (start <= now) return true;
        reserved_ = {limiter, start, bytes};
        next_look_ = now + kThrottleLook;
        reactor_.set(timer_, std::min(start, next_look_));
    }
    volume::Counters::add(volume_.counters().delayed);
    request.state = State::kThrottled;
    request.throttled_bytes = bytes;
    request.throttled_since = now;
    queue_.wait(flow, request);
    return false;
}

// Whether it may begin now. The time that is reserved is that of whichever command is next.
bool Throttle::take(Request& request, Nanoseconds now) noexcept {
    const std::shared_ptr<volume::RateLimiter>& limiter = volume_.limiter();
    if (limiter != nullptr) {
        if (reserved_.of == nullptr)
            reserved_ = {limiter, limiter->reserve(request.throttled_bytes, now), request.throttled_bytes};
        if (reserved_.start > now) return false;
        limiter->exchange(reserved_.bytes, request.throttled_bytes);
        reserved_.of.reset();
    }
    volume::Counters::add(volume_.counters().delayed_ns,
                          static_cast<uint64_t>((now - request.throttled_since).count));
    return true;
}

void Throttle::serve() noexcept {
    const Nanoseconds now = reactor_.now();
    if (now >= next_look_) end_overdue(now);
    queue_.serve([&](Request& request) { return take(request, now) ? &request : nullptr; },
                 [](Request& request, Request*) { request.channel->limit_over(request, true); });
    if (queue_.empty()) return drop_reservation();
    reactor_.set(timer_, std::min(reserved_.start, next_look_));
}

void Throttle::end_overdue(Nanoseconds now) noexcept {
    next_look_ = now + kThrottleLook;
    queue_.end_if([&](const Request& request) { return now - request.throttled_since >= kThrottleMax; },
                  [&](Request& request) {
                      volume::Counters::add(volume_.counters().delayed_ns,
                                            static_cast<uint64_t>((now - request.throttled_since).count));
                      request.channel->limit_over(request, false);
                  });
}

void Throttle::limits_changed() noexcept {
    reserved_.of.reset();  // the former limiter goes with what was reserved
    if (!queue_.empty()) serve();
}

void Throttle::end_all() noexcept {
    queue_.end_if([](const Request&) { return true; },
                  [](Request& request) { request.channel->limit_over(request, false); });
    queue_.clear();
    reactor_.cancel(timer_);
    drop_reservation();
}

// ---- The channel's part ----------------------------------------------------------------------------------

// What is limited is what moves data or changes it; of a WRITE SAME each write of its pattern is charged when
// it begins.
static std::optional<uint64_t> limited_bytes(const scsi::Action& action, uint64_t block) {
    switch (action.kind) {
        case Kind::kRead:
        case Kind::kWrite:
        case Kind::kVerify:
            return action.blocks * block;
        case Kind::kCompareAndWrite:
            return action.data_out_length;
        case Kind::kUnmap:
        case Kind::kWriteSame:
            return 0;
        default:
            return std::nullopt;
    }
}

bool Channel::within_limits(Request& request, std::optional<uint64_t> bytes) noexcept {
    if (request.unit == nullptr || request.unit->open->limiter() == nullptr) return true;
    // What has begun ends with its volume or its channel.
    if (request.unit->removed || life_ != Life::kLive) return true;
    if (!bytes) bytes = limited_bytes(request.action, request.unit_block());
    return !bytes || request.unit->throttle.admit(flows_[request.unit->lun()].limits, request, *bytes);
}

// Everything about it may have changed while it waited.
void Channel::limit_over(Request& request, bool passed) noexcept {
    if (!running()) return release(request);
    const bool gone = request.unit->open->closing() && !request.unit->open->reopening();
    if (gone || permission(*request.unit) == volume::Permission::kNone)
        return respond_sense(request, scsi::sense::lun_not_supported());
    if (request.is_fenced) return respond_sense(request, scsi::sense::write_protected());
    if (!passed) {
        request.status = wire::kBusy;
        return respond(request);
    }
    if (request.action.kind == Kind::kWriteSame && request.phase != 0)
        return submit(request, io::Op::kWrite, request.io.offset, request.io.length, request.data);
    request.is_charged = true;
    interpret(request);
}

}  // namespace wss::block
