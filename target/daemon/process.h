// SPDX-License-Identifier: Apache-2.0
// What the daemons' processes have in common: options, signals, the ready line, the service manager, the end.
//
// Exit status: 0 stopped as asked, 1 could not start or stop (the last line says why), 2 wrong options or
// configuration, which the service manager need not try again.
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

// What a start or a stop does next, and for how long at most.
using Step = std::function<void(const std::string& what, Nanoseconds at_most)>;
// The opening of one volume ends by itself: open_timeout= of Ceph's images is an hour at most.
constexpr Nanoseconds kOpeningMax = from_s(3600 + 60);

// What runs in a process until a signal ends it. start() of the derived class makes it.
class Service {
  public:
    virtual ~Service() = default;
    // "rdma://10.0.0.1:5555, 2 volumes": where it listens and what it serves.
    virtual std::string describe() const = 0;
    // Reads again what may change while it runs. kTimedOut: it may take effect yet; on other errors what
    // could not be read is as it was.
    virtual Status reload() = 0;
    // Whether its threads still turn; bounded by some seconds each.
    virtual Status check_alive() = 0;
    // Ends every part in order, whatever becomes of the others, and returns the first failure. Where one
    // fails (storage that does not finish, peers that do not answer), threads may still refer to what
    // destructors would free: the process then ends without them.
    virtual Status stop(const Step& next) = 0;
    Status stop() {
        return stop([](const std::string&, Nanoseconds) {});
    }
};

// The service, or why it did not start: what it had begun ends then.
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
    // Options are parsed. What it refuses is wrong until somebody changes it.
    std::function<Status(const CLI::App&)> configure;
    // Signals are blocked, so that threads made here never take them.
    std::function<Result<std::unique_ptr<Service>>(const Step& next)> start;
};

// --tls-cert, --tls-key, --tls-ca, --tls-client-ca.
void describe_tls(CLI::App& app, fabric::tls::Files& files);
// Those that are in use are read again, for the connections to come.
Status reload_tls_files();

// The whole of main(). SIGTERM and SIGINT stop the service, SIGHUP reloads it.
int run_process(const Program& program, int argc, char** argv);

}  // namespace wss::daemon
