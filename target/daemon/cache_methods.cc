// SPDX-License-Identifier: Apache-2.0
// The methods of the cache.
#include <nlohmann/json.hpp>

#include "target/control/params.h"
#include "target/daemon/ask_reactor.h"
#include "target/daemon/cache_part.h"

namespace wss::daemon {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds kDrainAnswers{300};
constexpr std::chrono::seconds kRecordAnswers{15};

json to_json(const cache::CacheCounters& c) {
    return {{"reads", c.reads},
            {"read_hits", c.read_hits},
            {"fast_path_hits", c.fast_path_hits},
            {"read_bytes", c.read_bytes},
            {"out_of_band_reads", c.out_of_band_reads},
            {"out_of_band_read_bytes", c.out_of_band_read_bytes},
            {"out_of_band_writes", c.out_of_band_writes},
            {"out_of_band_write_bytes", c.out_of_band_write_bytes},
            {"through_target_bytes", c.through_target_bytes},
            {"storage_read_bytes", c.storage_read_bytes},
            {"storage_write_bytes", c.storage_write_bytes},
            {"read_ahead_bytes", c.read_ahead_bytes},
            {"writes", c.writes},
            {"write_bytes", c.write_bytes},
            {"read_ns", c.read_ns},
            {"write_ns", c.write_ns},
            {"fills", c.fills},
            {"fill_bytes", c.fill_bytes},
            {"destaged_lines", c.destaged_lines},
            {"destaged_bytes", c.destaged_bytes},
            {"destage_errors", c.destage_errors},
            {"flushes", c.flushes},
            {"direct_reads", c.direct_reads},
            {"direct_writes", c.direct_writes},
            {"upkeep_direct_bytes", c.upkeep_direct_bytes},
            {"upkeep_through_target_bytes", c.upkeep_through_target_bytes},
            {"done_again", c.done_again},
            {"no_room", c.no_room},
            {"lost_refusals", c.lost_refusals},
            {"salvaged_lines", c.salvaged_lines},
            {"busy", c.busy}};
}

json to_json(const cache::EngineInfo& engine) {
    return {{"index", engine.index},
            {"identity", fmt::format("{:016x}", engine.identity)},
            {"peer", engine.peer},
            {"addresses", engine.addresses},
            {"lines", engine.slots},
            {"used_lines", engine.used_slots},
            {"dirty_lines", engine.dirty_lines},
            {"clients", engine.clients},
            {"bytes_to_clients", engine.bytes_to_clients},
            {"reached_by_storage", engine.reached},
            {"state", engine.state}};
}

json to_json(const cache::CachedVolumeInfo& volume) {
    return {{"name", volume.name},
            {"policy", std::string(to_string(volume.settings.policy))},
            {"unsafe", volume.settings.unsafe},
            {"dirty_lines", volume.dirty_lines},
            {"single_lines", volume.single_lines},
            {"lost_bytes", volume.lost_bytes},
            {"lost_for_ms", volume.lost_for.count / 1'000'000},
            {"waiting", volume.waiting},
            {"oldest_dirty_ms", volume.oldest_dirty.count / 1'000'000},
            {"frozen", volume.frozen},
            {"error", volume.last_error},
            {"counters", to_json(volume.counters)}};
}

json to_json(const cache::AbsentVolumeInfo& volume) {
    return {{"name", volume.name},
            {"wwid", volume::wwid_text(volume.wwid)},
            {"dirty_lines", volume.dirty_lines},
            {"single_lines", volume.single_lines},
            {"lost", volume.lost}};
}

json to_json(const cache::CacheInfo& info) {
    json engines = json::array(), volumes = json::array(), absent = json::array(), awaited = json::array();
    for (uint64_t identity : info.awaited) awaited.push_back(fmt::format("{:016x}", identity));
    for (const auto& volume : info.absent) absent.push_back(to_json(volume));
    for (const auto& engine : info.engines) engines.push_back(to_json(engine));
    for (const auto& volume : info.volumes) volumes.push_back(to_json(volume));
    return {{"line_bytes", info.line_bytes},
            {"recovering", info.recovering},
            {"trouble", info.trouble},
            {"awaited", awaited},
            {"away", info.away},
            {"grace_ms", info.lost_grace.count / 1'000'000},
            {"lines", info.capacity_lines},
            {"used_lines", info.index.lines},
            {"dirty_lines", info.index.dirty_lines},
            {"evictions", info.index.evictions},
            {"engines", engines},
            {"volumes", volumes},
            {"absent", absent}};
}

using Take = std::function<void(Status)>;

// Runs a change on the reactor, which reports the result as a Status.
template <typename Change>
Result<json> change(reactor::Reactor& reactor, std::chrono::seconds limit, Change&& make) {
    struct Answer {
        Status status;
    };
    auto done = ask_reactor<Answer>(
        [&](auto take) {
            reactor.post([make, take] { make(Take([take](Status s) { take(Answer{std::move(s)}); })); });
        },
        limit);
    if (!done) return done.status();
    if (!done->status) return done->status;
    return json::object();
}

Result<json> set_policy(reactor::Reactor& reactor, cache::Cache& cache, const json& json_params) {
    std::string volume, policy;
    bool unsafe = false;
    control::Params params(json_params);
    params.text("volume", volume, control::Params::kRequired)
        .text("policy", policy, control::Params::kRequired);
    params.flag("unsafe", unsafe);
    WSS_TRY(params.finish());
    auto parsed = cache::parse_policy(policy);
    if (!parsed) return parsed.status();
    cache::PolicySettings settings{.policy = *parsed, .unsafe = unsafe};
    auto changed = change(reactor, kDrainAnswers, [&cache, volume, settings](Take take) {
        cache.set_policy(volume, settings, std::move(take));
    });
    if (!changed) return changed;
    return json{{"volume", volume}, {"policy", std::string(to_string(settings.policy))}, {"unsafe", unsafe}};
}

}  // namespace

Result<cache::CacheInfo> CachePart::info() {
    return ask_reactor<cache::CacheInfo>(
        [&](auto take) { reactor_.post([this, take] { take(cache_->info()); }); });
}

void CachePart::add_methods(control::Methods& methods) {
    auto status = [this](const json& params) -> Result<json> {
        WSS_TRY(control::Params(params).finish());
        auto asked = info();
        if (!asked) return asked.status();
        return to_json(*asked);
    };
    methods.add("cache.status", "engines, volumes and their counters", status);
    methods.add_statistics("cache", [status] {
        auto answer = status(json::object());
        return answer ? *answer : json{{"error", answer.status().to_string()}};
    });
    methods.add_change("cache.policy", "volume, policy, [unsafe]: sets the volume's cache policy",
                       [this](const json& params) { return set_policy(reactor_, *cache_, params); });
    methods.add_change(
        "cache.drain", "[volume]: destages dirty lines", [this](const json& params) -> Result<json> {
            std::string volume;
            WSS_TRY(control::Params(params).text("volume", volume).finish());
            return change(reactor_, kDrainAnswers,
                          [this, volume](Take take) { cache_->drain(volume, std::move(take)); });
        });
    methods.add_change(
        "cache.remove", "engine: destages its dirty lines and releases it",
        [this](const json& params) -> Result<json> {
            uint64_t engine = 0;
            WSS_TRY(control::Params(params).size("engine", engine, control::Params::kRequired).finish());
            return change(reactor_, kReactorAnswers, [this, engine](Take take) {
                take(cache_->remove_engine(static_cast<uint32_t>(engine)));
            });
        });
    methods.add_change(
        "cache.give_up",
        "volume (name or WWID): gives up acknowledged data in engines that are away, or the dirty lines of a "
        "volume that is not open",
        [this](const json& params) -> Result<json> {
            std::string volume;
            WSS_TRY(control::Params(params).text("volume", volume, control::Params::kRequired).finish());
            auto given_up = ask_reactor<Result<uint64_t>>(
                [&](auto take) { reactor_.post([this, volume, take] { cache_->give_up(volume, take); }); },
                kRecordAnswers);
            if (!given_up)
                return failure(Code::kTimedOut,
                               "giving up the writes of volume {} was not recorded within {} s: the state "
                               "file's disk or the reactor does not answer",
                               volume, kRecordAnswers.count());
            if (!*given_up) return given_up->status();
            return json{{"volume", volume}, {"wwid", volume::wwid_text(**given_up)}};
        });
    methods.add_change(
        "cache.forget",
        "stops waiting for engines from before the restart; data that only these engines have is lost",
        [this](const json& params) -> Result<json> {
            WSS_TRY(control::Params(params).finish());
            return change(reactor_, kReactorAnswers, [this](Take take) {
                cache_->forget_awaited();
                take(Status::ok());
            });
        });
}

}  // namespace wss::daemon
