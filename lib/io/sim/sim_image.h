// SPDX-License-Identifier: Apache-2.0
// A simulated image of a cluster, as of Ceph: storage that several clients see, and that one of them has at a
// time.
//
// SimImage is what they share: the contents, the lock and the mark of the last holder. A client that takes
// the lock fences the one that holds it, and writes the mark (lib/io/rbd/holder_mark.h).
//
// SimImageClient is one client's view, from the moment at which it takes the lock. It checks the image every
// second. A client that was fenced notices that with its next check or request. Its requests fail from the
// moment of the fencing on, including those in flight. While a client is cut off from the image, its requests
// and checks wait; after kAwayTimeout without an answer it is suspended().
//
// Every write is stable when it is done. Both objects outlive the processes that use them.
#pragma once

#include <memory>
#include <optional>
#include <string>
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
    Succession succession() const noexcept override { return mark_.succession; }

    // The process ends in order, with no request in flight. The client releases the lock, unless it took the
    // image from another client and did not use it (OpenOptions::keeps_taken), or cannot reach it.
    void close();
    // The process was killed. The client keeps the lock. Requests that have reached the image are executed
    // later, unless the client is fenced before. Call it while the memory of these requests still exists; it
    // must remain until the end of the run.
    void kill();

  private:
    friend class SimImage;
    SimImageClient(SimImage& image, std::shared_ptr<SimContents> contents, sim::World& world,
                   const SimDiskFaults& faults, const HolderMark& mark);

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
    Nanoseconds answered_;  // the last check
    bool fenced_ = false, noticed_ = false, cut_ = false, used_ = false, closed_ = false;
};

class SimImage {
  public:
    SimImage(sim::World& world, uint64_t bytes, const SimDiskFaults& faults);

    // A new client, which takes the lock. It lives as long as the image.
    SimImageClient& take();
    // A start that is killed while it takes the lock: after it has fenced the holder, after it has broken
    // the holder's lock, or after it has taken the lock without having written the mark. Returns true if
    // this ends the chain of holders.
    enum class Death : uint8_t { kHolderFenced, kLockBroken, kMarkMissing };
    bool die_while_taking(Death death);
    // A program without a mark takes the lock, writes, and releases the lock.
    void write_by_another(Request& request);

    // The client that has the lock; nullptr: none, or one that is not a SimImageClient.
    SimImageClient* holder() noexcept { return holder_; }
    // True if a client has the lock, which may have died.
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
    uint64_t lock_ = 0;                // number of the client that has the lock; 0: none
    SimImageClient* holder_ = nullptr;
    uint64_t last_client_ = 0;  // numbers of clients begin with 1
};

}  // namespace wss::io
