// SPDX-License-Identifier: Apache-2.0
// A simulated disk that uses all the freedom that R1 of backend.h permits.
//
// Written data is volatile until a flush that began after the write was done has completed, unless the write
// had FUA. When the node crashes, each 512-byte sector keeps, at random, its stable content or any version
// written since: writes vanish, survive, tear and overtake one another. Requests in flight at the crash are
// executed wholly, partly or not at all.
//
// A SimDisk is the hardware: it outlives the processes that run on its node. Each of them calls open() to get
// a Backend.
#pragma once

#include <cstdint>
#include <string>

#include "lib/io/sim/sim_device.h"

namespace wss::io {

class SimDisk final : public SimDevice {
  public:
    SimDisk(sim::World& world, uint64_t size, const SimDiskFaults& faults)
        : SimDevice(world, std::make_shared<SimContents>(size), faults) {}

    // Simulates a loss of power. Call it right after Node::crash(), while the memory of requests in flight
    // still exists.
    void crash();
    // Another owner has the disk: every request fails, and backends are lost().
    void take_away() noexcept { taken_ = true; }
    void give_back() noexcept { taken_ = false; }
    // Every request fails with EIO.
    void refuse(bool refusing) noexcept { refusing_ = refusing; }
    // Others shrink the disk.
    void shrink(uint64_t bytes) noexcept { contents().resize(bytes); }
    // Every write fails with ENOSPC.
    void fill(bool full) noexcept { full_ = full; }
    // Backends are suspended(): another owner may have taken the disk. Requests still work.
    void suspend(bool suspended) noexcept { suspended_ = suspended; }
    // Another owner had the disk while no backend was open.
    void change_hands() noexcept { ++owners_; }
    // Gives this disk the identity of `other`, as ownership() reports it.
    void be_same_as(const SimDisk& other) noexcept { number_ = other.number_; }
    // Every later write is stable.
    void make_stable() noexcept { contents().make_stable(); }
    // Sets what backends report by succession(), for a holder that took the disk from another one.
    void succeed(Succession succession) noexcept { succession_ = succession; }
    // The disk was recreated: ownership() reports nothing.
    void forget_owners() noexcept { owners_ = 0; }
    // Number of executed requests that changed the disk.
    uint64_t writes() const noexcept { return contents().writes(); }

  protected:
    bool lost() const noexcept override { return taken_; }
    bool suspended() const noexcept override { return suspended_; }
    std::string ownership() const override;
    Succession succession() const noexcept override { return succession_; }
    int refusal(const Flight& flight) override;

  private:
    static inline uint64_t disks_ = 0;  // of the process
    uint64_t number_ = ++disks_;
    uint32_t owners_ = 1;
    Succession succession_;
    bool taken_ = false, refusing_ = false, full_ = false, suspended_ = false;
};

}  // namespace wss::io
