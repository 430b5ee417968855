// SPDX-License-Identifier: Apache-2.0
// SimDevice: what simulated disks and images have in common. Each request ends after a random time, and is
// executed at that moment. A read may also be executed when it begins.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/io/backend.h"
#include "lib/io/sim/sim_contents.h"
#include "lib/reactor/sim/world.h"

namespace wss::io {

struct SimDiskFaults {
    Nanoseconds latency_min = from_us(10);
    Nanoseconds latency_max = from_us(200);
    uint32_t slow_one_in = 0;
    Nanoseconds slow = from_ms(200);
    uint32_t error_one_in = 0;  // EIO; a failed write may have been executed in part
    // A SimDisk fails writes with an offset in [silent_first, silent_end) after `silent`, without executing
    // them.
    uint64_t silent_first = 0, silent_end = 0;
    Nanoseconds silent = from_s(60);
};

class SimDevice {
  public:
    static constexpr uint32_t kSector = SimContents::kSector;

    SimDevice(const SimDevice&) = delete;
    virtual ~SimDevice();

    // The device as seen by software on `node`.
    std::unique_ptr<Backend> open(sim::Node& node);

  protected:
    // A request in flight. At its end it is added to `finished`, if the queue that owns this list still
    // exists.
    struct Flight {
        Request* request;
        uint64_t submitted;  // SimContents::writes() at submission: a flush covers writes up to here
        std::weak_ptr<std::vector<Request*>> finished;
        bool early = false;  // a read that has already been executed
        bool silent = false;
    };

    SimDevice(sim::World& world, std::shared_ptr<SimContents> contents, const SimDiskFaults& faults)
        : world_(world), contents_(std::move(contents)), faults_(faults) {}

    // As the functions of Backend.
    virtual bool lost() const noexcept { return false; }
    virtual bool suspended() const noexcept { return false; }
    virtual std::string trouble() const { return {}; }
    virtual std::string ownership() const { return {}; }
    virtual Succession succession() const noexcept { return {}; }

    virtual void submitted() noexcept {}
    // If this returns false, no request is executed or fails until resume().
    virtual bool answers() const noexcept { return true; }
    // Returns the errno with which this request fails now, without being executed, or 0 if it must be
    // executed.
    virtual int refusal(const Flight& flight) = 0;

    // Ends every request in flight within 2 ms. Called when answers() becomes true again.
    void resume();
    // Drops all requests in flight, without completions, as if the process that sent them had ended. Requests
    // that change the contents are executed wholly, partly or not at all.
    void break_off();
    // Drops one in `one_in` requests in flight, without executing or completing them.
    void drop_some(uint32_t one_in);

    sim::World& world() const noexcept { return world_; }
    SimContents& contents() noexcept { return *contents_; }
    const SimContents& contents() const noexcept { return *contents_; }
    const SimDiskFaults& faults() const noexcept { return faults_; }

  private:
    friend class SimQueue;
    friend class SimBackend;

    void start(Request& request, const std::shared_ptr<std::vector<Request*>>& finished);
    void finish(uint64_t id);
    int perform(const Flight& flight);
    void read(Request& request) const;

    sim::World& world_;
    const std::shared_ptr<SimContents> contents_;
    const SimDiskFaults& faults_;
    std::map<uint64_t, Flight> flights_;
    uint64_t next_flight_ = 0;
};

}  // namespace wss::io
