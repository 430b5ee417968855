// SPDX-License-Identifier: Apache-2.0
// wss-cache: the command line, and the start of the cache engine.
#include <CLI/CLI.hpp>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "target/engine/engine_daemon.h"

namespace wss {
namespace {

// Values of the command line. Options that are not given take their values from the file.
struct Options {
    std::string config, memory;
    engine::EngineConfig given;
};

void describe(CLI::App& app, Options& options) {
    engine::EngineConfig& config = options.given;
    app.description(
        "Lends this machine's memory to storage engines as a cache. Their clients read and write cached data "
        "here.\n\n"
        "  wss-cache --join tcp://storage1:5556 --listen tcp://10.0.0.7:5557 --memory 8G\n");
    app.add_option("--config", options.config, "TOML file; an option given here replaces the file's value")
        ->type_name("FILE");
    app.add_option(
           "--join", config.join,
           "A storage engine (wss-target --cache-listen): rdma://HOST[:PORT], tcp://HOST[:PORT], "
           "tls://HOST[:PORT] (TLS 1.3), shm:///PATH; repeatable, each gets an equal part of the memory")
        ->type_name("URI");
    app.add_option("--listen", config.listen,
                   "Address for clients, one for each fabric on which they reach storage engines; repeatable")
        ->type_name("URI");
    app.add_option("--advertise", config.advertise,
                   "Addresses that clients receive instead of --listen, in the same order")
        ->type_name("URI");
    app.add_option("--memory", options.memory, "How much to lend (default: 1G)")->type_name("SIZE");
    app.add_option("--secret-file", config.secret_file,
                   "File with this engine's NAME:SECRET line (mode 600), for storage engines with "
                   "--cache-secrets; the engine then joins only such storage engines")
        ->type_name("FILE");
    daemon::describe_tls(app, config.tls);
    app.add_option("--control", config.control, "Socket for wssctl (default: none)")->type_name("SOCKET");
    app.add_option(
           "--http", config.http,
           "Address that serves the API (read-only), metrics and health over HTTP; a bare number is a "
           "port on the loopback address (default: none)")
        ->type_name("[HOST:]PORT");
    app.add_option("--leave-seconds", config.leave_seconds,
                   "How long a stop waits until dirty lines are in real storage; lines that were not written "
                   "by then are lost with the process, and the exit status is 1 (default: 30)")
        ->check(CLI::Range(1u, engine::kLeaveSecondsMax));
    app.add_option("--log-level", config.log_level, "debug, info, warning, error or off (default: info)")
        ->type_name("LEVEL");
}

template <typename T>
void replace(const CLI::App& app, const char* option, const T& given, T& value) {
    if (app.count(option) > 0) value = given;
}

Status configure(const CLI::App& app, const Options& options, engine::EngineConfig& config) {
    if (!options.config.empty()) WSS_TRY(engine::read_engine_config(options.config, config));
    const engine::EngineConfig& given = options.given;
    replace(app, "--join", given.join, config.join);
    replace(app, "--listen", given.listen, config.listen);
    replace(app, "--advertise", given.advertise, config.advertise);
    replace(app, "--secret-file", given.secret_file, config.secret_file);
    config.tls.replace_by(given.tls);
    replace(app, "--control", given.control, config.control);
    replace(app, "--http", given.http, config.http);
    replace(app, "--leave-seconds", given.leave_seconds, config.leave_seconds);
    replace(app, "--log-level", given.log_level, config.log_level);
    if (!options.memory.empty()) {
        auto bytes = parse_size(options.memory);
        if (!bytes) return bytes.status().within("--memory");
        config.memory = *bytes;
    }
    WSS_TRY(engine::check_engine_config(config));
    return log::set_level(config.log_level);
}

Result<std::unique_ptr<daemon::Service>> start(const engine::EngineConfig& config, const daemon::Step& next) {
    auto started = engine::EngineDaemon::start(config, next);
    if (!started) return started.status();
    return std::unique_ptr<daemon::Service>(std::move(*started));
}

}  // namespace
}  // namespace wss

int main(int argc, char** argv) {
    wss::Options options;
    wss::engine::EngineConfig config;
    return wss::daemon::run_process(
        {.name = "wss-cache",
         .describe = [&](CLI::App& app) { wss::describe(app, options); },
         .configure = [&](const CLI::App& app) { return wss::configure(app, options, config); },
         .start = [&](const wss::daemon::Step& next) { return wss::start(config, next); }},
        argc, argv);
}
