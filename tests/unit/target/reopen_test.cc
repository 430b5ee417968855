// SPDX-License-Identifier: Apache-2.0
// A volume without a cache whose storage was another owner's is opened anew.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

// Storage that others take, with a write cache or without.
struct Taken {
    bool volatile_cache = false;
    io::Backend::SizeChanged changed;
};
class TakenBackend final : public io::Backend {
  public:
    explicit TakenBackend(Taken& taken) : taken_(taken), ram_(*io::open_backend("delay:us=1:ram:1M", {})) {}
    io::Limits limits() const noexcept override {
        return {.size = 1 << 20, .volatile_cache = taken_.volatile_cache};
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    Status resize(uint64_t) override { return Status(Code::kUnsupported, "of one size"); }
    void watch_size(SizeChanged changed) override {
        if (changed) taken_.changed = std::move(changed);
    }
    std::string describe() const override { return "taken"; }

  private:
    Taken& taken_;
    const std::unique_ptr<io::Backend> ram_;
};

class ReopenedVolume : public ::testing::Test {
  protected:
    void start(bool volatile_cache) {
        taken_.volatile_cache = volatile_cache;
        WorldOptions options;
        options.volumes.open = [this](const std::string&,
                                      const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
            return std::unique_ptr<io::Backend>(std::make_unique<TakenBackend>(taken_));
        };
        world_ = std::make_unique<World>(std::move(options));
        world_->add_volume("v", "taken", 1 << 20);
        client_ = world_->client();
    }
    // Of several that follow each other; what else they report (that the volume was away) does not count.
    int failed_flushes() {
        int failed = 0;
        for (int i = 0; i < 8; ++i) {
            const Answer answer = world_->run(*client_, 0, cdb({0x35}), Direction::kNone, {});
            failed += answer.response.status != wire::kGood &&
                      answer.parsed_sense().key == wire::SenseKey::kMediumError;
        }
        return failed;
    }
    void lose_and_reopen() {
        ASSERT_TRUE(taken_.changed(1 << 20, 0));
        std::optional<Status> reopened;
        std::atomic<bool> over{false};
        std::thread control([&] {
            reopened = world_->volumes().reopen("v", {});
            over = true;
        });
        while (!over) world_->step();
        control.join();
        ASSERT_TRUE(*reopened) << reopened->to_string();
    }

    Taken taken_;
    std::unique_ptr<World> world_;
    std::unique_ptr<RawClient> client_;
};

TEST_F(ReopenedVolume, fails_one_flush_when_its_storage_had_a_write_cache) {
    start(true);
    EXPECT_EQ(failed_flushes(), 0);
    for (int i = 0; i < 2; ++i) {
        lose_and_reopen();
        EXPECT_EQ(failed_flushes(), 1);
    }
}

TEST_F(ReopenedVolume, fails_no_flush_when_every_acknowledged_write_was_stable) {
    start(false);
    lose_and_reopen();
    EXPECT_EQ(failed_flushes(), 0);
}

}  // namespace
}  // namespace wss::block::testing
