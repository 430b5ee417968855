// SPDX-License-Identifier: Apache-2.0
// Admission: engines that request to join. If the target has secrets for engines, an engine authenticates
// first. Until then it ends no other connection, gets no number and receives nothing that would make it erase
// its contents.
//
// It owns the ports and the links that are pending authentication. It calls the members, the recovery and the
// set of engines, which takes over an admitted link. Each link reports to `owner`.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/pending_places.h"
#include "lib/reactor/reactor.h"
#include "target/cache/engine_set.h"
#include "target/cache/life.h"
#include "target/cache/limits.h"
#include "target/cache/members.h"
#include "target/cache/nets.h"
#include "target/cache/recovery_run.h"
#include "target/cache/storage_nodes.h"

namespace wss::cache {

class Admission {
  public:
    struct Limits {
        uint32_t line_bytes = 0;
        uint64_t lines_max = 0;  // maximum number of lines of all engines together
    };
    Admission(Nets& nets, EngineSet& engines, Members& members, RecoveryRun& recovery, StorageNodes& nodes,
              const Life& life, reactor::Reactor& reactor, Limits limits, EngineLinkOwner& owner);
    ~Admission();

    Result<fabric::Address> listen(size_t net, const fabric::Address& address);
    void close_ports() noexcept;
    // From now on engines must prove that they have one of these secrets. nullptr (the initial state): every
    // engine is admitted. Engines that were admitted before stay.
    void set_secrets(std::shared_ptr<const auth::SecretBook> secrets) noexcept;

    // ---- Links pending authentication
    // The engine has authenticated. A non-empty result is the reason why it may not join.
    std::string limit(const EngineLink& engine);
    void proven(EngineLink& engine) noexcept;
    std::unique_ptr<EngineLink> take(EngineLink& engine) noexcept;
    bool empty() const noexcept { return pending_.empty(); }
    size_t turn() noexcept { return pending_.empty() ? 0 : turn_pending(); }
    // Closes links that did not authenticate in time, and all of them when the cache stops.
    void tick() noexcept;

  private:
    class Port;
    struct Pending {
        std::unique_ptr<EngineLink> engine;
        Nanoseconds until{};
        fabric::PendingPlaces::Place place = 0;
    };
    void requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept;
    void ask_for_proof(fabric::ConnectRequest& request, const EngineLink::Applicant& applicant) noexcept;
    std::list<Pending>::iterator find_pending(const EngineLink& engine) noexcept;
    std::unique_ptr<EngineLink> remove(std::list<Pending>::iterator pending) noexcept;
    size_t turn_pending() noexcept;
    uint64_t lines_of(const wire::CacheJoin& join) const noexcept;
    std::string exceeds_index(const wire::CacheJoin& join) const;
    const char* check_join(const EngineLink::Applicant& applicant, EngineLink::Identity& identity) noexcept;
    wire::CacheWelcome welcome_for(const EngineLink::Identity& identity) const noexcept;

    Nets& nets_;
    EngineSet& engines_;
    Members& members_;
    RecoveryRun& recovery_;
    StorageNodes& nodes_;
    const Life& life_;
    reactor::Reactor& reactor_;
    const Limits limits_;
    std::shared_ptr<const auth::SecretBook> secrets_;
    EngineLinkOwner& owner_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::list<Pending> pending_;
    fabric::PendingPlaces places_{kEnginesPendingMax, kEnginesEvictedMax};  // of pending_
};

}  // namespace wss::cache
