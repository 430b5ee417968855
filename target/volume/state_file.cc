// SPDX-License-Identifier: Apache-2.0
#include "target/volume/state_file.h"

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/file.h"
#include "target/volume/access.h"
#include "target/volume/rate_limit.h"

namespace wss::volume {

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "wss-target-state";
constexpr int kVersion = 1;
// 1024 volumes with the longest paths: a larger file is not a state file.
constexpr size_t kFileMax = 16 << 20;

template <typename... Args>
Status damaged(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    return failure(Code::kInvalid, "state file {} is damaged: {}; repair it or move it away", path,
                   fmt::format(format, std::forward<Args>(args)...));
}

// Reads `key` into `value`; false when it is missing or of another type.
bool take(const Json& object, const char* key, std::string& value) {
    auto found = object.find(key);
    if (found == object.end() || !found->is_string()) return false;
    value = found->get<std::string>();
    return true;
}
bool take(const Json& object, const char* key, uint64_t& value) {
    auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return false;
    value = found->get<uint64_t>();
    return true;
}
bool take(const Json& object, const char* key, bool& value) {
    auto found = object.find(key);
    if (found == object.end() || !found->is_boolean()) return false;
    value = found->get<bool>();
    return true;
}

bool parse_wwid(const std::string& text, uint64_t& wwid) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wwid, 16);
    return error == std::errc() && end == text.data() + text.size() && wwid != 0 && wwid <= kWwidMask;
}

bool take(const Json& object, const char* key, std::vector<std::string>& values) {
    auto found = object.find(key);
    if (found == object.end() || !found->is_array()) return false;
    for (const Json& value : *found) {
        if (!value.is_string()) return false;
        values.push_back(value.get<std::string>());
    }
    return AccessList::parse(values).is_ok();
}

void add_sizes(const RecordedSizes::Fields& sizes, Json& json) {
    if (sizes.resized != 0) json["resized"] = sizes.resized;
    if (sizes.part != 0) json["part"] = sizes.part;
    if (sizes.growing != 0) json["growing"] = sizes.growing;
    if (sizes.shrinking) json["shrinking"] = true;
    if (sizes.followed) json["followed"] = true;
    if (sizes.cut_from != 0) json["cut_from"] = sizes.cut_from;
    if (!sizes.cut_ownership.empty()) json["cut_ownership"] = sizes.cut_ownership;
}

bool take_sizes(const Json& json, RecordedSizes& into) {
    RecordedSizes::Fields sizes;
    const auto take_if_there = [&](const char* key, auto& value) {
        return !json.contains(key) || take(json, key, value);
    };
    const bool fine =
        take_if_there("resized", sizes.resized) && take_if_there("part", sizes.part) &&
        take_if_there("growing", sizes.growing) && take_if_there("shrinking", sizes.shrinking) &&
        take_if_there("followed", sizes.followed) && take_if_there("cut_from", sizes.cut_from) &&
        take_if_there("cut_ownership", sizes.cut_ownership);
    into = RecordedSizes(std::move(sizes));
    return fine;
}

Json to_json(const StoredVolume& volume) {
    Json json{{"name", volume.options.name},
              {"lun", volume.identity.lun},
              {"wwid", fmt::format("{:015x}", volume.identity.wwid)},
              {"declared", volume.options.declared}};
    add_sizes(volume.sizes.fields(), json);
    if (volume.unmade) json["unmade"] = true;
    if (volume.deleted) json["deleted"] = true;
    if (volume.write_protected) json["write_protected"] = true;
    if (volume.access_changed || !volume.options.declared) json["access"] = volume.options.access;
    if (volume.limits_changed || (!volume.options.declared && volume.options.limits.any())) {
        json["iops"] = volume.options.limits.iops;
        json["bandwidth"] = volume.options.limits.bandwidth;
    }
    if (volume.options.declared) return json;
    json["backend"] = volume.options.backend;
    json["size"] = volume.options.size;
    json["block_size"] = volume.options.block_size;
    json["read_only"] = volume.options.read_only;
    return json;
}

Status parse_volume(const Json& json, const std::string& path, size_t index, StoredVolume& volume) {
    VolumeOptions& options = volume.options;
    std::string wwid;
    uint64_t lun = 0, block_size = 0;
    bool fine = json.is_object() && take(json, "name", options.name) && take(json, "lun", lun) &&
                take(json, "wwid", wwid) && take(json, "declared", options.declared);
    if (fine && !options.declared)
        fine = take(json, "backend", options.backend) && take(json, "size", options.size) &&
               take(json, "block_size", block_size) && take(json, "read_only", options.read_only);
    fine = fine && take_sizes(json, volume.sizes);
    if (fine && json.contains("unmade")) fine = take(json, "unmade", volume.unmade);
    if (fine && json.contains("deleted")) fine = take(json, "deleted", volume.deleted);
    // Files that are older than access lists have none.
    if (fine && json.contains("access")) {
        fine = take(json, "access", options.access);
        volume.access_changed = options.declared;
    }
    if (fine && json.contains("iops")) {
        fine = take(json, "iops", options.limits.iops) && take(json, "bandwidth", options.limits.bandwidth) &&
               check_limits(options.limits);
        volume.limits_changed = options.declared;
    }
    if (fine && json.contains("write_protected"))
        fine = take(json, "write_protected", volume.write_protected);
    if (!fine) return damaged(path, "volume {} has a missing or wrong field", index);
    if (auto name = check_name(options.name); !name)
        return damaged(path, "volume {}: {}", index, name.text());
    if (lun > kLunMax) return damaged(path, "volume {}: LUN {} is beyond {}", index, lun, kLunMax);
    if (!parse_wwid(wwid, volume.identity.wwid)) return damaged(path, "volume {}: wwid '{}'", index, wwid);
    if (!options.declared && block_size != 512 && block_size != 4096)
        return damaged(path, "volume {}: block size {}", index, block_size);
    volume.identity.lun = static_cast<uint32_t>(lun);
    options.block_size = static_cast<uint32_t>(block_size);
    return Status::ok();
}

Status check_unique(const std::vector<StoredVolume>& volumes, const std::string& path) {
    std::set<std::string> names;
    std::set<uint32_t> luns;
    for (const StoredVolume& volume : volumes) {
        if (volume.deleted) continue;  // another one may have its name and LUN
        if (!names.insert(volume.options.name).second)
            return damaged(path, "volume {} occurs twice", volume.options.name);
        if (!luns.insert(volume.identity.lun).second)
            return damaged(path, "LUN {} occurs twice", volume.identity.lun);
    }
    return Status::ok();
}

}  // namespace

std::string format_state(const std::vector<StoredVolume>& volumes) {
    Json json{{"format", kFormat}, {"version", kVersion}, {"volumes", Json::array()}};
    for (const StoredVolume& volume : volumes) json["volumes"].push_back(to_json(volume));
    // Paths may contain any byte. JSON cannot hold bytes that are not UTF-8, so these are replaced.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::vector<StoredVolume>> parse_state(const std::string& text, const std::string& path) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) return damaged(path, "not a JSON object");
    std::string format;
    uint64_t version = 0;
    if (!take(json, "format", format) || format != kFormat)
        return damaged(path, "its format is not {}", kFormat);
    if (!take(json, "version", version) || version != kVersion)
        return damaged(path, "version {} is not {}, the one that this program supports", version, kVersion);
    auto list = json.find("volumes");
    if (list == json.end() || !list->is_array()) return damaged(path, "it has no list of volumes");
    std::vector<StoredVolume> volumes;
    for (const Json& item : *list) {
        StoredVolume volume;
        WSS_TRY(parse_volume(item, path, volumes.size(), volume));
        volumes.push_back(std::move(volume));
    }
    WSS_TRY(check_unique(volumes, path));
    return volumes;
}

Result<std::vector<StoredVolume>> read_state_file(const StateLock& state) {
    const std::string& path = state.path();
    auto text = read_file(path, kFileMax);
    if (!text && text.status().sys_errno() == ENOENT) return std::vector<StoredVolume>();
    if (!text) return text.status().within("state file");
    if (text->empty()) return damaged(path, "it is empty");
    return parse_state(*text, path);
}

Status write_state_file(const StateLock& state, const std::vector<StoredVolume>& volumes) {
    Status written = state.write("", format_state(volumes));
    return written ? written : written.within("state file");
}

}  // namespace wss::volume
