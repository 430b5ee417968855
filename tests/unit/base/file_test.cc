// SPDX-License-Identifier: Apache-2.0
// Small files are written completely or not at all, even when the disk is full.
#include "lib/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace wss {
namespace {

constexpr size_t kMax = 1 << 20;

class File : public testing::Test {
  public:
    File() {
        char name[] = "/tmp/wss-file-XXXXXX";
        folder_ = mkdtemp(name);
        path_ = folder_ + "/state";
    }
    ~File() override { std::filesystem::remove_all(folder_); }

  protected:
    std::string folder_, path_;
};

// A disk that accepts this many bytes of a file: write() writes the bytes that fit, and the next call fails.
class RoomFor {
  public:
    explicit RoomFor(rlim_t bytes) {
        getrlimit(RLIMIT_FSIZE, &before_);
        handler_ = signal(SIGXFSZ, SIG_IGN);
        rlimit now = before_;
        now.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &now);
    }
    ~RoomFor() {
        setrlimit(RLIMIT_FSIZE, &before_);
        signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_;
    sighandler_t handler_;
};

TEST_F(File, has_its_new_contents_after_a_replacement) {
    ASSERT_TRUE(replace_file(path_, "first"));
    ASSERT_TRUE(replace_file(path_, std::string(200'000, 'x')));
    EXPECT_EQ(*read_file(path_, kMax), std::string(200'000, 'x'));
    ASSERT_TRUE(replace_file(path_, ""));
    EXPECT_EQ(*read_file(path_, kMax), "");
}

TEST_F(File, keeps_its_old_contents_and_reports_an_error_if_the_disk_fills_up_half_way) {
    ASSERT_TRUE(replace_file(path_, "what was there"));
    Status status;
    {
        RoomFor room(10'000);
        errno = 0;
        status = replace_file(path_, std::string(30'000, 'x'));
    }
    EXPECT_FALSE(status) << "10 000 of 30 000 bytes were written";
    EXPECT_EQ(status.sys_errno(), EFBIG) << status.to_string();
    EXPECT_EQ(*read_file(path_, kMax), "what was there");
    EXPECT_FALSE(std::filesystem::exists(path_ + ".new")) << "it would occupy space on a full disk";
}

TEST_F(File, is_not_written_through_a_link_in_place_of_the_new_one) {
    const std::string victim = folder_ + "/victim";
    ASSERT_TRUE(replace_file(victim, "of somebody else"));
    ASSERT_EQ(symlink(victim.c_str(), (path_ + ".new").c_str()), 0);
    ASSERT_TRUE(replace_file(path_, "ours"));
    EXPECT_EQ(*read_file(victim, kMax), "of somebody else");
    EXPECT_FALSE(std::filesystem::is_symlink(path_));
    EXPECT_EQ(*read_file(path_, kMax), "ours");
}

TEST_F(File, keeps_the_mode_and_the_owner_of_the_file_that_it_replaces) {
    ASSERT_TRUE(replace_file(path_, "first"));
    ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
    const bool is_root = geteuid() == 0;
    if (is_root) {
        ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
    }
    ASSERT_TRUE(replace_file(path_, "second"));
    struct stat info {};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0640u);
    if (is_root) {
        EXPECT_EQ(info.st_uid, 65534u);
    }
}

TEST_F(File, in_a_missing_folder_causes_an_error_that_names_the_folder) {
    Status status = replace_file(folder_ + "/none/state", "text");
    EXPECT_EQ(status.sys_errno(), ENOENT);
    EXPECT_NE(status.text().find("/none/state"), std::string::npos) << status.text();
}

TEST_F(File, that_is_missing_is_distinguished_from_an_unreadable_one) {
    EXPECT_EQ(read_file(path_, kMax).status().sys_errno(), ENOENT);
    EXPECT_EQ(read_file(folder_, kMax).status().sys_errno(), EISDIR);
}

TEST_F(File, larger_than_allowed_is_refused_and_not_truncated) {
    ASSERT_TRUE(replace_file(path_, std::string(1001, 'x')));
    EXPECT_EQ(read_file(path_, 1000).status().code(), Code::kInvalid);
    EXPECT_TRUE(read_file(path_, 1001));
}

}  // namespace
}  // namespace wss
