// SPDX-License-Identifier: Apache-2.0
// Scenario "storage": the real storage of a target is an image (as of Ceph) that several storage processes
// (RS) take from one another.
//
// Product code: as in the scenario "cluster" (cluster.h). Simulated: time, random numbers, network, image.
// The first phase injects faults:
//
//   storage processes   start and take the image from the one that has it; are killed, also while they take
//                       the image; are stopped in order, and perhaps started again at once; are cut off from
//                       the image, the target or an engine
//   target              is killed, is stopped in order, is started again later
//   another program     writes the image while no process has it, or takes it from a process that is cut off
//
// Then the faults end: requests in flight must end, a process serves the volume and nothing is wrong, new
// commands succeed, every sector is read back, every dirty line is destaged, and the image holds what the
// model allows. In half of the runs the processes that lost the image remain cut off from it.
//
// Permitted losses. No write is lost as long as the volume is not lost. The volume may be lost only if the
// chain of holders ended (a start died after it broke the lock, or another program took the image), until the
// target uses the next holder; and if the holder did not reach the target for almost RemoteQueue::kTakenMax.
// Such a run ends there, and counts. The injector lets the holder reach the target before that. A stop in
// order begins a new chain too, but loses nothing, because the target has used the process that stopped.
//
// Cache engines are not lost here, since the scenario "cluster" covers that.
#pragma once

#include <cstdint>
#include <string>

#include "lib/cache/policy.h"
#include "lib/fabric/sim/sim_fabric.h"
#include "lib/io/sim/sim_device.h"

namespace wss::sim {

// Drawn from the seed, printed before the run.
struct StorageOptions {
    uint64_t seed = 1;
    uint32_t clients = 2;
    uint32_t engines = 2;
    uint32_t processes = 3;
    uint32_t depth = 8;
    uint64_t sectors = 4096;
    uint32_t line_bytes = 65536;
    uint32_t turns = 2000;  // of the injector (20 ms)
    uint32_t load = 2;      // most operations that a client begins in a turn
    cache::Policy policy = cache::Policy::kBack;
    bool formers_stay_cut = false;  // at the end
    // Per turn of the injector.
    uint32_t take_one_in = 0;
    uint32_t kill_one_in = 0;
    uint32_t stop_one_in = 0;
    uint32_t death_one_in = 0;      // a start that dies while it takes the image
    uint32_t image_cut_one_in = 0;  // a process is cut off from the image
    uint32_t link_cut_one_in = 0;   // between the target and a process
    uint32_t reach_cut_one_in = 0;  // between an engine and a process
    uint32_t target_crash_one_in = 0;
    uint32_t target_stop_one_in = 0;
    uint32_t program_one_in = 0;  // another program takes the image, if the model can follow
    Nanoseconds opening_max{};    // time between taking the image and joining
    fabric::SimNetwork network;
    io::SimDiskFaults image;

    static StorageOptions draw(uint64_t seed);
    std::string to_string() const;
};

struct StorageResult {
    std::string failure;  // empty: all checks held
    uint64_t trace = 0;
    uint64_t operations = 0, failed = 0, reconnects = 0;
    uint64_t takings = 0, kills = 0, deaths = 0, stops = 0, restarts = 0;  // of storage processes
    uint64_t image_cuts = 0, link_cuts = 0;
    uint64_t target_crashes = 0, target_stops = 0;
    uint64_t programs = 0;  // writes by another program
    uint64_t used = 0;      // holders that the target used
    uint64_t chains = 0;    // that ended without a stop
    uint64_t losses = 0;    // permitted: 0 or 1
    uint64_t destaged = 0;  // of the last target
    std::string to_string() const;
};

StorageResult run_storage(const StorageOptions& options);

}  // namespace wss::sim
