// SPDX-License-Identifier: Apache-2.0
// A volume without a cache shrinks while writes beyond its new end are in flight.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "tests/unit/io/harness.h"
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

// A file whose writes stay in the kernel until the test releases them. The writes ignore the file's current
// end.
class Kernel final : public io::Backend {
  public:
    Kernel(int fd, const bool& goes_on) : fd_(fd), goes_on_(goes_on) {}
    ~Kernel() override { ::close(fd_); }
    io::Limits limits() const noexcept override {
        return {.size = static_cast<uint64_t>(::lseek(fd_, 0, SEEK_END))};
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override {
        return std::unique_ptr<io::Queue>(std::make_unique<Writes>(*this));
    }
    Status resize(uint64_t bytes) override {
        return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Status::ok()
                                                                : Status::from_errno(errno, "cut");
    }
    std::string describe() const override { return "kernel"; }

  private:
    struct Writes final : io::Queue {
        explicit Writes(Kernel& its_file) : file(its_file) {}
        void submit(io::Request& request) noexcept override { requests.push_back(&request); }
        size_t in_flight() const noexcept override { return requests.size(); }
        size_t poll() noexcept override {
            if (!file.goes_on_ || requests.empty()) return 0;
            for (io::Request* request : std::exchange(requests, {})) {
                const auto wrote =
                    ::pwrite(file.fd_, request->data, request->length, static_cast<off_t>(request->offset));
                request->error = wrote < 0 ? errno : 0;
                request->done(*request);
            }
            return 1;
        }
        Kernel& file;
        std::vector<io::Request*> requests;
    };
    const int fd_;
    const bool& goes_on_;
};

class Shrinking : public ::testing::Test {
  protected:
    static constexpr uint64_t kBytes = 1 << 20, kSmall = 1 << 19;
    static constexpr uint64_t kLast = kBytes / 512 - 8;  // block

    WorldOptions options() {
        WorldOptions options;
        options.volumes.open = [this](const std::string&,
                                      const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
            const int fd = ::open(folder_.file("disk").c_str(), O_RDWR | O_CREAT, 0600);
            auto file = std::make_unique<Kernel>(fd, goes_on_);
            EXPECT_TRUE(file->resize(kBytes));
            return std::unique_ptr<io::Backend>(std::move(file));
        };
        return options;
    }
    void SetUp() override {
        world_.add_volume("v", "kernel", kBytes);
        client_ = world_.client();
    }
    uint64_t write(uint64_t block) {
        return client_->start(0, cdb_write16(block, 8), Direction::kOut, {client_->remote(0, 4096)});
    }
    bool in_storage() { return world_.volumes().table(0).find(0)->queue().in_flight() > 0; }
    void begin_shrink() {
        world_.volumes().resize_async("v", kSmall, [this](Status status) { shrunk_ = status; });
        for (int i = 0; i < 1000; ++i) world_.step();
    }
    uint64_t file_size() { return std::filesystem::file_size(folder_.file("disk")); }

    io::test::TemporaryFolder folder_;
    bool goes_on_ = false;
    World world_{options()};
    std::unique_ptr<RawClient> client_;
    std::optional<Status> shrunk_;
};

TEST_F(Shrinking, leaves_the_file_truncated_even_if_a_write_beyond_its_new_end_is_in_storage) {
    const uint64_t tag = write(kLast);
    ASSERT_TRUE(world_.until([&] { return in_storage(); }));
    begin_shrink();
    goes_on_ = true;
    ASSERT_TRUE(world_.until([&] { return shrunk_ && client_->answered(tag); }));
    EXPECT_TRUE(*shrunk_);
    EXPECT_EQ(file_size(), kSmall);
}

TEST_F(Shrinking, does_not_wait_for_writes_before_the_new_end) {
    const uint64_t tag = write(0);
    ASSERT_TRUE(world_.until([&] { return in_storage(); }));
    begin_shrink();
    EXPECT_TRUE(shrunk_.has_value());
    EXPECT_FALSE(client_->answered(tag));
    goes_on_ = true;
    ASSERT_TRUE(world_.until([&] { return client_->answered(tag); }));
    EXPECT_EQ(client_->take(tag).response.status, wire::kGood);
}

TEST_F(Shrinking, refuses_writes_beyond_the_new_end) {
    goes_on_ = true;
    begin_shrink();
    ASSERT_TRUE(shrunk_.has_value());
    const uint64_t late = write(kLast);
    ASSERT_TRUE(world_.until([&] { return client_->answered(late); }));
    EXPECT_EQ(client_->take(late).response.status, wire::kCheckCondition);
    EXPECT_EQ(file_size(), kSmall);
}

}  // namespace
}  // namespace wss::block::testing
