// SPDX-License-Identifier: Apache-2.0
// A volume that comes and goes beside the one that the scenario "cluster" is about. It is created, has a
// client of its own at work, and is removed in the middle of that: with commands, freezes, flushes and
// destages in flight. Then the next one is created, which may get the number of the former one in the target.
//
// Every command must end in its time, every removal too, and what a volume shows must be what was written to
// this volume.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {

struct RemovalOptions {
    uint64_t seed = 1;
    uint32_t one_in = 0;  // turns of the injector; 0: there is no such volume
    uint32_t depth = 4;
    bool back = false;      // under write-back
    bool absences = false;  // after a crash of the target it may be missing for a while
    fabric::SimNetwork network;
    io::SimDiskFaults disk;
};

class ClusterRemovals {
  public:
    ClusterRemovals(World& world, Node& target, const RemovalOptions& options, BlockShared& whole);
    ~ClusterRemovals();

    // A turn of the injector; `target`: nullptr while it is down.
    void inject(ClusterTarget* target);
    // The target has crashed: it knows of the volume when it is created anew.
    void target_crashed();
    // No more of them. True: the last one is gone, and its client.
    bool finish(ClusterTarget* target);
    // The run has failed.
    void abandon();
    uint64_t removals() const { return removals_; }

  private:
    static constexpr uint64_t kSectors = 1024;
    static constexpr Nanoseconds kRemovalMax = from_s(60);

    // One volume, from its creation until its client has closed.
    struct One {
        One(World& world, const RemovalOptions& options, std::string its_name)
            : name(std::move(its_name)),
              disk(world, kSectors * io::SimDisk::kSector, options.disk),
              shared(kSectors) {}
        enum class State : uint8_t { kAbsent, kCreating, kLive, kRemoving, kRemoved };
        const std::string name;
        io::SimDisk disk;
        BlockShared shared;
        std::unique_ptr<BlockClient> client;
        State state = State::kAbsent;
        bool going = false;
        bool missing = false;  // after a crash; until then, and until its client is closed, which saw it go
        Nanoseconds missing_until{};
        Nanoseconds since{};
    };
    void create(ClusterTarget& target);
    void remove(ClusterTarget& target);
    void care_for(ClusterTarget* target);
    void close_client();

    World& world_;
    Node& target_node_;
    const RemovalOptions options_;
    BlockShared& whole_;
    Random random_, absences_;
    Node* client_node_ = nullptr;
    std::unique_ptr<One> one_;
    // The world may still have events of their disks, from before a crash.
    std::vector<std::unique_ptr<One>> gone_;
    uint64_t made_ = 0, removals_ = 0;
    bool finishing_ = false;
};

}  // namespace wss::sim
