// SPDX-License-Identifier: Apache-2.0
// Runs simulations from the command line: `make sim SEED=…` for one, `make sim-soak SEEDS=…` for many.
//
// A first word "cache" or "kv" runs the scenario of that name instead of "block".
//
//   wss-sim SEED          one run: prints the seed and what was drawn from it, then how it went; run twice,
//   and the traces
//                         must be equal
//   wss-sim FIRST COUNT   that many seeds, each in turn; prints failures only, and the line that repeats each
//
// Exit status: 0 everything held, 1 something did not, 2 usage.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block.h"
#include "tests/sim/scenarios/cluster.h"
#include "tests/sim/scenarios/kv.h"

namespace {

// A scenario as this program sees it.
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
        fmt::print("FAILED: the same seed gave another run: trace {:016x}\n", second.trace);
        return 1;
    }
    return first.failure.empty() ? 0 : 1;
}

// A child process for a batch of seeds: what a failed run leaves behind goes with it, and a crash is found.
constexpr uint64_t kBatch = 3;

int run_batch(uint64_t first, uint64_t count) {
    int failures = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        Outcome result = scenario->run(seed);
        if (result.failure.empty()) continue;
        ++failures;
        fmt::print("seed {}: {}\n    again: make sim SCENARIO={} SEED={}\n", seed, result.text,
                   scenario->name, seed);
        std::fflush(stdout);
    }
    return failures;
}

int run_many(uint64_t first, uint64_t count) {
    uint64_t bad = 0;
    for (uint64_t at = first; at < first + count; at += kBatch) {
        uint64_t batch = std::min(kBatch, first + count - at);
        std::fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int failures = run_batch(at, batch);
            std::fflush(stdout);
            _exit(failures > 0 ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            fmt::print("seeds {} to {}: died by signal {}\n", at, at + batch - 1, WTERMSIG(status));
        bad += status != 0;
        if ((at - first) / kBatch % 200 == 199) fmt::print("… {} of {} seeds\n", at + batch - first, count);
    }
    fmt::print("{} seeds from {}: {}\n", count, first, bad == 0 ? "all held" : "FAILED");
    return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    uint64_t first = 0, count = 0;
    for (const Scenario& one : kScenarios) {
        if (argc < 2 || std::strcmp(argv[1], one.name) != 0) continue;
        scenario = &one;
        ++argv;
        --argc;
    }
    bool ok = (argc == 2 || argc == 3) && parse(argv[1], first) && (argc == 2 || parse(argv[2], count));
    if (!ok) {
        fmt::print(stderr, "usage: wss-sim [block|cache|kv] SEED | wss-sim [block|cache|kv] FIRST COUNT\n");
        return 2;
    }
    // What crashed keeps its descriptors, as it keeps its memory.
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    // A target that loses its clients says so; thousands of runs would say it thousands of times.
    const char* level = argc == 2 && getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off";
    if (!wss::log::set_level(level)) return 2;
    return argc == 2 ? run_one(first) : run_many(first, count);
}
