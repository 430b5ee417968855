// SPDX-License-Identifier: Apache-2.0
// Engines that ask to join. Where the target has secrets for them, one proves first who it is: until then it
// ends nobody's connection, gets no number and is told nothing that would make it forget what it holds.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/base/source_limiter.h"
#include "lib/fabric/sources.h"
#include "target/cache/cache.h"

namespace wss::se {

using cache::EngineIndex;

constexpr size_t kLobbyMax = 16;
constexpr Nanoseconds kProofMax = from_s(4);

uint64_t lines_max_here() {
    return std::min(kLinesMax, physical_memory() / kIndexMemoryShare / kIndexBytesPerLine);
}

static void refuse_engine(const std::string& peer, std::string_view why) {
    static log::SourceLimiter limiter(10);
    if (limiter.allow(fabric::source_of(peer))) log::warning("{}: refused as a cache engine: {}", peer, why);
}

void Cache::engine_requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    EngineLink::Applicant applicant{.net = net};
    EngineLink::Identity identity;
    std::string refusal;
    if (wire::parse_cache_join(request->data(), applicant.join) != wire::ParseError::kNone)
        refusal = "not a cache engine";
    else if (stopping_)
        refusal = "the target is shutting down";
    else if (options_.engine_secrets != nullptr)
        return ask_for_proof(*request, applicant);
    else if (refusal = exceeds_index(applicant.join); refusal.empty())
        if (const char* why = judge_join(applicant, identity)) refusal = why;
    if (!refusal.empty()) {
        refuse_engine(request->peer(), refusal);
        const size_t length = std::min<size_t>(refusal.size(), nets_[net].fabric->caps().reject_data_max);
        return request->reject(std::as_bytes(std::span(refusal.data(), length)));
    }
    EngineLink& made = enlist(std::unique_ptr<EngineLink>(new EngineLink(*this, applicant)), identity.index);
    Status accepted =
        made.accept(*request, *nets_[net].fabric, *nets_[net].poller, identity, welcome_for(identity));
    if (accepted) return;
    log::warning("{}: cannot serve a cache engine: {}", request->peer(), accepted.to_string());
    take_link(identity.index);
}

// That it may claim.
uint64_t Cache::lines_of(const wire::CacheJoin& join) const noexcept {
    return join.is_storage ? 0 : join.memory / options_.line_bytes;
}

// Empty: the index has room for all lines of the engine, beside those of engines that joined before, ready or
// not. So no engine can claim more than the index may hold.
std::string Cache::exceeds_index(const wire::CacheJoin& join) const {
    uint64_t promised = 0;
    for (const auto& engine : links_)
        if (engine != nullptr && engine->identity().identity != join.engine)
            promised += lines_of(engine->applicant().join);
    const uint64_t lines = lines_of(join), left = options_.lines_max - std::min(options_.lines_max, promised);
    if (lines <= left) return {};
    // No longer than the text of a refusal on the wire.
    return fmt::format(
        "it lends {} lines, the target has room for {} more (of {}): lend less, or use longer lines", lines,
        left, options_.lines_max);
}

// nullptr: it may join, as `identity`.
const char* Cache::judge_join(const EngineLink::Applicant& applicant,
                              EngineLink::Identity& identity) noexcept {
    const wire::CacheJoin& join = applicant.join;
    if (!join.is_storage && join.memory < options_.line_bytes * 4) return "it lends too little memory";
    EngineIndex index;
    for (uint8_t i = 0; i < cache::kEnginesMax; ++i) {
        if (links_[i] == nullptr && !index.exists()) index = {i};
        // A new connection of the same engine: the old one is dead, and the engine comes again when it is
        // over.
        if (links_[i] != nullptr && links_[i]->identity().identity == join.engine) {
            links_[i]->close(Status(Code::kUnavailable, "the engine joined anew"));
            return "its former connection is still being closed";
        }
    }
    for (const auto& old : old_links_)
        if (old->identity().identity == join.engine) return "its former connection is still being closed";
    if (!index.exists()) return "there are too many engines";
    // What it holds counts for a restart, until a membership without it is stable: it must not be erased
    // before.
    auto saved = saved_engines_.find(join.engine);
    const bool ours = join.storage == membership_.storage;
    const bool was_away = is_returning(join.engine, join.incarnation);
    if (recovering_ && was_away) return "it holds what was lost before the restart: other engines come first";
    const bool returned = !recovering_ && ours && was_away;
    auto member = awaited_.find(join.engine);
    const bool keep =
        returned || (recovering_ && ours && member != awaited_.end() && member->second == join.incarnation);
    if (!keep && ours && membership_pending() && saved != saved_engines_.end() &&
        saved->second == join.incarnation)
        return "its former membership is still being ended";
    identity = {.index = index,
                .net = applicant.net,
                .identity = join.engine,
                .memory = join.memory,
                .incarnation = keep ? join.incarnation : membership_.next_incarnation++,
                .kept = keep,
                .returned = returned};
    return nullptr;
}

wire::CacheWelcome Cache::welcome_for(const EngineLink::Identity& identity) const noexcept {
    return {.storage = membership_.storage,
            .incarnation = identity.incarnation,
            .line_bytes = options_.line_bytes,
            .operations = kTransfersPerEngine,
            .keep = identity.kept,
            .states = true};
}

EngineLink& Cache::enlist(std::unique_ptr<EngineLink> engine, EngineIndex index) noexcept {
    links_[index.value] = std::move(engine);
    links_end_ = std::max<size_t>(links_end_, index.value + 1u);
    return *links_[index.value];
}

// ---- Proofs ----------------------------------------------------------------------------------------------

void Cache::ask_for_proof(fabric::ConnectRequest& request, const EngineLink::Applicant& applicant) noexcept {
    const Net& net = nets_[applicant.net];
    std::unique_ptr<EngineLink> engine(new EngineLink(*this, applicant));
    Status asked(Code::kExhausted, "too many engines have not proven yet who they are");
    if (lobby_.size() < kLobbyMax)
        asked = engine->ask_for_proof(request, *net.fabric, *net.poller, options_.engine_secrets);
    if (asked) {
        lobby_.push_back({std::move(engine), reactor_.clock().now() + kProofMax});
        return;
    }
    refuse_engine(request.peer(), asked.to_string().c_str());
    if (lobby_.size() >= kLobbyMax) request.reject({});
}

std::string Cache::engine_limit(const EngineLink& engine) {
    std::string refusal = exceeds_index(engine.applicant().join);
    if (!refusal.empty()) refuse_engine(engine.peer(), refusal);
    return refusal;
}

void Cache::engine_proven(EngineLink& engine) noexcept {
    EngineLink::Identity identity;
    if (const char* refusal = judge_join(engine.applicant(), identity); refusal != nullptr) {
        refuse_engine(engine.peer(), refusal);
        return engine.close(Status(Code::kUnavailable, refusal));
    }
    enlist(out_of_lobby(engine), identity.index).admit(identity, welcome_for(identity));
}

std::unique_ptr<EngineLink> Cache::out_of_lobby(EngineLink& engine) noexcept {
    auto found = std::find_if(lobby_.begin(), lobby_.end(),
                              [&engine](const InLobby& one) { return one.engine.get() == &engine; });
    WSS_ASSERT(found != lobby_.end(), "who is not admitted waits in the lobby");
    std::unique_ptr<EngineLink> taken = std::move(found->engine);
    lobby_.erase(found);
    return taken;
}

// Of those whose time is over; of all at the end.
void Cache::clear_lobby() noexcept {
    const Nanoseconds now = reactor_.clock().now();
    for (InLobby& one : lobby_)
        if (stopping_ || now >= one.until)
            one.engine->close(Status(Code::kTimedOut, "the engine did not prove who it is"));
}

}  // namespace wss::se
