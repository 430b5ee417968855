// SPDX-License-Identifier: Apache-2.0
// The environment of scale_bench: the shipped storage engine (cache::Cache, its volumes and its reactor) on
// the simulated fabric. Real storage keeps no data, and cache engines acknowledge every operation without
// moving data, so lines use only the target's memory. The clock of the reactor's thread measures each turn.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/cache/engine/record_link.h"
#include "lib/fabric/sim/sim_fabric.h"
#include "target/cache/cache.h"
#include "target/volume/volume_set.h"

namespace wss::bench {

constexpr uint32_t kLineBytes = cache::kLineBytesMin;
constexpr uint32_t kCommandBytes = cache::kCommandBytesMax;
constexpr uint32_t kCommandLines = kCommandBytes / kLineBytes;
constexpr const char* kTarget = "target";

// Storage that keeps no data. While it `holds`, writes do not complete.
class EmptyBackend final : public io::Backend {
  public:
    EmptyBackend(uint64_t bytes, const bool& holds) : bytes_(bytes), holds_(holds) {}
    io::Limits limits() const noexcept override { return {.size = bytes_, .discard = true}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override;
    Status resize(uint64_t) override { return failure(Code::kUnsupported, "the size is fixed"); }
    std::string describe() const override { return "empty"; }

  private:
    const uint64_t bytes_;
    const bool& holds_;
};

// A cache engine that acknowledges operations without performing them. With `keeps` it stores the headers
// that recovery and salvage need.
class BareEngine final : public cache::RecordLinkOwner {
  public:
    BareEngine(sim::World& world, const fabric::SimNetwork& network, uint64_t identity, uint32_t slots,
               bool keeps);
    ~BareEngine();

    // `incarnation`: of the headers in the engine's memory. `storage`: the target of these headers.
    void join(uint64_t storage = 0, uint32_t incarnation = 0);
    void leave();
    void close() { link_->close(Status(Code::kClosed, "closed by the benchmark")); }
    bool is_over() const { return over_; }
    uint32_t incarnation() const { return welcome_.incarnation; }
    uint64_t identity() const { return identity_; }
    void set_header(uint32_t slot, const cache::LineHeader& header);

  private:
    using Header = std::array<std::byte, cache::kHeaderBytes>;
    bool link_up(cache::RecordLink&, std::span<const std::byte> data) noexcept override;
    bool record(cache::RecordLink&, const wire::Record& record) noexcept override;
    void operation_over(cache::RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(cache::RecordLink&, const Status&) noexcept override { over_ = true; }
    void put(size_t bytes) { link_->wrote(bytes); }

    sim::Node& node_;
    const uint64_t identity_;
    const uint32_t slots_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<cache::RecordLink> link_;
    wire::CacheWelcome welcome_;
    std::vector<Header> headers_;  // by arena slot; empty without `keeps`
    bool over_ = true;
};

class Target final : volume::Observer, cache::CommandOwner {
  public:
    Target(sim::World& world, const fabric::SimNetwork& network, uint64_t bytes, std::string membership,
           cache::Policy policy);
    ~Target() override;

    // Steps target and engines until `done`. Exits the process at a time limit.
    void until(const char* what, const std::function<bool()>& done);
    // Return the longest turn and the processor time of all turns since the last call, in ms.
    double take_longest() { return std::exchange(longest_, 0); }
    double take_total() { return std::exchange(total_, 0); }
    double worst() const { return longest_; }

    // Runs scattered commands of 1 MiB over [offset, offset + length) and returns when all have completed.
    void run(bool is_write, uint64_t offset, uint64_t length);
    void discard(uint64_t offset, uint64_t length);
    void scrape();
    void remove_volume();
    uint32_t live_engines();

    cache::Cache& cache() { return *cache_; }
    cache::CacheInfo info() { return cache_->info(); }
    uint64_t wwid() const { return wwid_; }
    bool holds_writes = false;  // of storage

  private:
    class Saved;
    void turn();
    void begin_more();
    void volume_changed(volume::Change change, volume::OpenVolume& volume) noexcept override;
    void need_buffer(cache::CacheCommand& command) noexcept override;
    void delegated(cache::CacheCommand&) noexcept override {}
    void answered(cache::CacheCommand& command) noexcept override { ended(command, {}); }
    void ended(cache::CacheCommand& command, const cache::CacheOutcome& outcome) noexcept override;

    sim::World& world_;
    sim::Node& node_;
    Random random_{1};
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<cache::Cache> cache_;
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::vector<std::byte> buffer_;
    std::unique_ptr<cache::BufferRegions> regions_;
    cache::CachedVolume* cached_ = nullptr;
    uint64_t wwid_ = 0;
    double longest_ = 0, total_ = 0;
    struct {
        bool is_write = false;
        uint64_t offset = 0, commands = 0, next = 0, under_way = 0, failed = 0;
    } load_;
};

// Returns the resident bytes of this process.
uint64_t resident_bytes();

}  // namespace wss::bench
