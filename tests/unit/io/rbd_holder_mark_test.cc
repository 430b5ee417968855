// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/io/rbd/holder_mark.h"

namespace wss::io {
namespace {

constexpr uint64_t kFormer = 4123, kClient = 4200, kFresh = 0xabc;
constexpr HolderMark kMark{.succession = {.chain = 0xfedcba9876543210, .place = 3}, .client = kFormer};

TEST(HolderMark, comes_back_as_it_was_written) {
    EXPECT_EQ(parse_holder_mark(kMark.text()), kMark);
    const HolderMark largest{.succession = {.chain = UINT64_MAX, .place = UINT64_MAX}, .client = UINT64_MAX};
    EXPECT_EQ(parse_holder_mark(largest.text()), largest);
}

TEST(HolderMark, what_others_wrote_in_its_place_is_none) {
    for (const std::string& text :
         {std::string(), std::string("1"), std::string("1 2"), std::string("1 2 "), std::string(" 1 2 3"),
          std::string("1  2 3"), std::string("1 2 3 "), std::string("1 2 3\n"), std::string("0 2 3"),
          std::string("1 0 3"), std::string("1 2 0"), std::string("-1 2 3"), std::string("0x1 2 3"),
          std::string("10000000000000000 2 3"), std::string("g 2 3"), std::string(1 << 20, '1')})
        EXPECT_FALSE(parse_holder_mark(text)) << text.substr(0, 64);
}

TEST(HolderMark, of_a_client_that_shut_out_the_one_of_the_mark_goes_on_with_its_chain) {
    const HolderMark next = HolderMark::after(kMark, kFormer, kClient, kFresh);
    EXPECT_EQ(next.client, kClient);
    EXPECT_TRUE(next.succession.follows(kMark.succession));
    EXPECT_FALSE(kMark.succession.follows(next.succession));
    EXPECT_FALSE(next.succession.follows(next.succession));
}

TEST(HolderMark, of_any_other_client_begins_a_chain) {
    const HolderMark first{.succession = {.chain = kFresh, .place = 1}, .client = kClient};
    EXPECT_EQ(HolderMark::after(kMark, 0, kClient, kFresh), first) << "nobody was shut out";
    EXPECT_EQ(HolderMark::after(kMark, kFormer + 1, kClient, kFresh), first) << "another had it since";
    EXPECT_EQ(HolderMark::after(std::nullopt, kFormer, kClient, kFresh), first);
    HolderMark last = kMark;
    last.succession.place = UINT64_MAX;
    EXPECT_EQ(HolderMark::after(last, kFormer, kClient, kFresh), first);
    EXPECT_FALSE(first.succession.follows(kMark.succession));
    EXPECT_FALSE(Succession{}.follows({})) << "nothing is known";
}

}  // namespace
}  // namespace wss::io
