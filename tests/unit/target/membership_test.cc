// SPDX-License-Identifier: Apache-2.0
// The text of the membership, as written by this version and by older ones.
#include "target/cache/membership.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::cache {
namespace {

TEST(Membership, has_one_version_whatever_it_contains) {
    Membership empty, full;
    full.storage = 7;
    full.engines[1] = 2;
    full.lost.add({5, 6, 7}, {0x3}, {}, {.passed_over = 9, .end = 6000});
    full.away[1] = 1;
    full.dirty[5] = {.name = "a",
                     .bytes = 4096,
                     .ownership = "b 1",
                     .owner = UINT64_MAX,
                     .process = 1,
                     .taken = {.series = UINT64_MAX, .term = 2, .since = 1},
                     .storage = {.name = "c", .file = "d"}};
    full.served[4] = {.last = {.series = UINT64_MAX, .term = 5, .since = 3}, .latest_term = UINT64_MAX};
    full.given_up.insert(9);
    full.storage_lost.insert(5);
    for (const Membership* membership : {&empty, &full}) {
        const std::string text = membership->to_text();
        EXPECT_NE(text.find("\"version\": 5"), std::string::npos) << text;
        auto read = Membership::parse(text);
        ASSERT_TRUE(read) << read.status().to_string();
        EXPECT_EQ(*read, *membership);
    }
    auto read = Membership::parse(full.to_text());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read->dirty.at(5), full.dirty.at(5));
    EXPECT_EQ(read->served, full.served);
    EXPECT_EQ(read->lost.end_of(5, 6, {0x3}), 6000u);
    EXPECT_TRUE(read->lost.in_copy({5, 6, 9}, {0x3}).empty());
}

TEST(Membership, of_an_older_file_lists_no_process_later_than_the_last_one) {
    Membership full;
    full.served[4] = {.last = {.series = 7, .term = 5, .since = 3}, .latest_term = 6};
    std::string text = full.to_text();
    const size_t latest = text.rfind(',', text.find(']', text.find("\"served\"")));
    text.erase(latest, text.find(']', latest) - latest);
    auto read = Membership::parse(text);
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read->served.at(4).latest_term, 5u);
}

TEST(ServedBy, recognizes_former_processes_of_the_same_series) {
    ServedBy by;
    EXPECT_FALSE(by.is_former({.series = 7, .term = 1, .since = 1}));
    by.serve({.series = 7, .term = 2, .since = 1});
    by.see({.series = 7, .term = 4, .since = 4});
    by.see({.series = 8, .term = 9, .since = 1});
    EXPECT_TRUE(by.is_former({.series = 7, .term = 2, .since = 1}));
    EXPECT_FALSE(by.is_former({.series = 7, .term = 4, .since = 4}));
    EXPECT_FALSE(by.is_former({.series = 8, .term = 1, .since = 1})) << "the order is not known";
    by.serve({.series = 8, .term = 1, .since = 1});
    EXPECT_FALSE(by.is_former({.series = 7, .term = 1, .since = 1}));
    EXPECT_EQ(by.latest_term, 1u);
}

TEST(Membership, with_too_many_lost_lines_saves_the_largest_loss_as_a_loss_of_the_whole_volume) {
    Membership many;
    for (uint64_t line = 0; line < kLostLinesSaved; ++line) many.lost.add({6, line, 1}, {1});
    many.lost.add({5, 1, 1}, {1});
    EXPECT_FALSE(many.lost.is_whole(6));
    auto read = Membership::parse(many.to_text());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_TRUE(read->lost.is_whole(6));
    EXPECT_FALSE(read->lost.is_whole(5));
    EXPECT_EQ(read->lost.sub_blocks_of(5), 1u);
    EXPECT_TRUE(many.lost.found(6, 0, {1}));
    read = Membership::parse(many.to_text());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_FALSE(read->lost.is_whole(6));
    EXPECT_EQ(read->lost.sub_blocks_of(6), kLostLinesSaved - 1);
}

// Other programs may write the metadata of an image.
TEST(Membership, can_be_written_whatever_storage_reports_about_its_owner) {
    Membership foul;
    foul.dirty[5] = {.name = "a", .bytes = 4096, .ownership = "b \xff"};
    auto read = Membership::parse(foul.to_text());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_NE(read->dirty.at(5).ownership, foul.dirty.at(5).ownership) << "it differs from the former one";
}

TEST(Membership, of_the_first_version_has_the_volumes_with_policies_as_dirty) {
    auto read = Membership::parse(R"({"version": 1, "storage": "7", "next_incarnation": 3,
        "line_bytes": 65536, "degraded": false, "engines": {"1": 2},
        "policies": {"5": {"policy": "write-back", "unsafe": false}}})");
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_TRUE(read->dirty.contains(5));
    EXPECT_TRUE(read->lost.empty());
}

TEST(Membership, of_the_second_version_has_volumes_with_lost_data_as_dirty) {
    auto read = Membership::parse(R"({"version": 2, "storage": "7", "next_incarnation": 3,
        "line_bytes": 65536, "degraded": false, "engines": {"1": 2}, "policies": {},
        "away": {"1": 2}, "lost": {"5": ["6 7 3"]}, "lost_whole": ["8"]})");
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_TRUE(read->dirty.contains(5) && read->dirty.contains(8));
    EXPECT_EQ(read->lost.sub_blocks_of(5), 2u);
}

TEST(Membership, of_the_third_version_has_no_volume_with_lost_storage) {
    auto read = Membership::parse(R"({"version": 3, "storage": "7", "next_incarnation": 3,
        "line_bytes": 65536, "degraded": false, "engines": {"1": 2}, "policies": {},
        "away": {}, "lost": {}, "lost_whole": [], "given_up": ["9"],
        "dirty": {"5": {"name": "a", "bytes": 4096}}})");
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read->dirty.at(5).bytes, 4096u);
    EXPECT_TRUE(read->dirty.at(5).ownership.empty());
    EXPECT_EQ(read->dirty.at(5).owner, 0u);
    EXPECT_TRUE(read->given_up.contains(9));
    EXPECT_TRUE(read->storage_lost.empty());
}

TEST(Membership, of_the_fourth_version_has_lost_lines_without_an_end) {
    auto read = Membership::parse(R"({"version": 4, "storage": "7", "next_incarnation": 3,
        "line_bytes": 65536, "degraded": false, "engines": {"1": 2}, "policies": {},
        "away": {"1": 2}, "generation": "9", "lost": {"5": ["6 7 3"]}, "lost_whole": [], "given_up": [],
        "dirty": {"5": {"name": "a", "bytes": 4096}}, "storage_lost": []})");
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read->lost.end_of(5, 6, {0x3}), kNoEnd);
    EXPECT_EQ(read->lost.in_copy({5, 6, 9}, {0x3}).count(), 2u);
}

// An earlier version of the program could leave such an entry.
TEST(Membership, keeps_lost_storage_only_for_volumes_that_may_be_dirty) {
    Membership membership;
    membership.dirty[5] = {.name = "a", .bytes = 4096};
    membership.storage_lost = {5, 6};
    auto read = Membership::parse(membership.to_text());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read->storage_lost, std::set<uint64_t>{5});
}

// If an empty file were treated as a new membership, engines would erase data that only they hold.
TEST(MembershipFile, that_is_empty_is_damaged) {
    io::test::TemporaryFolder folder;
    const auto state = volume::locked(folder.file("state.json"));
    SystemClock clock;
    reactor::Reactor reactor(clock);
    auto none = open_membership_file(state, reactor)->load();
    ASSERT_TRUE(none) << none.status().to_string();
    EXPECT_EQ(*none, "");
    std::ofstream(folder.file("state.json.cache")).flush();
    EXPECT_EQ(open_membership_file(state, reactor)->load().status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace wss::cache
