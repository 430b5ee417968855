// SPDX-License-Identifier: Apache-2.0
// An exception that librados throws ends the call, not the process.
#include "lib/io/rbd/plugin/bounded.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <memory>
#include <new>
#include <system_error>

#include "lib/base/descriptors.h"

namespace wss::io::rbd {
namespace {

Status result_of(std::function<Status()> what) {
    BoundedCall call;
    EXPECT_TRUE(call.start(std::move(what)));
    return call.wait_until(in_seconds(30)).value_or(Status(Code::kTimedOut, "no answer"));
}

[[noreturn]] void run_out_of(int error) {
    throw std::system_error(error, std::generic_category());
}

TEST(RbdBoundedCall, returns_the_result_of_the_call_and_has_released_what_it_captured) {
    const auto held = std::make_shared<int>(1);
    EXPECT_TRUE(result_of([held] { return Status::ok(); }));
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_EQ(result_of([] { return failure(Code::kBusy, "no"); }).code(), Code::kBusy);
}

// Sets the size of the stacks of new threads.
void set_stacks(size_t bytes) {
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
}

TEST(RbdBoundedCall, without_a_thread_has_no_result_to_be_taken) {
    BoundedCall call;
    set_stacks(size_t{1} << 60);
    EXPECT_FALSE(call.start([] { return Status::ok(); }));
    set_stacks(8 << 20);
    EXPECT_FALSE(call.is_started());
}

TEST(RbdBoundedCall, names_the_resource_that_ran_out_and_its_limit) {
    const Status descriptors = result_of([]() -> Status { run_out_of(EMFILE); });
    EXPECT_EQ(descriptors.code(), Code::kExhausted);
    EXPECT_NE(descriptors.text().find("LimitNOFILE"), std::string::npos) << descriptors.text();
    const Status threads = result_of([]() -> Status { run_out_of(EAGAIN); });
    EXPECT_EQ(threads.code(), Code::kExhausted);
    EXPECT_NE(threads.text().find("TasksMax"), std::string::npos) << threads.text();
    EXPECT_NE(result_of([]() -> Status { throw std::bad_alloc(); }).text().find("memory"), std::string::npos);
    EXPECT_NE(result_of([]() -> Status { throw std::runtime_error("odd"); }).text().find("odd"),
              std::string::npos);
}

TEST(RbdBoundedCall, keeps_partial_results_of_a_call_that_threw) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> half_made = held;
    const uint32_t before = leaks.load();
    EXPECT_FALSE(result_of([held = std::move(held)]() -> Status { run_out_of(EMFILE); }));
    EXPECT_FALSE(half_made.expired());
    EXPECT_EQ(leaks.load(), before + 1);
}

TEST(RbdRoom, for_an_image_is_missing_in_a_process_with_few_descriptors_left) {
    EXPECT_TRUE(check_room());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = before.rlim_cur - descriptors_left() + 2 * kImageDescriptors;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const Status room = check_room();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(room.code(), Code::kExhausted);
    EXPECT_NE(room.text().find("LimitNOFILE"), std::string::npos) << room.text();
}

}  // namespace
}  // namespace wss::io::rbd
