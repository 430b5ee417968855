// SPDX-License-Identifier: Apache-2.0
// Before a command deletes a volume, the set queries an observer that may hold acknowledged data that storage
// does not have.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

constexpr Nanoseconds kWait = from_s(20);  // no test waits for it to pass

class VolumeDeletion : public testing::Test {
  protected:
    void SetUp() override {
        start();
        ASSERT_TRUE(set_->create(
            {.name = "a", .backend = "aio:" + folder_.file("a"), .size = 1 << 20, .create = true}));
        wwid_ = set_->find("a")->identity.wwid;
    }
    void start() {
        reactor_ = std::make_unique<reactor::Reactor>(clock_);
        set_ = std::make_unique<VolumeSet>(
            std::vector<reactor::Reactor*>{reactor_.get()},
            VolumeSet::Options{.state = locked(path()),
                               .write =
                                   [this](const StateLock& to, const std::vector<StoredVolume>& volumes) {
                                       if (!volumes.empty() && volumes.front().deleted) recorded();
                                       return write_state_file(to, volumes);
                                   },
                               .before_deletion = [this](Deletion deletion) { before_(std::move(deletion)); },
                               .wait = kWait});
        thread_ = std::thread([this] { reactor_->run(); });
        ASSERT_TRUE(set_->restore());
    }
    void TearDown() override { end(); }
    void end() {
        EXPECT_TRUE(set_->close_all());
        reactor_->stop();
        thread_.join();
        set_.reset();
    }
    void recorded() {
        held_when_recorded_ = !held_.expired();
        removing_when_recorded_ = set_->find("a") && set_->find("a")->removing;
    }
    std::shared_ptr<int> make_hold() {
        auto hold = std::make_shared<int>();
        held_ = hold;
        return hold;
    }
    std::string path() { return folder_.file("state.json"); }
    std::string text() {
        std::stringstream all;
        all << std::ifstream(path()).rdbuf();
        return all.str();
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    std::unique_ptr<reactor::Reactor> reactor_;
    std::function<void(Deletion)> before_;
    std::weak_ptr<int> held_;
    bool held_when_recorded_ = false, removing_when_recorded_ = false;
    uint64_t wwid_ = 0;
    std::unique_ptr<VolumeSet> set_;
    std::thread thread_;
};

TEST_F(VolumeDeletion, that_is_refused_beforehand_changes_nothing) {
    before_ = [&](const Deletion& deletion) {
        EXPECT_EQ(deletion.wwid, wwid_);
        EXPECT_EQ(deletion.name, "a");
        EXPECT_FALSE(deletion.give_up_dirty);
        EXPECT_LT(deletion.limit, kWait);
        deletion.answer(Status(Code::kRefused, "dirty"), nullptr);
    };
    const std::string before = text();
    EXPECT_EQ(set_->remove("a").code(), Code::kRefused);
    EXPECT_EQ(text(), before);
    ASSERT_TRUE(set_->find("a"));
    EXPECT_FALSE(set_->find("a")->removing);
}

// If the deletion were recorded first, a start after a crash would complete it although it was refused.
TEST_F(VolumeDeletion, of_a_volume_that_was_opened_during_it_is_refused_before_it_is_recorded) {
    const std::string file = folder_.file("a"), away = folder_.file("away");
    end();
    std::filesystem::rename(file, away);
    start();
    ASSERT_TRUE(set_->find("a")->closed);
    before_ = [&](const Deletion& deletion) {
        std::filesystem::rename(away, file);
        EXPECT_TRUE(set_->reopen("a", {}));
        deletion.answer(Status::ok(), nullptr);
    };
    EXPECT_EQ(set_->remove("a").code(), Code::kBusy);
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
    ASSERT_TRUE(set_->find("a"));
    EXPECT_FALSE(set_->find("a")->closed);
    EXPECT_EQ(set_->find("a")->identity.wwid, wwid_);
}

TEST_F(VolumeDeletion, that_is_recorded_blocks_opening_and_removing_the_volume) {
    before_ = [](const Deletion& deletion) { deletion.answer(Status::ok(), nullptr); };
    EXPECT_TRUE(set_->remove("a"));
    EXPECT_TRUE(removing_when_recorded_);
}

TEST_F(VolumeDeletion, keeps_the_hold_until_the_volume_is_gone) {
    before_ = [&](const Deletion& deletion) {
        EXPECT_TRUE(deletion.give_up_dirty);
        reactor_->post([this, deletion] { deletion.answer(Status::ok(), make_hold()); });
    };
    EXPECT_TRUE(set_->remove("a", {.give_up_dirty = true}));
    EXPECT_TRUE(held_when_recorded_);
    EXPECT_TRUE(held_.expired());
    EXPECT_EQ(set_->count(), 0u);
}

TEST_F(VolumeDeletion, ignores_a_late_answer_and_releases_its_hold) {
    std::function<void(Status, Deletion::Hold)> late;
    before_ = [&](const Deletion& deletion) { late = deletion.answer; };
    EXPECT_EQ(set_->remove("a").code(), Code::kTimedOut);
    EXPECT_FALSE(set_->find("a")->removing);
    std::exchange(late, nullptr)(Status::ok(), make_hold());
    EXPECT_TRUE(held_.expired());
}

TEST_F(VolumeDeletion, of_an_unknown_volume_queries_no_observer) {
    before_ = [&](const Deletion&) { ADD_FAILURE(); };
    EXPECT_EQ(set_->remove("b").code(), Code::kNotFound);
}

}  // namespace
}  // namespace wss::volume
