// SPDX-License-Identifier: Apache-2.0
// Scenario "storage": the real storage of a target is an image, as in Ceph, that several storage processes
// (RS) take from one another.
//
// Product code: as in the scenario "cluster" (cluster.h). Simulated: time, random numbers, network, image.
// The first phase injects faults:
//
//   storage processes   start, and take the image from its holder; are killed, even while they take the
//                       image; are stopped cleanly, and perhaps restarted at once; are cut off from the
//                       image, the target or an engine, or from all of them, as if they were paused; start
//                       read-only by mistake
//   image               does not answer any process
//   target              is killed, is stopped cleanly, is started again later
//   another owner       writes the image while no process has it, or takes it from a process; perhaps while
//                       engines hold dirty lines. It is a program without a mark, or a storage process with
//                       another name (--join), which continues the chain of holders
//
// Then the faults end: requests in flight must end, a process must serve the volume without trouble, new
// commands must succeed, every sector is read back, every dirty line is destaged, and the image must hold
// contents that the model allows. In half of the runs the processes that lost the image remain cut off from
// it.
//
// Permitted losses: no write is lost unless the volume is lost. The volume may be lost in two cases. One is
// that the chain of holders has ended (a start died after it broke the lock, or another owner had the image)
// and the target does not use the next holder yet. The other is that the holder has not reached the target
// for almost RemoteQueue::kTakenMax. Such a run ends at the loss and is counted. The injector lets the holder
// reach the target before that time.
//
// After another owner took the image while engines held dirty lines, the volume must be lost or refuse all
// requests, and nothing may replace what that owner wrote. Such a run ends there.
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
    uint32_t reactors = 1;  // reactors of the target
    uint32_t depth = 8;
    uint64_t sectors = 4096;
    uint32_t line_bytes = 65536;
    uint32_t turns = 2000;  // turns of the injector (20 ms each)
    uint32_t load = 2;      // most operations that a client begins per turn; 0: at most one, and rarely
    cache::Policy policy = cache::Policy::kBack;
    bool formers_stay_cut = false;  // the links of former holders stay cut at the end
    // Per turn of the injector.
    uint32_t take_one_in = 0;
    uint32_t kill_one_in = 0;
    uint32_t stop_one_in = 0;
    uint32_t death_one_in = 0;      // a start that dies while it takes the image
    uint32_t image_cut_one_in = 0;  // a process is cut off from the image
    uint32_t link_cut_one_in = 0;   // the link between the target and a process is cut
    uint32_t reach_cut_one_in = 0;  // the link between an engine and a process is cut
    uint32_t pause_one_in = 0;      // a process is cut off from everything
    uint32_t silence_one_in = 0;    // the image does not answer
    uint32_t read_only_one_in = 0;  // per start of a process: it is read-only
    uint32_t target_crash_one_in = 0;
    uint32_t target_stop_one_in = 0;
    uint32_t program_one_in = 0;  // another owner takes the image, if the model can follow
    uint32_t theft_one_in = 0;    // another owner takes it while engines hold dirty lines
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
    uint64_t takings = 0, kills = 0, deaths = 0, stops = 0, restarts = 0;  // events of storage processes
    uint64_t image_cuts = 0, link_cuts = 0, pauses = 0, silences = 0, read_only = 0;
    uint64_t target_crashes = 0, target_stops = 0;
    uint64_t programs = 0;  // writes by another owner
    uint64_t thefts = 0;    // writes while engines held dirty lines: 0 or 1
    uint64_t used = 0;      // holders that the target used
    uint64_t chains = 0;    // chains of holders that ended, by a death or by another owner
    uint64_t losses = 0;    // permitted: 0 or 1
    uint64_t destaged = 0;  // lines that the last target destaged
    std::string to_string() const;
};

StorageResult run_storage(const StorageOptions& options);

}  // namespace wss::sim
