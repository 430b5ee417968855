// SPDX-License-Identifier: Apache-2.0
// A simulated disk that uses all the freedom that R1 of backend.h permits.
//
// Written data is volatile until a flush that began after the write was done has completed, unless the write
// had FUA. When the node crashes, each 512-byte sector keeps, by chance, its stable content or any version
// written since: writes vanish, survive, tear and overtake one another. Requests in flight at the crash may
// have been executed wholly or partly.
//
// A SimDisk is the hardware: it outlives the incarnations of its node. open() gives one incarnation its
// Backend.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lib/io/backend.h"
#include "lib/reactor/sim/world.h"

namespace wss::io {

struct SimDiskFaults {
    Nanoseconds latency_min = from_us(10);
    Nanoseconds latency_max = from_us(200);
    uint32_t slow_one_in = 0;
    Nanoseconds slow = from_ms(200);
    uint32_t error_one_in = 0;  // EIO; a failed write may have been executed in part
    // Writes with an offset in [silent_first, silent_end) fail after `silent` without being executed.
    uint64_t silent_first = 0, silent_end = 0;
    Nanoseconds silent = from_s(60);
};

class SimDisk {
  public:
    SimDisk(sim::World& world, uint64_t size, const SimDiskFaults& faults)
        : world_(world), size_(size), faults_(faults) {}
    ~SimDisk();

    // The disk as seen by software on `node`.
    std::unique_ptr<Backend> open(sim::Node& node);
    // Simulates a loss of power. Call it right after Node::crash(), while the memory of requests in flight
    // still exists.
    void crash();
    // Another owner has the disk: every request fails, and backends are lost().
    void take_away() noexcept { taken_ = true; }
    void give_back() noexcept { taken_ = false; }
    // Every request fails with EIO.
    void refuse(bool refusing) noexcept { refusing_ = refusing; }
    // Others shrink the disk.
    void shrink(uint64_t bytes) noexcept { size_ = bytes; }
    // Every write fails with ENOSPC.
    void fill(bool full) noexcept { full_ = full; }
    // Backends are suspended(): another owner may have taken the disk. Requests still work.
    void suspend(bool suspended) noexcept { suspended_ = suspended; }
    // Another owner had the disk while no backend was open.
    void change_hands() noexcept { ++owners_; }
    // Gives this disk the identity of `other`, as ownership() reports it.
    void be_same_as(const SimDisk& other) noexcept { number_ = other.number_; }
    // Every later write is stable.
    void make_stable() noexcept { stable_ = true; }
    // Sets what backends report by succession(), for a holder that took the disk from another one.
    void succeed(Succession succession) noexcept { succession_ = succession; }
    // The disk was recreated: ownership() reports nothing.
    void forget_owners() noexcept { owners_ = 0; }

    static constexpr uint32_t kSector = 512;
    // Number of executed requests that changed the disk.
    uint64_t writes() const noexcept { return writes_; }

  private:
    friend class SimQueue;
    friend class SimBackend;
    using Bytes = std::array<std::byte, kSector>;
    struct Version {
        uint64_t order;
        Bytes bytes;
    };
    struct Sector {
        Bytes stable{};
        std::vector<Version> pending;  // oldest first
        const Bytes& current() const { return pending.empty() ? stable : pending.back().bytes; }
    };
    // A request in flight. The queue of `finished` is notified at its end, if it still exists.
    struct Flight {
        Request* request;
        uint64_t submitted;  // writes_ at submission: a flush covers writes up to here
        std::weak_ptr<std::vector<Request*>> finished;
        bool early = false;  // a read that has been executed already
        bool silent = false;
    };

    void start(Request& request, const std::shared_ptr<std::vector<Request*>>& finished);
    void finish(uint64_t id);
    bool is_within(const Request& request) const;
    int perform(const Flight& flight);
    void read(Request& request);
    void write(const Request& request, uint64_t sectors);
    void flush(uint64_t up_to);

    sim::World& world_;
    uint64_t size_;
    const SimDiskFaults& faults_;
    std::map<uint64_t, Sector> sectors_;
    std::map<uint64_t, Flight> flights_;
    uint64_t next_flight_ = 0;
    uint64_t writes_ = 0;
    static inline uint64_t disks_ = 0;  // of the process
    uint64_t number_ = ++disks_;
    uint32_t owners_ = 1;
    Succession succession_;
    bool taken_ = false, refusing_ = false, full_ = false, suspended_ = false, stable_ = false;
};

}  // namespace wss::io
