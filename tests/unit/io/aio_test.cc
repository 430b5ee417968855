// SPDX-License-Identifier: Apache-2.0
// Files and block devices: possible faults and their error messages.
#include "lib/io/aio/aio.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

Status open_error(const std::string& specification, const OpenOptions& options = {}) {
    auto backend = open_backend(specification, options);
    EXPECT_FALSE(backend) << specification << " should be refused";
    return backend.status();
}

TEST(OpenBackend, refuses_each_invalid_specification_and_names_a_missing_file) {
    TemporaryFolder folder;
    std::string missing = folder.file("missing");
    Status status = open_error("aio:" + missing);
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_NE(status.to_string().find(missing), std::string::npos) << status.to_string();
    EXPECT_EQ(open_error("aio:" + folder.path(), {.read_only = true}).code(), Code::kInvalid);
    EXPECT_EQ(open_error("aio:/dev/null").code(), Code::kInvalid);
    EXPECT_NE(open_error("aio:" + folder.file("empty"), {.create = true}).text().find("specify the size"),
              std::string::npos);
    EXPECT_EQ(open_error("aio:").code(), Code::kInvalid);
    EXPECT_EQ(open_error("nonsense").code(), Code::kInvalid);
    EXPECT_EQ(open_error("ram:").code(), Code::kInvalid);
    EXPECT_EQ(open_error("ram:1000").code(), Code::kInvalid) << "not a multiple of 512";
    EXPECT_EQ(open_error("ram:4000000G").code(), Code::kExhausted);
    EXPECT_EQ(open_error("aio:" + folder.file("odd"), {.size = 1000, .create = true}).code(), Code::kInvalid);
}

TEST(Aio, refuses_a_file_in_use_until_its_user_has_closed_it) {
    TemporaryFolder folder;
    std::string specification = "aio:" + folder.file("disk");
    {
        auto first = open_backend(specification, {.size = 1 << 20, .create = true});
        ASSERT_TRUE(first);
        Status second = open_error(specification);
        EXPECT_EQ(second.code(), Code::kBusy);
        EXPECT_NE(second.text().find("in use"), std::string::npos) << second.text();
        EXPECT_EQ(open_error(specification, {.read_only = true}).code(), Code::kBusy);
    }
    auto reader = open_backend(specification, {.read_only = true});
    ASSERT_TRUE(reader);
    EXPECT_TRUE(open_backend(specification, {.read_only = true})) << "readers share";
}

TEST(Aio, refuses_changes_to_a_file_that_was_opened_read_only) {
    TemporaryFolder folder;
    std::string specification = "aio:" + folder.file("disk");
    { ASSERT_TRUE(open_backend(specification, {.size = 1 << 20, .create = true})); }
    auto rig = Rig::open(specification, {.read_only = true});
    Buffer buffer(4096);
    EXPECT_EQ(rig->run(Op::kWrite, 0, 4096, buffer.data()), EROFS);
    EXPECT_EQ(rig->run(Op::kDiscard, 0, 4096), EROFS);
    EXPECT_EQ(rig->run(Op::kWriteZeroes, 0, 4096), EROFS);
    EXPECT_EQ(rig->run(Op::kRead, 0, 4096, buffer.data()), 0);
    EXPECT_EQ(rig->run(Op::kFlush, 0, 0), 0);
    EXPECT_FALSE(rig->backend->resize(2 << 20));
}

TEST(Aio, lets_an_existing_file_grow_to_the_requested_size_and_never_truncates_it) {
    TemporaryFolder folder;
    std::string path = folder.file("disk");
    { ASSERT_TRUE(open_backend("aio:" + path, {.size = 1 << 20, .create = true})); }
    {
        auto grown = open_backend("aio:" + path, {.size = 2 << 20});
        ASSERT_TRUE(grown);
        EXPECT_EQ((*grown)->limits().size, uint64_t{2 << 20});
    }
    auto smaller = open_backend("aio:" + path, {.size = 1 << 20});
    ASSERT_TRUE(smaller);
    EXPECT_EQ(std::filesystem::file_size(path), uint64_t{2 << 20});
}

// Reads of holes need no disk: io_submit() completes them at once, as on a RAM disk.
TEST(Aio, completes_writes_after_many_reads_that_completed_at_once) {
    TemporaryFolder folder;
    auto rig = Rig::open("aio:" + folder.file("disk"), {.size = 1 << 20, .create = true});
    ASSERT_TRUE(rig);
    Buffer buffer(4096), back(4096);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(rig->run(Op::kRead, 4096, 4096, buffer.data()), 0);
    std::memset(buffer.data(), 0x5a, 4096);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(rig->run(Op::kWrite, 8192, 4096, buffer.data()), 0);
        EXPECT_EQ(rig->run(Op::kRead, 4096, 4096, back.data()), 0);
    }
    EXPECT_EQ(rig->run(Op::kRead, 8192, 4096, back.data()), 0);
    EXPECT_EQ(std::memcmp(buffer.data(), back.data(), 4096), 0);
}

TEST(Aio, works_at_offsets_beyond_two_tebibytes) {
    TemporaryFolder folder;
    constexpr uint64_t kTebi = uint64_t{1} << 40;
    auto backend = open_backend("aio:" + folder.file("sparse"), {.size = 3 * kTebi, .create = true});
    if (!backend) GTEST_SKIP() << "this file system has no files of 3 TiB: " << backend.status().to_string();
    Rig rig(std::move(*backend));
    Buffer out(8192), in(8192);
    out.fill(1);
    EXPECT_EQ(rig.run(Op::kWrite, 3 * kTebi - 8192, 8192, out.data()), 0);
    EXPECT_EQ(rig.run(Op::kRead, 3 * kTebi - 8192, 8192, in.data()), 0);
    EXPECT_EQ(std::memcmp(out.data(), in.data(), 8192), 0);
    EXPECT_EQ(rig.run(Op::kDiscard, 0, 3 * kTebi), 0);
}

TEST(Aio, returns_an_error_with_the_valid_length_for_a_file_truncated_by_another_program) {
    TemporaryFolder folder;
    std::string path = folder.file("disk");
    auto rig = Rig::open("aio:" + path, {.size = 1 << 20, .create = true});
    ASSERT_EQ(truncate(path.c_str(), 64 << 10), 0);
    Buffer buffer(128 << 10);
    TestRequest read(Op::kRead, 0, buffer.size(), buffer.data());
    EXPECT_EQ(rig->run(read), EIO);
    EXPECT_EQ(read.done_bytes, uint64_t{64 << 10});
}

// Limits the size of files while this object lives: the kernel shortens a write that crosses the limit.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) {
        old_handler_ = signal(SIGXFSZ, SIG_IGN);
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &old_), 0);
        rlimit limit{bytes, old_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &old_);
        signal(SIGXFSZ, old_handler_);
    }

  private:
    rlimit old_{};
    sighandler_t old_handler_;
};

TEST(Aio, reports_no_space_after_the_part_that_fits_for_a_write_cut_short_by_the_system) {
    TemporaryFolder folder;
    auto rig = Rig::open("aio:" + folder.file("disk"), {.size = 1 << 20, .create = true});
    Buffer buffer(128 << 10);
    buffer.fill(1);
    TestRequest write(Op::kWrite, 0, buffer.size(), buffer.data());
    {
        FileSizeLimit limit(64 << 10);
        EXPECT_EQ(rig->run(write), ENOSPC);
    }
    EXPECT_EQ(write.done_bytes, uint64_t{64 << 10});
    EXPECT_EQ(rig->run(Op::kWrite, 0, buffer.size(), buffer.data()), 0) << "the queue keeps working";
}

TEST(Aio, reports_no_space_on_a_full_file_system_and_keeps_working) {
    TemporaryFolder folder;
    if (mount("wss-test", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
        GTEST_SKIP() << "needs permission to mount a tmpfs: " << std::strerror(errno);
    {
        auto rig = Rig::open("aio:" + folder.file("disk"), {.size = 8 << 20, .create = true});
        Buffer buffer(4 << 20), small(4096);
        buffer.fill(1);
        TestRequest write(Op::kWrite, 0, buffer.size(), buffer.data());
        EXPECT_EQ(rig->run(write), ENOSPC);
        EXPECT_GT(write.done_bytes, 0u);
        EXPECT_LE(write.done_bytes, uint64_t{1 << 20});
        EXPECT_EQ(rig->run(Op::kDiscard, 0, 4 << 20), 0);
        EXPECT_EQ(rig->run(Op::kWrite, 0, 4096, small.data()), 0);
    }
    EXPECT_EQ(umount(folder.path().c_str()), 0);
}

// A loop device over a file. It needs root, and a machine that has loop devices.
class LoopDevice {
  public:
    LoopDevice(const std::string& file, uint64_t bytes, uint32_t block) {
        file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (file_ < 0 || control < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) return;
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        close(control);
        path_ = "/dev/loop" + std::to_string(number);
        device_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        loop_config config{};
        config.fd = static_cast<uint32_t>(file_);
        config.block_size = block;
        configured_ = device_ >= 0 && ioctl(device_, LOOP_CONFIGURE, &config) == 0;
        // An open descriptor would not prevent an exclusive open, but it is not needed.
        if (device_ >= 0) close(device_);
    }
    ~LoopDevice() {
        device_ = configured_ ? ::open(path_.c_str(), O_RDWR | O_CLOEXEC) : -1;
        if (device_ >= 0) {
            EXPECT_EQ(ioctl(device_, LOOP_CLR_FD), 0);
            close(device_);
        }
        if (file_ >= 0) close(file_);
    }
    bool exists() const { return configured_; }
    const std::string& path() const { return path_; }

  private:
    int file_ = -1, device_ = -1;
    bool configured_ = false;
    std::string path_;
};

class BlockDevice : public testing::TestWithParam<uint32_t> {};

TEST_P(BlockDevice, is_served_with_its_own_block_size_and_not_shared) {
    TemporaryFolder folder;
    LoopDevice device(folder.file("disk"), 8 << 20, GetParam());
    if (!device.exists()) GTEST_SKIP() << "needs permission to create a loop device";
    auto rig = Rig::open("aio:" + device.path());
    ASSERT_NE(rig, nullptr);
    Limits limits = rig->backend->limits();
    EXPECT_EQ(limits.size, uint64_t{8 << 20});
    EXPECT_EQ(limits.logical_block, GetParam());
    EXPECT_EQ(open_error("aio:" + device.path()).code(), Code::kBusy) << "opened exclusively";
    Buffer out(64 << 10, 16), in(64 << 10);
    out.fill(1);
    ASSERT_EQ(rig->run(Op::kWrite, 128 << 10, out.size(), out.data()), 0);
    ASSERT_EQ(rig->run(Op::kFlush, 0, 0), 0);
    ASSERT_EQ(rig->run(Op::kRead, 128 << 10, in.size(), in.data()), 0);
    EXPECT_EQ(std::memcmp(out.data(), in.data(), in.size()), 0);
    EXPECT_EQ(rig->run(Op::kRead, 0, 256, in.data()), EINVAL);
    ASSERT_EQ(rig->run(Op::kWriteZeroes, 128 << 10, 8192), 0);
    ASSERT_EQ(rig->run(Op::kRead, 128 << 10, 12288, in.data()), 0);
    std::fill_n(out.data(), 8192, std::byte{0});
    EXPECT_EQ(std::memcmp(out.data(), in.data(), 12288), 0);
    if (limits.discard) {
        EXPECT_EQ(rig->run(Op::kDiscard, 1 << 20, 1 << 20), 0);
    }
    EXPECT_EQ(rig->backend->resize(16 << 20).code(), Code::kNoSpace) << "a device cannot grow";
    EXPECT_EQ(open_error("aio:" + device.path(), {.size = 16 << 20}).code(), Code::kBusy);
}

INSTANTIATE_TEST_SUITE_P(Sectors, BlockDevice, testing::Values(512u, 4096u),
                         [](const auto& chosen) { return std::to_string(chosen.param); });

}  // namespace
}  // namespace wss::io::test
