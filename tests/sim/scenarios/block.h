// SPDX-License-Identifier: Apache-2.0
// Scenario "block": a target on a treacherous disk, several initiators, and everything between them failing.
//
// Product code: target/block, target/volume, lib/initiator, lib/reactor. Simulated: time, chance, network,
// disk. First the faults (messages late, connections broken, links cut, the target crashing, the disk
// failing), then everything is healed and all must make progress. SectorModel watches every sector.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/fabric/sim/sim_fabric.h"
#include "lib/io/sim/sim_disk.h"

namespace wss::sim {

// Drawn from the seed, printed before the run.
struct BlockOptions {
    uint64_t seed = 1;
    uint32_t clients = 2;
    uint32_t depth = 8;  // requests of a client under way
    uint64_t sectors = 2048;
    uint32_t operations = 600;  // of all clients together, in the phase of faults
    uint32_t cut_one_in = 0;    // per turn of the fault injector (10 ms)
    uint32_t crash_one_in = 0;
    fabric::SimNetwork network;
    io::SimDiskFaults disk;

    static BlockOptions draw(uint64_t seed);
    std::string to_string() const;
};

struct BlockResult {
    std::string failure;  // empty: everything held
    uint64_t trace = 0;
    uint64_t operations = 0, failed = 0, crashes = 0, cuts = 0, reconnects = 0;
    std::string to_string() const;
};

BlockResult run_block(const BlockOptions& options);

}  // namespace wss::sim
