// SPDX-License-Identifier: Apache-2.0
// wss-target: options, signals, start, stop.
//
// Exit status: 0 stopped as asked, 1 could not start or stop (the last line says why), 2 wrong usage.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>

#include "lib/base/log.h"
#include "target/daemon/daemon.h"

namespace wss {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Options {
    std::string config;
    std::vector<std::string> listen, volumes;
    std::string state, control, log_level;
    uint32_t reactors = 0;
    bool control_set = false;
};

void describe(CLI::App& app, Options& options) {
    app.description(
        "Serves volumes to WSS and stock SRP initiators.\n\n"
        "  wss-target --listen rdma://0.0.0.0:5555 --volume disk0=aio:/dev/nvme0n1\n"
        "  wss-target --listen shm:///run/wss/t --volume fast=ram:1G\n");
    app.add_option("--listen", options.listen,
                   "Where to listen: rdma://HOST[:PORT], tcp://HOST[:PORT], shm:///PATH; repeatable")
        ->type_name("URI");
    app.add_option(
           "--volume", options.volumes,
           "A volume: NAME=BACKEND[,size=SIZE][,block=512|4096][,ro][,create]; BACKEND is aio:PATH or "
           "ram:SIZE; repeatable")
        ->type_name("VOLUME");
    app.add_option("--config", options.config, "TOML file; options given here come on top of it")
        ->type_name("FILE");
    app.add_option("--state", options.state, "Where volumes made at run time are remembered")
        ->type_name("FILE");
    app.add_option("--control", options.control,
                   "Socket for wssctl (default: " + default_control_path() + "; empty: none)")
        ->type_name("SOCKET");
    app.add_option("--reactors", options.reactors,
                   "Threads that serve I/O (default: CPUs - 1, between 1 and 4)")
        ->check(CLI::Range(1u, control::kReactorsMax));
    app.add_option("--log-level", options.log_level, "debug, info, warning, error or off (default: info)")
        ->type_name("LEVEL");
    app.set_version_flag("--version", std::string("wss-target ") + daemon::kVersion);
}

Status configure(const Options& options, control::TargetConfig& config) {
    if (!options.config.empty()) WSS_TRY(control::read_target_config(options.config, config));
    config.listen.insert(config.listen.end(), options.listen.begin(), options.listen.end());
    for (const std::string& text : options.volumes) {
        auto volume = control::parse_volume_option(text);
        if (!volume) return volume.status().within("--volume " + text);
        config.volumes.push_back(std::move(*volume));
    }
    if (!options.state.empty()) config.state = options.state;
    if (options.control_set) config.control = options.control;
    if (options.reactors > 0) config.reactors = options.reactors;
    if (!options.log_level.empty()) config.log_level = options.log_level;
    return log::set_level(config.log_level);
}

// The service manager's protocol: one datagram to the socket that it names.
void notify(const char* state) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr || path[0] == '\0') return;
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string name(path);
    if (name.size() >= sizeof address.sun_path) return;
    name.copy(address.sun_path, name.size());
    if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    [[maybe_unused]] ssize_t sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
    ::close(fd);
}

int fail(const Status& status) {
    std::fprintf(stderr, "wss-target: %s\n", status.to_string().c_str());
    return kExitFailure;
}

int serve(const Options& options, const sigset_t& signals) {
    control::TargetConfig config;
    if (Status status = configure(options, config); !status) return fail(status);
    auto daemon = daemon::Daemon::start(config);
    if (!daemon) return fail(daemon.status());
    std::printf("wss-target: ready on %s\n", (*daemon)->describe().c_str());
    std::fflush(stdout);
    notify("READY=1");
    int signal = 0;
    sigwait(&signals, &signal);
    notify("STOPPING=1");
    log::info("{}: stopping", strsignal(signal));
    Status stopped = (*daemon)->stop();
    if (stopped) return 0;
    // Threads and storage still refer to what destructors would free.
    fail(stopped);
    std::_Exit(kExitFailure);
}

int run(int argc, char** argv) {
    CLI::App app;
    Options options;
    describe(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    options.control_set = app.count("--control") > 0;
    // Before any thread is made, so that all inherit it: signals are taken by sigwait() alone.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a full disk (EFBIG), not the end of the process
    return serve(options, signals);
}

}  // namespace
}  // namespace wss

int main(int argc, char** argv) {
    try {
        return wss::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wss-target: %s\n", error.what());
        return wss::kExitFailure;
    }
}
