// SPDX-License-Identifier: Apache-2.0
// wss-cache: its options, and what becomes of them.
#include <CLI/CLI.hpp>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "target/engine/engine_daemon.h"

namespace wss {
namespace {

void describe(CLI::App& app, daemon::EngineConfig& config, std::string& memory) {
    app.description(
        "Lends this machine's memory to storage engines as a cache. Clients of theirs get their data from "
        "here.\n\n"
        "  wss-cache --join tcp://storage1:5556 --listen tcp://10.0.0.7:5557 --memory 8G\n");
    app.add_option("--join", config.join,
                   "A storage engine (wss-target --cache-listen): rdma://HOST[:PORT], tcp://HOST[:PORT], "
                   "shm:///PATH; repeatable, each gets an equal part of the memory")
        ->type_name("URI");
    app.add_option(
           "--listen", config.listen,
           "Where clients connect; of each kind by which clients reach the storage engines; repeatable")
        ->type_name("URI");
    app.add_option("--advertise", config.advertise,
                   "What clients are told instead of --listen, in the same order")
        ->type_name("URI");
    app.add_option("--memory", memory, "How much to lend (default: 1G)")->type_name("SIZE");
    app.add_option("--secret-file", config.secret_file,
                   "File with this engine's NAME:SECRET line (mode 600): proves it to storage engines with "
                   "--cache-secrets, and joins no others")
        ->type_name("FILE");
    app.add_option("--control", config.control, "Socket for wssctl (default: none)")->type_name("SOCKET");
    app.add_option("--metrics", config.metrics, "Where Prometheus asks for counters (default: nowhere)")
        ->type_name("HOST:PORT");
    app.add_option("--leave-seconds", config.leave_seconds,
                   "How long to wait at the end until dirty lines are in real storage (default: 30)")
        ->check(CLI::Range(1u, 3600u));
    app.add_option("--log-level", config.log_level, "debug, info, warning, error or off (default: info)")
        ->type_name("LEVEL");
}

Status configure(daemon::EngineConfig& config, const std::string& memory) {
    if (!memory.empty()) {
        auto bytes = parse_size(memory);
        if (!bytes) return bytes.status().within("--memory");
        config.memory = *bytes;
    }
    return log::set_level(config.log_level);
}

}  // namespace
}  // namespace wss

int main(int argc, char** argv) {
    wss::daemon::EngineConfig config;
    std::string memory;
    return wss::daemon::run_process(
        {.name = "wss-cache",
         .describe = [&](CLI::App& app) { wss::describe(app, config, memory); },
         .start = [&](const CLI::App&) -> wss::Result<std::unique_ptr<wss::daemon::Service>> {
             WSS_TRY(wss::configure(config, memory));
             auto started = wss::daemon::EngineDaemon::start(config);
             if (!started) return started.status();
             return std::unique_ptr<wss::daemon::Service>(std::move(*started));
         }},
        argc, argv);
}
