// SPDX-License-Identifier: Apache-2.0
// A disk of the simulated world, as treacherous as R1 of backend.h permits.
//
// What was written is volatile until a flush (that began after the write was done) completes, or was written
// with FUA. When the node crashes, each 512-byte sector keeps, by chance, its stable content or any version
// written since: writes vanish, survive, tear and overtake one another. Requests in flight at the crash may
// have happened, wholly or partly.
//
// A SimDisk outlives the incarnations of its node: it is the hardware. open() gives one incarnation its
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
    uint32_t error_one_in = 0;  // EIO; a write that failed may have happened in part
    // Writes that begin in [silent_first, silent_end) fail after `silent`, and have not happened.
    uint64_t silent_first = 0, silent_end = 0;
    Nanoseconds silent = from_s(60);
};

class SimDisk {
  public:
    SimDisk(sim::World& world, uint64_t size, const SimDiskFaults& faults)
        : world_(world), size_(size), faults_(faults) {}
    ~SimDisk();

    // The disk as software on `node` sees it.
    std::unique_ptr<Backend> open(sim::Node& node);
    // Power is lost. Call it right after Node::crash(), while the memory that requests in flight point to
    // still exists.
    void crash();
    // Another owner has it: every request fails, and backends say that it is lost.
    void take_away() noexcept { taken_ = true; }
    void give_back() noexcept { taken_ = false; }
    // Every request fails with EIO.
    void refuse(bool refusing) noexcept { refusing_ = refusing; }
    // Others make it smaller.
    void shrink(uint64_t bytes) noexcept { size_ = bytes; }
    // Every write fails with ENOSPC.
    void fill(bool full) noexcept { full_ = full; }
    // It may have: backends say so, and go on.
    void suspend(bool suspended) noexcept { suspended_ = suspended; }
    // Another owner has had it, while nobody here had it open.
    void change_hands() noexcept { ++owners_; }
    // It is the same as that one, as its owners see it.
    void be_same_as(const SimDisk& other) noexcept { number_ = other.number_; }
    // What is written is stable from now on.
    void make_stable() noexcept { stable_ = true; }
    // Whoever has it open says that it is the one, and took it from the other.
    void succeed(Succession succession) noexcept { succession_ = succession; }
    // It is another one, made anew, that names no owner.
    void forget_owners() noexcept { owners_ = 0; }

    static constexpr uint32_t kSector = 512;
    // Requests that have changed it.
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
    // Starts a request; `queue` is told when it is done, if it still exists.
    struct Flight {
        Request* request;
        uint64_t submitted;  // writes_ at submission: what a flush covers
        std::weak_ptr<std::vector<Request*>> finished;
        bool early = false;  // a read that has been done already
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
