// SPDX-License-Identifier: Apache-2.0
#include "target/volume/state_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

TEST(StateLock, refuses_a_second_user_of_a_state_file) {
    io::test::TemporaryFolder folder;
    const std::string path = folder.file("state.json");
    StateLock::Shared first = locked(path);
    const Status refused = StateLock::take(path).status();
    EXPECT_EQ(refused.code(), Code::kBusy);
    EXPECT_NE(refused.text().find(std::to_string(getpid())), std::string::npos) << refused.text();
    first.reset();
    EXPECT_TRUE(StateLock::take(path)) << "the lock is free again";
}

TEST(StateLock, that_was_removed_is_created_again_by_the_next_write) {
    io::test::TemporaryFolder folder;
    const std::string path = folder.file("state.json");
    StateLock::Shared first = locked(path);
    std::filesystem::remove(path + ".lock");
    EXPECT_TRUE(first->write("", "{}"));
    EXPECT_EQ(StateLock::take(path).status().code(), Code::kBusy);
}

TEST(StateLock, that_was_removed_does_not_let_its_user_overwrite_the_state_of_the_next_one) {
    io::test::TemporaryFolder folder;
    const std::string path = folder.file("state.json");
    StateLock::Shared first = locked(path);
    std::filesystem::remove(path + ".lock");
    StateLock::Shared second = locked(path);
    EXPECT_TRUE(second->write(".cache", "second"));
    const Status refused = first->write(".cache", "first");
    EXPECT_EQ(refused.code(), Code::kBusy);
    EXPECT_NE(refused.text().find("was removed"), std::string::npos) << refused.text();
    EXPECT_EQ(*read_file(path + ".cache", 100), "second");
}

TEST(StateLock, does_not_follow_a_link_in_its_place) {
    io::test::TemporaryFolder folder;
    const std::string path = folder.file("state.json"), victim = folder.file("victim");
    ASSERT_EQ(symlink(victim.c_str(), (path + ".lock").c_str()), 0);
    EXPECT_FALSE(StateLock::take(path));
    EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST(StateLock, of_another_user_is_refused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can create a file of another owner";
    io::test::TemporaryFolder folder;
    const std::string path = folder.file("state.json");
    locked(path).reset();
    ASSERT_EQ(chown((path + ".lock").c_str(), 65534, 65534), 0);
    const Status refused = StateLock::take(path).status();
    EXPECT_EQ(refused.code(), Code::kPermission);
    EXPECT_NE(refused.text().find("run as that user"), std::string::npos) << refused.text();
}

}  // namespace
}  // namespace wss::volume
