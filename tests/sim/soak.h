// SPDX-License-Identifier: Apache-2.0
// Soak: runs many seeds of a scenario, several at a time, each with a limit in real time.
//
// Seeds run in child processes: the leftovers of a failed run end with its child, a crash costs one seed, and
// a seed that does not end is killed and counts as failed. A soak therefore always ends, and reports the
// failed seeds.
#pragma once

#include <cstdint>
#include <functional>

namespace wss::sim {

struct SoakOptions {
    uint64_t first = 1;
    uint64_t count = 1;
    uint32_t jobs = 1;             // processes at a time
    uint32_t limit_seconds = 300;  // real time for one seed
};

// `run` returns whether the seed held, and prints the reason if not. Returns the number of failed seeds.
uint64_t soak(const SoakOptions& options, const std::function<bool(uint64_t seed)>& run);

}  // namespace wss::sim
