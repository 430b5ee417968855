// SPDX-License-Identifier: Apache-2.0
// A small index with helper functions, for the tests of the cache.
#pragma once

#include <gtest/gtest.h>

#include "lib/cache/index.h"

namespace wss::cache::testing {

constexpr SubBlocks kAll{0xffff};
constexpr SubBlocks sub_block(uint32_t number) {
    return {uint64_t{1} << number};
}

// Engines 0 … n-1 with this number of slots each; volumes 0 … 3.
struct Bench {
    explicit Bench(uint32_t engines = 2, uint32_t slots = 8, uint32_t transient = 64)
        : index({.geometry = {}, .transient_lines = transient}) {
        for (uint32_t volume = 0; volume < 4; ++volume) index.add_volume(volume);
        for (uint8_t engine = 0; engine < engines; ++engine) add_engine(engine, slots);
    }
    void add_engine(uint8_t engine, uint32_t slots) {
        EXPECT_TRUE(
            index.add_engine({engine}, {.identity = 500u + engine, .weight = slots, .slots = slots}).is_ok());
    }
    // Calls `work(line)` as a separate operation. The line may be gone afterwards.
    template <typename Work>
    bool with(LineKey key, SubBlocks sub_blocks, Access access, Work&& work) {
        Line* line = index.open(key);
        if (line == nullptr) return false;
        LineOp op;
        op.sub_blocks = sub_blocks;
        op.access = access;
        bool granted = index.enter(*line, op);
        if (granted) work(*line);
        Granted others;
        index.leave(op, others);
        return granted;
    }
    bool fill(LineKey key, SubBlocks sub_blocks = kAll) {
        bool done = false;
        with(key, sub_blocks, Access::kExclusive, [&](Line& line) {
            done = index.place(line, 1) == Placed::kDone && index.filled(line, sub_blocks);
        });
        return done;
    }
    bool write(LineKey key, SubBlocks sub_blocks, Nanoseconds now = {}, uint32_t copies = 2) {
        bool done = false;
        with(key, sub_blocks, Access::kExclusive, [&](Line& line) {
            done = index.place(line, copies) == Placed::kDone && index.written(line, sub_blocks, now);
        });
        return done;
    }
    bool destage(LineKey key, Index::Destaged result = Index::Destaged::kStable) {
        return with(key, kAll, Access::kShared,
                    [&](Line& line) { index.end_destage(line, index.begin_destage(line), result); });
    }

    Index index;
};

}  // namespace wss::cache::testing
