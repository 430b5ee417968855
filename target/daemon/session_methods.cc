// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/session_methods.h"

#include <nlohmann/json.hpp>

#include "lib/base/log.h"
#include "target/control/params.h"
#include "target/daemon/ask_reactor.h"

namespace wss::daemon {

using nlohmann::json;

static json to_json(const block::CounterTotals& totals) {
    json out = json::object();
    totals.for_each([&](const char* name, const char*, uint64_t value) { out[name] = value; });
    out["errors"] = totals.check_conditions;  // the same value under the name that operators expect
    return out;
}

static json capabilities(uint32_t caps) {
    json names = json::array();
    if (caps & WSS_CAP_REMOTE_INVALIDATE) names.push_back("remote-invalidate");
    if (caps & WSS_CAP_FUSED_COMPLETION) names.push_back("fused-completion");
    if (caps & WSS_CAP_KEEPALIVE) names.push_back("keepalive");
    if (caps & WSS_CAP_NOTIFY) names.push_back("notify");
    if (caps & WSS_CAP_AUTHENTICATE) names.push_back("authenticate");
    if (caps & WSS_CAP_BATCHED_COMPLETION) names.push_back("batched-completion");
    if (caps & WSS_CAP_CACHE) names.push_back("cache");
    return names;
}

static json to_json(const block::SessionInfo& session) {
    return {{"initiator", session.initiator},
            {"name", session.name},
            {"authenticated", session.authenticated},
            {"secrets", session.secrets},
            {"target", session.target},
            {"fabric", session.fabric},
            {"peers", session.peers},
            {"channels", session.peers.size()},
            {"kind", session.extended ? "wss" : "stock"},
            {"epoch", session.epoch},
            {"capabilities", capabilities(session.caps)},
            {"counters", to_json(session.counters)}};
}

static Result<json> list_sessions(block::Service& service, const json& params) {
    WSS_TRY(control::Params(params).finish());
    auto sessions = ask_reactor<std::vector<block::SessionInfo>>(
        [&](auto take) { service.list_sessions(std::move(take)); });
    if (!sessions) return sessions.status();
    json out = json::array();
    for (const auto& session : *sessions) out.push_back(to_json(session));
    return json{{"sessions", out}};
}

static Result<json> end_session(block::Service& service, const json& params) {
    std::string initiator;
    WSS_TRY(control::Params(params).text("initiator", initiator, control::Params::kRequired).finish());
    auto ended = ask_reactor<size_t>([&](auto take) { service.end_session(initiator, std::move(take)); });
    if (!ended) return ended.status();
    if (*ended == 0)
        return failure(Code::kNotFound, "no session of initiator '{}': `wssctl session list` shows names",
                       initiator);
    return json{{"sessions_ended", *ended}};
}

static json statistics(block::Service& service) {
    auto totals = ask_reactor<block::CounterTotals>([&](auto take) { service.total(std::move(take)); });
    if (!totals) return json{{"error", totals.status().to_string()}};
    return to_json(*totals);
}

static json to_json(const block::LatencyTotals& latency) {
    return {{"total_us", latency.total_ns / 1000}, {"buckets_us_pow2", latency.buckets}};
}

static Result<json> latency(block::Service& service, const json& params) {
    WSS_TRY(control::Params(params).finish());
    auto totals = ask_reactor<block::CounterTotals>([&](auto take) { service.total(std::move(take)); });
    if (!totals) return totals.status();
    return json{{"read", to_json(totals->read_latency)}, {"write", to_json(totals->write_latency)}};
}

static json session_statistics(block::Service& service) {
    auto use = ask_reactor<block::SessionUse>([&](auto take) { service.session_use(std::move(take)); });
    if (!use) return json{{"error", use.status().to_string()}};
    return {{"sessions", use->sessions},
            {"sessions_max", block::kSessionsMax},
            {"sessions_per_name_max", block::kSessionsPerName},
            {"sessions_per_source_max", block::kSessionsPerSource},
            {"channels", use->channels},
            {"channels_max", block::kChannelsMax},
            {"channels_per_source_max", block::kChannelsPerSource},
            {"refused_sessions", use->refused_sessions},
            {"refused_name_sessions", use->refused_name_sessions},
            {"refused_source_sessions", use->refused_source_sessions},
            {"refused_channels", use->refused_channels}};
}

// A running target can change its secrets, but cannot switch authentication on or off.
Result<ReloadedSecrets> reload_secrets(block::Service& service, const control::TargetConfig& config,
                                       fabric::tls::KnownPeers& known) {
    if (config.secrets.empty())
        return failure(Code::kInvalid,
                       "this target was started without secrets: start it with --secrets FILE");
    auto book = read_secret_book(config, config.secrets);
    if (!book) return book.status().within("nothing was changed");
    const size_t count = (*book)->names();
    known.replace((*book)->secrets());
    // Once posted, the change takes effect even after a timeout here. The log shows when.
    auto ended = ask_reactor<size_t>([&](auto take) {
        service.set_secrets(std::move(*book), [count, take](size_t sessions) {
            log::info("secrets reloaded: {} initiators are known; {} sessions ended", count, sessions);
            take(sessions);
        });
    });
    if (!ended) return ended.status().within("the secrets were read, but are not confirmed to be in use");
    return ReloadedSecrets{count, *ended};
}

void add_auth_methods(control::Methods& methods, block::Service& service, const control::TargetConfig& config,
                      fabric::tls::KnownPeers& known) {
    methods.add("auth.show", "whether initiators must authenticate",
                [&config](const json& params) -> Result<json> {
                    WSS_TRY(control::Params(params).finish());
                    return json{{"authentication", config.secrets.empty() ? "off" : "on"}};
                });
    methods.add_change("auth.reload", "reloads the secrets file", [&](const json& params) -> Result<json> {
        WSS_TRY(control::Params(params).finish());
        auto done = reload_secrets(service, config, known);
        if (!done) return done.status();
        return json{{"authentication", "on"},
                    {"initiators", done->initiators},
                    {"sessions_ended", done->sessions_ended}};
    });
}

void add_session_methods(control::Methods& methods, block::Service& service) {
    methods.add("session.list", "sessions of initiators, with counters",
                [&service](const json& params) { return list_sessions(service, params); });
    methods.add_change("session.end", "logs an initiator out, by its name or port id",
                       [&service](const json& params) { return end_session(service, params); });
    methods.add("block.latency",
                "histograms of the latency of reads and writes, in buckets of 2^i microseconds",
                [&service](const json& params) { return latency(service, params); });
    methods.add_statistics("block", [&service] { return statistics(service); });
    methods.add_statistics("sessions", [&service] { return session_statistics(service); });
}

}  // namespace wss::daemon
