// SPDX-License-Identifier: Apache-2.0
// Daemon: a target in one process. Owns the reactors and their threads, the fabrics, the volumes, the block
// service, the key-value partitions, the control socket and the HTTP port.
//
//   start   HTTP port, control socket (health only) → lock of the state → key-value partitions → fabrics →
//           reactors → cache → volume set → block service → threads → volumes → listeners → methods
//   stop    control socket, HTTP port → key-value partitions → block service (listeners, sessions) →
//           cache → volumes → threads → the rest by destructors
//
// Volumes are opened before listeners, so that an initiator finds them as soon as it can connect. A start
// that fails undoes its completed steps.
//
// Thread-safety: start() and stop() are called from one thread, which is not a reactor's.
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
    // `next` is called before each step that may take a long time.
    static Result<std::unique_ptr<Daemon>> start(
        const control::TargetConfig& config, const Step& next = [](const std::string&, Nanoseconds) {});
    // Waits for commands in flight, then closes everything. If a part does not finish within the configured
    // time, its resources are leaked, and the status reports it.
    Status stop(const Step& next) override;
    using Service::stop;
    // Allowed after stop() has returned ok.
    ~Daemon() override;
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    std::string describe() const override;
    // Reloads the secrets of initiators, cache engines and key-value clients, the rights of key-value
    // clients, and the TLS files.
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
    Status reload_kv_access();
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
    Step starting_;  // empty when the start has ended
    SystemClock clock_;
    volume::StateLock::Shared state_;  // nullptr: no state file
    std::vector<fabric::Address> wanted_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;  // one per listen address
    std::vector<fabric::ReservedAddress> reserved_;         // until listen()
    std::vector<std::unique_ptr<reactor::Reactor>> reactors_;
    std::unique_ptr<CachePart> cache_;  // nullptr: no cache
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::unique_ptr<UncachedStart> uncached_;  // nullptr: there is a cache, or no volume needs one
    std::unique_ptr<block::Service> service_;
    std::shared_ptr<const auth::SecretBook> secrets_;  // as of the start
    // The secrets in the form of keys for tls://. A reload replaces them.
    const std::shared_ptr<fabric::tls::KnownPeers> known_ =
        std::make_shared<fabric::tls::KnownPeers>(std::vector<NamedSecret>{});
    const std::shared_ptr<fabric::tls::KnownPeers> kv_known_ =
        std::make_shared<fabric::tls::KnownPeers>(std::vector<NamedSecret>{});
    std::vector<std::thread> threads_;
    bool started_ = false;   // the start was successful
    std::vector<int> cpus_;  // CPUs to which the threads are pinned, in turn; empty: not pinned
    std::vector<fabric::Address> bound_;
    std::unique_ptr<kv::KvPart> kv_;  // nullptr: no key-value service
    HttpPart http_;
};

}  // namespace wss::daemon
