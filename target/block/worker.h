// SPDX-License-Identifier: Apache-2.0
// Worker: one reactor's part of the block service. Lane: the part of a worker that belongs to one fabric.
//
// The sources of a worker are registered with its reactor in the order of processing: completions (pollers),
// storage (the volume table), the cache with the pollers of its engines (on its reactor), and last the worker
// itself. Messages of the cache to another reactor come before all of these. The
// worker offers freed buffers to waiting commands and posts the work requests of the turn, once per channel.
//
// Thread-safety: belongs to its reactor; created and destroyed while the reactor does not run.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/reactor/reactor.h"
#include "target/block/arena.h"
#include "target/block/channel.h"
#include "target/block/range_locks.h"
#include "target/block/unit.h"
#include "target/volume/volume.h"

namespace wss::block {

class Service;
class Worker;

// Task management in progress. It counts the commands that it waits for, on all workers. When the count
// reaches zero, the job notifies the requesting channel, on that channel's reactor, and is freed.
//
// Several jobs may concern the same command: an initiator that gets no answer to its ABORT TASK resets the
// unit. Then the job that concerns more commands waits for the command (the later one, if both concern
// equally many), and the other job *follows* it: both are answered together. So an ABORT that a RESET
// overtook is not answered while any command that the RESET concerns still executes. The order (`rank`) is
// the same for every command, so no two jobs wait for each other.
struct AbortJob {
    // Workers that have not yet searched, commands and fences that have not ended, and jobs that it follows.
    std::atomic<uint32_t> left;
    Worker& home;
    std::shared_ptr<ChannelRecord> requester;
    uint16_t slot;
    wire::TaskManagement task;
    bool everybodys;                          // concerns the commands of all initiators
    std::vector<volume::Registrant> victims;  // if not empty, only commands of these initiators; otherwise
                                              // those of the requester's session
    uint64_t rank;                            // by breadth, then by age
    std::mutex lock;
    std::vector<AbortJob*> followers;  // guarded by lock; one entry per shared command

    // `present` is the job that waits for a command, or nullptr. `joining` concerns the command too. Returns
    // the job that waits for it from now on.
    static AbortJob* join(AbortJob* present, AbortJob& joining);
    // Starts the job of `request`, which waits for it. The job concerns the commands that `task` selects:
    // those of `victims` if there are any, those of all initiators if `everybodys` is true, or else those of
    // the requester's session.
    static void begin(Worker& home, std::shared_ptr<ChannelRecord> requester, const Request& request,
                      const wire::TaskManagement& task, bool everybodys,
                      std::vector<volume::Registrant> victims = {});
    bool concerns(const ChannelRecord& record) const;
    void drop() noexcept;
};

class Lane final : public cache::BufferHome {
  public:
    static Result<std::unique_ptr<Lane>> create(Worker& worker, fabric::Fabric& fabric, size_t index,
                                                size_t arena_bytes);
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    Worker& worker() noexcept { return worker_; }
    fabric::Fabric& fabric() noexcept { return fabric_; }
    size_t index() const noexcept { return index_; }
    fabric::Poller& poller() noexcept { return *poller_; }
    Arena& arena() noexcept { return *arena_; }
    // The cache's registration of the part's memory; nullptr without a cache.
    const cache::BufferRegions* cache_regions(Part part) const noexcept {
        return cache_regions_[static_cast<size_t>(part)].get();
    }
    void give_back(std::byte* buffer, uint32_t bytes) noexcept override {
        arena_->give(part_of(bytes), buffer, bytes);
    }
    // The share of the channel's initiator on this lane.
    std::shared_ptr<InitiatorShare> initiator_share(const ChannelRecord& record);

    // Creates a channel. If that fails, rejects the connection and reports that the channel is gone.
    void open_channel(std::shared_ptr<ChannelRecord> record, std::unique_ptr<fabric::ConnectRequest> request,
                      std::span<const std::byte> accept_data, uint64_t login_tag);

    void mark_dirty(Channel& channel) noexcept;

    // The end of a reactor's turn. Returns the number of requests that got a buffer, plus the number of work
    // requests posted.
    size_t turn() noexcept;
    template <typename Visit>
    void for_each_channel(Visit&& visit) {
        channels_.for_each(visit);
    }
    void channel_died() noexcept { ++deaths_; }
    size_t channels() const noexcept { return channel_count_; }

  private:
    Lane(Worker& worker, fabric::Fabric& fabric, size_t index)
        : worker_(worker), fabric_(fabric), index_(index) {}
    Status register_with(cache::Cache& cache);
    void reap() noexcept;

    Worker& worker_;
    fabric::Fabric& fabric_;
    const size_t index_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<Arena> arena_;
    std::array<std::unique_ptr<cache::BufferRegions>, kParts> cache_regions_;  // of the parts for I/O
    List<Channel, Channel> channels_;
    List<Channel, Lane> dirty_;
    size_t channel_count_ = 0;
    size_t deaths_ = 0;  // channels to be reaped
};

class Worker final : public reactor::Source, public volume::Observer {
  public:
    struct Options {
        size_t arena_bytes = kArenaDefault;
        cache::Gateway* gateway = nullptr;  // nullptr: no cache. Outlives the worker
    };
    static Result<std::unique_ptr<Worker>> create(Service& service, size_t index, reactor::Reactor& reactor,
                                                  volume::VolumeTable& table,
                                                  const std::vector<fabric::Fabric*>& fabrics,
                                                  const Options& options);
    ~Worker() override;

    Service& service() noexcept { return service_; }
    reactor::Reactor& reactor() noexcept { return reactor_; }
    size_t index() const noexcept { return index_; }
    UnitTable& units() noexcept { return units_; }
    Lane& lane(size_t fabric_index) noexcept { return *lanes_[fabric_index]; }
    size_t lanes() const noexcept { return lanes_.size(); }
    // The time of the answers of this turn. It is later than the start of the turn if storage blocked. The
    // clock is read once per turn, when the first answer is built.
    Nanoseconds answer_time() noexcept {
        if (answer_time_ == kNever) answer_time_ = reactor_.clock().now();
        return answer_time_;
    }
    // Commands that wait for a cache command.
    FlowQueue& cache_queue() noexcept { return cache_queue_; }
    // nullptr: no cache.
    cache::Gateway* gateway() noexcept { return gateway_; }

    void abort_tasks(AbortJob& job) noexcept;
    // Checks commands against the new reservations from now on. Forbidden writes that have begun hold
    // `fence`.
    void reservations_changed(const ReserveJob& job, const std::shared_ptr<volume::WriteFence>& fence);

    // This reactor's part of the range locks (see range_locks.h).
    void hold_range(uint64_t lock_id, uint64_t lun, ByteRange range);
    void lift_hold(uint64_t lock_id) noexcept;
    // A write of `unit` has ended. A lock may have waited for it.
    void writer_ended(Unit& unit, const ByteRange& range) noexcept;
    // A change beyond the new end of `unit` has ended. A shrink may have waited for it.
    void beyond_ended(Unit& unit) noexcept;

    size_t poll() noexcept override;
    Status may_open(const volume::Volume& volume) override;
    void volume_changed(volume::Change change, volume::OpenVolume& volume) noexcept override;
    void volume_shrinks(volume::OpenVolume& volume, std::shared_ptr<volume::Shrink> shrink) noexcept override;
    void volume_fences(volume::OpenVolume& volume,
                       std::shared_ptr<volume::WriteFence> fence) noexcept override;
    void volume_reopens(volume::OpenVolume& volume,
                        std::shared_ptr<volume::Reopening> reopening) noexcept override;

  private:
    Worker(Service& service, size_t index, reactor::Reactor& reactor, volume::VolumeTable& table,
           cache::Gateway* gateway);
    // nullptr: there is none, or it belongs to another reactor.
    cache::Cache* own_cache() noexcept;
    void add_unit(volume::OpenVolume& volume);
    void fence_writes(Unit& unit, const std::shared_ptr<volume::WriteFence>& fence);
    void hold_is_quiet(uint64_t lock_id) noexcept;
    void end_shrinks(Unit& unit) noexcept;

    Service& service_;
    const size_t index_;
    reactor::Reactor& reactor_;
    volume::VolumeTable& table_;
    cache::Gateway* const gateway_;
    UnitTable units_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    FlowQueue cache_queue_;
    Nanoseconds answer_time_ = kNever;  // kNever: not read in this turn
    struct HeldRange {
        Hold hold;
        Unit* unit = nullptr;  // alive while `hold` is linked
    };
    std::map<uint64_t, HeldRange> holds_;  // by lock id
};

}  // namespace wss::block
