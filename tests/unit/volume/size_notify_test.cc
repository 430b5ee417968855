// SPDX-License-Identifier: Apache-2.0
// A growth by others is followed, but a reactor is notified of it too late (the process was paused).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lib/io/size_notices.h"
#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

constexpr uint64_t kM = 1 << 20;

class B final : public io::Backend {
  public:
    explicit B(io::SizeNotices*& out) : ram_(*io::open_backend("ram:64M", {})) {
        notices_.begin(10 * kM);  // the test sends the notices
        out = &notices_;
    }
    io::Limits limits() const noexcept override { return {.size = notices_.size()}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    Status resize(uint64_t) override { return Status(Code::kRefused, "no"); }
    void watch_size(SizeChanged changed) override { notices_.watch(std::move(changed)); }
    bool hides_growth() const noexcept override { return notices_.hides_growth(); }
    bool is_shared() const override { return true; }
    std::string describe() const override { return "b"; }

  private:
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

TEST(XNotify, a_shrink_after_a_growth_of_which_reactors_were_told_late_is_followed) {
    SystemClock clock;
    reactor::Reactor reactor(clock);
    Engine engine;
    io::SizeNotices* notices = nullptr;
    VolumeSet::Options options;
    options.wait = from_ms(2000);
    options.open = [&](const std::string&, const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return std::unique_ptr<io::Backend>(std::make_unique<B>(notices));
    };
    VolumeSet set({&reactor}, options);
    set.table(0).add_observer(engine);
    auto stepping = [&](const std::function<void()>& command) {
        std::atomic<bool> over{false};
        std::thread thread([&] {
            command();
            over = true;
        });
        while (!over) reactor.step();
        thread.join();
    };
    VolumeOptions volume;
    volume.name = "a";
    volume.backend = "b";
    volume.declared = true;
    stepping([&] { ASSERT_TRUE(set.create(volume)); });
    notices->changed(14 * kM);
    std::optional<bool> told = notices->report();  // no reactor runs for longer than Options::wait
    fprintf(stderr, "first notice: %d, size %lu M\n", told.value_or(false),
            set.table(0).find(0)->volume().size() / kM);
    for (int i = 0; i < 100; ++i) reactor.step();
    // The volume has 14 M, and acknowledges writes there. Others shrink and enlarge the image.
    EXPECT_TRUE(notices->changed(10 * kM));
    notices->changed(14 * kM);
    for (int i = 0; i < 5; ++i) stepping([&] { told = notices->report(); });
    fprintf(stderr, "after a shrink to 10 M and a growth to 14 M: size %lu M, dropped from %lu M\n",
            set.table(0).find(0)->volume().size() / kM, engine.dropped / kM);
    EXPECT_EQ(engine.dropped, 10 * kM) << "engines serve data that others have removed";
    notices->changed(10 * kM);
    for (int i = 0; i < 5; ++i) stepping([&] { told = notices->report(); });
    fprintf(stderr, "after a shrink to 10 M: size %lu M\n", set.table(0).find(0)->volume().size() / kM);
    set.table(0).remove_observer(engine);
    stepping([&] { (void)set.close_all(); });
}

class XPart : public OnSharedStorage {};

TEST_F(XPart, a_confirmed_size_of_a_part_is_kept) {
    shared_.size = 20 * kM;
    ASSERT_TRUE(create("a", 8 * kM, true));
    others_resize(6 * kM);
    fprintf(stderr, "part: size %lu M\n", set_->table(0).find(0)->volume().size() / kM);
    ASSERT_TRUE(resize("a", 6 * kM));
    others_resize(20 * kM);
    EXPECT_EQ(set_->table(0).find(0)->volume().size() / kM, 6u);
}

TEST(XNotices, an_own_shrink_that_took_effect_and_failed_is_not_a_shrink_by_others_later) {
    io::SizeNotices notices;
    notices.begin(16);
    notices.watch([](uint64_t, uint64_t) { return true; });
    notices.limit_own(8);
    const uint64_t reading = notices.moment();  // the read sees 8
    notices.failed_own(16);                     // others have enlarged it before the size was read
    notices.changed_own(24);                    // the operator enlarges it
    EXPECT_FALSE(notices.changed(8, reading));
    notices.watch({});
}

}  // namespace
}  // namespace wss::volume

namespace wss::volume {
TEST(XNotices, a_shrink_by_others_right_after_an_own_growth_is_not_forgotten) {
    io::SizeNotices notices;
    notices.begin(10);
    notices.watch([](uint64_t, uint64_t) { return true; });
    notices.limit_own(14);
    (void)notices.changed(14);  // the own growth took effect; rbd_resize() has not returned yet
    (void)notices.changed(12);  // others shrink it
    notices.changed_own(14);    // rbd_resize() returns
    EXPECT_LE(notices.size(), 12u);
    notices.watch({});
}
}  // namespace wss::volume
