// SPDX-License-Identifier: Apache-2.0
// EngineDaemon: a cache engine, or a storage process (--role rs), in one process: fabrics, the reactor and
// its thread, cache::Engine, control socket.
//
// Thread-safety: start() and stop() are called from one thread, which is not the reactor's.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cache/engine/engine.h"
#include "lib/fabric/open.h"
#include "target/daemon/http_part.h"
#include "target/daemon/process.h"
#include "target/engine/config.h"

namespace wss::engine {

class EngineDaemon final : public daemon::Service {
  public:
    // `next` is called before each step that may take a long time.
    static Result<std::unique_ptr<EngineDaemon>> start(const EngineConfig& config, const daemon::Step& next);
    // Leaves the storage engines, which first destage dirty lines, within leave_seconds. A failure reports
    // the number of lines that they did not destage, which are lost with the process.
    Status stop(const daemon::Step& next) override;
    using Service::stop;
    ~EngineDaemon() override;

    std::string describe() const override;
    Status reload() override;
    Status check_alive() override;

    struct Net {
        std::string key;  // identifies the addresses that share it
        std::unique_ptr<fabric::Fabric> fabric;
        std::unique_ptr<fabric::Poller> poller;
    };

  private:
    explicit EngineDaemon(const EngineConfig& config) : config_(config) {}
    Status run_start(const daemon::Step& next);
    Result<Net> open_net(std::string key, const fabric::Address& address);
    Result<size_t> net_for(const fabric::Address& address);
    Status reserve_places();
    Status open_volumes(cache::Engine::Options& options, const daemon::Step& next);
    Status listen_all();
    void close_volumes();
    void add_methods();
    void add_metrics();

    const EngineConfig config_;
    NamedSecret secret_;  // of this engine; empty name: none
    SystemClock clock_;
    Random random_{Random::entropy()};
    reactor::Reactor reactor_{clock_};
    std::vector<Net> nets_;
    Net reach_;  // used by real storage, which connects to cache engines
    std::vector<std::pair<fabric::Address, size_t>> join_;
    struct Place {
        fabric::Address address;
        size_t net = 0;
        std::string told;                  // the address that clients receive; "": `address`
        fabric::ReservedAddress reserved;  // until listen_all()
    };
    std::vector<Place> listen_;
    std::vector<std::unique_ptr<io::Backend>> backends_;
    std::unique_ptr<cache::Engine> engine_;
    std::thread thread_;
    daemon::HttpPart http_;
};

}  // namespace wss::engine
