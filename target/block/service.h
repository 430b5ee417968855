// SPDX-License-Identifier: Apache-2.0
// Service: the block target. Listens, logs initiators in, serves the volumes of a VolumeSet to them.
//
//   fabrics ──> listeners ──> SessionTable (reactor 0) ──> Channel on a Worker (any reactor)
//                                                            │ Unit ─> volume, its queue
//
// Life: create() before the reactors turn (or in the simulation); listen() on reactor 0; stop() from
// anywhere, while the reactors turn; after its callback and after the volumes were closed the reactors may
// stop and the Service be destroyed. The fabrics, the reactors and the VolumeSet outlive it.
//
// Thread-safety: as said at each method.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/block/range_locks.h"
#include "target/block/session.h"
#include "target/block/worker.h"
#include "target/cache/cache.h"
#include "target/volume/volume_set.h"

namespace wss::block {

class Service {
  public:
    struct Options {
        LoginLimits limits;
        size_t arena_bytes = kArenaDefault;  // I/O buffers per reactor and fabric
        // Where session epochs begin: must grow over restarts (the daemon takes the time of day).
        uint64_t epoch_base = 0;
        Nanoseconds fence_timeout = kFenceTimeout;
        Nanoseconds drain_timeout = kDrainTimeout;
        Nanoseconds silence_probe = kSilenceProbe;  // of initiators without keep-alive
        Nanoseconds silence_max = kSilenceMax;
        Nanoseconds take_timeout = kTakeTimeout;
        // What volumes are cached by; nullptr: nothing. On the reactor, which is the only one then; outlives
        // the service.
        se::Cache* cache = nullptr;
        std::shared_ptr<const auth::SecretBook> secrets;  // nullptr: whoever connects is served
        // Changes when caches of the storage may have lost what was written and not flushed, which a restart
        // of the process alone does not do: it is the machine's boot. 0: not known.
        uint32_t boot_id = 0;
        std::shared_ptr<volume::ReservationBook> reservations;  // nullptr: nothing is kept of them
    };
    static Result<std::unique_ptr<Service>> create(std::vector<reactor::Reactor*> reactors,
                                                   volume::VolumeSet& volumes,
                                                   std::vector<fabric::Fabric*> fabrics,
                                                   const Options& options);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // On reactor 0. Returns where it listens.
    Result<fabric::Address> listen(size_t fabric_index, const fabric::Address& address);
    // Any thread. `done` is called once, on reactor 0, when every session is gone.
    void stop(std::function<void()> done);
    // Any thread; `take` is called on reactor 0.
    void list_sessions(std::function<void(std::vector<SessionInfo>)> take);
    // Any thread; `take` is called on reactor 0 with the number of sessions that this ended. See
    // SessionTable.
    void set_secrets(std::shared_ptr<const auth::SecretBook> secrets, std::function<void(size_t)> take);
    void end_session(std::string initiator, std::function<void(size_t)> take);
    void total(std::function<void(CounterTotals)> take);
    void session_use(std::function<void(SessionUse)> take);

    // For the parts of the service.
    se::Cache* cache() noexcept { return cache_; }
    SessionTable& sessions() noexcept { return sessions_; }
    volume::ReservationBook& reservations() noexcept { return *reservations_; }
    RangeLocks& range_locks() noexcept { return range_locks_; }
    reactor::Reactor& control_reactor() noexcept { return *reactors_[0]; }
    size_t workers() const noexcept { return workers_.size(); }
    Worker& worker(size_t index) noexcept { return *workers_[index]; }
    // Numbers task management requests in the order in which they came, on whichever reactor.
    uint64_t next_task_management() noexcept { return task_managements_.fetch_add(1); }

  private:
    class Port;  // a listener and the fabric it belongs to
    Service(std::vector<reactor::Reactor*> reactors, volume::VolumeSet& volumes, const Options& options);

    const std::vector<reactor::Reactor*> reactors_;
    volume::VolumeSet& volumes_;
    se::Cache* const cache_;
    const std::shared_ptr<volume::ReservationBook> reservations_;
    RangeLocks range_locks_;
    SessionTable sessions_;
    std::atomic<uint64_t> task_managements_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace wss::block
