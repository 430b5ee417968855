// SPDX-License-Identifier: Apache-2.0
// The state file may contain a change that was refused because its save failed. The set corrects the file.
#include <atomic>
#include <chrono>

#include "tests/unit/volume/volume_state.h"

namespace wss::volume {
namespace {

TEST_F(VolumeState, undoes_changes_at_the_stop_that_could_not_be_undone_in_the_file_before) {
    std::atomic<bool> fails{true};
    write_ = [&fails](const auto& to, const auto& volumes) {
        if (fails && !volumes[0].write_protected) return Status::from_errno(ENOSPC, to.path());
        Status written = write_state_file(to, volumes);
        return fails ? Status::from_errno(EIO, "sync its folder") : written;
    };
    EXPECT_FALSE(set_->set_read_only("a", true));
    ASSERT_NE(text().find("write_protected"), std::string::npos) << text();
    fails = false;
    stop();
    start();
    EXPECT_FALSE(set_->find("a")->read_only);
}

TEST_F(VolumeState, undoes_a_refused_change_in_the_file_too) {
    bool failed = false;
    write_ = [&failed](const auto& to, const auto& volumes) {
        Status written = write_state_file(to, volumes);
        return std::exchange(failed, true) ? written : Status::from_errno(EIO, "sync its folder");
    };
    EXPECT_FALSE(set_->set_read_only("a", true));
    EXPECT_FALSE(set_->find("a")->read_only);
    stop();
    write_ = write_state_file;
    start();
    EXPECT_FALSE(set_->find("a")->read_only);
}

// The save of a change fails after the file has changed, and the save that undoes it fails too. Then the
// state disk works again, and the process crashes.
class VolumeStateRefused : public VolumeState {
  protected:
    void fail_twice() {
        write_ = [this](const auto& to, const auto& volumes) {
            const int before = saves_++;
            if (before == 1) return Status::from_errno(ENOSPC, to.path());
            Status written = write_state_file(to, volumes);
            return before == 0 ? Status::from_errno(EIO, "sync its folder") : written;
        };
    }
    bool is_refused_in_file() {
        const std::string now = text();
        return now.find("deleted") != std::string::npos || now.find("shrinking") != std::string::npos;
    }
    void crash_when_corrected() {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (is_refused_in_file() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        ASSERT_FALSE(is_refused_in_file()) << "no set corrects the file";
        const std::string at_crash = text();
        stop();
        std::ofstream(path()) << at_crash;
        deleted_.clear();
        start();
    }
    std::atomic<int> saves_{0};
};

TEST_F(VolumeStateRefused, does_not_let_the_next_start_complete_a_deletion) {
    fail_twice();
    ASSERT_FALSE(set_->remove("a"));
    ASSERT_TRUE(set_->find("a")) << "it is served and the file is written";
    ASSERT_TRUE(is_refused_in_file());
    crash_when_corrected();
    EXPECT_TRUE(set_->find("a"));
    EXPECT_TRUE(deleted_.empty());
}

TEST_F(VolumeStateRefused, does_not_let_the_next_start_complete_a_shrink) {
    fail_twice();
    ASSERT_FALSE(set_->resize("a", 1 << 19));
    ASSERT_EQ(set_->find("a")->size, uint64_t{1 << 20}) << "it has its former size";
    ASSERT_TRUE(is_refused_in_file());
    crash_when_corrected();
    EXPECT_EQ(file_size(), uint64_t{1 << 20});
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

TEST_F(VolumeStateRefused, does_not_make_a_stop_wait_for_its_correction) {
    fail_twice();
    ASSERT_FALSE(set_->set_read_only("a", true));
    stop();
    start();
    EXPECT_FALSE(set_->find("a")->read_only);
}

}  // namespace
}  // namespace wss::volume
