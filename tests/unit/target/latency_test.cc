// SPDX-License-Identifier: Apache-2.0
// Latencies of commands on storage that blocks within a turn of the reactor, as io_submit() does where the
// kernel has no asynchronous path.
#include <numeric>

#include "lib/io/filter/wrapper.h"
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

constexpr Nanoseconds kBlocks = from_ms(4);

class BlockingQueue final : public io::WrapperQueue {
  public:
    BlockingQueue(std::unique_ptr<io::Queue> inner, HandClock& clock)
        : WrapperQueue(std::move(inner)), clock_(clock) {}
    void submit(io::Request& request) noexcept override { inner_->submit(request); }
    size_t poll() noexcept override {
        if (inner_->in_flight() > 0) clock_.advance(kBlocks);
        return inner_->poll();
    }

  private:
    HandClock& clock_;
};

class BlockingBackend final : public io::Wrapper {
  public:
    BlockingBackend(std::unique_ptr<io::Backend> inner, HandClock& clock)
        : Wrapper("blocking", {}, std::move(inner)), clock_(clock) {}
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        auto queue = inner_->open_queue(reactor);
        if (!queue) return queue.status();
        return std::unique_ptr<io::Queue>(std::make_unique<BlockingQueue>(std::move(*queue), clock_));
    }

  private:
    HandClock& clock_;
};

WorldOptions blocking(HandClock& clock) {
    WorldOptions options{.clock = &clock};
    options.volumes.open = [&clock](const std::string& specification,
                                    const io::OpenOptions& how) -> Result<std::unique_ptr<io::Backend>> {
        auto inner = io::open_backend(specification, how);
        if (!inner) return inner.status();
        return std::unique_ptr<io::Backend>(std::make_unique<BlockingBackend>(std::move(*inner), clock));
    };
    return options;
}

uint64_t slower(const LatencyTotals& latency) {
    // Bucket 12 starts at 2048 us.
    return std::accumulate(latency.buckets.begin() + 12, latency.buckets.end(), uint64_t{0});
}

TEST(Latency, of_storage_that_blocks_the_reactor_is_counted) {
    HandClock clock;
    World world(blocking(clock));
    world.add_volume("v0", "ram:8M", 8 << 20);
    auto client = world.client();
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(world.read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
        EXPECT_EQ(world.write(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    }
    const CounterTotals totals = world.totals();
    EXPECT_EQ(slower(totals.read_latency), 3u);
    EXPECT_EQ(slower(totals.write_latency), 3u);
    EXPECT_GE(totals.read_latency.total_ns, 3 * static_cast<uint64_t>(kBlocks.count));
    EXPECT_GE(totals.write_latency.total_ns, 3 * static_cast<uint64_t>(kBlocks.count));
}

// Each command is answered in the turn in which it arrives.
TEST(Latency, ends_with_the_response) {
    HandClock clock;
    World world({.clock = &clock});
    world.add_volume("v0", "ram:8M", 8 << 20);
    world.after_target_steps = [&] { clock.advance(from_s(1)); };
    auto client = world.client();
    EXPECT_EQ(world.read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    const CounterTotals totals = world.totals();
    EXPECT_EQ(totals.read_latency.buckets[0], 1u);
    EXPECT_EQ(totals.read_latency.total_ns, 0u);
}

}  // namespace
}  // namespace wss::block::testing
