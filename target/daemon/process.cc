// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/process.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "kernel/uapi/wss_version.h"
#include "lib/base/clock.h"
#include "lib/base/completion.h"
#include "lib/base/descriptors.h"
#include "lib/base/journal.h"
#include "lib/base/log.h"
#include "target/daemon/service_manager.h"

namespace wss::daemon {

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int fail(const Program& program, const Status& status) {
    const std::string_view priority = journal::is_standard_error() ? journal::kError : "";
    std::fprintf(stderr, "%s%s: %s\n", priority.data(), program.name, status.to_string().c_str());
    return kExitFailure;
}

// Before any thread is made, so that all inherit it: these signals are taken by next_signal() alone.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a full disk (EFBIG), not the end of the process
    return signals;
}

// Waits for one of `signals`; 0 if `end` comes first, or another interruption.
int next_signal(const sigset_t& signals, Nanoseconds end) {
    if (end == kNever) return std::max(0, sigwaitinfo(&signals, nullptr));
    const int64_t left = std::max<int64_t>(0, (end - SystemClock().now()).count);
    const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    return std::max(0, sigtimedwait(&signals, nullptr, &limit));
}

void reload(Service& service, const ServiceManager& manager) {
    manager.reloading();
    log::info("SIGHUP: reloading");
    if (Status status = service.reload(); !status)
        log::error("reload: {}; continuing with what was loaded before", status.to_string());
    manager.ready(service.describe());
}

// A process that is not alive reports nothing, and the service manager restarts it.
void report_alive(Service& service, const ServiceManager& manager) {
    if (Status status = service.check_alive(); !status)
        log::error("not alive: {}", status.to_string());
    else
        manager.alive(service.describe());
}

// Returns the signal that ends the process.
int wait_for_end(Service& service, const ServiceManager& manager, const sigset_t& signals) {
    const auto next_report = [&manager] {
        return manager.alive_every() == Nanoseconds{} ? kNever : SystemClock().now() + manager.alive_every();
    };
    Nanoseconds due = next_report();
    for (;;) {
        const int signal = next_signal(signals, due);
        if (signal == SIGTERM || signal == SIGINT) return signal;
        if (signal == SIGHUP) reload(service, manager);
        if (SystemClock().now() < due) continue;
        report_alive(service, manager);
        due = next_report();
    }
}

int serve(const Program& program, const CLI::App& app) {
    const sigset_t signals = block_signals();
    raise_descriptor_limit();
    auto service = program.start(app);
    if (!service) return fail(program, service.status());
    std::printf("%s: ready on %s\n", program.name, (*service)->describe().c_str());
    std::fflush(stdout);
    const ServiceManager manager;
    manager.ready((*service)->describe());
    const int signal = wait_for_end(**service, manager, signals);
    manager.stopping();
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
        app.name(program.name);
        program.describe(app);
        app.set_version_flag("--version", fmt::format("{} " WSS_VERSION, program.name));
        if (print_completions(app, argc, argv)) return 0;
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
