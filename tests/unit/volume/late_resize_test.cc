// SPDX-License-Identifier: Apache-2.0
// A resize may take longer in observers or storage than its command waits. The resize ends when they answer.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/closed.h"
#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/slow_storage.h"

namespace wss::volume {
namespace {

constexpr uint64_t kSize = 1 << 20, kSmall = 512 << 10;

// Holds back shrinks until the test releases them.
class Keeper final : public Observer {
  public:
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept override {
        keeps ? kept.push_back(std::move(shrink)) : shrink->done();
    }
    bool keeps = true;
    std::vector<std::shared_ptr<Shrink>> kept;
};

class LateResize : public testing::Test {
  protected:
    void SetUp() override {
        start();
        ASSERT_TRUE(set_->create(
            {.name = "a", .backend = "aio:" + folder_.file("a"), .size = kSize, .create = true}));
    }
    void TearDown() override { stop(); }
    void start() {
        slow_.others_size = 0;
        reactor_ = std::make_unique<reactor::Reactor>(clock_);
        set_ = std::make_unique<VolumeSet>(
            std::vector<reactor::Reactor*>{reactor_.get()},
            VolumeSet::Options{.state = locked(folder_.file("state.json")),
                               .open = [this](const std::string& specification, const io::OpenOptions& how)
                                   -> Result<std::unique_ptr<io::Backend>> {
                                   auto file = io::open_backend(specification, how);
                                   if (!file) return file.status();
                                   return std::unique_ptr<io::Backend>(
                                       std::make_unique<SlowBackend>(slow_, std::move(*file)));
                               },
                               .wait = from_s(1)});
        set_->table(0).add_observer(keeper_);
        thread_ = std::thread([this] { reactor_->run(); });
        ASSERT_TRUE(set_->restore());
    }
    void stop() {
        EXPECT_TRUE(closed(*set_));
        reactor_->stop();
        thread_.join();
        set_->table(0).remove_observer(keeper_);
        set_.reset();
    }
    // Releases the held shrinks on the reactor's thread: all of them end, or all are dropped.
    void let_go(bool of_all) {
        std::promise<void> done;
        reactor_->post([&] {
            if (of_all)
                for (const auto& shrink : keeper_.kept) shrink->done();
            keeper_.kept.clear();
            keeper_.keeps = false;
            done.set_value();
        });
        done.get_future().wait();
    }
    bool is_recorded_as_to_be_cut() {
        std::ifstream file(folder_.file("state.json"));
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        return text.find("cut_from") != std::string::npos;
    }
    bool becomes(const std::function<bool()>& condition) {
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        while (!condition() && clock_.now() < deadline) std::this_thread::yield();
        return condition();
    }
    uint64_t file_size() { return std::filesystem::file_size(folder_.file("a")); }
    // Repeats the resize while an earlier one is in progress.
    Status resize_when_over(uint64_t bytes) {
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        for (;;) {
            Status resized = set_->resize("a", bytes);
            if (resized.code() != Code::kBusy || clock_.now() > deadline) return resized;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    Keeper keeper_;
    Slow slow_;
    std::unique_ptr<reactor::Reactor> reactor_;
    std::unique_ptr<VolumeSet> set_;
    std::thread thread_;
};

TEST_F(LateResize, truncates_storage_when_observers_release_it_after_the_command_timed_out) {
    const Status late = set_->resize("a", kSmall);
    EXPECT_EQ(late.code(), Code::kTimedOut);
    EXPECT_NE(late.text().find("continuing in the background"), std::string::npos) << late.text();
    EXPECT_EQ(file_size(), kSize);
    EXPECT_EQ(set_->resize("a", kSize).code(), Code::kBusy) << "it is in progress";
    let_go(true);
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (file_size() != kSmall && clock_.now() < deadline) std::this_thread::yield();
    EXPECT_EQ(file_size(), kSmall);
    EXPECT_TRUE(resize_when_over(kSize));
    EXPECT_EQ(set_->find("a")->size, kSize);
}

// If the shrink did not end and others later gave the storage its former size, the next start would consider
// the shrink incomplete.
TEST_F(LateResize, that_shrinks_ends_when_storage_answers_after_the_command_timed_out) {
    keeper_.keeps = false;
    slow_.silent = true;
    const Status late = set_->resize("a", kSmall);
    EXPECT_EQ(late.code(), Code::kTimedOut);
    EXPECT_NE(late.text().find("continuing in the background"), std::string::npos) << late.text();
    EXPECT_EQ(set_->resize("a", kSize).code(), Code::kBusy) << "it is in progress";
    EXPECT_TRUE(is_recorded_as_to_be_cut());
    slow_.silent = false;
    EXPECT_TRUE(becomes([this] { return !is_recorded_as_to_be_cut(); }));
    EXPECT_EQ(file_size(), kSmall);
    stop();
    std::filesystem::resize_file(folder_.file("a"), kSize);
    start();
    EXPECT_EQ(file_size(), kSize) << "the size that others have set is kept";
}

TEST_F(LateResize, gives_a_volume_its_new_size_when_storage_has_grown_after_the_command_timed_out) {
    slow_.silent = true;
    const Status late = set_->resize("a", 2 * kSize);
    EXPECT_EQ(late.code(), Code::kTimedOut);
    EXPECT_NE(late.text().find("continuing in the background"), std::string::npos) << late.text();
    EXPECT_EQ(set_->find("a")->size, kSize);
    slow_.silent = false;
    EXPECT_TRUE(becomes([this] { return set_->find("a")->size == 2 * kSize; }));
    stop();
    start();
    EXPECT_EQ(set_->find("a")->size, 2 * kSize);
}

TEST_F(LateResize, that_shrinks_and_is_not_answered_by_storage_can_be_repeated_after_a_start) {
    keeper_.keeps = false;
    slow_.silent = true;
    EXPECT_EQ(set_->resize("a", kSmall).code(), Code::kTimedOut);
    stop();
    EXPECT_EQ(file_size(), kSize);
    slow_.silent = false;
    start();
    EXPECT_EQ(file_size(), kSize) << "a start does not truncate";
    EXPECT_TRUE(set_->resize("a", kSmall));
    EXPECT_EQ(file_size(), kSmall);
    EXPECT_FALSE(is_recorded_as_to_be_cut());
}

// Others may have written beyond the new end.
TEST_F(LateResize, does_not_truncate_storage_that_others_have_taken_since) {
    keeper_.keeps = false;
    slow_.refuses = true;
    EXPECT_FALSE(set_->resize("a", kSmall));
    EXPECT_TRUE(is_recorded_as_to_be_cut());
    EXPECT_TRUE(slow_.changed(kSize, 0));
    EXPECT_FALSE(is_recorded_as_to_be_cut());
    stop();
    slow_.refuses = false;
    start();
    EXPECT_EQ(file_size(), kSize);
    EXPECT_EQ(set_->find("a")->size, kSmall);
    EXPECT_TRUE(resize_when_over(kSmall / 2));
    EXPECT_EQ(file_size(), kSize) << "the volume covers only a part of it";
}

// Without this wait, the set could be destroyed before the notice ends.
TEST_F(LateResize, by_others_ends_its_notice_before_the_set_ends) {
    std::filesystem::resize_file(folder_.file("a"), kSmall);
    std::thread notice([&] { (void)slow_.changed(kSize, kSmall); });
    EXPECT_TRUE(becomes([this] {
        std::promise<bool> waits;
        reactor_->post([&] { waits.set_value(!keeper_.kept.empty()); });
        return waits.get_future().get();
    }));
    EXPECT_TRUE(set_->close_all());
    EXPECT_EQ(slow_.backends, 0) << "the notice no longer holds its volume";
    EXPECT_TRUE(slow_.changed(kSmall, kSize)) << "the set has ended, so the notice need not be repeated";
    notice.join();
    let_go(true);
}

TEST_F(LateResize, that_fails_after_the_command_timed_out_can_be_repeated) {
    EXPECT_EQ(set_->resize("a", kSmall).code(), Code::kTimedOut);
    let_go(false);
    EXPECT_TRUE(resize_when_over(kSmall));
    EXPECT_EQ(file_size(), kSmall);
}

TEST_F(LateResize, is_abandoned_at_the_end_of_the_set_and_can_be_repeated_after_a_start) {
    EXPECT_EQ(set_->resize("a", kSmall).code(), Code::kTimedOut);
    stop();
    EXPECT_EQ(file_size(), kSize);
    for (const auto& shrink : keeper_.kept) shrink->done();
    keeper_.kept.clear();
    keeper_.keeps = false;
    EXPECT_EQ(file_size(), kSize) << "the set has ended and truncates nothing";
    start();
    EXPECT_EQ(set_->find("a")->size, kSmall);
    EXPECT_TRUE(set_->resize("a", kSmall));
    EXPECT_EQ(file_size(), kSmall);
}

TEST_F(LateResize, of_a_volume_that_is_deleted_meanwhile_leaves_its_storage_unchanged) {
    EXPECT_EQ(set_->resize("a", kSmall).code(), Code::kTimedOut);
    EXPECT_TRUE(set_->remove("a"));
    let_go(true);
    // The backend of "a" closes when the shrink has ended.
    const VolumeOptions again{.name = "b", .backend = "aio:" + folder_.file("a")};
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    Status created = set_->create(again);
    while (!created && clock_.now() < deadline) created = set_->create(again);
    ASSERT_TRUE(created) << created.to_string();
    EXPECT_EQ(set_->find("b")->size, kSize);
}

// Ceph refused to shrink the image. The operator shrank it by rbd resize and later uses the space that is
// added to it.
TEST_F(LateResize, that_shrinks_ends_when_others_have_made_the_storage_smaller) {
    keeper_.keeps = false;
    slow_.refuses = true;
    EXPECT_FALSE(set_->resize("a", kSmall));
    EXPECT_TRUE(is_recorded_as_to_be_cut());
    std::filesystem::resize_file(folder_.file("a"), kSmall);
    EXPECT_TRUE(slow_.changed(kSize, kSmall));
    EXPECT_FALSE(is_recorded_as_to_be_cut());
    stop();
    slow_.refuses = false;
    std::filesystem::resize_file(folder_.file("a"), kSize);
    start();
    EXPECT_EQ(file_size(), kSize) << "the size that others have set is kept";
}

TEST_F(LateResize, that_shrinks_ends_when_others_have_made_the_storage_larger) {
    keeper_.keeps = false;
    slow_.refuses = true;
    EXPECT_FALSE(set_->resize("a", kSmall));
    std::filesystem::resize_file(folder_.file("a"), 2 * kSize);
    EXPECT_TRUE(slow_.changed(kSize, 2 * kSize));
    EXPECT_EQ(set_->find("a")->size, kSmall) << "it was created as a part";
    EXPECT_FALSE(is_recorded_as_to_be_cut());
}

// The notice of that size is repeated and waits for the end of this one.
TEST_F(LateResize, by_others_that_they_have_undone_does_not_prevent_a_resize_by_the_operator) {
    keeper_.keeps = false;
    slow_.refuses = true;
    EXPECT_FALSE(set_->resize("a", kSmall));
    stop();
    std::filesystem::resize_file(folder_.file("a"), kSmall);
    keeper_.keeps = true;
    start();  // finds an incomplete shrink
    EXPECT_FALSE(slow_.changed(kSmall, 2 * kSize)) << "observers do not release it";
    let_go(true);
    slow_.refuses = false;
    EXPECT_TRUE(resize_when_over(kSmall / 2));
    EXPECT_EQ(set_->find("a")->size, kSmall / 2);
}

}  // namespace
}  // namespace wss::volume
