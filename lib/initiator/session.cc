// SPDX-License-Identifier: Apache-2.0
// Session: states, channels and time.
#include "lib/initiator/session.h"

#include <algorithm>
#include <utility>

namespace wss::initiator {

namespace {

using State = Session::State;

constexpr uint32_t bit(State state) {
    return 1u << static_cast<uint32_t>(state);
}

// The permitted next states of each state, in the order of the enumeration.
constexpr uint32_t kNext[] = {
    /* idle        */ bit(State::kConnecting) | bit(State::kClosed),
    /* connecting  */ bit(State::kDiscovering) | bit(State::kDraining) | bit(State::kClosing),
    /* discovering */ bit(State::kLive) | bit(State::kDraining) | bit(State::kClosing),
    /* live        */ bit(State::kDraining) | bit(State::kClosing),
    /* draining    */ bit(State::kWaiting) | bit(State::kClosing) | bit(State::kClosed),
    /* waiting     */ bit(State::kConnecting) | bit(State::kClosing),
    /* closing     */ bit(State::kClosed),
    /* closed      */ 0,
};

constexpr std::string_view kNames[] = {"idle",     "connecting", "discovering", "live",
                                       "draining", "waiting",    "closing",     "closed"};

bool is_zero(const wire::PortId& port) {
    return std::all_of(port.begin(), port.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::string_view to_string(Session::State state) {
    return kNames[static_cast<size_t>(state)];
}

Result<std::unique_ptr<Session>> Session::create(reactor::Reactor& reactor, fabric::Fabric& fabric,
                                                 fabric::Poller& poller, Random& random, Options options,
                                                 SessionHandler& handler) {
    options.channels = std::clamp<uint32_t>(options.channels, 1, kChannelsMax);
    options.queue_depth = std::clamp<uint32_t>(options.queue_depth, 1, kQueueDepthMax);
    if (!options.target_name.empty() && options.identity.secret.empty())
        return failure(Code::kInvalid,
                       "target name '{}' without a secret: a target proves its name with the "
                       "initiator's secret; give --secret-file too",
                       options.target_name);
    std::unique_ptr<Session> session(
        new Session(reactor, fabric, poller, random, std::move(options), handler));
    auto memory = DataMemory::create(fabric, session->options_);
    if (!memory) return memory.status();
    session->memory_ = std::move(*memory);
    return session;
}

Session::Session(reactor::Reactor& reactor, fabric::Fabric& fabric, fabric::Poller& poller, Random& random,
                 Options options, SessionHandler& handler)
    : reactor_(reactor),
      fabric_(fabric),
      poller_(poller),
      random_(random),
      options_(std::move(options)),
      handler_(handler),
      initiator_port_(options_.initiator_port),
      target_name_(options_.target_name),
      reconnect_timer_([](void* self) noexcept { static_cast<Session*>(self)->connect(); }, this),
      tick_timer_([](void* self) noexcept { static_cast<Session*>(self)->tick(); }, this),
      busy_timer_(
          [](void* self) noexcept {
              Session& session = *static_cast<Session*>(self);
              session.queue_.splice_back(session.delayed_);
              session.wants_turn_ = true;
          },
          this),
      discovery_(*this) {
    while (is_zero(initiator_port_))
        for (uint8_t& byte : initiator_port_) byte = static_cast<uint8_t>(random_.next());
    reactor_.add(*this);
}

Session::~Session() {
    WSS_ASSERT(state_ == State::kIdle || state_ == State::kClosed,
               "a session is closed before it is destroyed");
    reactor_.remove(*this);
    reactor_.cancel(reconnect_timer_);
    reactor_.cancel(tick_timer_);
    reactor_.cancel(busy_timer_);
}

void Session::set_state(State next) {
    WSS_ASSERT((kNext[static_cast<size_t>(state_)] & bit(next)) != 0, "the table permits the transition");
    state_ = next;
    wants_turn_ = true;
}

void Session::start() {
    WSS_ASSERT(state_ == State::kIdle, "a session starts once");
    connect();
}

void Session::connect() {
    set_state(State::kConnecting);
    if (!ticking_fast_) set_tick();
    if (Status status = add_channel(false); !status) lose(status);
}

Status Session::add_channel(bool multi) {
    auto channel = Channel::create(fabric_, options_, *this);
    if (!channel) return channel.status();
    WSS_TRY((*channel)->connect(poller_, multi, initiator_port_));
    channels_.push_back(std::move(*channel));
    return Status::ok();
}

void Session::channel_up(Channel& channel) noexcept {
    if (state_ != State::kConnecting) return channel.close(lost_why_);
    if (target_name_.empty()) target_name_ = channel.target_name();
    if (&channel == channels_.front().get())
        // A target that refuses more channels still serves the first.
        while (channels_.size() < options_.channels && add_channel(true).is_ok()) {
        }
    channels_settled();
}

// Channels beyond the first may fail to connect: the session uses those that did.
void Session::channels_settled() {
    if (state_ != State::kConnecting) return;
    for (const auto& channel : channels_)
        if (!channel->is_up() && !channel->is_over()) return;
    check_boot(channels_.front()->login().boot_id);
    set_state(State::kDiscovering);
    run_control();
}

void Session::check_boot(uint32_t boot_id) {
    if (boot_id == 0) return;
    const uint32_t before = std::exchange(boot_id_, boot_id);
    if (before == 0 || before == boot_id) return;
    for (const auto& volume : volumes_) volume->cache_lost();
}

void Session::channel_over(Channel& channel, const Status& why, bool was_up) noexcept {
    wants_turn_ = true;  // poll() destroys the channel, outside of its own call
    bool first = &channel == channels_.front().get();
    if (was_up || first) return lose(why);
    channels_settled();
}

void Session::lose(const Status& why) {
    if (state_ == State::kDraining || state_ == State::kClosing) return;
    lost_why_ = why;
    bool was_live = state_ == State::kLive;
    set_state(State::kDraining);
    if (down_since_ == kNever) down_since_ = reactor_.clock().now();
    if (!ticking_fast_) set_tick();
    for (const auto& channel : channels_) channel->close(why);
    if (was_live)
        handler_.on_lost(*this, why);
    else if (ever_live_)
        handler_.on_reconnect_failed(*this, why);
}

void Session::close() {
    if (state_ == State::kClosing || state_ == State::kClosed) return;
    lost_why_ = Status(Code::kClosed, "the session is closed");
    reactor_.cancel(reconnect_timer_);
    if (state_ == State::kIdle) {
        set_state(State::kClosed);
        return handler_.on_closed(*this);
    }
    set_state(State::kClosing);
    for (const auto& channel : channels_) channel->close(lost_why_);
}

size_t Session::poll() noexcept {
    size_t events = wants_turn_ ? 1 : 0;
    wants_turn_ = false;
    if (state_ == State::kDraining || state_ == State::kClosing) settle();
    if (state_ == State::kClosed) return events;
    // Destroys channels beyond the first that were refused.
    std::erase_if(channels_, [](const auto& channel) { return channel->is_over(); });
    return events + pump();
}

// Once no channel is left, no peer can access this side's memory: requests may be failed or repeated.
void Session::settle() {
    for (const auto& channel : channels_)
        if (!channel->is_over()) return;
    channels_.clear();
    bool over = state_ == State::kClosing || !ever_live_;
    List<Request> keep;
    List<Request> done;
    sort_after_loss(issued_, keep, done);
    sort_after_loss(queue_, keep, done);
    sort_after_loss(delayed_, keep, done);
    queue_.splice_back(keep);
    if (over) fail_all(queue_, Outcome::kClosed);
    while (Request* request = done.front()) finish(*request);
    // Queries of the session itself are not repeated: their submitter starts again.
    fail_all(admin_, over ? Outcome::kClosed : Outcome::kConnectionLost);
    if (over) return closed();
    if (state_ == State::kDraining) reconnect_later();
}

void Session::closed() {
    bool failed = state_ == State::kDraining;
    set_state(State::kClosed);
    reactor_.cancel(tick_timer_);
    reactor_.cancel(busy_timer_);
    fail_opens(lost_why_);
    if (failed)
        handler_.on_failed(*this, lost_why_);
    else
        handler_.on_closed(*this);
}

void Session::reconnect_later() {
    set_state(State::kWaiting);
    // Half of the pause is random, so that clients that lost the same target do not return at the same time.
    int64_t half = delay_.count / 2;
    Nanoseconds pause{half + static_cast<int64_t>(random_.below(static_cast<uint64_t>(half) + 1))};
    reactor_.set(reconnect_timer_, reactor_.clock().now() + pause);
    delay_ = std::min(std::max(options_.reconnect_delay, Nanoseconds{delay_.count * 2}),
                      options_.reconnect_delay_max);
}

bool Session::failing_fast() const {
    return down_since_ != kNever && reactor_.now() - down_since_ > options_.reconnect_timeout;
}

// Ticks every kTick while requests are outstanding or the session is not live, otherwise as often as
// keep-alive requires.
void Session::set_tick() {
    Nanoseconds period = kNever;
    ticking_fast_ = active_ > 0 || state_ != State::kLive;
    if (ticking_fast_) period = kTick;
    if (!ticking_fast_)
        for (const auto& channel : channels_)
            if (channel->keepalive().count > 0)
                period = std::min(period, Nanoseconds{channel->keepalive().count / 3});
    reactor_.set(tick_timer_, period == kNever ? kNever : reactor_.clock().now() + period);
}

void Session::tick() {
    for (const auto& channel : channels_) channel->tick(reactor_.now());
    expire();
    if (failing_fast() && state_ != State::kLive) {
        fail_opens(lost_why_);
        // Requests on the wire stay until their channel has ended.
        if (state_ != State::kDraining) {
            fail_all(queue_, Outcome::kConnectionLost);
            fail_all(delayed_, Outcome::kConnectionLost);
        }
    }
    if (state_ != State::kClosed) set_tick();
}

void Session::expire() {
    List<Request> expired;
    bool on_wire = false;
    for (List<Request>* list : {&admin_, &queue_, &delayed_, &issued_})
        collect_expired(*list, expired, on_wire);
    while (Request* request = expired.front()) finish(*request);
    // The peer may still write to the buffers of an unanswered request. Only closing the connection ends
    // that.
    if (on_wire && (state_ == State::kLive || state_ == State::kDiscovering))
        lose(Status(Code::kTimedOut, "the target did not answer a request in time"));
}

void Session::notified(const wire::Notify&) noexcept {
    look_again();
}

}  // namespace wss::initiator
