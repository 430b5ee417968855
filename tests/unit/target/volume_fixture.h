// SPDX-License-Identifier: Apache-2.0
// VolumeFixture: a target with volumes, and helpers that load, await and change them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/unit/target/world.h"

namespace wss::block::testing {

using Direction = wire::CommandRequest::Direction;

class VolumeFixture : public ::testing::Test {
  protected:
    static constexpr uint64_t kSize = 8 << 20;
    enum class Time { kByHand, kReal };

    // Creates a world without volumes.
    void use(WorldOptions options, Time time = Time::kByHand) {
        if (time == Time::kByHand) options.clock = &clock_;
        world_ = std::make_unique<World>(std::move(options));
    }

    std::vector<uint64_t> reads(RawClient& client, uint64_t lun, int count, uint32_t bytes = 4096) {
        std::vector<uint64_t> tags;
        for (int i = 0; i < count; ++i)
            tags.push_back(
                client.start(lun, cdb_read16(0, bytes / 512), Direction::kIn, {client.remote(0, bytes)}));
        return tags;
    }
    static uint64_t write(RawClient& client, uint64_t lun = 0) {
        fill(client.memory(), 4096, 1);
        return client.start(lun, cdb_write16(0, 8), Direction::kOut, {client.remote(0, 4096)});
    }
    // Writes one block, a pattern or zeroes, to `blocks` blocks.
    static uint64_t write_same(RawClient& client, uint64_t lun, uint32_t blocks, bool zeroes = false) {
        if (zeroes)
            std::fill_n(client.memory(), 512, byte{0});
        else
            fill(client.memory(), 512, 1);
        auto command = cdb({0x93});
        wire::put32(command.data() + 10, blocks);
        return client.start(lun, command, Direction::kOut, {client.remote(0, 512)});
    }
    static size_t answered(const RawClient& client, const std::vector<uint64_t>& tags) {
        return static_cast<size_t>(
            std::count_if(tags.begin(), tags.end(), [&](uint64_t tag) { return client.answered(tag); }));
    }
    void settle() {
        for (int i = 0; i < 300; ++i) world_->step();
    }
    void advance(Nanoseconds by) {
        clock_.advance(by);
        world_->step();
    }
    // Waits until the target has received this number of commands.
    void arrived(uint64_t commands) {
        ASSERT_TRUE(world_->until([&] { return world_->totals().commands == commands; }));
    }
    static volume::VolumeSet::Done into(std::optional<Status>& done) {
        return [&done](Status status) { done = std::move(status); };
    }
    // `change(done)` begins a change to a volume; the change must succeed.
    template <typename Change>
    void finish(Change&& change) {
        std::optional<Status> done;
        change(into(done));
        ASSERT_TRUE(world_->until([&] { return done.has_value(); }));
        EXPECT_TRUE(*done) << done->to_string();
    }
    void limit(const std::string& name, const volume::RateLimits& limits) {
        finish([&](auto done) { world_->volumes().set_limits_async(name, limits, std::move(done)); });
    }

    HandClock clock_;
    std::unique_ptr<World> world_;
};

}  // namespace wss::block::testing
