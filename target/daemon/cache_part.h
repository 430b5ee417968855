// SPDX-License-Identifier: Apache-2.0
// CachePart: what a target has for its cache: fabrics of the cache's own (no client has a connection on
// them), the cache, and its part of the control socket.
//
// Thread-safety: create() and the destructor while the reactor does not turn, the rest from the daemon's
// thread while it does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/open.h"
#include "target/cache/cache.h"
#include "target/control/config.h"
#include "target/control/methods.h"
#include "target/volume/volume_set.h"

namespace wss::daemon {

class CachePart {
  public:
    // Links close and the membership is saved, or not, in less.
    static constexpr Nanoseconds kFarewellMax = from_s(10);

    static Result<std::unique_ptr<CachePart>> create(const control::TargetConfig& config,
                                                     const volume::StateLock::Shared& state,
                                                     reactor::Reactor& reactor);
    ~CachePart();

    se::Cache& cache() { return *cache_; }
    // Opens "rs:NAME" as well, each for one volume.
    void add_remote_storage(volume::VolumeSet::Options& options);
    // Nothing is deleted that engines alone have, unless that is given up.
    void follow_deletions(volume::VolumeSet::Options& options);
    Status listen();
    // Reads --cache-secrets again, for engines that join from now on.
    Status reload_secrets(const control::TargetConfig& config);
    void warn_if_open(const control::TargetConfig& config) const;
    // Brings dirty lines home. What could not be brought stays in the engines, to be found at the next
    // start; the log says so. A failure: it goes on, and must not be destroyed.
    Status stop(uint32_t seconds, se::LastSave last);
    // ", cache engines at tcp://10.0.0.1:5556"
    std::string describe() const;
    Result<se::CacheInfo> info();
    // Why it does not serve all it has; "": it does. On the reactor's thread.
    std::string not_ready() const;
    // cache.status, .policy, .drain, .remove, .forget and the section "cache" of stats.
    void add_methods(control::Methods& methods);

  private:
    explicit CachePart(reactor::Reactor& reactor) : reactor_(reactor) {}

    reactor::Reactor& reactor_;
    Random random_{Random::entropy()};
    // The secrets, as keys of tls://.
    std::shared_ptr<fabric::tls::KnownPeers> known_;
    std::vector<fabric::Address> wanted_, bound_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<fabric::ReservedAddress> reserved_;  // until listen()
    std::vector<std::unique_ptr<fabric::Poller>> pollers_;
    std::unique_ptr<se::Cache> cache_;
};

}  // namespace wss::daemon
