// SPDX-License-Identifier: Apache-2.0
// Runs simulations from the command line: `make sim SEED=…` for one, `make sim-soak SEEDS=…` for many.
//
// A first argument of "cache", "kv" or "storage" runs the scenario of that name instead of "block".
//
//   wss-sim SEED          runs SEED twice: prints the options drawn from it and the result of the first run;
//                         both traces must be equal
//   wss-sim [--jobs N] [--limit SECONDS] FIRST COUNT
//                         COUNT seeds, N at a time (default: the number of CPUs), each for SECONDS at most;
//                         prints the progress, a summary and all failures, each failed check with the command
//                         that repeats it
//
// Exit status: 0 if all checks held, 1 if not, 2 for wrong usage.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block.h"
#include "tests/sim/scenarios/cluster.h"
#include "tests/sim/scenarios/kv.h"
#include "tests/sim/scenarios/storage.h"
#include "tests/sim/soak.h"

namespace {

// The result of a scenario's run.
struct Outcome {
    std::string text, failure;
    uint64_t trace = 0;
};
struct Scenario {
    const char* name;
    std::string (*describe)(uint64_t seed);
    Outcome (*run)(uint64_t seed);
};

const Scenario kScenarios[] = {
    {"block", [](uint64_t seed) { return wss::sim::BlockOptions::draw(seed).to_string(); },
     [](uint64_t seed) {
         auto result = wss::sim::run_block(wss::sim::BlockOptions::draw(seed));
         return Outcome{result.to_string(), result.failure, result.trace};
     }},
    {"cache", [](uint64_t seed) { return wss::sim::ClusterOptions::draw(seed).to_string(); },
     [](uint64_t seed) {
         auto result = wss::sim::run_cluster(wss::sim::ClusterOptions::draw(seed));
         return Outcome{result.to_string(), result.failure, result.trace};
     }},
    {"kv", [](uint64_t seed) { return wss::sim::KvOptions::draw(seed).to_string(); },
     [](uint64_t seed) {
         auto result = wss::sim::run_kv(wss::sim::KvOptions::draw(seed));
         return Outcome{result.to_string(), result.failure, result.trace};
     }},
    {"storage", [](uint64_t seed) { return wss::sim::StorageOptions::draw(seed).to_string(); },
     [](uint64_t seed) {
         auto result = wss::sim::run_storage(wss::sim::StorageOptions::draw(seed));
         return Outcome{result.to_string(), result.failure, result.trace};
     }},
};
const Scenario* scenario = &kScenarios[0];

bool parse(const char* text, uint64_t& value) {
    auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    return error == std::errc() && *end == '\0';
}

int run_one(uint64_t seed) {
    fmt::print("{}\n", scenario->describe(seed));
    std::fflush(stdout);
    Outcome first = scenario->run(seed);
    fmt::print("{}\n", first.text);
    Outcome second = scenario->run(seed);
    if (first.trace != second.trace) {
        fmt::print("FAILED: the same seed gave a different run: trace {:016x}\n", second.trace);
        return 1;
    }
    return first.failure.empty() ? 0 : 1;
}

bool held(uint64_t seed) {
    Outcome result = scenario->run(seed);
    if (result.failure.empty()) return true;
    fmt::print("seed {}: {}\n    to repeat: make sim SCENARIO={} SEED={}\n", seed, result.text,
               scenario->name, seed);
    return false;
}

int run_many(const wss::sim::SoakOptions& options) {
    auto begin = std::chrono::steady_clock::now();
    const uint64_t failed = wss::sim::soak(options, held);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{} seeds from {}: {}; {:.0f} s, {:.1f} seeds a second\n", options.count, options.first,
               failed == 0 ? "all passed" : fmt::format("{} FAILED", failed), seconds,
               static_cast<double>(options.count) / seconds);
    return failed == 0 ? 0 : 1;
}

// Removes "--jobs N" and "--limit N" from the arguments. Returns false for invalid values.
bool take_options(int& argc, char** argv, wss::sim::SoakOptions& options) {
    int kept = 1;
    for (int i = 1; i < argc; ++i) {
        const bool jobs = std::strcmp(argv[i], "--jobs") == 0, limit = std::strcmp(argv[i], "--limit") == 0;
        if (!jobs && !limit) {
            argv[kept++] = argv[i];
            continue;
        }
        uint64_t value = 0;
        if (++i >= argc || !parse(argv[i], value) || value == 0 || value > 100'000) return false;
        (jobs ? options.jobs : options.limit_seconds) = static_cast<uint32_t>(value);
    }
    argc = kept;
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    wss::sim::SoakOptions soak;
    soak.jobs = std::max(1u, std::thread::hardware_concurrency());
    bool ok = take_options(argc, argv, soak);
    for (const Scenario& one : kScenarios) {
        if (argc < 2 || std::strcmp(argv[1], one.name) != 0) continue;
        scenario = &one;
        ++argv;
        --argc;
        break;
    }
    ok = ok && (argc == 2 || argc == 3) && parse(argv[1], soak.first) &&
         (argc == 2 || parse(argv[2], soak.count));
    if (!ok) {
        fmt::print(stderr,
                   "usage: wss-sim [block|cache|kv|storage] SEED\n"
                   "       wss-sim [--jobs N] [--limit SECONDS] [block|cache|kv|storage] FIRST COUNT\n");
        return 2;
    }
    // Crashed processes keep their descriptors, as they keep their memory.
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    // A target logs each lost client; in thousands of runs these lines would hide everything else.
    const char* level = argc == 2 && getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off";
    if (!wss::log::set_level(level)) return 2;
    return argc == 2 ? run_one(soak.first) : run_many(soak);
}
