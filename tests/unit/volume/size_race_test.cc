// SPDX-License-Identifier: Apache-2.0
// The storage shrinks by others just before the operator's growth ends. The notice of the shrink is on its way
// to the set (its thread is preempted) while that growth ends.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/io/size_notices.h"
#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"

namespace wss::volume {
namespace {

constexpr uint64_t kM = 1 << 20;

struct Gate {
    std::mutex m;
    std::condition_variable c;
    bool inside = false, open = false;
    void pass() {
        std::unique_lock lock(m);
        inside = true;
        c.notify_all();
        c.wait(lock, [this] { return open; });
    }
    void wait_inside() {
        std::unique_lock lock(m);
        c.wait(lock, [this] { return inside; });
    }
    void let() {
        std::lock_guard lock(m);
        open = true;
        c.notify_all();
    }
};

struct Image {
    uint64_t bytes = 10 * kM;
    io::SizeNotices* notices = nullptr;
    Gate gate;
    bool first = true;
};

// As io::rbd::Client: the order of its calls of SizeNotices is that of Client::resize() and size_is().
class B final : public io::Backend {
  public:
    explicit B(Image& image) : image_(image), ram_(*io::open_backend("ram:64M", {})) {
        EXPECT_TRUE(notices_.start(image_.bytes));
        image_.notices = &notices_;
    }
    io::Limits limits() const noexcept override { return {.size = notices_.size()}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    Status resize(uint64_t bytes) override {
        if (bytes == notices_.size()) return Status::ok();
        if (notices_.would_cut(bytes)) return Status(Code::kRefused, "cut");
        notices_.limit_own(bytes);
        // Others' shrink was queued before; librbd executes it first. Its notification is read.
        image_.bytes = 5 * kM;
        notices_.changed(5 * kM);
        image_.gate.wait_inside();  // the thread of the notices has taken it
        image_.bytes = bytes;       // then the own resize
        notices_.changed(bytes);
        notices_.changed_own(bytes);
        return Status::ok();
    }
    void watch_size(SizeChanged changed) override {
        if (!changed) return notices_.watch({});
        notices_.watch([this, changed](uint64_t before, uint64_t after) {
            if (image_.first && after < before) {
                image_.first = false;
                image_.gate.pass();  // the thread is preempted here
            }
            return changed(before, after);
        });
    }
    bool hides_growth() const noexcept override { return notices_.hides_growth(); }
    bool is_shared() const override { return true; }
    std::string describe() const override { return "b"; }

  private:
    Image& image_;
    io::SizeNotices notices_;
    const std::unique_ptr<io::Backend> ram_;
};

class Engine final : public Observer {
  public:
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept override {
        dropped = shrink->bytes();
        shrink->done();
    }
    std::atomic<uint64_t> dropped{0};
};

TEST(XRace, a_growth_of_the_operator_does_not_hide_a_shrink_whose_notice_is_on_its_way) {
    SystemClock clock;
    reactor::Reactor reactor(clock);
    Image image;
    Engine engine;
    VolumeSet::Options options;
    options.open = [&](const std::string&, const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return std::unique_ptr<io::Backend>(std::make_unique<B>(image));
    };
    VolumeSet set({&reactor}, options);
    set.table(0).add_observer(engine);
    auto control = [&](const std::function<Status()>& command) {
        std::optional<Status> result;
        std::atomic<bool> over{false};
        std::thread thread([&] {
            result = command();
            over = true;
        });
        while (!over) reactor.step();
        thread.join();
        return *result;
    };
    VolumeOptions volume;
    volume.name = "a";
    volume.backend = "b";
    volume.declared = true;
    ASSERT_TRUE(control([&] { return set.create(volume); }));
    const Status grown = control([&] { return set.resize("a", 14 * kM); });
    const uint64_t size = set.table(0).find(0)->volume().size();
    fprintf(stderr, "resize: %s; size now %lu M; dropped from %lu M\n", grown.to_string().c_str(), size / kM,
            engine.dropped / kM);
    // From here on the volume has 14 M, and acknowledges writes to all of it.
    image.gate.let();
    for (int i = 0; i < 3000; ++i) {
        reactor.step();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    fprintf(stderr, "3 s later: dropped from %lu M, size %lu M\n", engine.dropped / kM,
            set.table(0).find(0)->volume().size() / kM);
    EXPECT_FALSE(grown.is_ok() && engine.dropped == 5 * kM)
        << "engines dropped writes that were acknowledged after the growth";
    set.table(0).remove_observer(engine);
    (void)control([&] { return set.close_all(); });
}

}  // namespace
}  // namespace wss::volume
