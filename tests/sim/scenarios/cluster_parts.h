// SPDX-License-Identifier: Apache-2.0
// The processes of a simulated cache cluster: a target with a cache (SE and RS) and cache engines (CE),
// assembled as in their daemons, on simulated parts; and the stable file of the cache's membership.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/cache/engine/engine.h"
#include "lib/fabric/sim/sim_fabric.h"
#include "lib/io/sim/sim_disk.h"
#include "target/block/service.h"
#include "target/cache/cache.h"
#include "target/volume/volume_set.h"

namespace wss::sim {

constexpr uint16_t kTargetPort = 1;   // port for initiators
constexpr uint16_t kStoragePort = 2;  // port for cache engines

// The file of the membership: it keeps completed saves after a crash, and perhaps an incomplete one.
struct StableText {
    std::string text;
    uint64_t saves = 0;
    bool stuck = false;  // later saves neither take effect nor complete
    bool full = false;   // later saves fail with ENOSPC
};

// Processes of crashed nodes. They must not be stepped or destroyed: their destructors would wait for
// completions that never arrive. They stay reachable, so that leak checkers do not report them.
template <typename Process>
void retire(std::unique_ptr<Process> process) {
    static auto* retired = new std::vector<std::unique_ptr<Process>>;
    if (process != nullptr) retired->push_back(std::move(process));
}

class ClusterTarget {
  public:
    // `engines` is the network between target and engines, which may have fewer faults than the clients'
    // `network`. `remote` is the size in bytes of a disk that another node has, or 0 if the disk is local.
    ClusterTarget(Node& node, const fabric::SimNetwork& network, const fabric::SimNetwork& engines,
                  io::SimDevice& disk, StableText& membership, const cache::CacheOptions& options,
                  uint64_t remote = 0);
    ~ClusterTarget();

    // Delays the end of the start, as if the volumes took this long to open.
    void open_slowly(Nanoseconds how_long) { opening_ = how_long; }
    // start() and stop() only begin; the world must be stepped until they end. The cache stops when no
    // command is unanswered, or after `drain_max`.
    void start();
    void stop(Nanoseconds home_max = from_s(60), Nanoseconds drain_max = kNever);
    // Creates a volume in addition to "disk", on a disk of its own; the target must have started. `backend`
    // is the backend's name, for one storage under two volume names; if it is empty, `name` is used.
    void create_volume(const std::string& name, io::SimDisk& disk, std::function<void(Status)> done,
                       uint64_t bytes = 0, const std::string& backend = "");
    void resize_volume(const std::string& name, uint64_t bytes, std::function<void(Status)> done);
    void remove_volume(const std::string& name, std::function<void(Status)> done);
    // Drops the cached contents, as reopening a volume does when other owners may have written its storage.
    void drop_contents(const std::string& name, bool give_up_dirty, std::function<void(Status)> done,
                       bool look_only = false);
    bool started() const { return started_; }
    bool stopped() const { return stopped_; }
    const Status& status() const { return status_; }
    const Status& cache_stopped() const { return cache_stopped_; }
    // Valid once started.
    cache::Cache& cache() { return *cache_; }
    volume::VolumeSet& volumes() { return *volumes_; }
    std::function<void()> before_close = [] {};  // called by stop() between the cache's end and the volumes'

  private:
    Status create();
    void volume_created(const Status& status);
    void listen();
    void stop_cache(Nanoseconds home_max);

    Node& node_;
    io::SimDevice& disk_;
    std::map<std::string, io::SimDisk*> disks_;  // disks of other volumes, by name
    StableText& membership_;
    const cache::CacheOptions options_;
    const uint64_t remote_;
    Random random_;
    reactor::Reactor reactor_;  // the first reactor, which has the cache
    std::vector<std::unique_ptr<reactor::Reactor>> others_;
    std::vector<reactor::Reactor*> reactors_;
    std::unique_ptr<fabric::Fabric> fabric_, cache_fabric_;
    std::unique_ptr<fabric::Poller> cache_poller_;
    std::unique_ptr<cache::Cache> cache_;
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::unique_ptr<block::Service> service_;
    Nanoseconds opening_{};
    bool started_ = false, stopping_cache_ = false, stopped_ = false;
    Status status_, cache_stopped_;
};

class ClusterEngine {
  public:
    // With a disk the process is the target's real storage. It connects to engines by `reach`.
    ClusterEngine(Node& node, const fabric::SimNetwork& network, uint64_t memory, const std::string& target,
                  io::SimDevice* disk = nullptr, const fabric::SimNetwork* reach = nullptr,
                  bool read_only = false);
    ~ClusterEngine();

    Status start();
    // Leaves the cluster in an orderly way and stops; gone() is true after that.
    void leave();
    void stop();
    bool gone() const { return gone_; }
    bool leaving() const { return leaving_; }
    cache::Engine& engine() { return *engine_; }

  private:
    Node& node_;
    const uint64_t memory_;
    const std::string target_;
    io::SimDevice* const disk_;
    const bool read_only_;
    Random random_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_, reach_fabric_;
    std::unique_ptr<fabric::Poller> poller_, reach_poller_;
    std::unique_ptr<io::Backend> backend_;
    std::unique_ptr<cache::Engine> engine_;
    bool leaving_ = false, gone_ = false;
};

}  // namespace wss::sim
