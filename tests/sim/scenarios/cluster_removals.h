// SPDX-License-Identifier: Apache-2.0
// ClusterRemovals creates and removes volumes in addition to the main volume of the scenario "cluster", each
// with a client of its own. A volume is removed while commands, freezes, flushes and destages are in flight.
// The next volume may get the removed volume's number in the target.
//
// Every command and every removal must end in time, and a volume must return only data that was written to
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {

struct RemovalOptions {
    uint64_t seed = 1;
    uint32_t one_in = 0;  // turns of the injector; 0: no such volume
    uint32_t depth = 4;
    bool back = false;      // under write-back
    bool absences = false;  // it may be missing for a while after a crash of the target
    fabric::SimNetwork network;
    io::SimDiskFaults disk;
};

class ClusterRemovals {
  public:
    ClusterRemovals(World& world, Node& target, const RemovalOptions& options, BlockShared& whole);
    ~ClusterRemovals();

    // One turn of the injector. `target` is nullptr while it is down.
    void inject(ClusterTarget* target);
    // The target has crashed. A restarted target does not have the volume until it is created again.
    void target_crashed();
    // Creates no more volumes. Returns true when the last volume and its client are gone.
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
        bool missing = false;  // absent after a crash, until missing_until and until its client is closed
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
    // The world may still have events for their disks from before a crash.
    std::vector<std::unique_ptr<One>> gone_;
    uint64_t made_ = 0, removals_ = 0;
    bool finishing_ = false;
};

}  // namespace wss::sim
