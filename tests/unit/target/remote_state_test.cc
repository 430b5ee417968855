// SPDX-License-Identifier: Apache-2.0
// The state of a volume whose real storage is on another node.
#include "target/cache/remote_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <utility>
#include <vector>

#include "tests/unit/io/harness.h"

namespace wss::cache {
namespace {

using Notice = std::pair<uint64_t, uint64_t>;

class StateOfRemoteStorage : public testing::Test {
  protected:
    StateOfRemoteStorage() {
        state_->watch([this](uint64_t before, uint64_t after) {
            std::lock_guard lock(m_);
            notices_.emplace_back(before, after);
            news_.notify_one();
            return true;
        });
    }
    ~StateOfRemoteStorage() override { state_->watch({}); }
    std::vector<Notice> notices(size_t count) {
        std::unique_lock lock(m_);
        news_.wait_for(lock, std::chrono::nanoseconds(io::test::kPatience.count),
                       [&] { return notices_.size() >= count; });
        return notices_;
    }

    const std::shared_ptr<RemoteState> state_ = *RemoteState::create(1 << 20, 4096);
    std::mutex m_;
    std::condition_variable news_;
    std::vector<Notice> notices_;
};

TEST_F(StateOfRemoteStorage, has_the_size_of_the_volume_until_one_is_reported) {
    EXPECT_EQ(state_->bytes(), uint64_t{1 << 20});
    state_->report(4 << 20, false, "");
    EXPECT_EQ(notices(1), std::vector<Notice>({{0, 4 << 20}})) << "it was not known before";
    EXPECT_EQ(state_->bytes(), uint64_t{4 << 20});
    state_->report(2 << 20, false, "");
    EXPECT_EQ(notices(2).back(), Notice(4 << 20, 2 << 20));
}

TEST_F(StateOfRemoteStorage, is_suspended_until_real_storage_has_reported_and_refusals_do_not_change_that) {
    EXPECT_TRUE(state_->is_suspended());
    state_->refuse({.why = "a former process"});
    EXPECT_TRUE(state_->is_suspended());
    state_->report(1 << 20, false, "");
    EXPECT_FALSE(state_->is_suspended());
    state_->refuse({.why = "away"});
    EXPECT_FALSE(state_->is_suspended());
}

TEST_F(StateOfRemoteStorage, shows_after_a_loss_before_a_report_that_the_size_was_unknown) {
    state_->lose("taken");
    EXPECT_EQ(notices(1), std::vector<Notice>({{0, 0}}));
    EXPECT_TRUE(state_->is_lost());
    EXPECT_EQ(state_->bytes(), uint64_t{1 << 20});
}

TEST_F(StateOfRemoteStorage, is_lost_if_the_storage_is_smaller_than_one_block) {
    state_->report(4096, false, "");
    EXPECT_EQ(notices(1).back(), Notice(0, 4096));
    EXPECT_FALSE(state_->is_lost());
    state_->report(3584, false, "");
    EXPECT_TRUE(state_->is_lost());
    EXPECT_EQ(notices(2).back(), Notice(4096, 0));
}

}  // namespace
}  // namespace wss::cache
