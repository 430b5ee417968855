// SPDX-License-Identifier: Apache-2.0
#include "lib/io/size_notices.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace wss::io {
namespace {

using Notice = std::pair<uint64_t, uint64_t>;

// A user of notices. hold() blocks its notice until let_go().
class User {
  public:
    bool heard(uint64_t before, uint64_t after) {
        std::unique_lock lock(m_);
        notices_.emplace_back(before, after);
        changed_.notify_all();
        changed_.wait(lock, [&] { return !held_; });
        return !std::exchange(refuses_, false);
    }
    // Makes the user refuse the notice in progress, or else the next one.
    void refuse() {
        std::lock_guard lock(m_);
        refuses_ = true;
    }
    void hold() {
        std::lock_guard lock(m_);
        held_ = true;
    }
    void let_go() {
        std::lock_guard lock(m_);
        held_ = false;
        changed_.notify_all();
    }
    std::vector<Notice> wait_for(size_t count) {
        std::unique_lock lock(m_);
        changed_.wait_for(lock, std::chrono::seconds(30), [&] { return notices_.size() >= count; });
        return notices_;
    }

  private:
    std::mutex m_;
    std::condition_variable changed_;
    std::vector<Notice> notices_;
    bool held_ = false, refuses_ = false;
};

class OneUser : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(notices_.start(16));
        notices_.watch([this](uint64_t before, uint64_t after) { return user_.heard(before, after); });
    }
    void TearDown() override { notices_.watch({}); }
    User user_;
    SizeNotices notices_;
};

TEST_F(OneUser, is_notified_of_a_shrink_even_if_growth_followed_it_during_a_notice) {
    user_.hold();
    notices_.changed(20);
    user_.wait_for(1);
    notices_.changed(4);
    notices_.changed(8);
    notices_.changed(32);
    EXPECT_EQ(notices_.size(), 4u) << "the user drops its data before storage beyond the end is used";
    EXPECT_EQ(notices_.latest(), 32u);
    user_.let_go();
    EXPECT_EQ(user_.wait_for(3), (std::vector<Notice>{{16, 20}, {20, 4}, {4, 32}}));
    EXPECT_EQ(notices_.size(), 32u);
}

TEST_F(OneUser, is_not_notified_of_its_own_change) {
    notices_.limit_own(8);
    EXPECT_EQ(notices_.size(), 8u);
    notices_.changed_own(8);
    notices_.changed_own(24);
    EXPECT_EQ(notices_.size(), 24u);
    notices_.changed(40);
    EXPECT_EQ(user_.wait_for(1), (std::vector<Notice>{{24, 40}}));
}

TEST_F(OneUser, is_notified_of_an_unreported_shrink_even_after_its_own_change) {
    user_.hold();
    notices_.changed(20);
    user_.wait_for(1);
    notices_.changed(4);
    notices_.changed_own(12);
    EXPECT_EQ(notices_.size(), 4u);
    user_.let_go();
    EXPECT_EQ(user_.wait_for(3), (std::vector<Notice>{{16, 20}, {12, 4}, {4, 12}}));
}

TEST_F(OneUser, is_notified_of_the_size_after_its_failed_change_if_others_set_it) {
    notices_.limit_own(32);
    EXPECT_TRUE(notices_.changed(8));
    notices_.failed_own(8);
    EXPECT_EQ(user_.wait_for(1), (std::vector<Notice>{{16, 8}}));
    EXPECT_EQ(notices_.size(), 8u);
    notices_.limit_own(32);
    notices_.failed_own(8);
    notices_.changed(4);
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{16, 8}, {8, 4}}));
}

TEST_F(OneUser, is_notified_again_of_a_refused_size_after_its_own_change_has_failed) {
    user_.hold();
    user_.refuse();
    notices_.changed(8);
    user_.wait_for(1);
    notices_.limit_own(32);
    notices_.failed_own(8);
    user_.let_go();
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{16, 8}, {16, 8}}));
}

TEST_F(OneUser, is_notified_again_of_a_shrink_that_it_could_not_adopt_before_a_later_growth) {
    user_.refuse();
    notices_.changed(4);
    user_.wait_for(1);
    notices_.changed(32);
    EXPECT_EQ(user_.wait_for(3), (std::vector<Notice>{{16, 4}, {16, 4}, {4, 32}}));
    EXPECT_EQ(notices_.size(), 32u);
}

TEST_F(OneUser, is_notified_again_of_a_growth_that_it_could_not_adopt_from_its_current_size) {
    user_.refuse();
    notices_.changed(32);
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{16, 32}, {16, 32}}));
}

// This happens when the user's own resize prevents it from adopting the size.
TEST_F(OneUser, is_notified_again_of_a_refused_shrink_during_which_it_grew_and_then_of_its_growth) {
    user_.hold();
    user_.refuse();
    notices_.changed(4);
    user_.wait_for(1);
    notices_.changed_own(24);
    user_.let_go();
    EXPECT_EQ(user_.wait_for(3), (std::vector<Notice>{{16, 4}, {24, 4}, {4, 24}}));
}

TEST_F(OneUser, is_notified_of_a_smaller_size_but_of_none_that_its_own_change_explains) {
    notices_.limit_own(8);
    notices_.changed(8);
    notices_.changed_own(8);
    notices_.limit_own(24);
    notices_.changed(24);
    notices_.changed(2);
    notices_.changed_own(24);
    EXPECT_EQ(user_.wait_for(1).front().second, 2u);
}

TEST_F(OneUser, is_not_notified_of_its_former_size_that_was_read_before_its_own_change) {
    const uint64_t reading = notices_.moment();
    notices_.limit_own(32);
    notices_.changed_own(32);
    EXPECT_FALSE(notices_.changed(16, reading));
    EXPECT_EQ(notices_.size(), 32u);
    EXPECT_TRUE(notices_.changed(16, notices_.moment()));
    EXPECT_EQ(user_.wait_for(1), (std::vector<Notice>{{32, 16}}));
}

TEST_F(OneUser, is_notified_of_a_shrink_whose_read_began_before_the_end_of_its_own_change) {
    const uint64_t reading = notices_.moment();
    notices_.limit_own(32);
    notices_.changed_own(32);
    EXPECT_TRUE(notices_.changed(8, reading));
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{32, 8}, {8, 32}}));
}

// The user must not grow before it has dropped its data beyond the end of the shrink.
TEST_F(OneUser, is_limited_to_a_shrink_whose_notice_is_in_progress_when_its_own_growth_ends) {
    user_.hold();
    notices_.changed(4);
    user_.wait_for(1);
    notices_.limit_own(32);
    notices_.changed_own(32);
    EXPECT_EQ(notices_.size(), 4u);
    EXPECT_TRUE(notices_.hides_growth());
    user_.let_go();
    EXPECT_EQ(user_.wait_for(3), (std::vector<Notice>{{16, 4}, {32, 4}, {4, 32}}));
}

// The storage has 32, then others shrink it to 24, then the user is notified that its growth has ended.
TEST_F(OneUser, is_notified_of_a_shrink_by_others_right_after_its_own_growth) {
    notices_.limit_own(32);
    notices_.changed(32);
    notices_.changed(24);
    notices_.changed_own(32);
    EXPECT_EQ(user_.wait_for(1), (std::vector<Notice>{{32, 24}}));
    EXPECT_EQ(notices_.latest(), 24u);
    EXPECT_EQ(notices_.size(), 24u);
}

TEST_F(OneUser, has_the_size_of_its_own_change_whatever_was_read_during_an_earlier_one) {
    for (const bool fails : {false, true}) {
        notices_.limit_own(32);
        notices_.changed(32);
        notices_.changed(24);
        fails ? notices_.failed_own(32) : notices_.changed_own(32);
        user_.wait_for(1);
        notices_.limit_own(64);
        notices_.changed_own(64);
        EXPECT_EQ(notices_.latest(), 64u);
    }
}

TEST_F(OneUser, is_not_notified_of_its_own_shrink_that_took_effect_although_it_failed) {
    notices_.limit_own(8);
    const uint64_t reading = notices_.moment();  // finds 8
    notices_.failed_own(16);                     // others have enlarged the storage before its size was read
    notices_.changed_own(24);
    EXPECT_FALSE(notices_.changed(8, reading));
    EXPECT_EQ(notices_.size(), 24u);
    EXPECT_FALSE(notices_.hides_growth());
}

TEST_F(OneUser, would_cut_off_a_growth_that_it_has_not_followed_by_resizing_to_less) {
    user_.hold();
    notices_.changed(32);
    user_.wait_for(1);
    EXPECT_TRUE(notices_.would_cut(8));
    EXPECT_TRUE(notices_.would_cut(24));
    EXPECT_FALSE(notices_.would_cut(40));
    user_.let_go();
    while (notices_.would_cut(8)) std::this_thread::yield();
}

TEST_F(OneUser, is_limited_by_its_resize_of_unknown_outcome_until_a_later_read) {
    notices_.limit_own(8);
    const uint64_t before = notices_.moment();
    notices_.unknown_own();
    EXPECT_TRUE(notices_.has_resized_since(before));
    EXPECT_FALSE(notices_.has_resized_since(notices_.moment()));
    EXPECT_EQ(notices_.size(), 8u);
    notices_.failed_own(16);
    EXPECT_EQ(notices_.size(), 16u);
}

TEST_F(OneUser, is_notified_of_a_loss_from_its_current_size_after_a_shrink_that_it_could_not_adopt) {
    user_.hold();
    user_.refuse();
    notices_.changed(4);
    user_.wait_for(1);
    notices_.lose();
    user_.let_go();
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{16, 4}, {16, 0}}));
}

TEST_F(OneUser, is_notified_again_of_a_loss_that_it_could_not_accept) {
    user_.refuse();
    notices_.lose();
    EXPECT_EQ(user_.wait_for(2), (std::vector<Notice>{{16, 0}, {16, 0}}));
}

TEST_F(OneUser, is_notified_of_a_loss_once_and_of_nothing_after_it) {
    notices_.lose();
    EXPECT_EQ(user_.wait_for(1), (std::vector<Notice>{{16, 0}}));
    notices_.changed(8);
    notices_.lose();
    notices_.watch({});
    EXPECT_EQ(user_.wait_for(1).size(), 1u);
}

TEST(SizeNotices, report_a_loss_to_a_user_that_is_added_after_it) {
    User user;
    SizeNotices notices;
    ASSERT_TRUE(notices.start(16));
    notices.lose();
    notices.watch([&](uint64_t before, uint64_t after) { return user.heard(before, after); });
    EXPECT_EQ(user.wait_for(1), (std::vector<Notice>{{16, 0}}));
    notices.watch({});
}

// The user refuses the first known size. Meanwhile the storage shrinks, so that its end is lost, and grows
// again.
TEST(SizeNotices, report_a_shrink_before_a_growth_after_a_first_size_that_the_user_could_not_adopt) {
    SizeNotices notices;
    User user;
    ASSERT_TRUE(notices.start(0));
    notices.watch([&](uint64_t before, uint64_t after) { return user.heard(before, after); });
    user.refuse();
    notices.changed(16);
    user.wait_for(1);
    notices.changed(8);
    notices.changed(16);
    EXPECT_EQ(notices.size(), 8u);
    EXPECT_EQ(user.wait_for(3), (std::vector<Notice>{{0, 16}, {0, 8}, {8, 16}}));
    notices.watch({});
}

TEST(SizeNotices, report_that_the_storage_is_larger_than_its_user_knows) {
    SizeNotices notices;
    ASSERT_TRUE(notices.start(32, 16));
    EXPECT_EQ(notices.size(), 16u);
    notices.changed(64);
    EXPECT_EQ(notices.size(), 16u) << "the user has not been added yet";
    User user;
    user.refuse();
    notices.watch([&](uint64_t before, uint64_t after) { return user.heard(before, after); });
    EXPECT_EQ(user.wait_for(2), (std::vector<Notice>{{16, 64}, {16, 64}}));
    while (notices.size() != 64) std::this_thread::yield();
    notices.watch({});
}

TEST(SizeNotices, begin_with_the_size_of_storage_that_is_smaller_than_its_user_knows) {
    SizeNotices notices;
    ASSERT_TRUE(notices.start(8, 16));
    EXPECT_EQ(notices.size(), 8u);
}

TEST(SizeNotices, hide_a_growth_after_a_shrink_until_the_user_has_acted_on_the_shrink) {
    SizeNotices notices;
    ASSERT_TRUE(notices.start(16));
    User user;
    user.hold();
    notices.watch([&](uint64_t before, uint64_t after) { return user.heard(before, after); });
    notices.changed(8);
    user.wait_for(1);
    EXPECT_FALSE(notices.hides_growth());
    notices.changed(32);
    EXPECT_TRUE(notices.hides_growth()) << "the user has not acted on the shrink yet";
    user.let_go();
    user.wait_for(2);
    while (notices.hides_growth()) std::this_thread::yield();
    EXPECT_EQ(notices.size(), 32u);
    notices.watch({});
}

TEST(SizeNotices, do_not_hide_a_growth_without_a_shrink) {
    SizeNotices notices;
    ASSERT_TRUE(notices.start(16));
    User user;
    user.hold();
    notices.watch([&](uint64_t before, uint64_t after) { return user.heard(before, after); });
    notices.changed(32);
    EXPECT_FALSE(notices.hides_growth());
    user.let_go();
    notices.watch({});
}

TEST(SizeNotices, have_the_last_size_if_there_is_no_user) {
    SizeNotices notices;
    ASSERT_TRUE(notices.start(16));
    notices.changed(4);
    notices.changed(8);
    EXPECT_EQ(notices.size(), 8u);
}

}  // namespace
}  // namespace wss::io
