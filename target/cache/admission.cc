// SPDX-License-Identifier: Apache-2.0
#include "target/cache/admission.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "lib/base/source_limiter.h"
#include "lib/fabric/sources.h"
#include "target/cache/limits.h"

namespace wss::cache {

uint64_t lines_max_here() {
    return std::min(kLinesMax, physical_memory() / kIndexMemoryShare / kIndexBytesPerLine);
}

static void refuse_engine(const std::string& peer, std::string_view why) {
    static log::SourceLimiter limiter(10);
    if (limiter.allow(fabric::source_of(peer))) log::warning("{}: refused as a cache engine: {}", peer, why);
}

// A listener for engines, and the net that it belongs to.
class Admission::Port final : public fabric::ListenHandler {
  public:
    Port(Admission& admission, size_t net) : admission_(admission), net_(net) {}
    Result<fabric::Address> open(const fabric::Address& address) {
        auto listener = admission_.nets_[net_].poller->listen(address, *this);
        if (!listener) return listener.status();
        listener_ = std::move(*listener);
        return listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        admission_.requested(net_, std::move(request));
    }

  private:
    Admission& admission_;
    const size_t net_;
    std::unique_ptr<fabric::Listener> listener_;
};

Admission::Admission(Nets& nets, EngineSet& engines, Members& members, RecoveryRun& recovery,
                     StorageNodes& nodes, const Life& life, reactor::Reactor& reactor, Limits limits,
                     EngineLinkOwner& owner)
    : nets_(nets),
      engines_(engines),
      members_(members),
      recovery_(recovery),
      nodes_(nodes),
      life_(life),
      reactor_(reactor),
      limits_(limits),
      owner_(owner) {}

Admission::~Admission() = default;

Result<fabric::Address> Admission::listen(size_t net, const fabric::Address& address) {
    auto port = std::make_unique<Port>(*this, net);
    auto bound = port->open(address);
    if (!bound) return bound;
    ports_.push_back(std::move(port));
    nets_[net].scheme = address.scheme;
    recovery_.engines_may_join();
    nodes_.engines_may_join(reactor_.clock().now());
    return bound;
}

void Admission::close_ports() noexcept {
    ports_.clear();
}

// An engine that is authenticating with the former secrets connects again.
void Admission::set_secrets(std::shared_ptr<const auth::SecretBook> secrets) noexcept {
    secrets_ = std::move(secrets);
    for (Pending& one : pending_)
        one.engine->close(Status(Code::kUnavailable, "the target has reloaded its secrets"));
}

size_t Admission::turn_pending() noexcept {
    size_t sent = 0;
    for (Pending& one : pending_) sent += one.engine->turn();
    return sent;
}

void Admission::requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    EngineLink::Applicant applicant{.net = net};
    EngineLink::Identity identity;
    std::string refusal;
    if (wire::parse_cache_join(request->data(), applicant.join) != wire::ParseError::kNone)
        refusal = "not a cache engine";
    else if (life_.stopping())
        refusal = "the target is shutting down";
    else if (secrets_ != nullptr)
        return ask_for_proof(*request, applicant);
    else if (refusal = exceeds_index(applicant.join); refusal.empty())
        if (const char* why = check_join(applicant, identity)) refusal = why;
    if (!refusal.empty()) {
        refuse_engine(request->peer(), refusal);
        const size_t length = std::min<size_t>(refusal.size(), nets_[net].fabric->caps().reject_data_max);
        return request->reject(std::as_bytes(std::span(refusal.data(), length)));
    }
    EngineLink& made =
        engines_.enlist(std::unique_ptr<EngineLink>(new EngineLink(owner_, applicant)), identity.index);
    Status accepted =
        made.accept(*request, *nets_[net].fabric, *nets_[net].poller, identity, welcome_for(identity));
    if (accepted) return;
    log::warning("{}: cannot serve a cache engine: {}", request->peer(), accepted.to_string());
    engines_.take(identity.index);
}

// Number of lines that the engine may claim.
uint64_t Admission::lines_of(const wire::CacheJoin& join) const noexcept {
    return join.is_storage ? 0 : join.memory / limits_.line_bytes;
}

// The reason why the engine may not claim its lines, or empty. The index has room for them in addition to
// those of the engines that joined before, ready or not. So no engine can claim more lines than the index may
// hold.
std::string Admission::exceeds_index(const wire::CacheJoin& join) const {
    uint64_t promised = 0;
    for (const EngineLink& engine : engines_.all())
        if (engine.identity().identity != join.engine) promised += lines_of(engine.applicant().join);
    const uint64_t lines = lines_of(join), left = limits_.lines_max - std::min(limits_.lines_max, promised);
    if (lines <= left) return {};
    // Must not be longer than the text of a rejection on the wire.
    return fmt::format(
        "it lends {} lines, but there is room for {} more (of {}): lend less, or use longer lines", lines,
        left, limits_.lines_max);
}

// Returns nullptr if the engine may join as `identity`, and otherwise the reason for the rejection.
const char* Admission::check_join(const EngineLink::Applicant& applicant,
                                  EngineLink::Identity& identity) noexcept {
    const wire::CacheJoin& join = applicant.join;
    if (!join.is_storage && join.memory < limits_.line_bytes * 4)
        return "it lends less memory than four lines: raise wss-cache --memory";
    // This is a new connection of the same engine, so the old one is dead. The engine connects again after
    // the old one was closed.
    EngineLink* const former = engines_.find(join.engine);
    if (former != nullptr) former->close(Status(Code::kUnavailable, "the engine joined again"));
    if (former != nullptr || engines_.retires(join.engine))
        return "its former connection is still being closed";
    const EngineIndex index = engines_.free_index();
    if (!index.exists())
        return "the target has the maximum number of cache engines: remove one (wssctl cache remove)";
    // The engine's contents count for a restart until a membership without the engine is stable. They must
    // not be erased before that.
    const bool ours = join.storage == members_.now().storage;
    const bool was_away = members_.is_away(join.engine, join.incarnation);
    if (recovery_.waiting() && was_away)
        return "it holds lines that were lost before the restart: it can join after the recovery";
    const bool returned = !recovery_.waiting() && ours && was_away;
    auto member = members_.awaited().find(join.engine);
    const bool keep = returned || (recovery_.waiting() && ours && member != members_.awaited().end() &&
                                   member->second == join.incarnation);
    if (!keep && ours && members_.pending() && members_.counts_when_saved(join.engine, join.incarnation))
        return "its former membership has not ended yet";
    identity = {.index = index,
                .via = {.net = applicant.net},
                .identity = join.engine,
                .memory = join.memory,
                .incarnation = keep ? join.incarnation : members_.edit().next_incarnation++,
                .kept = keep,
                .returned = returned};
    return nullptr;
}

wire::CacheWelcome Admission::welcome_for(const EngineLink::Identity& identity) const noexcept {
    return {.storage = members_.now().storage,
            .incarnation = identity.incarnation,
            .line_bytes = limits_.line_bytes,
            .operations = kTransfersPerEngine,
            .keep = identity.kept,
            .states = true,
            .owners = true,
            .terms = true};
}

// ---- Proofs ----------------------------------------------------------------------------------------------

void Admission::ask_for_proof(fabric::ConnectRequest& request,
                              const EngineLink::Applicant& applicant) noexcept {
    const auto taken = places_.take(fabric::source_of(request.peer()));
    if (taken.place == 0) {
        refuse_engine(request.peer(), "too many cache engines are being authenticated");
        return request.reject({});
    }
    for (Pending& one : pending_)
        if (one.place == taken.evicted)
            one.engine->close(Status(Code::kExhausted, "too many cache engines are being authenticated"));
    const Net& net = nets_[applicant.net];
    std::unique_ptr<EngineLink> engine(new EngineLink(owner_, applicant));
    if (Status asked = engine->ask_for_proof(request, *net.fabric, *net.poller, secrets_); !asked) {
        places_.left(taken.place);
        return refuse_engine(request.peer(), asked.to_string());
    }
    pending_.push_back({std::move(engine), reactor_.clock().now() + kEngineProofMax, taken.place});
}

std::string Admission::limit(const EngineLink& engine) {
    std::string refusal = exceeds_index(engine.applicant().join);
    if (!refusal.empty()) refuse_engine(engine.peer(), refusal);
    return refusal;
}

void Admission::proven(EngineLink& engine) noexcept {
    EngineLink::Identity identity;
    if (const char* refusal = check_join(engine.applicant(), identity); refusal != nullptr) {
        refuse_engine(engine.peer(), refusal);
        return engine.close(Status(Code::kUnavailable, refusal));
    }
    auto pending = find_pending(engine);
    places_.proven(pending->place);
    engines_.enlist(remove(pending), identity.index).admit(identity, welcome_for(identity));
}

std::unique_ptr<EngineLink> Admission::take(EngineLink& engine) noexcept {
    auto pending = find_pending(engine);
    places_.left(pending->place);
    return remove(pending);
}

std::list<Admission::Pending>::iterator Admission::find_pending(const EngineLink& engine) noexcept {
    auto found = std::find_if(pending_.begin(), pending_.end(),
                              [&engine](const Pending& one) { return one.engine.get() == &engine; });
    WSS_ASSERT(found != pending_.end(), "a link that is not admitted is pending");
    return found;
}

std::unique_ptr<EngineLink> Admission::remove(std::list<Pending>::iterator pending) noexcept {
    std::unique_ptr<EngineLink> taken = std::move(pending->engine);
    pending_.erase(pending);
    return taken;
}

void Admission::tick() noexcept {
    const Nanoseconds now = reactor_.clock().now();
    for (Pending& one : pending_)
        if (life_.stopping() || now >= one.until)
            one.engine->close(Status(Code::kTimedOut, "the cache engine did not authenticate in time"));
}

}  // namespace wss::cache
