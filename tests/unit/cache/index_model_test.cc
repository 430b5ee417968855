// SPDX-License-Identifier: Apache-2.0
// The index against models: operations against a list of conflicts, data against plain sets. Engines join and
// leave and lines are evicted in between.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <list>
#include <map>

#include "lib/base/clock.h"
#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

bool conflict(const LineOp& a, const LineOp& b) {
    return a.line() == b.line() && (a.access == Access::kExclusive || b.access == Access::kExclusive) &&
           a.sub_blocks.overlaps(b.sub_blocks);
}

TEST(CacheIndexModel, lets_an_operation_continue_exactly_when_no_earlier_one_conflicts) {
    EXPECT_TRUE(rc::check([] {
        Bench bench(1, 4);
        std::list<LineOp> ops;  // in order of arrival
        auto check = [&] {
            for (auto op = ops.begin(); op != ops.end(); ++op) {
                bool free = std::none_of(ops.begin(), op,
                                         [&](const LineOp& earlier) { return conflict(*op, earlier); });
                RC_ASSERT(op->granted() == free);
            }
        };
        auto steps = *rc::gen::container<std::vector<uint64_t>>(rc::gen::arbitrary<uint64_t>());
        for (uint64_t step : steps) {
            if (step % 2 == 0 && ops.size() < 40) {
                LineOp& op = ops.emplace_back();
                op.access = step / 2 % 3 == 0 ? Access::kExclusive : Access::kShared;
                op.sub_blocks = {1 + (step >> 8) % 15};
                bench.index.enter(*bench.index.open({0, step / 8 % 2}), op);
            } else if (!ops.empty()) {
                auto leaver = std::next(ops.begin(), static_cast<long>((step >> 8) % ops.size()));
                std::vector<const LineOp*> waiting;
                for (const LineOp& op : ops)
                    if (!op.granted() && &op != &*leaver) waiting.push_back(&op);
                Granted granted;
                bench.index.leave(*leaver, granted);
                ops.erase(leaver);
                // The operations that can continue now are reported, and no others.
                std::erase_if(waiting, [](const LineOp* op) { return !op->granted(); });
                while (LineOp* op = granted.pop_front()) RC_ASSERT(std::erase(waiting, op) == 1u);
                RC_ASSERT(waiting.empty());
            }
            check();
        }
        Granted granted;
        for (LineOp& op : ops) bench.index.leave(op, granted);
        RC_ASSERT(bench.index.counters().operations == 0u);
    }));
}

// The versions of each sub-block of a line, in storage and in each engine. The index has no access to them:
// the test moves the data as target/cache would, according to the index.
class DataModel {
  public:
    explicit DataModel(uint64_t seed) : bench_(3, 6), random_(seed) {}

    void step() {
        LineKey key{0, random_.below(24)};
        SubBlocks sub_blocks{1 + random_.below(15)};
        switch (random_.below(12)) {
            case 0:
            case 1:
            case 2:
                return read(key, sub_blocks);
            case 3:
            case 4:
                return fill(key, sub_blocks);
            case 5:
            case 6:
            case 7:
                return write(key, sub_blocks);
            case 8:
                return invalidate_clean(key, sub_blocks);
            case 9:
            case 10:
                return destage(key);
            default:
                return lose_and_return();
        }
    }
    void check() { ASSERT_TRUE(bench_.index.consistent()); }
    uint64_t hits() const { return hits_; }

  private:
    using Versions = std::array<uint64_t, 4>;
    struct Memory {
        std::map<uint32_t, Versions> slots;  // indexed by slot
    };
    Versions& memory(ArenaSlot slot) { return engines_[slot.engine.value].slots[slot.number]; }
    template <typename Visit>
    static void each(SubBlocks sub_blocks, Visit&& visit) {
        for (; !sub_blocks.empty(); sub_blocks.bits &= sub_blocks.bits - 1) visit(sub_blocks.first());
    }

    // Valid sub-blocks must have the newest version: the primary holds it.
    void read(LineKey key, SubBlocks sub_blocks) {
        Line* line = bench_.index.find(key);
        if (line == nullptr) return;
        bench_.with(key, sub_blocks, Access::kShared, [&](Line&) { bench_.index.touch(*line, sub_blocks); });
        each(sub_blocks & line->valid(), [&](uint32_t i) {
            ASSERT_EQ(memory(line->holders()[0])[i], newest_[key][i]);
            ++hits_;
        });
        each(sub_blocks.without(line->valid()),
             [&](uint32_t i) { ASSERT_EQ(storage_[key][i], newest_[key][i]); });
    }
    void fill(LineKey key, SubBlocks sub_blocks) {
        bench_.with(key, sub_blocks, Access::kExclusive, [&](Line& line) {
            SubBlocks missing = sub_blocks.without(line.valid());
            if (missing.empty() || bench_.index.place(line, 1) != Placed::kDone) return;
            each(missing, [&](uint32_t i) { memory(line.holders()[0])[i] = storage_[key][i]; });
            bench_.index.filled(line, missing);
        });
    }
    void write(LineKey key, SubBlocks sub_blocks) {
        bench_.with(key, sub_blocks, Access::kExclusive, [&](Line& line) {
            bool degraded = !line.dirty().empty() && line.holders().size() < 2;
            if (degraded || bench_.index.place(line, 2) != Placed::kDone) return;
            bench_.index.stamp(line);
            each(sub_blocks, [&](uint32_t i) {
                newest_[key][i] = ++version_;
                for (ArenaSlot slot : line.holders()) memory(slot)[i] = version_;
            });
            ASSERT_TRUE(bench_.index.written(line, sub_blocks, {}));
        });
    }
    void invalidate_clean(LineKey key, SubBlocks sub_blocks) {
        bench_.with(key, sub_blocks, Access::kExclusive,
                    [&](Line& line) { bench_.index.invalidate(line, sub_blocks.without(line.dirty())); });
    }
    void destage(LineKey key) {
        Line* line = bench_.index.find(key);
        if (line == nullptr || line->state() != LineState::kDirty) return;
        bool fails = random_.chance(4);
        bench_.with(key, line->dirty(), Access::kShared, [&](Line&) {
            Index::Destage what = bench_.index.begin_destage(*line);
            if (!fails)
                each(what.sub_blocks, [&](uint32_t i) { storage_[key][i] = memory(line->holders()[0])[i]; });
            bench_.index.end_destage(*line, what,
                                     fails ? Index::Destaged::kFailed : Index::Destaged::kStable);
        });
    }
    // Loses one engine at a time. The others take over before the next loss, so no dirty data is lost.
    void lose_and_return() {
        uint8_t engine = static_cast<uint8_t>(random_.below(3));
        if (bench_.index.has_engine({engine})) {
            for (uint64_t line = 0; line < 24; ++line) {
                Line* found = bench_.index.find({0, line});
                if (found != nullptr && found->holders().size() < 2 && !found->dirty().empty()) return;
            }
            ASSERT_EQ(bench_.index.lose_engine({engine}).dirty_lines, 0u);
            engines_[engine].slots.clear();
        } else {
            bench_.add_engine(engine, 6);
        }
    }

    Bench bench_;
    Random random_;
    std::map<LineKey, Versions> storage_, newest_;
    std::array<Memory, 3> engines_;
    uint64_t version_ = 0, hits_ = 0;
};

TEST(CacheIndexModel, lets_reads_return_only_the_newest_version) {
    uint64_t hits = 0;
    EXPECT_TRUE(rc::check([&hits](uint64_t seed) {
        DataModel model(seed);
        for (int i = 0; i < 400; ++i) {
            model.step();
            if (i % 20 == 0) model.check();
            RC_ASSERT(!::testing::Test::HasFatalFailure());
        }
        model.check();
        hits += model.hits();
    }));
    EXPECT_GT(hits, 1000u) << "the model must do enough";
}

}  // namespace
}  // namespace wss::cache::testing
