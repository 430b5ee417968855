// SPDX-License-Identifier: Apache-2.0
#include "target/control/config.h"

#include <algorithm>
#include <set>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/config.h"
#include "lib/base/machine.h"
#include "lib/base/size.h"
#include "lib/base/suggest.h"
#include "lib/cache/policy.h"
#include "lib/fabric/address.h"
#include "lib/io/specification.h"
#include "target/volume/access.h"
#include "target/volume/rate_limit.h"

namespace wss::control {

namespace {

using volume::VolumeOptions;

Status check_block_size(uint64_t bytes) {
    if (bytes == 0 || bytes == 512 || bytes == 4096) return Status::ok();
    return failure(Code::kInvalid, "must be 512 or 4096, not {}", bytes);
}

Status check_role_name(const std::string& role) {
    static const std::vector<std::string_view> kRoles{"block", "kv", "rs"};
    if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return Status::ok();
    return Status(Code::kInvalid, fmt::format("unknown role '{}'{}", role, suggestion(role, kRoles)));
}

void describe_volume(ConfigSchema& row, VolumeOptions& volume) {
    volume.declared = true;
    row.text("name", volume.name, [&volume] { return volume::check_name(volume.name); });
    row.required();
    row.text("backend", volume.backend);
    row.required();
    row.size("size", volume.size);
    row.number("block_size", volume.block_size, 512, 4096,
               [&volume] { return check_block_size(volume.block_size); });
    row.flag("read_only", volume.read_only);
    row.flag("create", volume.create);
    row.texts("access", volume.access);
    row.size("iops", volume.limits.iops);
    row.size("bandwidth", volume.limits.bandwidth);
}

void describe(ConfigSchema& schema, TargetConfig& config) {
    schema.text("role", config.role, [&config] { return check_role_name(config.role); });
    schema.texts("listen", config.listen);
    schema.text("join", config.join);
    schema.texts("advertise", config.advertise);
    schema.text("secret_file", config.secret_file);
    schema.number("reactors", config.reactors, 0, kReactorsMax);
    schema.text("cpus", config.cpus);
    schema.text("control", config.control);
    schema.text("state", config.state);
    schema.text("name", config.name, [&config] { return volume::check_name(config.name); });
    schema.text("secrets", config.secrets);
    schema.flag("auth_off", config.auth_off);
    schema.texts("auth_v1", config.auth_v1);
    describe_tls(schema, config.tls);
    schema.flag("tls_kernel", config.tls_kernel);
    schema.text("http", config.http);
    schema.text("log_level", config.log_level, [&config] { return check_log_level(config.log_level); });
    schema.texts("cache_listen", config.cache_listen);
    schema.text("cache_secrets", config.cache_secrets);
    schema.flag("cache_auth_off", config.cache_auth_off);
    schema.size("cache_line", config.cache_line);
    schema.size("cache_read_ahead", config.cache_read_ahead);
    schema.text("cache_policy", config.cache_policy);
    schema.number("cache_grace", config.cache_grace, 0, kCacheGraceMax);
    schema.number("drain_seconds", config.drain_seconds, 1, kDrainSecondsMax);
    schema.texts("kv_listen", config.kv.listen);
    schema.texts("kv_map", config.kv.map);
    schema.number("kv_partition", config.kv.partition, 0, 255);
    schema.number("kv_partitions", config.kv.partitions, 1, 256);
    schema.size("kv_memory", config.kv.memory);
    schema.size("kv_index_memory", config.kv.index_memory);
    schema.text("kv_durability", config.kv.durability);
    schema.text("kv_directory", config.kv.directory);
    schema.number("kv_window_ms", config.kv.window_ms, 10, 3'600'000);
    schema.text("kv_secrets", config.kv.secrets);
    schema.texts("kv_access", config.kv.access);
    schema.number("kv_terminate_ms", config.kv.terminate_ms, 1, 3'600'000);
    schema.tables("volume",
                  [&config](ConfigSchema& row) { describe_volume(row, config.volumes.emplace_back()); });
}

// Applies an option that follows the backend. Returns false if `word` is not an option and belongs to the
// backend.
Result<bool> apply_word(std::string_view word, VolumeOptions& volume) {
    if (word == "ro") return volume.read_only = true;
    if (word == "create") return volume.create = true;
    if (word.starts_with("size=")) {
        auto parsed = parse_size(word.substr(5));
        if (!parsed) return parsed.status();
        volume.size = *parsed;
        return true;
    }
    if (word.starts_with("iops=")) {
        auto parsed = volume::parse_iops(word.substr(5));
        if (!parsed) return parsed.status();
        volume.limits.iops = *parsed;
        return true;
    }
    if (word.starts_with("bandwidth=")) {
        auto parsed = volume::parse_bandwidth(word.substr(10));
        if (!parsed) return parsed.status();
        volume.limits.bandwidth = *parsed;
        return true;
    }
    if (word.starts_with("block=")) {
        auto parsed = parse_size(word.substr(6));
        if (!parsed) return parsed.status();
        if (Status checked = check_block_size(*parsed); !checked) return checked.within("block");
        volume.block_size = static_cast<uint32_t>(*parsed);
        return true;
    }
    return false;
}

}  // namespace

void describe_tls(ConfigSchema& schema, fabric::tls::Files& files) {
    schema.text("tls_cert", files.certificate);
    schema.text("tls_key", files.key);
    schema.text("tls_ca", files.authorities);
    schema.text("tls_client_ca", files.client_authorities);
}

static bool is_tls(std::string_view uri) {
    return uri.starts_with("tls://");
}

Status check_tls(const fabric::tls::Files& files, std::initializer_list<std::span<const std::string>> uris) {
    WSS_TRY(files.check());
    if (files.empty()) return Status::ok();
    for (const auto& some : uris)
        if (std::any_of(some.begin(), some.end(), is_tls)) return Status::ok();
    return Status(
        Code::kInvalid,
        "TLS is configured (--tls-cert, --tls-key, --tls-ca or --tls-client-ca), but no address is tls://: "
        "nothing would be encrypted");
}

static bool all_tls(std::span<const std::string> uris) {
    return !uris.empty() && std::all_of(uris.begin(), uris.end(), is_tls);
}

static Status check_tls_kernel(const TargetConfig& config) {
    if (!config.tls_kernel || std::any_of(config.listen.begin(), config.listen.end(), is_tls))
        return Status::ok();
    return Status(
        Code::kInvalid,
        "--tls-kernel has no effect: no --listen address is tls://. Remove it, or listen on tls://");
}

bool admits_by_certificate(const fabric::tls::Files& files, std::span<const std::string> uris) {
    return !files.client_authorities.empty() && all_tls(uris);
}

Status check_log_level(const std::string& level) {
    static const std::vector<std::string_view> kLevels{"debug", "info", "warning", "error", "off"};
    if (std::find(kLevels.begin(), kLevels.end(), level) != kLevels.end()) return Status::ok();
    return Status(Code::kInvalid, fmt::format("unknown log level '{}'{}", level, suggestion(level, kLevels)));
}

Status check_role(const TargetConfig& config) {
    enum : unsigned { kBlock = 1, kKv = 2, kStorage = 4 };
    const unsigned role = config.role == "rs" ? kStorage : config.role == "kv" ? kKv : kBlock;
    const auto has_access = [](const VolumeOptions& volume) { return !volume.access.empty(); };
    struct Setting {
        const char* name;
        bool given;
        unsigned roles;  // the roles that use it
    };
    const Setting settings[] = {
        {"--join", !config.join.empty(), kStorage},
        {"--advertise", !config.advertise.empty(), kStorage},
        {"--secret-file", !config.secret_file.empty(), kStorage | kKv},
        {"--secrets", !config.secrets.empty(), kBlock},
        {"--auth-v1", !config.auth_v1.empty(), kBlock},
        {"--tls-kernel", config.tls_kernel, kBlock},
        {"--access", std::any_of(config.volumes.begin(), config.volumes.end(), has_access), kBlock},
        {"--volume", !config.volumes.empty(), kBlock | kStorage},
        {"--state", !config.state.empty(), kBlock},
        {"--cache-listen", !config.cache_listen.empty(), kBlock},
        {"--cache-secrets", !config.cache_secrets.empty(), kBlock},
        {"--kv-listen", !config.kv.listen.empty(), kBlock | kKv},
        {"--kv-secrets", !config.kv.secrets.empty(), kBlock | kKv},
        {"--kv-access", !config.kv.access.empty() || !config.kv.access_options.empty(), kBlock | kKv}};
    for (const Setting& setting : settings) {
        if (!setting.given || (setting.roles & role) != 0) continue;
        if (setting.roles == kStorage) return failure(Code::kInvalid, "{} is for --role rs", setting.name);
        return failure(Code::kInvalid, "{} is not for --role {}", setting.name, config.role);
    }
    return Status::ok();
}

Status read_target_config(const std::string& path, TargetConfig& config) {
    ConfigSchema schema;
    describe(schema, config);
    config.file = path;
    return schema.read_file(path);
}

Status parse_target_config(std::string_view text, const std::string& path, TargetConfig& config) {
    ConfigSchema schema;
    describe(schema, config);
    return schema.read_text(text, path);
}

static Status check_cache_secrets(const TargetConfig& config) {
    if (config.cache_auth_off && !config.cache_secrets.empty())
        return failure(Code::kInvalid,
                       "cache_secrets and cache_auth_off exclude each other: use one of the two");
    const bool open = config.cache_secrets.empty() && !config.cache_auth_off;
    if (!config.cache_listen.empty() && !config.secrets.empty() && open)
        return failure(Code::kInvalid,
                       "initiators must authenticate, but cache engines need not: any peer could join as "
                       "one, and read and change the data of initiators; use --cache-secrets FILE, or "
                       "--cache-auth-off if that is intended");
    return Status::ok();
}

static Status check_auth_v1(const TargetConfig& config) {
    if (!config.auth_v1.empty() && config.secrets.empty() && config.cache_secrets.empty())
        return failure(
            Code::kInvalid,
            "auth_v1 without secrets: nobody authenticates; use --secrets FILE or --cache-secrets FILE");
    for (const std::string& name : config.auth_v1) WSS_TRY(check_initiator_name(name).within("--auth-v1"));
    return Status::ok();
}

static Status check_addresses(const TargetConfig& config) {
    std::set<std::string_view> addresses;
    for (const std::string& uri : config.listen) {
        WSS_TRY(fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT).status().within("--listen"));
        if (!addresses.insert(uri).second) return failure(Code::kInvalid, "--listen {} is given twice", uri);
    }
    for (const std::string& uri : config.cache_listen)
        WSS_TRY(fabric::Address::parse(uri, kCachePort).status().within("--cache-listen"));
    return Status::ok();
}

static Status check_cache(const TargetConfig& config) {
    const uint64_t line = config.cache_line;
    if (line < 4096 || line > 256 * 1024 || (line & (line - 1)) != 0)
        return failure(Code::kInvalid, "cache_line: {} is not a power of two from 4K to 256K", line);
    if (config.cache_read_ahead > kReadAheadMax)
        return failure(Code::kInvalid, "cache_read_ahead: {} is more than 64M", config.cache_read_ahead);
    auto policy = cache::parse_policy(config.cache_policy);
    if (!policy) return policy.status().within("--cache-policy");
    if (!config.cache_listen.empty() && *policy == cache::Policy::kBack && config.state.empty())
        return failure(
            Code::kInvalid,
            "--cache-policy write-back needs a state file (--state), so that dirty lines are found after "
            "a restart");
    return check_cache_secrets(config);
}

// If only some addresses had secrets, the store would be open at the others.
static Status check_kv_secrets(const TargetConfig& config) {
    if (config.kv.secrets.empty() || all_tls(config.kv.listen)) return Status::ok();
    return Status(Code::kInvalid,
                  "--kv-secrets: clients of the key-value store prove their secrets only over TLS: give only "
                  "tls:// addresses");
}

Result<kv::AccessRules> kv_access(const TargetConfig& config) {
    std::vector<std::string> words = config.kv.access;
    words.insert(words.end(), config.kv.access_options.begin(), config.kv.access_options.end());
    auto rules = kv::AccessRules::parse(words);
    if (!rules) return rules.status().within("--kv-access");
    if (rules->empty()) return rules;
    if (config.kv.secrets.empty())
        return Status(Code::kInvalid,
                      "--kv-access: clients have names only if they prove a secret: give --kv-secrets FILE");
    if (config.kv.map.size() > 1 && !rules->has_partition())
        return Status(
            Code::kInvalid,
            "--kv-access: no name has the right 'partition', so that the partitions of --kv-map could "
            "not decide the transactions of silent clients: add NAME=partition for the names in their "
            "--secret-file");
    return rules;
}

Result<kv::AccessRules> read_kv_access(const TargetConfig& config) {
    TargetConfig now = config;
    if (config.file.empty()) return kv_access(now);
    TargetConfig fresh;
    WSS_TRY(read_target_config(config.file, fresh));
    now.kv.access = fresh.kv.access;
    return kv_access(now);
}

Status check_volumes(const std::vector<VolumeOptions>& volumes) {
    std::set<std::string_view> names;
    std::set<std::string> storage;
    for (const VolumeOptions& volume : volumes) {
        if (!names.insert(volume.name).second)
            return failure(Code::kInvalid, "volume {} is given twice", volume.name);
        // If two volumes had the same storage, the first would take it from a dead owner, and the second
        // would make the start fail.
        if (io::has_owner(volume.backend) && !storage.insert(io::storage_name(volume.backend).name).second)
            return failure(Code::kInvalid, "volume {}: {} is the storage of another volume", volume.name,
                           volume.backend);
        const uint32_t block = std::max<uint32_t>(volume.block_size, 512);
        if (volume.size % block != 0)
            return failure(Code::kInvalid, "volume {}: size {} is not a multiple of its block size {}",
                           volume.name, volume.size, block);
    }
    return Status::ok();
}

Status check_target_config(const TargetConfig& config) {
    WSS_TRY(check_tls(config.tls, {config.listen, config.cache_listen, config.kv.listen, config.kv.map}));
    WSS_TRY(check_tls_kernel(config));
    WSS_TRY(check_kv_secrets(config));
    WSS_TRY(kv_access(config).status());
    // A target with only a key-value partition has no volumes and needs no address for them.
    if (config.listen.empty() && config.volumes.empty() && !config.kv.listen.empty()) return Status::ok();
    if (config.listen.empty())
        return failure(Code::kInvalid,
                       "no address to listen on: give --listen, for example rdma://0.0.0.0:5555");
    WSS_TRY(check_addresses(config));
    if (!config.cpus.empty()) WSS_TRY(parse_cpus(config.cpus).status().within("cpus"));
    WSS_TRY(check_volumes(config.volumes));
    if (config.auth_off && !config.secrets.empty())
        return failure(Code::kInvalid, "secrets and auth_off exclude each other: use one of the two");
    WSS_TRY(check_auth_v1(config));
    WSS_TRY(check_cache(config));
    if (config.volumes.size() > volume::kVolumesMax)
        return failure(Code::kInvalid, "{} volumes exceed the limit of {}", config.volumes.size(),
                       volume::kVolumesMax);
    if (config.volumes.empty() && config.control.empty() && config.state.empty() && config.kv.listen.empty())
        return failure(
            Code::kInvalid,
            "nothing to serve: give --volume NAME=BACKEND, or a control socket for creating volumes");
    return Status::ok();
}

Status apply_access_rule(std::string_view text, TargetConfig& config) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    if (colon == std::string_view::npos)
        return failure(Code::kInvalid, "--access {}: write VOLUME:INITIATOR=rw", text);
    for (VolumeOptions& volume : config.volumes) {
        if (volume.name != name) continue;
        volume.access.emplace_back(text.substr(colon + 1));
        return volume::AccessList::parse(volume.access).status().within("--access");
    }
    return failure(Code::kInvalid, "--access {}: there is no --volume {}", text, name);
}

Result<VolumeOptions> parse_volume_option(std::string_view text) {
    size_t equals = text.find('=');
    if (equals == std::string_view::npos)
        return failure(Code::kInvalid, "'{}': write NAME=BACKEND, for example disk0=aio:/dev/nvme0n1", text);
    VolumeOptions volume;
    volume.declared = true;
    volume.name = text.substr(0, equals);
    if (Status named = volume::check_name(volume.name); !named) return named;
    std::string_view backend = text.substr(equals + 1);
    // Parse from the end, because the backend may contain commas.
    for (;;) {
        size_t comma = backend.rfind(',');
        if (comma == std::string_view::npos) break;
        auto applied = apply_word(backend.substr(comma + 1), volume);
        if (!applied) return applied.status().within(fmt::format("volume {}", volume.name));
        if (!*applied) break;
        backend = backend.substr(0, comma);
    }
    if (backend.empty()) return failure(Code::kInvalid, "volume {}: the backend is missing", volume.name);
    volume.backend = backend;
    return volume;
}

}  // namespace wss::control
