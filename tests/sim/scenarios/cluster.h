// SPDX-License-Identifier: Apache-2.0
// Scenario "cluster": the distributed cache. A target (SE and RS) with a faulty disk, two to five cache
// engines (CE), initiators that read and write through them, and faults in all parts.
//
// Product code: lib/cache, lib/cache/engine, target/cache, target/block, lib/initiator. Simulated: time,
// random numbers, network, disk. The first phase injects faults: late messages, broken connections, cut
// links, crashes of target and engines, engines that leave and join, policy changes, a slow and failing disk.
// Then all faults are removed: requests in flight must end, new commands must succeed, every sector is read
// back, every dirty line is destaged, and all lines and operations are released.
//
// Permitted losses: a crash of the target may undo unflushed writes, which SectorModel tracks. A crash or
// loss of an engine may undo nothing. Under write-back that holds for one engine at a time. In runs that use
// write-back, the injector therefore takes down the next engine only after the target has all engines again
// and has destaged every line that had only one copy (exposed_). It may cut the target off from all engines
// at any time (isolation): their contents cannot be read then, but return with them.
//
// In a quarter of the runs real storage is on a separate node. That node crashes too, and is cut off from
// the target, clients and engines. The disk loses unflushed writes when that node crashes, and only then.
//
// In a third of the other runs further volumes are created and deleted meanwhile (cluster_removals.h). In
// half of these runs such a volume is missing for a while after a crash of the target.
//
// In a third of the runs that use write-back, write-back is also the default policy.
#pragma once

#include <cstdint>
#include <string>

#include "lib/cache/policy.h"
#include "lib/fabric/sim/sim_fabric.h"
#include "lib/io/sim/sim_disk.h"

namespace wss::sim {

// Drawn from the seed, printed before the run.
struct ClusterOptions {
    uint64_t seed = 1;
    uint32_t clients = 2;
    uint32_t engines = 2;
    uint32_t reactors = 1;  // reactors of the target
    uint32_t depth = 8;
    uint64_t sectors = 8192;
    uint32_t line_bytes = 65536;
    uint32_t operations = 500;
    bool aligned = false;  // half of the operations cover whole sub-blocks: others are not written back
    cache::Policy policy = cache::Policy::kThrough;
    bool policy_changes = false;
    bool remote = false;  // real storage is on a separate node
    // Per turn of the fault injector (at most 10 ms).
    uint32_t cut_one_in = 0;
    uint32_t target_crash_one_in = 0;
    uint32_t engine_crash_one_in = 0;
    uint32_t engine_leave_one_in = 0;
    uint32_t isolation_one_in = 0;
    uint32_t storage_crash_one_in = 0;  // crash of the storage's node
    uint32_t outage_one_in = 0;         // outage of real storage: it hangs or refuses for a few seconds
    uint32_t removal_one_in = 0;        // removal of a volume of cluster_removals.h
    bool default_back = false;          // write-back is the default policy
    bool absences = false;              // such a volume may be missing after a crash of the target
    fabric::SimNetwork network;
    Nanoseconds grace{};         // how long commands wait for engines that are away
    Nanoseconds engine_delay{};  // least delay between target and engines
    io::SimDiskFaults disk;

    static ClusterOptions draw(uint64_t seed);
    std::string to_string() const;
    bool uses_back() const { return policy == cache::Policy::kBack || policy_changes; }
};

struct ClusterResult {
    std::string failure;  // empty: all checks held
    uint64_t trace = 0;
    uint64_t operations = 0, failed = 0, reconnects = 0;
    uint64_t target_crashes = 0, engine_crashes = 0, leaves = 0, cuts = 0, policy_changes = 0;
    uint64_t removals = 0, outages = 0;
    uint64_t isolations = 0, salvaged = 0;  // salvaged: of the last target
    uint64_t storage_crashes = 0, direct_reads = 0, direct_writes = 0;
    uint64_t upkeep_direct = 0, upkeep = 0;  // bytes of fills and destaging: past the target, in total
    uint64_t refused_clients = 0;            // number that engines refused
    uint64_t out_of_band_reads = 0, evictions = 0, destaged = 0;  // sums over the targets that were stopped
    // Sums over all targets: reads that took the fast path (target/cache/hit.cc), and commands that failed
    // because their data was lost.
    uint64_t fast_path_hits = 0, lost_refusals = 0;
    std::string to_string() const;
};

ClusterResult run_cluster(const ClusterOptions& options);

}  // namespace wss::sim
