// SPDX-License-Identifier: Apache-2.0
// The common main() of the daemons: options, signals, the ready line, the service manager, the exit status.
//
// Exit status: 0 stopped by a signal; 1 a start or stop failed (the last line has the reason); 2 wrong
// options or configuration. With status 2 the service manager should not restart it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/status.h"
#include "lib/fabric/tls/credentials.h"

namespace CLI {
class App;
}

namespace wss::daemon {

// Called before each step of a start or stop. `what`: the step; `at_most`: the longest time that it takes.
using Step = std::function<void(const std::string& what, Nanoseconds at_most)>;
// Opening a volume ends within this time: open_timeout= of Ceph images is at most an hour.
constexpr Nanoseconds kOpeningMax = from_s(3600 + 60);
// Closing the volumes takes at most this time with the default close_timeout= of Ceph images.
constexpr Nanoseconds kClosingMax = from_s(60);

// A service that runs in a process until a signal ends it. start() of the derived class creates it.
class Service {
  public:
    virtual ~Service() = default;
    // Its addresses and contents: "rdma://10.0.0.1:5555, 2 volumes".
    virtual std::string describe() const = 0;
    // Reloads the settings that may change while it runs. After kTimedOut, they may still take effect later.
    // After other errors, settings that could not be read are unchanged.
    virtual Status reload() = 0;
    // Checks that its threads respond. Waits at most a few seconds for each.
    virtual Status check_alive() = 0;
    // Ends every part in order, even if some fail, and returns the first failure. After a failure (storage
    // that does not finish, peers that do not answer), threads may still use objects that destructors would
    // free. The process must then exit without destructors.
    virtual Status stop(const Step& next) = 0;
    Status stop() {
        return stop([](const std::string&, Nanoseconds) {});
    }
};

// Returns the service if `started` is OK. Otherwise stops its parts and returns the error.
template <typename Started>
Result<std::unique_ptr<Started>> started_or_stopped(std::unique_ptr<Started> service, const Status& started) {
    if (started) return service;
    if (Status stopped = service->stop(); !stopped) {
        log::error("{}", stopped.to_string());
        (void)service.release();  // see Service::stop()
    }
    return started;
}

struct Program {
    const char* name;
    std::function<void(CLI::App&)> describe;  // adds the options
    // Called after the options are parsed. An error means exit status 2.
    std::function<Status(const CLI::App&)> configure;
    // Signals are blocked, so threads created here never receive them.
    std::function<Result<std::unique_ptr<Service>>(const Step& next)> start;
};

// The options --tls-cert, --tls-key, --tls-ca and --tls-client-ca.
void describe_tls(CLI::App& app, fabric::tls::Files& files);
// Reloads the TLS files in use, for new connections.
Status reload_tls_files();

// The body of main(). SIGTERM and SIGINT stop the service, SIGHUP reloads it.
int run_process(const Program& program, int argc, char** argv);

}  // namespace wss::daemon
