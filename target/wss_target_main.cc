// SPDX-License-Identifier: Apache-2.0
// wss-target: the command line, and the start of the role that it selects.
#include <CLI/CLI.hpp>
#include <optional>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/kv/placement.h"
#include "target/cache/limits.h"
#include "target/daemon/daemon.h"
#include "target/engine/engine_daemon.h"

namespace wss {
namespace {

// Options of key-value partitions. Options that are not given take their values from the file.
struct KvWords {
    std::string role, partitions, memory, index_memory, durability, directory, secrets;
    std::vector<std::string> listen, access;
    uint32_t partition = UINT32_MAX, partitions_here = 0, window_ms = 0, terminate_ms = 0;
};

void describe_kv(CLI::App& app, KvWords& kv) {
    app.add_option("--role", kv.role,
                   "kv: clients of the key-value store connect to --listen; rs: the real storage of another "
                   "target, see --join")
        ->check(CLI::IsMember({"kv", "block", "rs"}));
    app.add_option("--kv-listen", kv.listen, "Where clients of the key-value store connect; repeatable")
        ->type_name("URI");
    app.add_option("--kv-map", kv.partitions, "All partitions of the store, in order: URI,URI,...")
        ->type_name("URIS");
    app.add_option("--kv-partition", kv.partition,
                   "Index in --kv-map of the first partition here (default: 0)")
        ->check(CLI::Range(0u, 255u));
    app.add_option("--kv-partitions", kv.partitions_here,
                   "Number of partitions in this process, each with its own --listen (default: 1)")
        ->check(CLI::Range(1u, 256u));
    app.add_option("--kv-memory", kv.memory,
                   "Memory for keys and values (default: 256M); the index takes another sixteenth of it")
        ->type_name("SIZE");
    app.add_option("--kv-index-memory", kv.index_memory,
                   "Memory for the key index, in addition to --kv-memory (default: no limit)")
        ->type_name("SIZE");
    app.add_option("--kv-durability", kv.durability, "memory, async or sync (default: memory)");
    app.add_option("--kv-directory", kv.directory,
                   "Directory of the log, and of values that do not fit in memory")
        ->type_name("DIR");
    app.add_option("--kv-secrets", kv.secrets,
                   "File of NAME:SECRET lines, one for each client (mode 600): keys for tls:// addresses of "
                   "the key-value store")
        ->type_name("FILE");
    app.add_option(
           "--kv-access", kv.access,
           "NAME=r|w|rw[:PREFIX], NAME=none or NAME=partition: what a client of --kv-secrets may do, with "
           "keys that begin with PREFIX or with all; * stands for all names without a rule; without any "
           "rule, every client may do everything; repeatable")
        ->type_name("RULE");
    app.add_option("--kv-window-ms", kv.window_ms,
                   "Milliseconds to keep superseded versions (default: 5000)");
    app.add_option(
        "--kv-terminate-ms", kv.terminate_ms,
        "Milliseconds a prepared write waits for its client before the partitions decide (default: 1000)");
}

Status configure_kv(const KvWords& words, control::TargetConfig& config) {
    kv::KvOptions& kv = config.kv;
    kv.listen.insert(kv.listen.end(), words.listen.begin(), words.listen.end());
    if (!words.role.empty()) config.role = words.role;
    if (config.role == "kv") {
        kv.listen.insert(kv.listen.end(), config.listen.begin(), config.listen.end());
        config.listen.clear();
    }
    if (!words.partitions.empty()) kv.map = kv::split_map(words.partitions);
    if (words.partition != UINT32_MAX) kv.partition = words.partition;
    if (words.partitions_here > 0) kv.partitions = words.partitions_here;
    if (!words.memory.empty()) {
        auto bytes = parse_size(words.memory);
        if (!bytes) return bytes.status().within("--kv-memory");
        kv.memory = *bytes;
    }
    if (!words.index_memory.empty()) {
        auto bytes = parse_size(words.index_memory);
        if (!bytes) return bytes.status().within("--kv-index-memory");
        kv.index_memory = *bytes;
    }
    if (!words.durability.empty()) kv.durability = words.durability;
    if (!words.directory.empty()) kv.directory = words.directory;
    if (!words.secrets.empty()) kv.secrets = words.secrets;
    kv.access_options = words.access;
    if (words.window_ms > 0) kv.window_ms = words.window_ms;
    if (words.terminate_ms > 0) kv.terminate_ms = words.terminate_ms;
    return Status::ok();
}

struct Options {
    std::string config;
    std::vector<std::string> listen, volumes, access;
    std::string state, control, log_level, name, secrets, cpus;
    std::vector<std::string> cache_listen, advertise;
    std::string join, secret_file;
    std::string cache_line, cache_read_ahead, cache_policy, cache_secrets, http;
    std::vector<std::string> auth_v1;
    bool auth_off = false, cache_auth_off = false, tls_kernel = false;
    uint32_t drain_seconds = 0;
    std::optional<uint32_t> cache_grace;
    uint32_t reactors = 0;
    bool control_set = false;
    fabric::tls::Files tls;
    KvWords kv;
};

void describe_rs(CLI::App& app, Options& options) {
    app.add_option(
           "--join", options.join,
           "With --role rs: the --cache-listen address of the target whose rs:NAME volumes this process "
           "stores. --volume gives the storage of each; --listen is where clients of that target connect")
        ->type_name("URI");
    app.add_option("--advertise", options.advertise,
                   "With --role rs: addresses that clients receive instead of --listen, in the same order")
        ->type_name("URI");
    app.add_option("--secret-file", options.secret_file,
                   "With --role rs or kv: file with this process's NAME:SECRET line (mode 600), for a target "
                   "with --cache-secrets or partitions with --kv-secrets")
        ->type_name("FILE");
}

void describe_cache(CLI::App& app, Options& options) {
    app.add_option(
           "--cache-listen", options.cache_listen,
           "Address at which cache engines join (wss-cache --join); switches the cache on; repeatable")
        ->type_name("URI");
    app.add_option(
           "--cache-secrets", options.cache_secrets,
           "File of NAME:SECRET lines, one for each cache engine (mode 600); an engine that cannot prove "
           "its secret (wss-cache --secret-file) is refused")
        ->type_name("FILE");
    app.add_flag(
        "--cache-auth-off", options.cache_auth_off,
        "Let any peer that reaches --cache-listen join; the default without --cache-secrets, with a warning");
    app.add_option("--cache-line", options.cache_line, "Cache line size, 4K to 256K (default: 64K)")
        ->type_name("SIZE");
    app.add_option("--cache-read-ahead", options.cache_read_ahead,
                   "How far to read ahead of a sequential reader, 0 to 64M (default: 2M)")
        ->type_name("SIZE");
    app.add_option(
           "--cache-policy", options.cache_policy,
           "Policy of volumes for which wssctl has set none: write-through (default), write-back (needs "
           "--state), write-around or none")
        ->type_name("POLICY");
    app.add_option(
           "--cache-grace", options.cache_grace,
           "How long a command waits for acknowledged writes in cache engines that are away, before it "
           "fails, 0 to 600 (default: 15)")
        ->check(CLI::Range(uint32_t{0}, control::kCacheGraceMax))
        ->type_name("SECONDS");
}

void describe_auth(CLI::App& app, Options& options) {
    app.add_option("--secrets", options.secrets,
                   "File of NAME:SECRET lines, one for each initiator (mode 600; see wssctl secret); "
                   "an initiator that cannot prove its secret is refused")
        ->type_name("FILE");
    app.add_flag(
        "--auth-off", options.auth_off,
        "Serve any peer that reaches a listening address; the default without --secrets, with a warning");
    app.add_option(
           "--auth-v1", options.auth_v1,
           "Initiator or cache engine with a secret that may use version 1 of the authentication, which a "
           "relay can forward; without it, such a peer is refused until it is updated; repeatable")
        ->type_name("NAME");
    app.add_option("--name", options.name,
                   "Name that this target proves to initiators and cache engines with a secret; targets that "
                   "replace each other need the same (default: the host's)")
        ->type_name("NAME");
}

void describe(CLI::App& app, Options& options) {
    app.description(
        "Serves volumes to WSS and stock SRP initiators.\n\n"
        "  wss-target --listen rdma://0.0.0.0:5555 --volume disk0=aio:/dev/nvme0n1\n"
        "  wss-target --listen shm:///run/wss/t --volume fast=ram:1G\n");
    app.add_option("--listen", options.listen,
                   "Where to listen: rdma://HOST[:PORT], tcp://HOST[:PORT], tls://HOST[:PORT] (TLS 1.3), "
                   "shm:///PATH; repeatable")
        ->type_name("URI");
    app.add_option(
           "--volume", options.volumes,
           "A volume: NAME=BACKEND[,size=SIZE][,block=512|4096][,ro][,create][,iops=N][,bandwidth=SIZE]; "
           "BACKEND is aio:PATH, uring:PATH, pool:THREADS:PATH, spawn:PATH, ram:SIZE, rbd:POOL/IMAGE "
           "(Ceph), or rs:NAME on another node (--role rs); repeatable")
        ->type_name("VOLUME");
    app.add_option(
           "--access", options.access,
           "VOLUME:INITIATOR=rw|ro|none, access of an initiator to a volume; INITIATOR * stands for all "
           "others; without any rule, every initiator may write; repeatable")
        ->type_name("RULE");
    app.add_option("--config", options.config,
                   "TOML file; options given here extend its lists and replace its other values")
        ->type_name("FILE");
    app.add_option("--state", options.state, "State file: keeps volumes that are created at run time")
        ->type_name("FILE");
    describe_auth(app, options);
    daemon::describe_tls(app, options.tls);
    app.add_flag(
        "--tls-kernel", options.tls_kernel,
        "Let the kernel (module tls) encrypt what is sent on tls:// addresses of --listen, which saves "
        "processor time for large reads; a connection then ends after 256 GiB of reads");
    describe_kv(app, options.kv);
    describe_rs(app, options);
    app.add_option(
           "--http", options.http,
           "Address that serves the API (read-only), metrics and health over HTTP; a bare number is a "
           "port on the loopback address (default: none)")
        ->type_name("[HOST:]PORT");
    describe_cache(app, options);
    app.add_option("--drain-seconds", options.drain_seconds,
                   "How long a shutdown waits for I/O in flight (default: 30)")
        ->check(CLI::Range(1u, control::kDrainSecondsMax));
    app.add_option("--control", options.control,
                   "Socket for wssctl (default: " + default_control_path() + "; empty: none)")
        ->type_name("SOCKET");
    app.add_option("--reactors", options.reactors,
                   "Threads that serve I/O (default: CPUs - 1, between 1 and 4; with a cache: 1)")
        ->check(CLI::Range(1u, control::kReactorsMax));
    app.add_option("--cpus", options.cpus,
                   "Pin those threads to these CPUs, in turn, for example 2,4-7 (default: not pinned); "
                   "without --reactors and without a cache, one thread for each")
        ->type_name("LIST");
    app.add_option("--log-level", options.log_level, "debug, info, warning, error or off (default: info)")
        ->type_name("LEVEL");
}

Status configure(const Options& options, control::TargetConfig& config) {
    if (!options.config.empty()) WSS_TRY(control::read_target_config(options.config, config));
    config.listen.insert(config.listen.end(), options.listen.begin(), options.listen.end());
    for (const std::string& text : options.volumes) {
        auto volume = control::parse_volume_option(text);
        if (!volume) return volume.status().within("--volume " + text);
        config.volumes.push_back(std::move(*volume));
    }
    for (const std::string& rule : options.access) WSS_TRY(control::apply_access_rule(rule, config));
    config.cache_listen.insert(config.cache_listen.end(), options.cache_listen.begin(),
                               options.cache_listen.end());
    if (!options.http.empty()) config.http = options.http;
    if (!options.cache_secrets.empty()) config.cache_secrets = options.cache_secrets;
    if (options.cache_auth_off) config.cache_auth_off = true;
    if (!options.cache_policy.empty()) config.cache_policy = options.cache_policy;
    if (options.cache_grace) config.cache_grace = *options.cache_grace;
    if (!options.cache_line.empty()) {
        auto line = parse_size(options.cache_line);
        if (!line) return line.status().within("--cache-line");
        config.cache_line = *line;
    }
    if (!options.cache_read_ahead.empty()) {
        auto window = parse_size(options.cache_read_ahead);
        if (!window) return window.status().within("--cache-read-ahead");
        config.cache_read_ahead = *window;
    }
    if (!options.join.empty()) config.join = options.join;
    if (!options.advertise.empty()) config.advertise = options.advertise;
    if (!options.secret_file.empty()) config.secret_file = options.secret_file;
    config.tls.replace_by(options.tls);
    if (options.tls_kernel) config.tls_kernel = true;
    if (!options.state.empty()) config.state = options.state;
    if (!options.secrets.empty()) config.secrets = options.secrets;
    if (options.auth_off) config.auth_off = true;
    config.auth_v1.insert(config.auth_v1.end(), options.auth_v1.begin(), options.auth_v1.end());
    if (!options.name.empty()) config.name = options.name;
    if (options.drain_seconds > 0) config.drain_seconds = options.drain_seconds;
    if (options.control_set) config.control = options.control;
    if (options.reactors > 0) config.reactors = options.reactors;
    if (!options.cpus.empty()) config.cpus = options.cpus;
    if (!options.log_level.empty()) config.log_level = options.log_level;
    WSS_TRY(configure_kv(options.kv, config));
    return log::set_level(config.log_level);
}

engine::EngineConfig storage_config(const control::TargetConfig& config) {
    constexpr uint64_t kMemory = 64 << 20;  // staging buffers between disk and network
    return {.join = {config.join},
            .listen = config.listen,
            .advertise = config.advertise,
            .memory = kMemory,
            .volumes = config.volumes,
            .control = config.control,
            .http = config.http,
            .secret_file = config.secret_file,
            .tls = config.tls,
            .leave_seconds = config.drain_seconds};
}

Status check_storage(const control::TargetConfig& config) {
    if (config.join.empty())
        return failure(Code::kInvalid,
                       "--role rs: give --join URI, the --cache-listen address of the target of the volumes");
    if (config.volumes.empty()) return failure(Code::kInvalid, "--role rs: give --volume NAME=BACKEND");
    if (config.volumes.size() > cache::kStorageVolumesMax)
        return failure(Code::kInvalid, "--role rs: {} volumes exceed the limit of {} per target",
                       config.volumes.size(), cache::kStorageVolumesMax);
    WSS_TRY(control::check_volumes(config.volumes));
    return engine::check_engine_config(storage_config(config));
}

using Started = Result<std::unique_ptr<daemon::Service>>;

Status check(const control::TargetConfig& config) {
    WSS_TRY(control::check_role(config));
    if (config.role == "rs") return check_storage(config);
    WSS_TRY(control::check_target_config(config));
    return kv::check_options(config.kv);
}

Started start(const control::TargetConfig& config, const daemon::Step& next) {
    if (config.role == "rs") {
        auto storage = engine::EngineDaemon::start(storage_config(config), next);
        if (!storage) return storage.status();
        return std::unique_ptr<daemon::Service>(std::move(*storage));
    }
    auto started = daemon::Daemon::start(config, next);
    if (!started) return started.status();
    return std::unique_ptr<daemon::Service>(std::move(*started));
}

}  // namespace
}  // namespace wss

int main(int argc, char** argv) {
    wss::Options options;
    wss::control::TargetConfig config;
    return wss::daemon::run_process(
        {.name = "wss-target",
         .describe = [&](CLI::App& app) { wss::describe(app, options); },
         .configure = [&](const CLI::App& app) -> wss::Status {
             options.control_set = app.count("--control") > 0;
             WSS_TRY(wss::configure(options, config));
             return wss::check(config);
         },
         .start = [&](const wss::daemon::Step& next) { return wss::start(config, next); }},
        argc, argv);
}
