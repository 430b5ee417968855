// SPDX-License-Identifier: Apache-2.0
// Walks over the lines of a volume visit a few per turn, so that other commands are served in between.
#include "target/cache/lines.h"

#include <gtest/gtest.h>

#include <set>

namespace wss::cache {
namespace {

constexpr uint32_t kVolume = 1, kOther = 2;
constexpr uint64_t kFilled = 3000;  // lines of each of kVolume and kOther
constexpr size_t kAFewPerTurn = 200;

class LinesWalk : public ::testing::Test {
  protected:
    struct Op : LineUser {
        LineOp op;
    };

    void SetUp() override {
        for (uint32_t volume : {kVolume, kOther}) lines_.index().add_volume(volume);
        ASSERT_TRUE(lines_.index().add_engine(EngineIndex{0}, {.identity = 7, .slots = 2 * kFilled}));
        for (uint64_t line = 0; line < kFilled; ++line)
            for (uint32_t volume : {kVolume, kOther}) fill({volume, line});
    }
    void fill(LineKey key) {
        Line* line = lines_.index().open(key);
        ASSERT_NE(line, nullptr);
        Op user;
        user.op.sub_blocks = lines_.geometry().all();
        user.op.access = Access::kExclusive;
        ASSERT_TRUE(lines_.enter(*line, user.op, user));
        ASSERT_EQ(lines_.index().place(*line, 1), Placed::kDone);
        ASSERT_TRUE(lines_.index().filled(*line, lines_.geometry().all()));
        lines_.leave(user.op);
    }
    size_t valid(uint32_t volume) {
        size_t count = 0;
        lines_.index().for_each(
            [&](Line& line) { count += line.key().volume == volume && !line.valid().empty(); });
        return count;
    }
    // Returns a visitor that records each line and ends its visit at once.
    Lines::Visit note() {
        return [this](Line& line, const Lines::Ended& ended) {
            visited_.insert(line.key().line);
            ++this_turn_;
            ended();
        };
    }
    // Counts the turns until the walk has ended.
    size_t turns() {
        size_t turns = 0;
        while (!done_ && turns < 10000) {
            EXPECT_TRUE(turn_.take()) << "an unfinished walk requests another turn";
            this_turn_ = 0;
            lines_.turn();
            EXPECT_LE(this_turn_, kAFewPerTurn);
            ++turns;
        }
        return turns;
    }
    std::function<void()> done() {
        return [this] { done_ = true; };
    }

    Turn turn_;
    Lines lines_{*LineGeometry::of(4096), 64, turn_};
    std::set<uint64_t> visited_;
    size_t this_turn_ = 0;
    bool done_ = false;
};

TEST_F(LinesWalk, visits_each_line_of_the_volume_once_and_only_a_few_each_turn) {
    lines_.walk(kVolume, 0, UINT64_MAX, note(), done());
    EXPECT_FALSE(done_);
    EXPECT_GT(turns(), kFilled / kAFewPerTurn);
    EXPECT_EQ(visited_.size(), kFilled);
}

TEST_F(LinesWalk, of_a_range_visits_the_lines_that_the_range_touches) {
    lines_.walk(kVolume, 10 * 4096 + 1, 5 * 4096, note(), done());
    turns();
    EXPECT_EQ(visited_, (std::set<uint64_t>{10, 11, 12, 13, 14, 15}));
}

TEST_F(LinesWalk, of_an_empty_range_ends_at_once) {
    lines_.walk(kVolume, 4096, 0, note(), done());
    EXPECT_TRUE(done_);
    EXPECT_TRUE(visited_.empty());
}

TEST_F(LinesWalk, begins_no_more_visits_than_can_be_in_flight_and_ends_when_all_have_ended) {
    std::vector<Lines::Ended> under_way;
    size_t begun = 0;
    lines_.walk(
        kVolume, 0, UINT64_MAX,
        [&](Line&, Lines::Ended ended) {
            ++begun;
            under_way.push_back(std::move(ended));
        },
        done());
    for (size_t i = 0; i < 1000; ++i) lines_.turn();
    EXPECT_LT(begun, kFilled / 2) << "engines answer slowly: further visits wait";
    EXPECT_FALSE(done_);
    turn_.take();
    while (!under_way.empty()) {
        for (const auto& ended : std::exchange(under_way, {})) ended();
        EXPECT_TRUE(done_ || turn_.take());
        for (size_t i = 0; i < 100; ++i) lines_.turn();
    }
    EXPECT_TRUE(done_);
    EXPECT_EQ(begun, kFilled);
}

TEST_F(LinesWalk, of_a_drop_leaves_nothing_valid_in_its_range_and_touches_no_other_volume) {
    lines_.drop(kVolume, 0, 100 * 4096, done());
    EXPECT_TRUE(done_ || turns() > 0);
    EXPECT_EQ(valid(kVolume), kFilled - 100);
    done_ = false;
    lines_.drop(kVolume, 0, UINT64_MAX, done());
    EXPECT_GT(turns(), 1u);
    EXPECT_EQ(valid(kVolume), 0u);
    EXPECT_EQ(valid(kOther), kFilled);
}

TEST_F(LinesWalk, ends_alongside_another_one) {
    size_t ended = 0;
    lines_.drop(kVolume, 0, UINT64_MAX, [&ended] { ++ended; });
    lines_.drop(kOther, 0, UINT64_MAX, [&] { done_ = ++ended == 2; });
    turns();
    EXPECT_EQ(ended, 2u);
    EXPECT_EQ(valid(kVolume) + valid(kOther), 0u);
}

TEST_F(LinesWalk, shares_its_part_of_a_turn_with_concurrent_walks) {
    size_t ended = 0;
    for (int i = 0; i < 20; ++i) lines_.walk(kVolume, 0, UINT64_MAX, note(), [&] { done_ = ++ended == 20; });
    EXPECT_LE(this_turn_, kAFewPerTurn);
    EXPECT_GT(turns(), 20 * kFilled / kAFewPerTurn);
    EXPECT_EQ(ended, 20u);
}

TEST_F(LinesWalk, makes_no_call_and_keeps_no_reference_once_it_is_forgotten) {
    auto kept = std::make_shared<int>();
    lines_.walk(
        kVolume, 0, UINT64_MAX, [kept](Line&, const Lines::Ended& ended) { ended(); },
        [this, kept] { done_ = true; });
    lines_.forget_walks();
    lines_.turn();
    EXPECT_FALSE(done_);
    EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace wss::cache
