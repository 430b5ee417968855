// SPDX-License-Identifier: Apache-2.0
// Runs simulations from the command line: `make sim SEED=…` for one, `make sim-soak SEEDS=…` for many.
//
//   wss-sim SEED          one run: prints the seed and what was drawn from it, then how it went; run twice,
//   and the traces
//                         must be equal
//   wss-sim FIRST COUNT   that many seeds, each in turn; prints failures only, and the line that repeats each
//
// Exit status: 0 everything held, 1 something did not, 2 usage.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block.h"

namespace {

using wss::sim::BlockOptions;
using wss::sim::BlockResult;

bool parse(const char* text, uint64_t& value) {
    auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    return error == std::errc() && *end == '\0';
}

int run_one(uint64_t seed) {
    BlockOptions options = BlockOptions::draw(seed);
    fmt::print("{}\n", options.to_string());
    std::fflush(stdout);
    BlockResult first = run_block(options);
    fmt::print("{}\n", first.to_string());
    BlockResult second = run_block(options);
    if (first.trace != second.trace) {
        fmt::print("FAILED: the same seed gave another run: trace {:016x}\n", second.trace);
        return 1;
    }
    return first.failure.empty() ? 0 : 1;
}

// A child process for a batch of seeds: what a failed run leaves behind goes with it, and a crash is found.
constexpr uint64_t kBatch = 25;

int run_batch(uint64_t first, uint64_t count) {
    int failures = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        BlockResult result = run_block(BlockOptions::draw(seed));
        if (result.failure.empty()) continue;
        ++failures;
        fmt::print("seed {}: {}\n    again: make sim SEED={}\n", seed, result.to_string(), seed);
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
        if ((at - first) / kBatch % 20 == 19) fmt::print("… {} of {} seeds\n", at + batch - first, count);
    }
    fmt::print("{} seeds from {}: {}\n", count, first, bad == 0 ? "all held" : "FAILED");
    return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    uint64_t first = 0, count = 0;
    bool ok = (argc == 2 || argc == 3) && parse(argv[1], first) && (argc == 2 || parse(argv[2], count));
    if (!ok) {
        fmt::print(stderr, "usage: wss-sim SEED | wss-sim FIRST COUNT\n");
        return 2;
    }
    // A target that loses its clients says so; thousands of runs would say it thousands of times.
    const char* level = argc == 2 && getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off";
    if (!wss::log::set_level(level)) return 2;
    return argc == 2 ? run_one(first) : run_many(first, count);
}
