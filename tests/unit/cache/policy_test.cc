// SPDX-License-Identifier: Apache-2.0
// Policies: invariants of every plan over all combinations, and the purpose of each policy.
#include "lib/cache/policy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace wss::cache {
namespace {

constexpr SubBlocks kFirst{0b0001}, kSecond{0b0010}, kBoth{0b0011};

PolicySettings back() {
    return {.policy = Policy::kBack, .unsafe = false};
}

WriteFacts draw_write() {
    WriteFacts facts;
    facts.settings.policy =
        *rc::gen::element(Policy::kNone, Policy::kAround, Policy::kThrough, Policy::kBack);
    facts.settings.unsafe = *rc::gen::arbitrary<bool>();
    facts.fua = *rc::gen::arbitrary<bool>();
    LineGeometry geometry;
    uint32_t begin = *rc::gen::inRange<uint32_t>(0, geometry.line_bytes());
    Span span{0, begin, *rc::gen::inRange<uint32_t>(1, geometry.line_bytes() - begin + 1)};
    facts.touched = geometry.touched(span);
    facts.covered = geometry.covered(span);
    facts.holders = *rc::gen::inRange<uint32_t>(0, 3);
    facts.engines = *rc::gen::inRange<uint32_t>(0, 4);
    if (facts.holders != 0) facts.valid = SubBlocks{*rc::gen::arbitrary<uint16_t>()};
    facts.dirty = facts.valid & SubBlocks{*rc::gen::arbitrary<uint16_t>()};
    return facts;
}

// Invariants of any plan, whatever the policy.
void check_plan(const WriteFacts& facts, const WritePlan& plan) {
    // Before the acknowledgement the data is in storage or in the requested number of engines.
    uint32_t copies = copies_wanted(facts.settings);
    bool in_memory =
        plan.update == facts.touched && plan.dirty_after == facts.touched && plan.copies >= copies;
    RC_ASSERT(plan.storage || (in_memory && facts.settings.policy == Policy::kBack));
    if (facts.fua) {
        RC_ASSERT(plan.storage && plan.storage_fua);
    }
    // No older version of a touched sub-block stays valid.
    RC_ASSERT((plan.update | plan.invalidate).contains(facts.touched & facts.valid));
    RC_ASSERT(!plan.update.overlaps(plan.invalidate));
    // Dirty data is overwritten, never dropped: the rest of the sub-block may have no other copy.
    RC_ASSERT(!plan.invalidate.overlaps(facts.dirty));
    RC_ASSERT(plan.dirty_after.contains(facts.touched & facts.dirty));
    // A sub-block that is valid afterwards was valid before, is written completely, or is fetched.
    RC_ASSERT((facts.covered | facts.valid | plan.fetch).contains(plan.update));
    RC_ASSERT(plan.update.contains(plan.fetch) && plan.update.contains(plan.dirty_after));
    RC_ASSERT(facts.touched.contains(plan.update | plan.invalidate));
    // Nothing is fetched over dirty data, as storage is older.
    RC_ASSERT(!plan.fetch.overlaps(facts.dirty));
    // The updated sub-blocks are contiguous, so one transfer is enough.
    RC_ASSERT(plan.update.first_run() == plan.update);
}

TEST(CachePolicy, keeps_the_newest_data_and_nothing_else_in_every_write_plan) {
    EXPECT_TRUE(rc::check([] {
        WriteFacts facts = draw_write();
        check_plan(facts, plan_write(facts));
        WritePlan without = without_room(facts);
        check_plan(facts, without);
        RC_ASSERT(without.storage && without.copies <= facts.holders);
    }));
}

TEST(CachePolicy, answers_from_an_engine_only_what_the_engine_has_in_every_read_plan) {
    EXPECT_TRUE(rc::check([] {
        WriteFacts state = draw_write();
        ReadFacts facts{state.settings, state.touched, state.valid, state.dirty, state.engines};
        ReadPlan plan = plan_read(facts);
        SubBlocks missing = facts.touched.without(facts.valid);
        if (plan.from == ReadFrom::kEngine) {
            RC_ASSERT(missing.empty());
        }
        if (plan.from == ReadFrom::kStorage && facts.touched.overlaps(facts.dirty)) {
            RC_ASSERT(plan.fill_afterwards == missing && !missing.empty());
        }
        RC_ASSERT(!plan.fill_afterwards.overlaps(facts.valid));
    }));
}

TEST(CachePolicy, write_back_keeps_two_copies_and_leaves_storage_alone) {
    WriteFacts facts{
        .settings = back(), .touched = kBoth, .covered = kBoth, .valid = {}, .dirty = {}, .engines = 2};
    WritePlan plan = plan_write(facts);
    EXPECT_FALSE(plan.storage);
    EXPECT_EQ(plan.copies, 2u);
    EXPECT_EQ(plan.dirty_after, kBoth);
    EXPECT_TRUE(plan.fetch.empty());
}

TEST(CachePolicy, write_back_with_one_engine_left_writes_through) {
    WriteFacts facts{
        .settings = back(), .touched = kBoth, .covered = kBoth, .valid = {}, .dirty = {}, .engines = 1};
    EXPECT_TRUE(plan_write(facts).storage);
    facts.settings.unsafe = true;
    EXPECT_FALSE(plan_write(facts).storage);
    EXPECT_EQ(plan_write(facts).copies, 1u);
}

TEST(CachePolicy, accepts_no_new_dirty_data_in_a_dirty_line_that_lost_a_copy) {
    WriteFacts facts{
        .settings = back(), .touched = kFirst, .covered = kFirst, .valid = kSecond, .dirty = kSecond};
    facts.holders = 1;
    facts.engines = 3;
    WritePlan plan = plan_write(facts);
    EXPECT_TRUE(plan.storage);
    EXPECT_TRUE(plan.dirty_after.empty());
}

TEST(CachePolicy, fetches_a_partly_written_clean_sub_block_for_the_second_copy) {
    WriteFacts facts{.settings = back(), .touched = kBoth, .covered = kSecond, .valid = kBoth, .dirty = {}};
    facts.holders = 1;
    facts.engines = 2;
    EXPECT_EQ(plan_write(facts).fetch, kFirst);
    facts.settings.unsafe = true;
    EXPECT_TRUE(plan_write(facts).fetch.empty());
}

TEST(CachePolicy, write_around_invalidates_cached_data) {
    WriteFacts facts{
        .settings = {Policy::kAround, false}, .touched = kBoth, .covered = kSecond, .valid = kFirst};
    facts.holders = 1;
    WritePlan plan = plan_write(facts);
    EXPECT_TRUE(plan.storage);
    EXPECT_EQ(plan.invalidate, kFirst);
    EXPECT_TRUE(plan.update.empty());
}

TEST(CachePolicy, write_back_is_refused_with_fewer_than_two_engines_unless_unsafe) {
    EXPECT_FALSE(check_policy(back(), 1).is_ok());
    EXPECT_TRUE(check_policy(back(), 2).is_ok());
    EXPECT_TRUE(check_policy({Policy::kBack, true}, 0).is_ok());
    EXPECT_TRUE(check_policy({Policy::kThrough, false}, 0).is_ok());
}

TEST(CachePolicy, is_parsed_as_it_is_printed) {
    for (Policy policy : {Policy::kNone, Policy::kAround, Policy::kThrough, Policy::kBack})
        EXPECT_EQ(*parse_policy(to_string(policy)), policy);
    EXPECT_EQ(*parse_policy("back"), Policy::kBack);
    auto wrong = parse_policy("write-bakc");
    ASSERT_FALSE(wrong.is_ok());
    EXPECT_NE(wrong.status().text().find("write-back"), std::string::npos) << wrong.status().text();
}

TEST(CachePolicy, keeps_no_lines_of_a_volume_that_leaves_the_cache) {
    EXPECT_TRUE(forgets_lines(Policy::kThrough, Policy::kNone));
    EXPECT_FALSE(forgets_lines(Policy::kNone, Policy::kNone));
    EXPECT_FALSE(forgets_lines(Policy::kBack, Policy::kThrough));
}

}  // namespace
}  // namespace wss::cache
