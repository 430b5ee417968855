// SPDX-License-Identifier: Apache-2.0
// wss-cache: options, signals, start, stop.
//
// Exit status: 0 stopped as asked, 1 could not start or stop (the last line says why), 2 wrong usage.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "target/daemon/daemon.h"
#include "target/engine/engine_daemon.h"

namespace wss {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

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
    app.add_option("--control", config.control, "Socket for wssctl (default: none)")->type_name("SOCKET");
    app.add_option("--metrics", config.metrics, "Where Prometheus asks for counters (default: nowhere)")
        ->type_name("HOST:PORT");
    app.add_option("--leave-seconds", config.leave_seconds,
                   "How long to wait at the end until dirty lines are in real storage (default: 30)")
        ->check(CLI::Range(1u, 3600u));
    app.add_option("--log-level", config.log_level, "debug, info, warning, error or off (default: info)")
        ->type_name("LEVEL");
    app.set_version_flag("--version", std::string("wss-cache ") + daemon::kVersion);
}

int fail(const Status& status) {
    std::fprintf(stderr, "wss-cache: %s\n", status.to_string().c_str());
    return kExitFailure;
}

int serve(daemon::EngineConfig& config, const std::string& memory, const sigset_t& signals) {
    if (!memory.empty()) {
        auto bytes = parse_size(memory);
        if (!bytes) return fail(bytes.status().within("--memory"));
        config.memory = *bytes;
    }
    if (Status status = log::set_level(config.log_level); !status) return fail(status);
    auto daemon = daemon::EngineDaemon::start(config);
    if (!daemon) return fail(daemon.status());
    std::printf("wss-cache: ready on %s\n", (*daemon)->describe().c_str());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    log::info("{}: leaving", strsignal(signal));
    Status stopped = (*daemon)->stop();
    if (stopped) return 0;
    // The thread still refers to what destructors would free.
    fail(stopped);
    std::_Exit(kExitFailure);
}

int run(int argc, char** argv) {
    CLI::App app;
    daemon::EngineConfig config;
    std::string memory;
    describe(app, config, memory);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    return serve(config, memory, signals);
}

}  // namespace
}  // namespace wss

int main(int argc, char** argv) {
    try {
        return wss::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wss-cache: %s\n", error.what());
        return wss::kExitFailure;
    }
}
