// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "kernel/uapi/wss_version.h"
#include "lib/base/clock.h"
#include "lib/base/completion.h"
#include "lib/base/descriptors.h"
#include "lib/base/journal.h"
#include "lib/base/log.h"
#include "lib/fabric/tls/context.h"
#include "lib/io/plugin.h"
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

// Called before any thread is created, so that all threads inherit the mask. Only next_signal() and
// StartWatch receive these signals.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // beyond a file size limit, writes fail with EFBIG; the process continues
    return signals;
}

// Waits for one of `signals`. Returns 0 at the time `end`, or if the wait is interrupted.
int next_signal(const sigset_t& signals, Nanoseconds end) {
    if (end == kNever) return std::max(0, sigwaitinfo(&signals, nullptr));
    const int64_t left = std::max<int64_t>(0, (end - SystemClock().now()).count);
    const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    return std::max(0, sigtimedwait(&signals, nullptr, &limit));
}

// Watches for signals during a start, which may wait for storage that does not answer. SIGTERM and SIGINT end
// these waits, so that the start ends soon.
class StartWatch {
  public:
    StartWatch();
    ~StartWatch() { end(); }
    StartWatch(const StartWatch&) = delete;
    StartWatch& operator=(const StartWatch&) = delete;
    // Ends the watch. Returns the signal that arrived during it, or 0.
    int end();

  private:
    void watch();
    const int signals_, over_;  // descriptors; if one of them is -1, nothing is watched
    int signal_ = 0;            // read after the thread has ended
    std::thread thread_;
};

int signals_that_end() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

StartWatch::StartWatch() : signals_(signals_that_end()), over_(eventfd(0, EFD_CLOEXEC)) {
    if (signals_ >= 0 && over_ >= 0) thread_ = std::thread([this] { watch(); });
}

void StartWatch::watch() {
    pollfd both[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                     {.fd = over_, .events = POLLIN, .revents = 0}};
    while (poll(both, std::size(both), -1) < 0 && errno == EINTR) {
    }
    signalfd_siginfo info{};
    if ((both[0].revents & POLLIN) == 0 || read(signals_, &info, sizeof info) != sizeof info) return;
    signal_ = static_cast<int>(info.ssi_signo);
    log::info("{}: ending the start", strsignal(signal_));
    io::end_plugin_waits();
}

int StartWatch::end() {
    if (!thread_.joinable()) return signal_;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(over_, &one, sizeof one);
    thread_.join();
    close(signals_);
    close(over_);
    return signal_;
}

// Added to the time that a step of a stop announces, because threads may wait for a processor.
constexpr Nanoseconds kStopMargin = from_s(10);
constexpr Nanoseconds kCheckAgain = from_s(1);  // interval after a check that failed

// Runs a service and reports its state to the service manager.
class Attendant {
  public:
    Attendant(Service& service, const sigset_t& signals) : service_(service), signals_(signals) {}
    void ready() { manager_.ready(status()); }
    // Returns the signal that ends the process.
    int wait_for_end();
    Status stop();

  private:
    std::string status() const;
    void reload();
    Nanoseconds report_alive();
    Nanoseconds next_check() const {
        return manager_.alive_every() == Nanoseconds{} ? kNever
                                                       : SystemClock().now() + manager_.alive_every();
    }

    Service& service_;
    const sigset_t& signals_;
    const ServiceManager manager_;
    std::string reload_failure_;  // why the last reload failed; empty: it succeeded
};

std::string Attendant::status() const {
    const std::string text = service_.describe();
    return reload_failure_.empty() ? text : text + "; the last reload failed: " + reload_failure_;
}

void Attendant::reload() {
    manager_.reloading();
    log::info("SIGHUP: reloading");
    const Status status = service_.reload();
    reload_failure_ = status ? "" : status.to_string();
    if (!status)
        log::error("reload: {}; {}", reload_failure_,
                   status.code() == Code::kTimedOut ? "it may still take effect"
                                                    : "continuing with the files loaded before");
    ready();
}

// Reports that the process is alive, if it is. Without reports, the service manager restarts it. After a
// failed check the next one follows soon, so that a short stall does not use up the watchdog interval.
// Returns the time of the next check.
Nanoseconds Attendant::report_alive() {
    if (Status alive = service_.check_alive(); !alive) {
        log::error("not alive: {}", alive.to_string());
        return std::min(next_check(), SystemClock().now() + kCheckAgain);
    }
    manager_.alive(status());
    return next_check();
}

int Attendant::wait_for_end() {
    Nanoseconds due = next_check();
    for (;;) {
        const int signal = next_signal(signals_, due);
        if (signal == SIGTERM || signal == SIGINT) return signal;
        if (signal == SIGHUP) reload();
        if (SystemClock().now() >= due) due = report_alive();
    }
}

Status Attendant::stop() {
    manager_.stopping();
    return service_.stop([this](const std::string& what, Nanoseconds at_most) {
        manager_.goes_on("stopping", what, at_most + kStopMargin);
    });
}

// Programs expect only the ready line on standard output, but librados also prints there, for example if a
// monitor is not in DNS. So this function redirects standard output to standard error. It returns a
// descriptor of the original standard output, or -1 if that was closed. The descriptor stays open, so the
// reader gets end-of-file only when the process ends.
int take_standard_output() {
    std::fflush(stdout);
    const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return own;
}

int serve(const Program& program, const sigset_t& signals) {
    const int output = take_standard_output();
    raise_descriptor_limit();
    StartWatch watch;
    const ServiceManager manager;
    auto service = program.start([&manager](const std::string& what, Nanoseconds at_most) {
        manager.goes_on("starting", what, at_most);
    });
    const int ended = watch.end();
    if (!service) {
        const int failed = fail(program, service.status());
        return ended == 0 ? failed : 0;
    }
    Attendant attendant(**service, signals);
    if (ended == 0) {
        dprintf(output, "%s: ready on %s\n", program.name, (*service)->describe().c_str());
        attendant.ready();
    }
    const int signal = ended != 0 ? ended : attendant.wait_for_end();
    log::info("{}: stopping", strsignal(signal));
    Status stopped = attendant.stop();
    if (stopped) return 0;
    fail(program, stopped);
    std::_Exit(kExitFailure);
}

}  // namespace

void describe_tls(CLI::App& app, fabric::tls::Files& files) {
    app.add_option("--tls-cert", files.certificate,
                   "Certificate of this machine (PEM, with its chain), presented to clients that connect to "
                   "tls:// addresses and have no secret here")
        ->type_name("FILE");
    app.add_option("--tls-key", files.key, "Private key of --tls-cert (PEM)")->type_name("FILE");
    app.add_option("--tls-ca", files.authorities,
                   "CA certificates (PEM) that sign the certificates of the tls:// addresses that this "
                   "process connects to")
        ->type_name("FILE");
    app.add_option("--tls-client-ca", files.client_authorities,
                   "CA certificates (PEM) for clients: a client with neither a known secret nor a "
                   "certificate signed by them is refused on tls:// addresses")
        ->type_name("FILE");
}

Status reload_tls_files() {
    auto reloaded = fabric::tls::Context::reload_all();
    if (!reloaded) return reloaded.status();
    if (*reloaded > 0) log::info("TLS files reloaded; existing connections are not affected");
    return Status::ok();
}

int run_process(const Program& program, int argc, char** argv) {
    const sigset_t signals = block_signals();  // this must be first, because an unblocked SIGHUP would end
                                               // the process
    try {
        CLI::App app;
        app.name(program.name);
        program.describe(app);
        app.footer(
            "Exit status: 0 orderly stop; 1 a start or a stop failed; 2 the options or the configuration "
            "file are wrong.");
        app.set_version_flag("--version", fmt::format("{} " WSS_VERSION, program.name));
        if (print_completions(app, argc, argv)) return 0;
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : kExitUsage;
        }
        if (Status configured = program.configure(app); !configured) {
            fail(program, configured);
            return kExitUsage;
        }
        return serve(program, signals);
    } catch (const std::exception& error) {
        return fail(program, Status(Code::kInternal, error.what()));
    }
}

}  // namespace wss::daemon
