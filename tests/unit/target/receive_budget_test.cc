// SPDX-License-Identifier: Apache-2.0
#include "target/block/receive_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace wss::block {
namespace {

constexpr ChannelTerms kTerms{.credits = kCreditsDefault, .max_it_iu = kIuMax};

class Receives : public ::testing::Test {
  protected:
    ChannelTerms grant(ChannelTerms terms = kTerms) {
        budget_.lower(terms);
        EXPECT_TRUE(budget_.take(terms));
        granted_.push_back(terms);
        return terms;
    }
    ReceiveBudget budget_;
    std::vector<ChannelTerms> granted_;
};

TEST_F(Receives, of_the_first_ninety_channels_are_as_many_as_the_target_offers) {
    for (int i = 0; i < 90; ++i) EXPECT_EQ(grant().credits, kCreditsDefault) << i;
}

TEST_F(Receives, of_a_thousand_channels_are_enough_for_a_queue_each) {
    uint32_t least = kCreditsDefault;
    for (uint32_t i = 0; i < 1000; ++i) {
        ASSERT_TRUE(budget_.has_room(kTerms)) << i;
        const uint32_t credits = grant().credits;
        EXPECT_LE(credits, least) << "later channels get no more";
        least = credits;
    }
    EXPECT_EQ(least, kCreditsFloor);
}

TEST_F(Receives, are_limited_across_all_channels) {
    while (granted_.size() < kChannelsMax && budget_.has_room(kTerms)) grant();
    EXPECT_LT(granted_.size(), kChannelsMax);
    EXPECT_LE(budget_.granted(), kReceiveBytesMax);
}

TEST_F(Receives, of_channels_that_have_not_authenticated_reduce_no_credits_of_others) {
    ChannelTerms pending = kTerms;
    for (int i = 0; i < 1000; ++i) budget_.lower(pending);
    EXPECT_EQ(grant().credits, kCreditsDefault);
}

TEST_F(Receives, of_logins_at_the_same_time_are_taken_up_to_the_limit_of_all_channels) {
    ChannelTerms pending = kTerms;
    budget_.lower(pending);
    ASSERT_EQ(pending.credits, kCreditsDefault);
    int taken = 0;
    while (budget_.take(pending)) ++taken;
    EXPECT_GE(taken, 4 * 64) << "four hosts that connect 64 channels each, after a restart of the target";
    for (int later = 0; later < 1000; ++later) {
        ASSERT_TRUE(budget_.has_room(kTerms)) << later;
        EXPECT_EQ(grant().credits, kCreditsFloor);
    }
}

TEST_F(Receives, that_others_have_taken_before_the_proof_are_refused_and_the_next_login_fits) {
    ChannelTerms pending = kTerms;
    budget_.lower(pending);
    for (ChannelTerms other = pending; budget_.take(other);) {
    }
    EXPECT_FALSE(budget_.take(pending));
    budget_.lower(pending);
    EXPECT_EQ(pending.credits, kCreditsFloor);
    EXPECT_TRUE(budget_.take(pending));
}

TEST_F(Receives, are_returned_with_the_channel) {
    for (int i = 0; i < 1000; ++i) grant();
    for (const ChannelTerms& terms : granted_) budget_.give_back(terms);
    EXPECT_EQ(budget_.granted(), 0u);
    EXPECT_EQ(grant().credits, kCreditsDefault);
}

TEST_F(Receives, never_exceed_the_limit_of_the_target) {
    ChannelTerms few = kTerms;
    few.credits = kCreditsMin;
    EXPECT_EQ(grant(few).credits, kCreditsMin);
}

}  // namespace
}  // namespace wss::block
