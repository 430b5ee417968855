// SPDX-License-Identifier: Apache-2.0
#include "target/block/session.h"

#include <algorithm>
#include <set>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "target/block/service.h"

namespace wss::block {

// Limits log lines that unauthenticated peers can cause.
static bool may_log(const std::string& source) {
    static log::SourceLimiter limiter(10);
    return limiter.allow(source);
}

SessionTable::SessionTable(Service& service, reactor::Reactor& reactor, Options options)
    : service_(service),
      reactor_(reactor),
      options_(options),
      pending_places_(options.pending_auth_max, kEvictedMax),
      places_(options.limits),
      secrets_(options.secrets),
      next_epoch_(options.epoch_base + 1),
      timer_(&SessionTable::tick, this) {}

SessionTable::~SessionTable() {
    reactor_.cancel(timer_);
    WSS_ASSERT(is_empty(), "stop() ends before the service is destroyed");
}

// ---- Logging in ------------------------------------------------------------------------------------------

void SessionTable::connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request) {
    Pending pending{.request = std::move(request), .fabric_index = fabric_index};
    auto parsed = wire::parse_login_request(pending.request->data(), pending.login);
    const fabric::Caps& caps = service_.worker(0).lane(fabric_index).fabric().caps();
    LoginLimits limits = options_.limits;
    limits.authenticate = secrets_ != nullptr;
    auto refusal = negotiate(parsed, pending.login, limits, caps, pending.terms);
    if (!refusal && !receives_.has_room(pending.terms))
        refusal = Refusal{WSS_SRP_REJ_INSUFFICIENT_RESOURCES,
                          "the target's receive memory is in use by other channels: end sessions (wssctl "
                          "session list), then try again"};
    if (stopping_) refusal = Refusal{WSS_SRP_REJ_UNABLE_TO_ESTABLISH, "the target is shutting down"};
    if (refusal) return refuse(pending, *refusal);
    if (pending.terms.authenticate()) return begin_authentication(std::move(pending));
    if (pending.login.multi_channel) return join(std::move(pending));
    log_in(std::move(pending));
}

void SessionTable::refuse(Pending& pending, const Refusal& why) {
    const std::string peer = pending.record ? pending.record->peer : pending.request->peer();
    if (may_log(fabric::source_of(peer)))
        log::warning("{}: login of {} refused: {}", peer, to_string(pending.login.initiator_port), why.text);
    if (pending.record) return refuse_proven(pending.record, why);
    wire::LoginReject reject;
    reject.tag = pending.login.tag;
    reject.reason = why.reason;
    reject.set_text(why.text);
    std::array<std::byte, sizeof(wss_srp_login_rej)> bytes;
    size_t length = wire::encode_login_reject(reject, bytes);
    const fabric::Caps& caps = service_.worker(0).lane(pending.fabric_index).fabric().caps();
    pending.request->reject({bytes.data(), std::min<size_t>(length, caps.reject_data_max)});
}

// N6.
void SessionTable::refuse_proven(const std::shared_ptr<ChannelRecord>& record, const Refusal& why) {
    // Close the oldest that is not closing yet. Those before it in the list are already closing.
    if (refused_.size() >= kRefusedMax)
        close_soon(std::prev(refused_.end(), kRefusedMax)->record, "too many initiators were refused");
    refused_.push_back({record, reactor_.now() + options_.drain_timeout});
    set_timer();
    service_.worker(record->worker).reactor().post([record, why] {
        if (record->channel != nullptr) record->channel->refuse_authentication(why.text);
    });
}

SessionTable::Sessions::iterator SessionTable::find(const wire::LoginRequest& login) {
    return std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& session) {
        return session.initiator == login.initiator_port && session.target == login.target_port;
    });
}

// ---- Pending authentication (N4, N5) ---------------------------------------------------------------------

void SessionTable::begin_authentication(Pending pending) {
    // Closing and refused channels keep their memory until they are gone.
    const bool full =
        pending_auth_.size() + refused_.size() >= options_.pending_auth_max + kEvictedMax + kRefusedMax;
    fabric::PendingPlaces::Taken taken;
    if (!full) taken = pending_places_.take(fabric::source_of(pending.request->peer()));
    if (taken.place == 0)
        return refuse(pending, {WSS_SRP_REJ_INSUFFICIENT_RESOURCES,
                                "too many initiators are authenticating at this moment; try again"});
    if (taken.evicted != 0)
        close_soon(pending_auth_.at(taken.evicted).record, "too many authentications are pending");
    auto session = find(pending.login);
    // By the time of the proof, the session to join may be gone or replaced. Then the epochs differ.
    const bool joins = pending.login.multi_channel && session != sessions_.end();
    auto record = make_record(pending, joins ? session->epoch : next_epoch_++);
    std::copy_n(pending.request->data().begin(), record->login_request.size(), record->login_request.begin());
    record->secrets = secrets_;
    record->place = taken.place;
    accept(pending, record,
           pending.login.multi_channel ? wire::MultiChannelResult::kMaintained
                                       : wire::MultiChannelResult::kNoChannels);
    pending.record = std::move(record);
    pending.deadline = reactor_.now() + kAuthTimeout;
    pending_auth_.emplace(taken.place, std::move(pending));
    set_timer();
}

void SessionTable::authenticated(const std::shared_ptr<ChannelRecord>& record, const std::string& name,
                                 const Secret& secret) {
    if (record->place == 0 || pending_places_.is_evicted(record->place)) return;
    pending_places_.proven(record->place);
    Pending pending = std::move(pending_auth_.extract(std::exchange(record->place, 0)).mapped());
    record->name = name;
    record->secret = secret;
    if (withdrawn(record))
        return refuse(pending, {WSS_SRP_REJ_UNABLE_TO_ESTABLISH, "this initiator's secret was withdrawn"});
    if (stopping_) return refuse(pending, {WSS_SRP_REJ_UNABLE_TO_ESTABLISH, "the target is shutting down"});
    record->has_receives = receives_.take(record->terms);
    if (!record->has_receives)
        return refuse(pending, {WSS_SRP_REJ_INSUFFICIENT_RESOURCES,
                                "other channels took the target's receive memory; try again"});
    if (pending.login.multi_channel) return join(std::move(pending));
    log_in(std::move(pending));
}

// Called when a channel ends before it has a session.
void SessionTable::pending_auth_gone(const std::shared_ptr<ChannelRecord>& record) {
    past_.add(record->counters);
    if (record->place != 0) {
        pending_places_.left(record->place);
        pending_auth_.erase(record->place);
    }
    refused_.remove_if([&](const Refused& each) { return each.record == record; });
    for (Session& session : sessions_)
        if (session.successor && session.successor->record == record) session.successor.reset();
    finish_stop();
}

void SessionTable::check_pending_auth(Nanoseconds now, bool close_all) {
    for (const Refused& refused : refused_)
        if (close_all || now >= refused.deadline) close_soon(refused.record, "the initiator was refused");
    for (const auto& [place, pending] : pending_auth_) {
        if (!close_all && now < pending.deadline) return;  // the others are newer
        close_soon(pending.record, "the initiator did not authenticate");
    }
}

// ---- Logging in, after authentication ---------------------------------------------------------------------

template <typename Pending>
static std::string source_of(const Pending& pending) {
    return pending.record ? pending.record->source : fabric::source_of(pending.request->peer());
}

std::optional<Refusal> SessionTable::refuse_place(const Pending& pending) {
    const std::string source = source_of(pending);
    auto refusal = places_.refuse_session(
        pending.record ? pending.record->name : to_string(pending.login.initiator_port), source);
    return refusal ? refusal : places_.refuse_channel(source);
}

void SessionTable::log_in(Pending pending) {
    auto old = find(pending.login);
    const std::string name = pending.record ? pending.record->name : std::string();
    if (old != sessions_.end() && old->name != name)
        return refuse(pending, {WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL,
                                "another initiator is logged in with this port id"});
    if (old != sessions_.end()) return fence(*old, std::move(pending));
    if (auto refusal = refuse_place(pending)) return refuse(pending, *refusal);
    start_session(std::move(pending), wire::MultiChannelResult::kNoChannels);
}

void SessionTable::join(Pending pending) {
    auto session = find(pending.login);
    if (session == sessions_.end() || session->closing)
        return refuse(pending, {WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL,
                                "no session of this initiator to join: log in as the only channel first"});
    if (pending.record && (session->name != pending.record->name || session->epoch != pending.record->epoch))
        return refuse(pending, {WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL,
                                "the session to join belongs to another initiator, or has been replaced"});
    if (session->channels.size() >= kChannelsPerSession)
        return refuse(pending, {WSS_SRP_REJ_CHANNEL_LIMIT_REACHED,
                                fmt::format("a session has at most {} channels", kChannelsPerSession)});
    if (auto refusal = places_.refuse_channel(source_of(pending))) return refuse(pending, *refusal);
    add_channel(*session, std::move(pending), wire::MultiChannelResult::kMaintained);
}

// N1.
void SessionTable::fence(Session& session, Pending pending) {
    if (pending.record && pending.record->epoch < session.epoch)
        return refuse(pending, {WSS_SRP_REJ_UNABLE_TO_ESTABLISH,
                                "a newer login of the same initiator has replaced this one"});
    // The end of the old session frees only a place of that session's own source. So a login from another
    // source needs a free place of its own source before the old session is ended.
    const std::string source = source_of(pending);
    const bool moves = source != session.source;
    std::optional<Refusal> refusal = moves ? places_.refuse_move(source) : std::nullopt;
    if (moves && !refusal) refusal = places_.refuse_channel(source);
    if (refusal) return refuse(pending, *refusal);
    if (session.successor)
        refuse(*session.successor, {WSS_SRP_REJ_UNABLE_TO_ESTABLISH,
                                    "a newer login of the same initiator has replaced this one"});
    pending.deadline = reactor_.now() + options_.fence_timeout;
    session.successor = std::move(pending);
    close_channels(session, "the initiator logged in again");
    set_timer();
}

void SessionTable::start_session(Pending pending, wire::MultiChannelResult result) {
    Session& session = sessions_.emplace_back();
    session.id = next_session_id_++;
    session.initiator = pending.login.initiator_port;
    session.target = pending.login.target_port;
    session.epoch = pending.record ? pending.record->epoch : next_epoch_++;
    if (pending.record) session.name = pending.record->name;
    session.terms = pending.terms;
    session.fabric = service_.worker(0).lane(pending.fabric_index).fabric().caps().name;
    session.since = reactor_.now();
    const std::string peer = pending.record ? pending.record->peer : pending.request->peer();
    session.source = fabric::source_of(peer);
    places_.add_session(session.counted_name(), session.source);
    if (may_log(session.source))
        log::info("{}: {} initiator {}{}{} logged in over {}", peer, pending.terms.extended ? "WSS" : "stock",
                  session.name, session.name.empty() ? "" : " ", to_string(session.initiator),
                  session.fabric);
    add_channel(session, std::move(pending), result);
    set_timer();
}

void SessionTable::add_channel(Session& session, Pending pending, wire::MultiChannelResult result) {
    const bool accepted = pending.record != nullptr;
    auto record = accepted ? pending.record : make_record(pending, session.epoch);
    if (!accepted) {
        record->name = to_string(session.initiator);
        receives_.count(record->terms);
        record->has_receives = true;
    }
    record->speaks = session.channels.empty();
    record->session_id = session.id;
    session.channels.push_back(record);
    places_.add_channel(record->source);
    if (!accepted) return accept(pending, record, result);
    service_.worker(record->worker).reactor().post([record] {
        if (record->channel != nullptr) record->channel->admit();
    });
}

std::shared_ptr<ChannelRecord> SessionTable::make_record(const Pending& pending, uint64_t epoch) {
    auto record = std::make_shared<ChannelRecord>();
    record->epoch = epoch;
    record->worker = next_worker_++ % service_.workers();
    record->lane = pending.fabric_index;
    record->initiator = pending.login.initiator_port;
    record->peer = pending.request->peer();
    record->source = fabric::source_of(record->peer);
    record->terms = pending.terms;
    receives_.lower(record->terms);
    record->last_heard_ns = reactor_.now().count;
    if (cache::Cache* cache = service_.cache()) record->losses_at_login = cache->storage_nodes().losses();
    return record;
}

// A storage process that may have lost unflushed writes also changes the boot id. Initiators handle that like
// a reboot of the target's machine.
uint32_t SessionTable::boot_id() const noexcept {
    if (options_.boot_id == 0 || service_.cache() == nullptr) return options_.boot_id;
    return options_.boot_id + 2 * static_cast<uint32_t>(service_.cache()->storage_nodes().losses());
}

void SessionTable::accept(Pending& pending, const std::shared_ptr<ChannelRecord>& record,
                          wire::MultiChannelResult result) {
    wire::LoginResponse response{.tag = pending.login.tag,
                                 .credits = record->terms.credits,
                                 .max_it_iu = record->terms.max_it_iu,
                                 .max_ti_iu = WSS_SRP_MAX_TI_IU_LEN,
                                 .multi_channel = result,
                                 .immediate = record->terms.imm_data_offset != 0,
                                 .extended = record->terms.extended,
                                 .caps = record->terms.caps,
                                 .keepalive_ms = record->terms.keepalive_ms,
                                 .session_epoch = record->terms.extended ? record->epoch : 0,
                                 .boot_id = boot_id()};
    std::array<std::byte, sizeof(wss_srp_login_rsp)> accept_data;
    size_t length = wire::encode_login_response(response, accept_data);
    WSS_ASSERT(length == accept_data.size(), "login responses have a fixed length");
    Worker& worker = service_.worker(record->worker);
    // A task must be copyable, but the request is not.
    auto request = std::make_shared<std::unique_ptr<fabric::ConnectRequest>>(std::move(pending.request));
    worker.reactor().post([&worker, record, request, accept_data, tag = pending.login.tag] {
        worker.lane(record->lane).open_channel(record, std::move(*request), accept_data, tag);
    });
}

// ---- Ending ----------------------------------------------------------------------------------------------

void SessionTable::close_soon(const std::shared_ptr<ChannelRecord>& record, const char* why) {
    service_.worker(record->worker).reactor().post([record, why] {
        if (record->channel != nullptr) record->channel->close(why);
    });
}

void SessionTable::close_channels(Session& session, const char* why) {
    session.closing = true;
    for (const auto& record : session.channels) close_soon(record, why);
}

void SessionTable::drain_channels(Session& session, const char* why, wss_srp_logout_reason reason) {
    session.closing = true;
    for (const auto& record : session.channels)
        service_.worker(record->worker).reactor().post([record, why, reason] {
            if (record->channel != nullptr) record->channel->drain(why, reason);
        });
}

void SessionTable::channel_gone(const std::shared_ptr<ChannelRecord>& record) {
    if (record->has_receives) receives_.give_back(record->terms);
    if (record->session_id == 0) return pending_auth_gone(record);
    places_.remove_channel(record->source);
    auto session = std::find_if(sessions_.begin(), sessions_.end(),
                                [&](const Session& s) { return s.id == record->session_id; });
    WSS_ASSERT(session != sessions_.end(), "a session outlives its channels");
    std::erase(session->channels, record);
    session->past.add(record->counters);
    if (session->channels.empty()) return session_gone(session);
    if (!record->speaks.exchange(false)) return;
    // No notifications were sent between the end of the channel that sent them and now. So its successor
    // requests a rescan.
    const auto& heir = session->channels.front();
    heir->speaks = true;
    service_.worker(heir->worker).reactor().post([heir] {
        if (heir->channel != nullptr) heir->channel->notify_everything();
    });
}

void SessionTable::session_gone(Sessions::iterator session) {
    if (may_log(session->source)) log::info("session of initiator {} ended", to_string(session->initiator));
    past_.add(session->past);
    places_.remove_session(session->counted_name(), session->source);
    std::optional<Pending> successor = std::move(session->successor);
    sessions_.erase(session);
    if (successor) {
        // Several successors may have waited for the same place.
        const Refusal ending{WSS_SRP_REJ_UNABLE_TO_ESTABLISH, "the target is shutting down"};
        const std::optional<Refusal> refusal = stopping_ ? ending : refuse_place(*successor);
        if (refusal)
            refuse(*successor, *refusal);
        else
            start_session(std::move(*successor), wire::MultiChannelResult::kTerminated);
    }
    finish_stop();
}

void SessionTable::finish_stop() {
    if (stopping_ && is_empty() && stopped_) std::exchange(stopped_, nullptr)();
}

void SessionTable::stop(std::function<void()> done) {
    WSS_ASSERT(!stopping_, "stop() is called once");
    stopping_ = true;
    if (is_empty()) return done();
    stopped_ = std::move(done);
    check_pending_auth(reactor_.now(), true);
    stop_gently_until_ = reactor_.now() + kStopGently;
    for (Session& session : sessions_)
        drain_channels(session, "the target is shutting down", WSS_SRP_LOGOUT_SHUTDOWN);
    set_timer();
}

// ---- Time ------------------------------------------------------------------------------------------------

void SessionTable::set_timer() {
    if (!timer_.is_set() && !is_empty()) reactor_.set(timer_, reactor_.now() + kSessionTick);
}

void SessionTable::tick(void* self) noexcept {
    auto& table = *static_cast<SessionTable*>(self);
    const Nanoseconds now = table.reactor_.now();
    const bool gentle_is_over = table.stopping_ && now >= table.stop_gently_until_;
    if (gentle_is_over) table.stop_gently_until_ = now + kStopGently;
    table.check_pending_auth(now, table.stopping_);
    for (Session& session : table.sessions_) {
        if (gentle_is_over) table.close_channels(session, "the target is shutting down");
        table.check_timeouts(session, now);
    }
    table.set_timer();
}

void SessionTable::check_timeouts(Session& session, Nanoseconds now) {
    if (session.successor && now >= session.successor->deadline) {
        refuse(*session.successor, {WSS_SRP_REJ_INSUFFICIENT_RESOURCES,
                                    "writes of the previous session are still in flight; try again"});
        session.successor.reset();
    }
    check_channels(session, now);
    if (!session.closing) check_silence(session, now);
}

void SessionTable::check_channels(Session& session, Nanoseconds now) {
    for (const auto& record : session.channels) {
        if (int64_t since_ns = record->draining_since_ns;
            since_ns != 0 && now.count - since_ns >= options_.drain_timeout.count)
            close_soon(record, "the channel did not drain in time");
        if (int64_t since_ns = record->sending_since_ns.load(std::memory_order_relaxed);
            since_ns != 0 && now.count - since_ns >= options_.take_timeout.count) {
            record->sending_since_ns = 0;
            if (may_log(record->source))
                log::warning("{}: closing the channel: the initiator has accepted no data for {} s",
                             record->peer, options_.take_timeout.count / 1'000'000'000);
            close_soon(record, "the initiator accepted no data in time");
        }
        const int64_t last_ns = record->last_heard_ns.load(std::memory_order_relaxed);
        if (record->established.load(std::memory_order_relaxed) ||
            now.count - last_ns < kEstablishTimeout.count)
            continue;
        close_soon(record, "the initiator did not finish connecting");
    }
}

// N3.
void SessionTable::check_silence(Session& session, Nanoseconds now) {
    int64_t heard_ns = session.since.count;
    for (const auto& record : session.channels)
        heard_ns = std::max(heard_ns, record->last_heard_ns.load(std::memory_order_relaxed));
    const Nanoseconds silent{now.count - heard_ns};
    const bool keepalive = session.terms.keepalive_ms != 0;
    const Nanoseconds limit = keepalive ? from_ms(session.terms.keepalive_ms) : options_.silence_max;
    if (silent >= limit) {
        if (may_log(session.source))
            log::warning("initiator {} was silent for {} ms: closing its session",
                         to_string(session.initiator), limit.count / 1'000'000);
        return close_channels(session, "the initiator was silent");
    }
    if (keepalive || silent < options_.silence_probe || session.probed.count > heard_ns) return;
    session.probed = now;
    for (const auto& record : session.channels)
        service_.worker(record->worker).reactor().post([record] {
            if (record->channel != nullptr) record->channel->probe();
        });
}

// ---- Removed secrets -------------------------------------------------------------------------------------

// Whether the channel's secret was removed since its proof.
bool SessionTable::withdrawn(const std::shared_ptr<ChannelRecord>& record) const {
    return record != nullptr && record->secrets != nullptr && secrets_ != nullptr &&
           record->secrets != secrets_ && secrets_->place_of(record->name, record->secret) == 0;
}

size_t SessionTable::set_secrets(std::shared_ptr<const auth::SecretBook> secrets) {
    secrets_ = std::move(secrets);
    size_t ended = 0;
    for (Session& session : sessions_) {
        if (session.successor && withdrawn(session.successor->record)) {
            refuse(*session.successor,
                   {WSS_SRP_REJ_UNABLE_TO_ESTABLISH, "this initiator's secret was withdrawn"});
            session.successor.reset();
        }
        // All channels of a session have the same name. One channel with a withdrawn secret suffices.
        if (session.closing || std::none_of(session.channels.begin(), session.channels.end(),
                                            [&](const auto& record) { return withdrawn(record); }))
            continue;
        log::warning("audit: session ended: initiator='{}' port={}: its secret was withdrawn", session.name,
                     to_string(session.initiator));
        close_channels(session, "the initiator's secret was withdrawn");
        ++ended;
    }
    return ended;
}

size_t SessionTable::end(const std::string& initiator) {
    size_t ended = 0;
    for (Session& session : sessions_) {
        const std::string port = to_string(session.initiator);
        if (session.closing || (initiator != port && (session.name.empty() || initiator != session.name)))
            continue;
        log::warning("audit: session ended: initiator='{}' port={}: by the operator", session.name, port);
        drain_channels(session, "the operator ended the session", WSS_SRP_LOGOUT_ENDED);
        ++ended;
    }
    return ended;
}

// ---- Lists of sessions -----------------------------------------------------------------------------------

std::vector<SessionInfo> SessionTable::list() const {
    std::vector<SessionInfo> sessions;
    for (const Session& session : sessions_) {
        std::set<unsigned> secrets;
        SessionInfo& info = sessions.emplace_back();
        info.initiator = to_string(session.initiator);
        info.name = session.name.empty() ? info.initiator : session.name;
        info.authenticated = !session.name.empty();
        info.target = to_string(session.target);
        info.fabric = session.fabric;
        info.epoch = session.epoch;
        info.caps = session.terms.caps;
        info.extended = session.terms.extended;
        info.counters = session.past;
        for (const auto& record : session.channels) {
            info.peers.push_back(record->peer);
            info.counters.add(record->counters);
            if (info.authenticated && secrets_ != nullptr)
                secrets.insert(secrets_->place_of(record->name, record->secret));
        }
        secrets.erase(0);  // a withdrawn secret; its session is being closed
        info.secrets.assign(secrets.begin(), secrets.end());
    }
    return sessions;
}

CounterTotals SessionTable::totals() const {
    CounterTotals totals = past_;
    for (const SessionInfo& info : list()) totals.add(info.counters);
    return totals;
}

}  // namespace wss::block
