// SPDX-License-Identifier: Apache-2.0
// Daemon: a target in one process. Owns the reactors and their threads, the fabrics, the volumes, the block
// service, the control socket and the HTTP port. Starts them in this order, and stops them in the opposite
// one:
//
//   start   HTTP port → lock of the state → fabrics → reactors → cache → volume set → block service →
//           threads → volumes → listeners → control socket
//   stop    control socket, HTTP port → block service (listeners, sessions) → cache → volumes → threads →
//           the rest by destructors
//
// Volumes come before listeners, so that an initiator finds them as soon as it can connect. A start that
// fails undoes what it did.
//
// Thread-safety: start() and stop() from one thread, which is none of the reactors'.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/open.h"
#include "lib/reactor/reactor.h"
#include "target/block/service.h"
#include "target/control/config.h"
#include "target/daemon/cache_part.h"
#include "target/daemon/http_part.h"
#include "target/daemon/process.h"
#include "target/daemon/uncached_start.h"
#include "target/kv/kv_part.h"
#include "target/volume/volume_set.h"

namespace wss::daemon {

class Daemon final : public Service {
  public:
    // `next` is told of what may take long.
    static Result<std::unique_ptr<Daemon>> start(
        const control::TargetConfig& config, const Step& next = [](const std::string&, Nanoseconds) {});
    // Lets commands in flight end, closes everything. When a part does not finish within the configured
    // time, what it holds is leaked and the status says so.
    Status stop(const Step& next) override;
    using Service::stop;
    // After stop() returned ok.
    ~Daemon() override;
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    std::string describe() const override;
    // The secrets of initiators and of key-value clients, and the files of TLS.
    Status reload() override;
    Status check_alive() override;
    const std::vector<fabric::Address>& addresses() const { return bound_; }
    volume::VolumeSet& volumes() { return *volumes_; }

  private:
    Daemon(const control::TargetConfig& config, const Step& next) : config_(config), starting_(next) {}
    Status lock_state();
    Status open_fabrics();
    volume::VolumeSet::Open storage_opener();
    Status load_secrets();
    Status load_kv_secrets();
    Result<fabric::tls::Credentials> kv_credentials();
    void warn_if_open() const;
    Status create_service();
    Status start_threads();
    Status open_volumes();
    Status listen();
    Status start_kv();
    Status start_block();
    void add_methods();
    void add_metrics();
    void add_health();
    Status run_start();
    Status stop_service();
    void stop_threads();

    const control::TargetConfig config_;
    Step starting_;  // empty: the start is over
    SystemClock clock_;
    volume::StateLock::Shared state_;  // nullptr: nothing is remembered
    std::vector<fabric::Address> wanted_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;  // one per listen address
    std::vector<fabric::ReservedAddress> reserved_;         // until listen()
    std::vector<std::unique_ptr<reactor::Reactor>> reactors_;
    std::unique_ptr<CachePart> cache_;  // nullptr: no cache
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::unique_ptr<UncachedStart> uncached_;  // nullptr: a cache, or nothing that one would be needed for
    std::unique_ptr<block::Service> service_;
    std::shared_ptr<const auth::SecretBook> secrets_;  // as of the start
    // The same, as keys of tls://; what is replaced at a reload.
    const std::shared_ptr<fabric::tls::KnownPeers> known_ =
        std::make_shared<fabric::tls::KnownPeers>(std::vector<NamedSecret>{});
    const std::shared_ptr<fabric::tls::KnownPeers> kv_known_ =
        std::make_shared<fabric::tls::KnownPeers>(std::vector<NamedSecret>{});
    std::vector<std::thread> threads_;
    bool started_ = false;   // all of it
    std::vector<int> cpus_;  // where they are pinned, in turn; empty: nowhere
    std::vector<fabric::Address> bound_;
    std::unique_ptr<kvpart::KvPart> kv_;  // nullptr: no key-value service
    HttpPart http_;
};

}  // namespace wss::daemon
