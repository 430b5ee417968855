// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/process.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "lib/base/descriptors.h"
#include "lib/base/file.h"
#include "lib/base/log.h"

namespace wss::daemon {

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int fail(const Program& program, const Status& status) {
    std::fprintf(stderr, "%s: %s\n", program.name, status.to_string().c_str());
    return kExitFailure;
}

// The service manager's protocol: one datagram to the socket that it names.
void notify(const char* state) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr || path[0] == '\0') return;
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string name(path);
    if (name.size() >= sizeof address.sun_path) return;
    name.copy(address.sun_path, name.size());
    if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
    Descriptor manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    // Nobody there to hear it is no reason to stop.
    [[maybe_unused]] ssize_t sent = sendto(manager.get(), state, strlen(state), MSG_NOSIGNAL,
                                           reinterpret_cast<const sockaddr*>(&address), length);
}

// Before any thread is made, so that all inherit it: these signals are taken by sigwait() alone.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a full disk (EFBIG), not the end of the process
    return signals;
}

int serve(const Program& program, const CLI::App& app) {
    const sigset_t signals = block_signals();
    raise_descriptor_limit();
    auto service = program.start(app);
    if (!service) return fail(program, service.status());
    std::printf("%s: ready on %s\n", program.name, (*service)->describe().c_str());
    std::fflush(stdout);
    notify("READY=1");
    int signal = 0;
    sigwait(&signals, &signal);
    notify("STOPPING=1");
    log::info("{}: stopping", strsignal(signal));
    Status stopped = (*service)->stop();
    if (stopped) return 0;
    fail(program, stopped);
    std::_Exit(kExitFailure);
}

}  // namespace

int run_process(const Program& program, int argc, char** argv) {
    try {
        CLI::App app;
        program.describe(app);
        app.set_version_flag("--version", fmt::format("{} {}", program.name, kVersion));
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : kExitUsage;
        }
        return serve(program, app);
    } catch (const std::exception& error) {
        return fail(program, Status(Code::kInternal, error.what()));
    }
}

}  // namespace wss::daemon
