// SPDX-License-Identifier: Apache-2.0
#include "target/volume/late_ends.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace wss::volume {
namespace {

// Starts tasks on threads, unless there are none.
class LateEndsWithoutThreads : public testing::Test {
  protected:
    ~LateEndsWithoutThreads() override { threads_.clear(); }
    Status start(LateEnds::Task task) {
        if (attempts_++ < 1) return Status(Code::kExhausted, "no thread");
        threads_.emplace_back(std::move(task));
        return Status::ok();
    }
    std::atomic<int> attempts_ = 0;
    std::list<std::jthread> threads_;
    LateEnds late_{[this](LateEnds::Task task) { return start(std::move(task)); }};
};

// The command has begun: without its task, a resize of storage would never reach the volume.
TEST_F(LateEndsWithoutThreads, start_a_task_when_a_thread_can_be_created) {
    std::promise<void> ran;
    EXPECT_TRUE(late_.begin([&](const std::stop_token&) { ran.set_value(); }));
    EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
    late_.stop();
}

TEST_F(LateEndsWithoutThreads, drop_a_task_that_has_not_started_when_they_stop) {
    auto held = std::make_shared<int>(0);
    EXPECT_TRUE(late_.begin([held](const std::stop_token&) { ADD_FAILURE() << "it has started"; }));
    late_.stop();
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_EQ(late_.begin([](const std::stop_token&) {}).code(), Code::kClosed);
}

}  // namespace
}  // namespace wss::volume
