// SPDX-License-Identifier: Apache-2.0
// The queues of a volume, one on each reactor.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/unit/volume/closed.h"
#include "tests/unit/volume/stepped.h"

namespace wss::volume {
namespace {

class FailingBackend final : public io::Backend {
  public:
    io::Limits limits() const noexcept override { return {.size = 1 << 20}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override {
        return Status(Code::kExhausted, "there is no queue");
    }
    Status resize(uint64_t) override { return Status::ok(); }
    std::string describe() const override { return "failing"; }
};

TEST_F(InAVolumeSet, a_volume_without_a_queue_on_each_reactor_is_not_created_at_all) {
    reopen({.open = [](const std::string&, const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return std::unique_ptr<io::Backend>(std::make_unique<FailingBackend>());
    }});
    Hears hears;
    set_->table(0).add_observer(hears);
    Status status = create("a", "any");
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_EQ(set_->count(), 0u);
    EXPECT_TRUE(hears.heard.empty()) << "no observer may see an unusable volume";
    set_->table(0).remove_observer(hears);
}

// A queue on storage that others poll as well: the queue does not own the descriptor that it watches.
class BorrowingBackend final : public io::Backend {
  public:
    explicit BorrowingBackend(int fd) : fd_(fd) {}
    io::Limits limits() const noexcept override { return {.size = 1 << 20}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override {
        return std::unique_ptr<io::Queue>(std::make_unique<BorrowingQueue>(fd_));
    }
    Status resize(uint64_t) override { return Status::ok(); }
    std::string describe() const override { return "borrowing"; }

  private:
    struct BorrowingQueue final : io::Queue {
        explicit BorrowingQueue(int watched) : event_fd(watched) {}
        void submit(io::Request&) noexcept override {}
        size_t poll() noexcept override { return 0; }
        int fd() const noexcept override { return event_fd; }
        size_t in_flight() const noexcept override { return 0; }
        const int event_fd;
    };
    const int fd_;
};

TEST_F(InAVolumeSet, a_removed_volume_wakes_no_reactor) {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    reopen({.open = [fd](const std::string&, const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return std::unique_ptr<io::Backend>(std::make_unique<BorrowingBackend>(fd));
    }});
    auto is_woken = [&] {
        pollfd table{.fd = set_->table(0).fd(), .events = POLLIN, .revents = 0};
        return poll(&table, 1, 0) == 1;
    };
    ASSERT_TRUE(create("a", "any"));
    ASSERT_EQ(eventfd_write(fd, 1), 0);
    EXPECT_TRUE(is_woken());
    ASSERT_TRUE(remove("a"));
    EXPECT_FALSE(is_woken());
    ::close(fd);
}

// Storage with a request in flight until the test completes it.
struct Busy {
    std::atomic<bool> has_request{true}, closed{false};
};
class BusyBackend final : public io::Backend {
  public:
    explicit BusyBackend(Busy& busy) : busy_(busy) {}
    ~BusyBackend() override { busy_.closed = true; }
    io::Limits limits() const noexcept override { return {.size = 1 << 20}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override {
        return std::unique_ptr<io::Queue>(std::make_unique<BusyQueue>(busy_));
    }
    Status resize(uint64_t) override { return Status::ok(); }
    std::string describe() const override { return "busy"; }

  private:
    struct BusyQueue final : io::Queue {
        explicit BusyQueue(Busy& of) : busy(of) {}
        void submit(io::Request&) noexcept override {}
        size_t poll() noexcept override { return 0; }
        bool arm() noexcept override { return false; }
        size_t in_flight() const noexcept override { return busy.has_request ? 1 : 0; }
        Busy& busy;
    };
    Busy& busy_;
};

TEST(VolumeQueue, that_ends_after_the_command_timed_out_has_its_storage_closed) {
    Busy busy;
    SystemClock clock;
    reactor::Reactor reactor(clock);
    VolumeSet set({&reactor}, {.open = [&](const std::string&,
                                           const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
                                   return std::unique_ptr<io::Backend>(std::make_unique<BusyBackend>(busy));
                               },
                               .wait = from_s(1)});
    std::thread thread([&] { reactor.run(); });
    ASSERT_TRUE(set.create({.name = "a", .backend = "any"}));
    EXPECT_EQ(set.remove("a").code(), Code::kTimedOut);
    EXPECT_FALSE(busy.closed);
    busy.has_request = false;
    const Nanoseconds deadline = clock.now() + io::test::kPatience;
    while (!busy.closed && clock.now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(busy.closed);
    EXPECT_TRUE(closed(set));
    reactor.stop();
    thread.join();
}

}  // namespace
}  // namespace wss::volume
