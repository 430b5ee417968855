// SPDX-License-Identifier: Apache-2.0
// Storage may have what it acknowledged in the memory of this process alone (cache of librbd). A deletion and
// a stop flush it, and report when that fails.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

struct Flushes {
    std::atomic<int> begun{0}, error{0};
    std::atomic<bool> silent{false};
};

class CachingQueue final : public io::Queue {
  public:
    CachingQueue(Flushes& flushes, std::unique_ptr<io::Queue> inner)
        : flushes_(flushes), inner_(std::move(inner)) {}
    void submit(io::Request& request) noexcept override {
        if (request.op != io::Op::kFlush) return inner_->submit(request);
        ++flushes_.begun;
        waiting_.push_back(&request);
    }
    size_t poll() noexcept override {
        size_t events = inner_->poll();
        if (flushes_.silent) return events;
        for (io::Request* request : std::exchange(waiting_, {})) {
            request->error = flushes_.error;
            request->done(*request);
            ++events;
        }
        return events;
    }
    bool arm() noexcept override { return inner_->arm() && waiting_.empty(); }
    int fd() const noexcept override { return inner_->fd(); }
    size_t in_flight() const noexcept override { return inner_->in_flight() + waiting_.size(); }

  private:
    Flushes& flushes_;
    const std::unique_ptr<io::Queue> inner_;
    std::vector<io::Request*> waiting_;
};

class CachingBackend final : public io::Backend {
  public:
    explicit CachingBackend(Flushes& flushes)
        : flushes_(flushes), ram_(*io::open_backend("delay:us=1:ram:1M", {})) {}
    io::Limits limits() const noexcept override {
        io::Limits limits = ram_->limits();
        limits.volatile_cache = limits.process_cache = true;
        return limits;
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        auto queue = ram_->open_queue(reactor);
        if (!queue) return queue.status();
        return std::unique_ptr<io::Queue>(std::make_unique<CachingQueue>(flushes_, std::move(*queue)));
    }
    Status resize(uint64_t) override { return Status(Code::kUnsupported, "no"); }
    std::string describe() const override { return "caching"; }

  private:
    Flushes& flushes_;
    const std::unique_ptr<io::Backend> ram_;
};

class ProcessCache : public testing::Test {
  protected:
    void SetUp() override {
        set_ = std::make_unique<VolumeSet>(
            std::vector<reactor::Reactor*>{&reactor_},
            VolumeSet::Options{
                .state = locked(folder_.file("state.json")),
                .open = [this](const std::string&,
                               const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
                    return std::unique_ptr<io::Backend>(std::make_unique<CachingBackend>(flushes_));
                },
                .wait = from_s(1)});
        thread_ = std::thread([this] { reactor_.run(); });
        ASSERT_TRUE(set_->restore());
        ASSERT_TRUE(set_->create({.name = "a", .backend = "any"}));
    }
    void TearDown() override {
        flushes_.silent = false;
        (void)set_->close_all();
        reactor_.stop();
        thread_.join();
        EXPECT_EQ(set_->count(), 0u);
        set_.reset();
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    Flushes flushes_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<VolumeSet> set_;
    std::thread thread_;
};

TEST_F(ProcessCache, is_flushed_when_a_volume_closes) {
    EXPECT_TRUE(set_->close_all());
    EXPECT_EQ(flushes_.begun, 1);
}

TEST_F(ProcessCache, that_cannot_be_flushed_fails_the_stop_with_the_name_of_the_volume) {
    flushes_.error = EIO;
    const Status closed = set_->close_all();
    EXPECT_EQ(closed.code(), Code::kIo);
    EXPECT_NE(closed.text().find("volume a: its storage did not take"), std::string::npos) << closed.text();
}

TEST_F(ProcessCache, whose_flush_is_not_answered_fails_the_stop_and_nothing_is_said_to_continue) {
    flushes_.silent = true;
    const Status closed = set_->close_all();
    EXPECT_EQ(closed.code(), Code::kTimedOut);
    EXPECT_NE(closed.text().find("may be lost with this process (volume a)"), std::string::npos)
        << closed.text();
    EXPECT_EQ(closed.text().find("background"), std::string::npos) << closed.text();
}

TEST_F(ProcessCache, that_cannot_be_flushed_refuses_a_deletion_before_anything_is_changed) {
    flushes_.error = EIO;
    const Status removed = set_->remove("a");
    EXPECT_EQ(removed.code(), Code::kRefused);
    EXPECT_NE(removed.text().find("--give-up-dirty"), std::string::npos) << removed.text();
    ASSERT_TRUE(set_->find("a"));
    EXPECT_FALSE(set_->find("a")->removing);
    flushes_.silent = true;
    EXPECT_EQ(set_->remove("a").code(), Code::kRefused);
    EXPECT_FALSE(set_->find("a")->removing);
    flushes_.silent = false;
    flushes_.error = 0;
    EXPECT_TRUE(set_->remove("a"));
}

TEST_F(ProcessCache, is_not_flushed_when_the_operator_gives_it_up) {
    flushes_.silent = true;
    EXPECT_TRUE(set_->remove("a", {.give_up_dirty = true}));
    EXPECT_EQ(flushes_.begun, 0);
}

TEST_F(ProcessCache, that_fails_its_last_flush_is_no_success_of_the_deletion) {
    flushes_.error = EIO;
    std::optional<Status> removed;
    std::atomic<bool> over{false};
    set_->remove_async("a", [&](Status status) {
        removed = std::move(status);
        over = true;
        over.notify_one();
    });
    over.wait(false);
    EXPECT_EQ(removed->code(), Code::kIo);
    EXPECT_FALSE(set_->find("a"));
}

}  // namespace
}  // namespace wss::volume
