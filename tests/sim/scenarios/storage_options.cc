// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "tests/sim/scenarios/storage.h"

namespace wss::sim {

using cache::Policy;

StorageOptions StorageOptions::draw(uint64_t seed) {
    Random random(seed ^ 0x5706a6e);
    const auto between = [&](uint32_t least, uint32_t most) {
        return least + static_cast<uint32_t>(random.below(most - least + 1));
    };
    StorageOptions options;
    options.seed = seed;
    options.clients = between(1, 2);
    options.engines = between(2, 3);
    options.processes = between(2, 4);
    options.depth = between(1, 8);
    options.sectors = 1024 << random.below(3);
    options.line_bytes = std::array<uint32_t, 3>{4096, 16384, 65536}[random.below(3)];
    options.turns = between(1000, 3000);
    options.load = random.chance(3) ? 0 : between(1, 5);
    options.policy = std::array<Policy, 5>{Policy::kBack, Policy::kBack, Policy::kBack, Policy::kThrough,
                                           Policy::kAround}[random.below(5)];
    options.formers_stay_cut = random.chance(2);
    options.take_one_in = between(50, 300);
    options.kill_one_in = random.chance(3) ? 0 : between(100, 1000);
    options.stop_one_in = random.chance(3) ? 0 : between(50, 500);
    options.death_one_in = random.chance(4) ? between(500, 4000) : 0;
    options.image_cut_one_in = between(25, 250);
    options.link_cut_one_in = between(25, 250);
    options.reach_cut_one_in = random.chance(2) ? between(100, 600) : 0;
    options.target_crash_one_in = random.chance(2) ? between(200, 1500) : 0;
    options.target_stop_one_in = random.chance(3) ? between(300, 1500) : 0;
    options.program_one_in = random.chance(2) ? between(2, 50) : 0;
    options.opening_max = random.chance(3) ? from_s(15) : from_s(2);
    options.network.slow_one_in = 500;
    options.network.break_one_in = 300;
    options.network.refuse_one_in = 3;
    if (random.chance(3)) {
        options.image.latency_min = from_ms(1);
        options.image.latency_max = from_ms(300);
    }
    options.theft_one_in = random.chance(5) ? between(5, 50) : 0;
    options.pause_one_in = random.chance(3) ? between(200, 1000) : 0;
    options.silence_one_in = random.chance(4) ? between(300, 1500) : 0;
    options.read_only_one_in = random.chance(4) ? between(4, 20) : 0;
    // A separate generator, so that older options keep their values for each seed.
    Random threads(seed ^ 0x74ead);
    options.reactors = 1 + static_cast<uint32_t>(threads.below(2));
    return options;
}

std::string StorageOptions::to_string() const {
    return fmt::format(
        "seed {}: {} clients, {} engines, {} storage processes, {} reactors, depth {}, {} sectors, lines of "
        "{}, {}, {} "
        "turns with up to {} operations; take 1/{}, kill 1/{}, stop 1/{}, death 1/{}, image cut 1/{}, link "
        "cut 1/{}, reach cut 1/{}, pause 1/{}, silence 1/{}, read-only 1/{}, target crash 1/{}, target stop "
        "1/{}, another owner 1/{}, theft 1/{}, opening up to {} s, image up to {} ms{}",
        seed, clients, engines, processes, reactors, depth, sectors, line_bytes, cache::to_string(policy),
        turns, load, take_one_in, kill_one_in, stop_one_in, death_one_in, image_cut_one_in, link_cut_one_in,
        reach_cut_one_in, pause_one_in, silence_one_in, read_only_one_in, target_crash_one_in,
        target_stop_one_in, program_one_in, theft_one_in, opening_max.count / 1'000'000'000,
        image.latency_max.count / 1'000'000, formers_stay_cut ? ", formers stay cut off" : "");
}

std::string StorageResult::to_string() const {
    return fmt::format(
        "{}: {} operations ({} failed), {} reconnects; image taken {} times, {} holders used, {} chains "
        "ended; storage processes: {} kills, {} deaths, {} stops, {} restarts, {} started read-only; {} cuts "
        "from the image, {} link cuts, {} pauses, {} silences; {} target crashes, {} target stops; {} writes "
        "and {} thefts by another owner; {} lost as permitted; {} lines destaged at the last target; trace "
        "{:016x}",
        failure.empty() ? "held" : "FAILED: " + failure, operations, failed, reconnects, takings, used,
        chains, kills, deaths, stops, restarts, read_only, image_cuts, link_cuts, pauses, silences,
        target_crashes, target_stops, programs, thefts, losses, destaged, trace);
}

}  // namespace wss::sim
