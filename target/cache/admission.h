// SPDX-License-Identifier: Apache-2.0
// Admission: engines that request to join. Where the target has secrets for them, an engine proves first who
// it is: until then it ends no other connection, gets no number and receives nothing that would make it
// forget what it holds.
//
// It owns the ports and the links that are not authenticated yet. It calls the members, the recovery and the
// set of engines, to which it hands a link that is admitted; each link reports to `owner`.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/stranger_places.h"
#include "lib/reactor/reactor.h"
#include "target/cache/engine_set.h"
#include "target/cache/life.h"
#include "target/cache/limits.h"
#include "target/cache/members.h"
#include "target/cache/nets.h"
#include "target/cache/recovery_run.h"
#include "target/cache/storage_nodes.h"

namespace wss::se {

class Admission {
  public:
    struct Limits {
        uint32_t line_bytes = 0;
        uint64_t lines_max = 0;  // of all engines
    };
    Admission(Nets& nets, EngineSet& engines, Members& members, RecoveryRun& recovery, StorageNodes& nodes,
              const Life& life, reactor::Reactor& reactor, Limits limits, EngineLinkOwner& owner);
    ~Admission();

    Result<fabric::Address> listen(size_t net, const fabric::Address& address);
    void close_ports() noexcept;
    // Engines have to prove from now on that they have one of these. nullptr, which is so at first: whoever
    // comes is admitted. Those that were admitted stay.
    void set_secrets(std::shared_ptr<const auth::SecretBook> secrets) noexcept;

    // ---- Links that are not authenticated yet
    // The engine has proven who it is. Not empty: why it may not join for all that.
    std::string limit(const EngineLink& engine);
    void proven(EngineLink& engine) noexcept;
    std::unique_ptr<EngineLink> take(EngineLink& engine) noexcept;
    bool empty() const noexcept { return pending_.empty(); }
    size_t turn() noexcept { return pending_.empty() ? 0 : turn_pending(); }
    // Closes those whose time is over; all of them at the end.
    void tick() noexcept;

  private:
    class Port;
    struct Pending {
        std::unique_ptr<EngineLink> engine;
        Nanoseconds until{};
        fabric::StrangerPlaces::Place place = 0;
    };
    void requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept;
    void ask_for_proof(fabric::ConnectRequest& request, const EngineLink::Applicant& applicant) noexcept;
    std::list<Pending>::iterator find_pending(const EngineLink& engine) noexcept;
    std::unique_ptr<EngineLink> remove(std::list<Pending>::iterator pending) noexcept;
    size_t turn_pending() noexcept;
    uint64_t lines_of(const wire::CacheJoin& join) const noexcept;
    std::string exceeds_index(const wire::CacheJoin& join) const;
    const char* judge_join(const EngineLink::Applicant& applicant, EngineLink::Identity& identity) noexcept;
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
    fabric::StrangerPlaces places_{kEnginesPendingMax, kEnginesEvictedMax};  // of pending_
};

}  // namespace wss::se
