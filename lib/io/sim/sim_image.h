// SPDX-License-Identifier: Apache-2.0
// A simulated image of a cluster like Ceph: storage that several clients can access, but that only one of
// them holds at a time.
//
// SimImage is what the clients share: the contents, the lock, the mark of the last holder and that of the
// owner. A client that takes the lock fences the one that holds it, and writes both marks
// (lib/io/rbd/holder_mark.h, Documentation/ceph.md).
//
// SimImageClient is one client's view, from the moment at which it takes the lock. It checks the image every
// second. A client that was fenced notices that with its next check or request. After the fencing its
// requests fail, including those in flight. While a client is cut off from the image, its requests and checks
// wait. After kAwayTimeout without an answer it is suspended().
//
// Every write is stable when it is done. Both objects outlive the processes that use them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/rbd/holder_mark.h"
#include "lib/io/sim/sim_device.h"

namespace wss::io {

class SimImage;

class SimImageClient final : public SimDevice {
  public:
    static constexpr Nanoseconds kCheckEvery = from_s(1), kSlow = from_s(5), kAwayTimeout = from_s(20);

    void cut_off(bool cut);
    bool is_cut_off() const noexcept { return cut_; }
    bool is_fenced() const noexcept { return fenced_; }
    // A request was submitted.
    bool is_used() const noexcept { return used_; }
    // A read-only client writes the mark of the holder, but reports neither a succession nor an owner.
    Succession succession() const noexcept override { return owner_ == 0 ? Succession{} : mark_.succession; }

    // The process ends normally, with no request in flight. The client releases the lock, unless it cannot
    // reach the image. In both cases the next holder continues the chain.
    void close();
    // The process was killed. The client keeps the lock. Each request in flight is dropped, executed in part,
    // or executed later unless the client is fenced before that. Call this while the memory of these requests
    // still exists. The memory must remain until the end of the run.
    void kill();

  private:
    friend class SimImage;
    SimImageClient(SimImage& image, std::shared_ptr<SimContents> contents, sim::World& world,
                   const SimDiskFaults& faults, const HolderMark& mark, uint64_t owner);

    bool lost() const noexcept override { return noticed_; }
    bool suspended() const noexcept override { return is_unanswered_for(kAwayTimeout); }
    std::string trouble() const override;
    std::string ownership() const override;
    void submitted() noexcept override { used_ = true; }
    bool answers() const noexcept override { return !cut_; }
    int refusal(const Flight& flight) override;
    bool is_unanswered_for(Nanoseconds time) const noexcept;
    void fence() noexcept { fenced_ = true; }
    void check();

    SimImage& image_;
    const HolderMark mark_;
    const uint64_t owner_;  // 0: it is read-only
    Nanoseconds answered_;  // the last check
    bool fenced_ = false, noticed_ = false, cut_ = false, used_ = false, closed_ = false;
};

class SimImage {
  public:
    SimImage(sim::World& world, uint64_t bytes, const SimDiskFaults& faults);

    // Makes a client, which takes the lock for the owner of this name. If the name is empty, the client is
    // read-only, and the owner stays the same. The client lives as long as the image.
    SimImageClient& take(std::string_view owner);
    // Simulates a process that is killed while it takes the lock: after it has fenced the holder, after it
    // has broken the holder's lock, or after it has taken the lock without having written the mark. Returns
    // true if this ends the chain of holders.
    enum class Death : uint8_t { kHolderFenced, kLockBroken, kMarkMissing };
    bool die_while_taking(Death death);
    // A program without a mark takes the lock and releases it.
    void take_without_mark();
    // Executes a write at once, on behalf of the client that took the image last.
    void write(Request& request);

    // The client that has the lock; nullptr: none, or one that is not a SimImageClient.
    SimImageClient* holder() noexcept { return holder_; }
    // True if a client, which may have died, has the lock.
    bool is_locked() const noexcept { return lock_ != 0; }
    const SimContents& contents() const noexcept { return *contents_; }

  private:
    friend class SimImageClient;
    void fence_holder() noexcept;
    void release(const SimImageClient& client) noexcept;

    sim::World& world_;
    const std::shared_ptr<SimContents> contents_;
    const SimDiskFaults& faults_;
    std::vector<std::unique_ptr<SimImageClient>> clients_;
    std::optional<HolderMark> found_;  // the mark in the image's metadata
    std::string owner_name_;
    uint64_t owner_ = 0;  // another number each time that the owner changes
    uint64_t lock_ = 0;   // number of the client that has the lock; 0: none
    SimImageClient* holder_ = nullptr;
    uint64_t last_client_ = 0;  // numbers of clients begin with 1
};

}  // namespace wss::io
