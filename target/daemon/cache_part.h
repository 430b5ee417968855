// SPDX-License-Identifier: Apache-2.0
// CachePart: the parts of a target that form its cache. They are the cache itself, separate fabrics for it
// (no client is connected to them), and its methods of the control socket.
//
// Thread-safety: create() and the destructor are called while the reactor does not run, the rest from the
// daemon's thread while it runs. During that time, any thread may call info().
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
    // Time limit for closing the links and saving the membership.
    static constexpr Nanoseconds kFarewellMax = from_s(10);

    // `reactor`: the cache's reactor, the first of `reactors`.
    static Result<std::unique_ptr<CachePart>> create(const control::TargetConfig& config,
                                                     const volume::StateLock::Shared& state,
                                                     reactor::Reactor& reactor, size_t reactors);
    ~CachePart();

    cache::Cache& cache() { return *cache_; }
    // Adds backends "rs:NAME", each for one volume. The identity of the cache becomes the owner of all other
    // storage.
    void add_remote_storage(volume::VolumeSet::Options& options);
    // Before a volume is deleted, destages the data that only engines have. Refuses the deletion if that
    // fails, unless the data is given up.
    void follow_deletions(volume::VolumeSet::Options& options);
    Status listen();
    // Reloads --cache-secrets, for engines that join later.
    Status reload_secrets(const control::TargetConfig& config);
    void warn_if_open(const control::TargetConfig& config) const;
    // Destages dirty lines. Lines that could not be destaged within `seconds` stay in the engines until the
    // next start. This is logged. Fails if the membership could not be saved. Fails with kTimedOut if the
    // stop is still in progress; the part must not be destroyed then.
    Status stop(uint32_t seconds, cache::LastSave last);
    // ", cache engines at tcp://10.0.0.1:5556"
    std::string describe() const;
    Result<cache::CacheInfo> info();
    // The reason why some commands wait; "" if there is none. Called on the reactor's thread.
    std::string not_ready() const;
    // The methods cache.status, .policy, .drain, .remove, .give_up and .forget, and the section "cache" of
    // stats.
    void add_methods(control::Methods& methods);

  private:
    explicit CachePart(reactor::Reactor& reactor) : reactor_(reactor) {}

    reactor::Reactor& reactor_;
    Random random_{Random::entropy()};
    // The secrets in the form of keys for tls://.
    std::shared_ptr<fabric::tls::KnownPeers> known_;
    std::vector<fabric::Address> wanted_, bound_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<fabric::ReservedAddress> reserved_;  // until listen()
    std::vector<std::unique_ptr<fabric::Poller>> pollers_;
    std::unique_ptr<cache::Cache> cache_;
};

}  // namespace wss::daemon
