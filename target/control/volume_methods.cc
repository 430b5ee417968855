// SPDX-License-Identifier: Apache-2.0
// The methods of volumes.
#include <nlohmann/json.hpp>

#include "target/control/methods.h"
#include "target/control/params.h"
#include "target/volume/volume_set.h"

namespace wss::control {

namespace {

using nlohmann::json;
using volume::Totals;
using volume::VolumeInfo;
using volume::VolumeSet;

json to_json(const Totals& totals) {
    return {{"reads", totals.reads},
            {"writes", totals.writes},
            {"flushes", totals.flushes},
            {"discards", totals.discards},
            {"others", totals.others},
            {"read_bytes", totals.read_bytes},
            {"written_bytes", totals.written_bytes},
            {"errors", totals.errors},
            {"delayed", totals.delayed},
            {"delayed_ns", totals.delayed_ns}};
}

const char* state_of(const VolumeInfo& info) {
    if (info.closed) return "closed";
    return info.removing ? "removing" : "live";
}

json to_json(const VolumeInfo& info) {
    return {{"name", info.name},
            {"lun", info.identity.lun},
            {"wwid", volume::wwid_text(info.identity.wwid)},
            {"backend", info.backend},
            {"size", info.size},
            {"block_size", info.block_size},
            {"read_only", info.read_only},
            {"declared", info.declared},
            {"access", info.access},
            {"iops", info.limits.iops},
            {"bandwidth", info.limits.bandwidth},
            {"trouble", info.trouble},
            {"state", state_of(info)}};
}

Result<json> answer_with(const VolumeSet& volumes, const std::string& name) {
    auto info = volumes.find(name);
    if (!info) return info.status();
    return to_json(*info);
}

// Reads a number, or a string like "100M" or "none". 0 means no limit.
Status read_limits(Params& params, VolumeSet::LimitsChange& limits) {
    auto read = [&params](const char* key, auto parse, std::optional<uint64_t>& value) {
        std::string text;
        params.number_or_text(key, text);
        if (text.empty()) return Status::ok();
        auto parsed = parse(text);
        if (!parsed) return parsed.status().within(key);
        value = *parsed;
        return Status::ok();
    };
    WSS_TRY(read("iops", volume::parse_iops, limits.iops));
    return read("bandwidth", volume::parse_bandwidth, limits.bandwidth);
}

Result<json> create(VolumeSet& volumes, const json& json_params) {
    volume::VolumeOptions options;
    uint64_t block_size = 0;
    Params params(json_params);
    params.text("name", options.name, Params::kRequired).text("backend", options.backend, Params::kRequired);
    params.size("size", options.size).size("block_size", block_size);
    params.flag("read_only", options.read_only).flag("create", options.create);
    params.texts("access", options.access);
    VolumeSet::LimitsChange limits;
    WSS_TRY(read_limits(params, limits));
    WSS_TRY(params.finish());
    options.limits = {.iops = limits.iops.value_or(0), .bandwidth = limits.bandwidth.value_or(0)};
    if (block_size > UINT32_MAX) return failure(Code::kInvalid, "block_size must be 512 or 4096");
    options.block_size = static_cast<uint32_t>(block_size);
    WSS_TRY(volumes.create(options));
    return answer_with(volumes, options.name);
}

Result<json> resize(VolumeSet& volumes, const json& json_params) {
    std::string name;
    uint64_t size = 0;
    Params params(json_params);
    params.text("name", name, Params::kRequired).size("size", size, Params::kRequired);
    WSS_TRY(params.finish());
    WSS_TRY(volumes.resize(name, size));
    return answer_with(volumes, name);
}

Result<json> reopen(VolumeSet& volumes, const json& json_params) {
    std::string name;
    VolumeSet::ReopenOptions how;
    Params params(json_params);
    params.text("name", name, Params::kRequired);
    params.flag("steal", how.steal).flag("give_up_dirty", how.give_up_dirty);
    WSS_TRY(params.finish());
    WSS_TRY(volumes.reopen(name, how));
    return answer_with(volumes, name);
}

Result<json> remove(VolumeSet& volumes, const json& json_params) {
    std::string name;
    volume::RemoveOptions how;
    Params params(json_params);
    params.text("name", name, Params::kRequired).flag("give_up_dirty", how.give_up_dirty);
    WSS_TRY(params.finish());
    auto info = volumes.find(name);
    bool declared = info.is_ok() && info->declared;
    WSS_TRY(volumes.remove(name, how));
    json answer = {{"name", name}};
    if (declared) answer["note"] = "the configuration declares this volume: the next start creates it again";
    return answer;
}

Result<json> set(VolumeSet& volumes, const json& json_params) {
    std::string name;
    bool read_only = false;
    VolumeSet::LimitsChange limits;
    const bool changes_mode = json_params.is_object() && json_params.contains("read_only");
    Params params(json_params);
    params.text("name", name, Params::kRequired).flag("read_only", read_only);
    WSS_TRY(read_limits(params, limits));
    WSS_TRY(params.finish());
    const bool changes_limits = limits.iops || limits.bandwidth;
    if (!changes_mode && !changes_limits)
        return failure(Code::kInvalid, "nothing to change: give read_only, iops or bandwidth");
    if (changes_limits) WSS_TRY(volumes.set_limits(name, limits));
    if (changes_mode) WSS_TRY(volumes.set_read_only(name, read_only));
    return answer_with(volumes, name);
}

Result<json> access(VolumeSet& volumes, const json& json_params) {
    std::string name;
    std::vector<std::string> words;
    const bool change = json_params.is_object() && json_params.contains("access");
    Params params(json_params);
    WSS_TRY(params.text("name", name, Params::kRequired).texts("access", words).finish());
    if (change) WSS_TRY(volumes.set_access(name, words));
    return answer_with(volumes, name);
}

json list(const VolumeSet& volumes) {
    json all = json::array();
    for (const VolumeInfo& info : volumes.list()) all.push_back(to_json(info));
    return all;
}

json statistics(const VolumeSet& volumes) {
    json all = json::object();
    for (const VolumeInfo& info : volumes.list()) all[info.name] = to_json(info.totals);
    return all;
}

}  // namespace

void add_volume_methods(Methods& methods, VolumeSet& volumes) {
    methods.add_change(
        "volume.create",
        "name, backend, [size], [block_size], [read_only], [create], [access], [iops], [bandwidth]: a "
        "new volume",
        [&](const json& params) { return create(volumes, params); });
    methods.add_change("volume.resize", "name, size: makes the volume larger or smaller",
                       [&](const json& params) { return resize(volumes, params); });
    methods.add_change("volume.reopen",
                       "name, [steal], [give_up_dirty]: reopens the volume's storage after another owner "
                       "took it, or when it could not be opened",
                       [&](const json& params) { return reopen(volumes, params); });
    methods.add_change("volume.delete",
                       "name, [give_up_dirty]: stops serving the volume; the backing file stays. Refused if "
                       "cache engines hold acknowledged writes that cannot be written to the file",
                       [&](const json& params) { return remove(volumes, params); });
    methods.add_change("volume.set",
                       "name, [read_only], [iops], [bandwidth]: changes settings while the volume is served; "
                       "limits are per second, 0 or \"none\" removes one",
                       [&](const json& params) { return set(volumes, params); });
    methods.add_change("volume.access", "name, [access]: replaces the access list; [] permits everyone",
                       [&](const json& params) { return access(volumes, params); });
    methods.add("volume.list", "all volumes, in order of LUN", [&](const json& params) -> Result<json> {
        WSS_TRY(Params(params).finish());
        return list(volumes);
    });
    methods.add_statistics("volumes", [&] { return statistics(volumes); });
}

}  // namespace wss::control
