// SPDX-License-Identifier: Apache-2.0
// Service: the block target. It listens, logs initiators in, and serves them the volumes of a VolumeSet.
//
//   fabrics ──> listeners ──> SessionTable (reactor 0) ──> Channel on a Worker (any reactor)
//                                                            │ Unit ─> volume, its queue
//
// Life: create() is called before the reactors run (or in the simulation), listen() on reactor 0, and stop()
// from any thread while the reactors run. After the callback of stop(), and after the volumes were closed,
// the reactors may stop and the Service may be destroyed. The fabrics, the reactors and the VolumeSet outlive
// it.
//
// Thread-safety: stated at each method.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/block/range_locks.h"
#include "target/block/session.h"
#include "target/block/worker.h"
#include "target/cache/gateway.h"
#include "target/volume/volume_set.h"

namespace wss::block {

class Service {
  public:
    struct Options {
        LoginLimits limits;
        size_t arena_bytes = kArenaDefault;  // I/O buffers per reactor and fabric
        // The first session epoch minus one. It must grow across restarts; the daemon uses the system time.
        uint64_t epoch_base = 0;
        Nanoseconds fence_timeout = kFenceTimeout;
        Nanoseconds drain_timeout = kDrainTimeout;
        Nanoseconds silence_probe = kSilenceProbe;  // for initiators without keep-alive
        Nanoseconds silence_max = kSilenceMax;
        Nanoseconds take_timeout = kTakeTimeout;
        size_t pending_auth_max = kPendingAuthMax;
        // The cache of volumes; nullptr: none. Belongs to the first reactor; outlives the service.
        cache::Cache* cache = nullptr;
        std::shared_ptr<const auth::SecretBook> secrets;  // nullptr: no authentication
        // Identifies the boot of the target's machine. It changes when the storage's caches may have lost
        // unflushed writes. A restart of the process alone loses none. 0: unknown.
        uint32_t boot_id = 0;
        std::shared_ptr<volume::ReservationBook> reservations;  // nullptr: not stored on disk
    };
    static Result<std::unique_ptr<Service>> create(std::vector<reactor::Reactor*> reactors,
                                                   volume::VolumeSet& volumes,
                                                   std::vector<fabric::Fabric*> fabrics,
                                                   const Options& options);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // On reactor 0. Returns the bound address.
    Result<fabric::Address> listen(size_t fabric_index, const fabric::Address& address);
    // Any thread. `done` is called once, on reactor 0, when every session has ended.
    void stop(std::function<void()> done);
    // Any thread; `take` is called on reactor 0.
    void list_sessions(std::function<void(std::vector<SessionInfo>)> take);
    // Any thread; `take` is called on reactor 0 with the number of sessions ended. See SessionTable.
    void set_secrets(std::shared_ptr<const auth::SecretBook> secrets, std::function<void(size_t)> take);
    void end_session(std::string initiator, std::function<void(size_t)> take);
    // Any thread; `take` is called on reactor 0.
    void total(std::function<void(CounterTotals)> take);
    void session_use(std::function<void(SessionUse)> take);

    // These are for use inside the service.
    cache::Cache* cache() noexcept { return cache_; }
    SessionTable& sessions() noexcept { return sessions_; }
    volume::ReservationBook& reservations() noexcept { return *reservations_; }
    RangeLocks& range_locks() noexcept { return range_locks_; }
    reactor::Reactor& control_reactor() noexcept { return *reactors_[0]; }
    size_t workers() const noexcept { return workers_.size(); }
    Worker& worker(size_t index) noexcept { return *workers_[index]; }
    // Called on the cache's reactor when the cache has added a volume. The other reactors then add it.
    void offer(cache::CachedVolume& volume);
    // Numbers task management requests in order of arrival, over all reactors.
    uint64_t next_task_management() noexcept { return task_managements_.fetch_add(1); }

  private:
    class Port;  // a listener and the fabric it belongs to
    Service(std::vector<reactor::Reactor*> reactors, volume::VolumeSet& volumes, const Options& options);

    const std::vector<reactor::Reactor*> reactors_;
    volume::VolumeSet& volumes_;
    cache::Cache* const cache_;
    const std::shared_ptr<volume::ReservationBook> reservations_;
    RangeLocks range_locks_;
    SessionTable sessions_;
    std::atomic<uint64_t> task_managements_{0};
    std::vector<std::unique_ptr<cache::Gateway>> gateways_;  // one per reactor; empty: no cache
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace wss::block
