// SPDX-License-Identifier: Apache-2.0
// Many clients change settings of one volume at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

class SettingTurns : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(set_.restore());
        ASSERT_TRUE(set_.create({.name = "a", .backend = "ram:1M"}));
    }
    void TearDown() override { EXPECT_TRUE(set_.close_all()); }
    // Begins a change whose save takes `ms` milliseconds.
    std::future<Status> begin_change(const std::string& word, int ms) {
        write_takes_ms_ = ms;
        return std::async(std::launch::async, [this, word] { return set_.set_access("a", {word}); });
    }
    Status slow_write(const StateLock& to, const std::vector<StoredVolume>& volumes) {
        ++writes_;
        std::this_thread::sleep_for(std::chrono::milliseconds(write_takes_ms_));
        return write_state_file(to, volumes);
    }

    io::test::TemporaryFolder folder_;
    std::atomic<int> write_takes_ms_{0}, writes_{0};
    VolumeSet set_{{},
                   {.state = locked(folder_.file("state.json")),
                    .write = [this](const auto& to, const auto& volumes) { return slow_write(to, volumes); },
                    .wait = from_s(2)}};
};

TEST_F(SettingTurns, let_a_change_wait_for_any_number_of_earlier_ones) {
    std::vector<std::future<Status>> changes;
    for (int i = 0; i < 5; ++i) changes.push_back(begin_change("host" + std::to_string(i) + "=ro", 800));
    for (auto& change : changes) {
        const Status changed = change.get();
        EXPECT_TRUE(changed) << changed.to_string();
    }
}

TEST_F(SettingTurns, refuse_a_change_if_an_earlier_one_does_not_end_in_time) {
    const int before = writes_;
    auto first = begin_change("*=ro", 4000);
    while (writes_ == before) std::this_thread::yield();
    const Status late = set_.set_access("a", {"*=none"});
    EXPECT_EQ(late.code(), Code::kBusy);
    EXPECT_NE(late.text().find("another change is still in progress"), std::string::npos) << late.to_string();
    EXPECT_TRUE(first.get());
    EXPECT_EQ(set_.find("a")->access, std::vector<std::string>{"*=ro"});
    EXPECT_TRUE(begin_change("*=rw", 0).get()) << "a change that timed out delays no other";
}

}  // namespace
}  // namespace wss::volume
