// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "tests/sim/scenarios/cluster.h"

namespace wss::sim {

using cache::Policy;

ClusterOptions ClusterOptions::draw(uint64_t seed) {
    Random random(seed ^ 0xcace);
    ClusterOptions options;
    options.seed = seed;
    options.clients = 1 + static_cast<uint32_t>(random.below(3));
    options.engines = 2 + static_cast<uint32_t>(random.below(4));
    options.depth = 1 + static_cast<uint32_t>(random.below(12));
    options.line_bytes = std::array<uint32_t, 4>{4096, 16384, 65536, 65536}[random.below(4)];
    options.sectors = 512 << random.below(6);
    options.policy = std::array<Policy, 5>{Policy::kBack, Policy::kBack, Policy::kThrough, Policy::kThrough,
                                           Policy::kAround}[random.below(5)];
    options.policy_changes = random.chance(4);
    options.cut_one_in = random.chance(2) ? 50 + static_cast<uint32_t>(random.below(300)) : 0;
    options.target_crash_one_in = random.chance(2) ? 100 + static_cast<uint32_t>(random.below(600)) : 0;
    options.engine_crash_one_in = random.chance(2) ? 50 + static_cast<uint32_t>(random.below(300)) : 0;
    options.engine_leave_one_in = random.chance(3) ? 100 + static_cast<uint32_t>(random.below(300)) : 0;
    options.network.slow_one_in = 500;
    options.network.break_one_in = 300;
    options.network.refuse_one_in = 3;
    options.network.register_one_in = 4;
    options.disk.slow_one_in = 50;
    options.disk.slow = random.chance(4) ? from_s(6) : from_ms(200);
    options.disk.error_one_in = 40;
    // A separate generator, so that older options keep their values for each seed.
    Random more(seed ^ 0x15014);
    if (options.uses_back() && more.chance(2)) {
        options.isolation_one_in = 20 + static_cast<uint32_t>(more.below(100));
        options.operations = 1500;
    }
    options.aligned = options.isolation_one_in > 0 || more.chance(2);
    Random elsewhere(seed ^ 0x25);
    options.remote = elsewhere.chance(4);
    if (options.remote && elsewhere.chance(2))
        options.storage_crash_one_in = 50 + static_cast<uint32_t>(elsewhere.below(300));
    Random removals(seed ^ 0x6a7e);
    if (!options.remote && removals.chance(3))
        options.removal_one_in = 5 + static_cast<uint32_t>(removals.below(60));
    Random words(seed ^ 0x09e7);
    options.default_back = options.uses_back() && words.chance(3);
    options.absences = words.chance(2);
    Random grace(seed ^ 0x94ace);
    options.grace = grace.chance(2) ? from_s(15) : Nanoseconds{};
    Random threads(seed ^ 0x74ead);
    options.reactors = 1 + static_cast<uint32_t>(threads.below(3));
    Random outages(seed ^ 0x007a9e);
    if (options.uses_back() && outages.chance(3)) {
        options.outage_one_in = 20 + static_cast<uint32_t>(outages.below(100));
        if (options.engine_crash_one_in == 0)
            options.engine_crash_one_in = 50 + static_cast<uint32_t>(outages.below(150));
    }
    return options;
}

std::string ClusterOptions::to_string() const {
    return fmt::format(
        "seed {}: {} clients, {} engines, {} reactors, depth {}, {} sectors, lines of {}, {}{}, {} "
        "{}operations; cut "
        "1/{}, "
        "target crash "
        "1/{}, engine crash 1/{}, leave 1/{}, isolation 1/{}, removal 1/{}, outage 1/{}, {}{}{}disk slow {} "
        "ms{}",
        seed, clients, engines, reactors, depth, sectors, line_bytes, cache::to_string(policy),
        policy_changes ? " and other policies" : "", operations, aligned ? "aligned " : "", cut_one_in,
        target_crash_one_in, engine_crash_one_in, engine_leave_one_in, isolation_one_in, removal_one_in,
        outage_one_in, default_back ? "write-back by default, " : "", absences ? "absences, " : "",
        grace.count > 0 ? "grace, " : "", disk.slow.count / 1'000'000,
        remote ? fmt::format(", storage elsewhere crash 1/{}", storage_crash_one_in) : "");
}

std::string ClusterResult::to_string() const {
    return fmt::format(
        "{}: {} operations ({} failed), {} reconnects, {} target and {} engine crashes, {} leaves, {} cuts, "
        "{} isolations, {} outages, {} policy changes, {} volumes removed; at the last target {} reads out "
        "of band, {} "
        "evictions, {} lines "
        "destaged, {} salvaged, {} storage crashes, {} direct reads, {} direct writes, {} of {} KiB between "
        "engines and storage past it; at all {} hits on the fast path, {} refused as lost; trace {:016x}",
        failure.empty() ? "held" : "FAILED: " + failure, operations, failed, reconnects, target_crashes,
        engine_crashes, leaves, cuts, isolations, outages, policy_changes, removals, out_of_band_reads,
        evictions, destaged, salvaged, storage_crashes, direct_reads, direct_writes, upkeep_direct >> 10,
        upkeep >> 10, fast_path_hits, lost_refusals, trace);
}

}  // namespace wss::sim
