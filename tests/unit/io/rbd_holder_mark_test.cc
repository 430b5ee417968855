// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/io/rbd/holder_mark.h"

namespace wss::io {
namespace {

constexpr uint64_t kFormer = 4123, kClient = 4200, kFresh = 0xabc;
constexpr HolderMark kMark{.succession = {.series = 0xfedcba9876543210, .term = 3, .since = 2},
                           .client = kFormer};
constexpr HolderMark kReleased{.succession = kMark.succession, .client = kFormer, .released = true};

TEST(HolderMark, is_parsed_as_it_was_written) {
    EXPECT_EQ(parse_holder_mark(kMark.text()), kMark);
    const HolderMark largest{.succession = {.series = UINT64_MAX, .term = UINT64_MAX, .since = UINT64_MAX},
                             .client = UINT64_MAX};
    EXPECT_EQ(parse_holder_mark(largest.text()), largest);
    EXPECT_EQ(parse_holder_mark(kReleased.text()), kReleased);
}

TEST(HolderMark, is_not_recognized_in_text_of_other_programs) {
    for (const std::string& text : {std::string(),
                                    std::string("1"),
                                    std::string("1 2 1"),
                                    std::string("1 2 1 "),
                                    std::string(" 1 2 1 3"),
                                    std::string("1  2 1 3"),
                                    std::string("1 2 1 3 "),
                                    std::string("1 2 1 3\n"),
                                    std::string("0 2 1 3"),
                                    std::string("1 0 0 3"),
                                    std::string("1 2 0 3"),
                                    std::string("1 2 3 3"),
                                    std::string("1 2 1 0"),
                                    std::string("-1 2 1 3"),
                                    std::string("0x1 2 1 3"),
                                    std::string("1 2 1 3 release"),
                                    std::string("1 2 1 3 released "),
                                    std::string("1 2 1 3released"),
                                    std::string("10000000000000000 2 1 3"),
                                    std::string("g 2 1 3"),
                                    std::string(1 << 20, '1')})
        EXPECT_FALSE(parse_holder_mark(text)) << text.substr(0, 64);
}

TEST(HolderMark, of_a_client_that_blocklisted_the_marked_one_continues_its_chain) {
    const HolderMark next = HolderMark::after(kMark, {.former = kFormer}, kClient, kFresh);
    EXPECT_EQ(next.client, kClient);
    EXPECT_TRUE(next.succession.follows(kMark.succession));
    EXPECT_FALSE(kMark.succession.follows(next.succession));
    EXPECT_FALSE(next.succession.follows(next.succession));
}

TEST(HolderMark, of_any_other_client_begins_a_chain) {
    for (uint64_t shut_out : {uint64_t{0}, kFormer + 1}) {
        const Succession next = HolderMark::after(kMark, {.former = shut_out}, kClient, kFresh).succession;
        EXPECT_TRUE(next.is_after(kMark.succession));
        EXPECT_FALSE(kMark.succession.is_after(next));
        EXPECT_FALSE(next.follows(kMark.succession)) << "another client may have had it since";
        const Succession third =
            HolderMark::after(HolderMark{next, kClient}, {.former = kClient}, 1, kFresh).succession;
        EXPECT_TRUE(third.follows(next));
        EXPECT_TRUE(third.is_after(kMark.succession));
        EXPECT_FALSE(third.follows(kMark.succession));
    }
}

TEST(HolderMark, of_a_client_that_found_the_lock_released_continues_its_chain) {
    const auto next = [](const HolderMark& found, const HolderMark::Taking& taking) {
        return HolderMark::after(found, taking, kClient, kFresh).succession;
    };
    EXPECT_TRUE(next(kReleased, {.was_free = true}).follows(kMark.succession));
    EXPECT_TRUE(next(kReleased, {.former = kFormer}).follows(kMark.succession)) << "the release had failed";
    EXPECT_FALSE(next(kReleased, {.former = kFormer + 1}).follows(kMark.succession)) << "another took it";
    EXPECT_FALSE(next(kReleased, {}).follows(kMark.succession)) << "another may have had it in between";
    EXPECT_FALSE(next(kMark, {.was_free = true}).follows(kMark.succession)) << "another broke the lock";
}

TEST(HolderMark, that_follows_none_begins_a_series) {
    const HolderMark first{.succession = {.series = kFresh, .term = 1, .since = 1}, .client = kClient};
    EXPECT_EQ(HolderMark::after(std::nullopt, {.former = kFormer}, kClient, kFresh), first);
    HolderMark last = kMark;
    last.succession.term = UINT64_MAX;
    EXPECT_EQ(HolderMark::after(last, {.former = kFormer}, kClient, kFresh), first);
    EXPECT_FALSE(first.succession.is_after(kMark.succession));
    EXPECT_FALSE(kMark.succession.is_after(first.succession));
    EXPECT_FALSE(Succession{}.is_after({})) << "nothing is known";
}

}  // namespace
}  // namespace wss::io
