// SPDX-License-Identifier: Apache-2.0
// Closing storage may block for long. A reactor that releases a volume last must not wait for that.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

constexpr uint64_t kSize = 1 << 20;

// What the storage of the test observes.
struct Observed {
    std::mutex m;
    std::map<std::string, io::Backend::SizeChanged> changed;  // indexed by specification; guarded by m
    std::atomic<int> open{0};
    std::atomic<int> closings_begun{0};
    std::condition_variable waits_ended;
    std::promise<void> resizing;            // used by "silent"
    std::promise<std::thread::id> closing;  // used by "held"
    std::shared_future<void> may_close;     // "held" blocks its closing until this is ready
};

class ObservedBackend final : public io::Backend {
  public:
    ObservedBackend(Observed& observed, std::string name)
        : observed_(observed), name_(std::move(name)), ram_(*io::open_backend("delay:us=1:ram:1M", {})) {
        ++observed_.open;
    }
    ~ObservedBackend() override {
        if (name_ == "held") {
            observed_.closing.set_value(std::this_thread::get_id());
            observed_.may_close.wait_for(std::chrono::nanoseconds(io::test::kPatience.count));
        }
        --observed_.open;
    }
    void begin_close() noexcept override { ++observed_.closings_begun; }
    void end_waits() noexcept override {
        std::lock_guard lock(observed_.m);
        waits_end_ = true;
        observed_.waits_ended.notify_all();
    }
    io::Limits limits() const noexcept override { return {.size = kSize}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    // "silent" does not answer.
    Status resize(uint64_t) override {
        if (name_ != "silent") return Status::ok();
        std::unique_lock lock(observed_.m);
        observed_.resizing.set_value();
        observed_.waits_ended.wait_for(lock, std::chrono::nanoseconds(io::test::kPatience.count),
                                       [this] { return waits_end_; });
        return Status(Code::kClosed, "the volume was removed");
    }
    void watch_size(SizeChanged changed) override {
        std::lock_guard lock(observed_.m);
        observed_.changed[name_] = std::move(changed);
    }
    std::string describe() const override { return name_; }

  private:
    Observed& observed_;
    const std::string name_;
    const std::unique_ptr<io::Backend> ram_;
    bool waits_end_ = false;  // guarded by observed_.m
};

class VolumeClosing : public testing::Test {
  protected:
    explicit VolumeClosing(Nanoseconds wait = io::test::kPatience) {
        observed_.may_close = may_close_.get_future().share();
        set_ = std::make_unique<VolumeSet>(
            std::vector<reactor::Reactor*>{&reactor_},
            VolumeSet::Options{
                .state = locked(folder_.file("state.json")),
                .open = [this](const std::string& name,
                               const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
                    open_before_ = observed_.open.load();
                    return std::unique_ptr<io::Backend>(std::make_unique<ObservedBackend>(observed_, name));
                },
                .write =
                    [this](const StateLock&, const std::vector<StoredVolume>&) {
                        if (auto what = std::exchange(on_write_, {})) what();
                        return Status::ok();
                    },
                .wait = wait});
        thread_ = std::thread([this] { reactor_.run(); });
        EXPECT_TRUE(set_->restore());
    }
    ~VolumeClosing() override { end(); }
    void end() {
        if (!set_) return;
        EXPECT_TRUE(set_->close_all());
        reactor_.stop();
        thread_.join();
        set_.reset();
    }
    Status await(const std::function<void(VolumeSet::Done)>& start) {
        auto ended = std::make_shared<std::promise<Status>>();
        start([ended](Status status) { ended->set_value(std::move(status)); });
        return ended->get_future().get();
    }
    Status create(const std::string& name) {
        return await([&](VolumeSet::Done done) {
            set_->create_async({.name = name, .backend = name}, std::move(done));
        });
    }
    bool begun_closings_reach(int count) {
        const Nanoseconds limit = clock_.now() + from_s(15);  // a blocked closing continues later
        while (observed_.closings_begun < count && clock_.now() < limit)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return observed_.closings_begun == count;
    }
    // The volume is removed while a report of its loss is being recorded. Then the task that passes the loss
    // to the reactor is the last user of the volume.
    void release_on_reactor(const std::string& name) {
        ASSERT_TRUE(create(name));
        std::promise<void> reported;
        on_write_ = [&, reported = reported.get_future().share()] {
            EXPECT_TRUE(await([&](VolumeSet::Done done) { set_->remove_async(name, std::move(done)); }));
            EXPECT_TRUE(create("other"));  // retires the removed volume
            reactor_.post([reported] { reported.wait(); });
        };
        io::Backend::SizeChanged changed;
        {
            std::lock_guard lock(observed_.m);
            changed = observed_.changed[name];
        }
        EXPECT_TRUE(changed(kSize, 0));
        ASSERT_FALSE(on_write_) << "the loss was recorded";
        reported.set_value();
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    std::thread thread_;
    std::promise<void> may_close_;
    Observed observed_;
    std::atomic<int> open_before_{0};  // storage that was open when the last volume was opened
    std::function<void()> on_write_;   // called once
    std::unique_ptr<VolumeSet> set_;
};

TEST_F(VolumeClosing, does_not_run_on_the_reactor_that_releases_the_volume_last) {
    may_close_.set_value();
    release_on_reactor("held");
    EXPECT_NE(observed_.closing.get_future().get(), thread_.get_id());
}

TEST_F(VolumeClosing, that_blocks_does_not_block_the_reactor) {
    release_on_reactor("held");
    auto closing = observed_.closing.get_future();
    const bool elsewhere = closing.get() != thread_.get_id();
    EXPECT_TRUE(elsewhere);
    // The closing waits for the reactor here, and would deadlock on it.
    if (elsewhere)
        reactor_.post([this] { may_close_.set_value(); });
    else
        may_close_.set_value();
}

TEST_F(VolumeClosing, ends_before_the_next_volume_is_opened) {
    release_on_reactor("held");
    observed_.closing.get_future().wait();
    std::thread next([this] { EXPECT_TRUE(create("next")); });
    may_close_.set_value();
    next.join();
    EXPECT_EQ(open_before_, 1) << "only the storage of \"other\"";
}

TEST_F(VolumeClosing, that_blocks_does_not_delay_the_start_of_others) {
    ASSERT_TRUE(create("held") && create("other"));
    std::jthread first([this] { EXPECT_TRUE(set_->remove("held")); });
    observed_.closing.get_future().wait();
    std::jthread second([this] { EXPECT_TRUE(set_->remove("other")); });
    EXPECT_TRUE(begun_closings_reach(2));
    may_close_.set_value();
}

TEST_F(VolumeClosing, ends_a_resize_that_storage_does_not_answer) {
    ASSERT_TRUE(create("silent"));
    std::jthread resize([this] { EXPECT_EQ(set_->resize("silent", 2 * kSize).code(), Code::kClosed); });
    observed_.resizing.get_future().wait();
    EXPECT_TRUE(set_->remove("silent"));
    EXPECT_EQ(observed_.open, 0);
}

TEST_F(VolumeClosing, begins_at_a_stop_while_another_volume_has_a_command_in_flight) {
    ASSERT_TRUE(create("busy") && create("idle"));
    std::promise<OpenVolume*> held;
    reactor_.post([&, lun = set_->find("busy")->identity.lun] {
        OpenVolume* busy = set_->table(0).find(lun);
        busy->hold();
        held.set_value(busy);
    });
    OpenVolume* busy = held.get_future().get();
    std::jthread stop([this] { end(); });
    EXPECT_TRUE(begun_closings_reach(1));
    reactor_.post([busy] { busy->release(); });
}

class VolumeClosingInBackground : public VolumeClosing {
  protected:
    VolumeClosingInBackground() : VolumeClosing(from_s(2)) {}
};

TEST_F(VolumeClosingInBackground, does_not_delay_the_start_of_others_at_a_stop) {
    ASSERT_TRUE(create("held") && create("other"));
    std::promise<void> tried;
    reactor_.post([over = tried.get_future().share()] { over.wait(); });
    EXPECT_EQ(set_->remove("held").code(), Code::kTimedOut);
    tried.set_value();
    observed_.closing.get_future().wait();
    std::jthread stop([this] { end(); });
    EXPECT_TRUE(begun_closings_reach(2));
    may_close_.set_value();
}

TEST_F(VolumeClosing, ends_before_the_set_is_destroyed) {
    release_on_reactor("held");
    observed_.closing.get_future().wait();
    reactor_.post([this] { may_close_.set_value(); });
    end();
    EXPECT_EQ(observed_.open, 0);
}

}  // namespace
}  // namespace wss::volume
