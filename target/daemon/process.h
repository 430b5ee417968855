// SPDX-License-Identifier: Apache-2.0
// What the daemons' processes have in common: options, signals, the ready line, the service manager, the end.
//
// Exit status: 0 stopped as asked, 1 could not start or stop (the last line says why), 2 wrong usage.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/status.h"

namespace CLI {
class App;
}

namespace wss::daemon {

// What runs in a process until a signal ends it. start() of the derived class makes it.
class Service {
  public:
    virtual ~Service() = default;
    // "rdma://10.0.0.1:5555, 2 volumes": where it listens and what it serves.
    virtual std::string describe() const = 0;
    // Reads again what may change while it runs. On an error nothing has changed.
    virtual Status reload() = 0;
    // Whether its threads still turn; bounded by some seconds each.
    virtual Status check_alive() = 0;
    // Ends everything in order. Where it fails (storage that does not finish, peers that do not answer),
    // threads may still refer to what destructors would free: the process then ends without them.
    virtual Status stop() = 0;
};

struct Program {
    const char* name;
    std::function<void(CLI::App&)> describe;  // adds the options
    // Options are parsed; signals are blocked, so that threads made here never take them.
    std::function<Result<std::unique_ptr<Service>>(const CLI::App&)> start;
};

// The whole of main(). SIGTERM and SIGINT stop the service, SIGHUP reloads it.
int run_process(const Program& program, int argc, char** argv);

}  // namespace wss::daemon
