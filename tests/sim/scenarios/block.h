// SPDX-License-Identifier: Apache-2.0
// Scenario "block": a target with a faulty disk and several initiators, with faults in all parts.
//
// Product code: target/block, target/volume, lib/initiator, lib/reactor. Simulated: time, random numbers,
// network, disk. The first phase injects faults: late messages, broken connections, cut links, target
// crashes, disk errors. Then all faults are removed: requests in flight must end, and new ones must succeed.
// SectorModel checks every read.
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
    uint32_t depth = 8;  // requests of a client in flight
    uint64_t sectors = 2048;
    uint32_t operations = 600;  // operations of all clients together in the fault phase
    uint32_t cut_one_in = 0;    // per turn of the fault injector (at most 10 ms)
    uint32_t crash_one_in = 0;
    fabric::SimNetwork network;
    io::SimDiskFaults disk;

    static BlockOptions draw(uint64_t seed);
    std::string to_string() const;
};

struct BlockResult {
    std::string failure;  // empty: all checks held
    uint64_t trace = 0;
    uint64_t operations = 0, failed = 0, crashes = 0, cuts = 0, reconnects = 0;
    std::string to_string() const;
};

BlockResult run_block(const BlockOptions& options);

}  // namespace wss::sim
