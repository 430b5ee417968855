// SPDX-License-Identifier: Apache-2.0
// Limits of volumes, by a clock that the test drives.
#include <algorithm>

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

class Limits : public ::testing::Test {
  protected:
    static constexpr uint64_t kSize = 8 << 20;

    void use(size_t reactors) {
        world_ = std::make_unique<World>(WorldOptions{.reactors = reactors, .clock = &clock_});
        world_->add_volume("limited", "ram:8M", kSize);
        world_->add_volume("free", "ram:8M", kSize);
    }
    void SetUp() override { use(1); }

    void limit(const volume::RateLimits& limits, const std::string& name = "limited") {
        std::optional<Status> done;
        world_->volumes().set_limits_async(name, limits, [&](Status status) { done = status; });
        ASSERT_TRUE(world_->until([&] { return done.has_value(); }));
        EXPECT_TRUE(*done) << done->to_string();
    }
    std::vector<uint64_t> reads(RawClient& client, int count, uint32_t bytes = 4096) {
        std::vector<uint64_t> tags;
        for (int i = 0; i < count; ++i)
            tags.push_back(
                client.start(0, cdb_read16(0, bytes / 512), Direction::kIn, {client.remote(0, bytes)}));
        return tags;
    }
    static size_t answered(const RawClient& client, const std::vector<uint64_t>& tags) {
        return static_cast<size_t>(
            std::count_if(tags.begin(), tags.end(), [&](uint64_t tag) { return client.answered(tag); }));
    }
    // Exactly so many are answered now.
    void expect_answered(const RawClient& client, const std::vector<uint64_t>& tags, size_t count) {
        ASSERT_TRUE(world_->until([&] { return answered(client, tags) >= count; }))
            << answered(client, tags) << " of " << count;
        for (int i = 0; i < 300; ++i) world_->step();
        EXPECT_EQ(answered(client, tags), count);
    }
    void advance(Nanoseconds by) {
        clock_.advance(by);
        world_->step();
    }
    // The commands have all come to the target.
    void arrived(uint64_t commands) {
        ASSERT_TRUE(world_->until([&] { return world_->totals().commands == commands; }));
    }
    volume::Totals totals() { return world_->volumes().find("limited")->totals; }

    HandClock clock_;
    std::unique_ptr<World> world_;
};

TEST_F(Limits, delay_operations_until_their_time_and_count_that) {
    limit({.iops = 10});
    auto client = world_->client();
    auto tags = reads(*client, 5);
    expect_answered(*client, tags, 2);
    advance(from_ms(99));
    expect_answered(*client, tags, 2);
    advance(from_ms(1));
    expect_answered(*client, tags, 3);
    advance(from_ms(200));
    expect_answered(*client, tags, 5);
    EXPECT_EQ(totals().delayed, 3u);
    EXPECT_EQ(totals().delayed_ns, 700'000'000u);
    EXPECT_EQ(client->take(tags[4]).response.status, wire::kGood);
}

TEST_F(Limits, delay_bytes_until_their_time) {
    limit({.bandwidth = 1 << 20});
    auto client = world_->client();
    auto tags = reads(*client, 3, 1 << 20);
    expect_answered(*client, tags, 1);
    advance(from_ms(899));
    expect_answered(*client, tags, 1);
    advance(from_ms(1));
    expect_answered(*client, tags, 2);
    advance(from_s(1));
    expect_answered(*client, tags, 3);
}

TEST_F(Limits, delay_no_other_volume) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 50);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(world_->read(*client, 1, 0, 8, 0, 4096).response.status, wire::kGood);
    EXPECT_LE(answered(*client, tags), 2u);
}

TEST_F(Limits, hold_no_buffer_while_a_command_waits) {
    world_->add_volume("queue", "delay:us=1:ram:8M", kSize);
    limit({.iops = 1}, "queue");
    auto client = world_->client();
    std::vector<uint64_t> tags;
    for (int i = 0; i < 50; ++i)
        tags.push_back(client->start(2, cdb_write16(0, 128), Direction::kOut, {client->remote(0, 65536)}));
    arrived(50);
    ASSERT_TRUE(world_->until([&] {
        advance(from_us(1));
        return answered(*client, tags) > 0;
    }));
    expect_answered(*client, tags, 1);
    const Arena& arena = world_->service().worker(0).lane(0).arena();
    EXPECT_EQ(arena.pool(Part::kSmall).free_bytes(), arena.pool(Part::kSmall).size());
}

TEST_F(Limits, let_the_clients_of_a_volume_take_turns) {
    limit({.iops = 10});
    auto deep = world_->client(1), light = world_->client(2);
    auto many = reads(*deep, 50);
    arrived(50);
    auto one = reads(*light, 1);
    arrived(51);
    advance(from_ms(100));
    advance(from_ms(100));
    expect_answered(*light, one, 1);
}

TEST_F(Limits, are_those_of_all_reactors_together) {
    use(2);
    limit({.iops = 100});
    auto first = world_->client(1), second = world_->client(2);
    auto a = reads(*first, 100), b = reads(*second, 100);
    arrived(200);
    for (int i = 0; i < 100; ++i) advance(from_ms(10));
    for (int i = 0; i < 300; ++i) world_->step();
    EXPECT_NEAR(static_cast<double>(answered(*first, a) + answered(*second, b)), 110, 3);
    EXPECT_GE(answered(*first, a), 45u);
    EXPECT_GE(answered(*second, b), 45u);
}

TEST_F(Limits, that_are_raised_free_waiting_commands_at_once) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 50);
    arrived(50);
    limit({.iops = 100});
    expect_answered(*client, tags, 1 + 11);
    limit({});
    expect_answered(*client, tags, 50);
    EXPECT_EQ(world_->volumes().find("limited")->limits, volume::RateLimits{});
}

TEST_F(Limits, let_an_abort_and_a_reset_end_waiting_commands_at_once) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 10);
    arrived(10);
    for (uint8_t function : {WSS_SRP_TSK_ABORT_TASK, WSS_SRP_TSK_LUN_RESET}) {
        std::array<byte, 48> message;
        const uint64_t tag = 0x8000'0000u + function;
        wire::encode_task_management({.tag = tag, .lun = 0, .function = function, .task_tag = tags[5]},
                                     message);
        client->send(message);
        ASSERT_TRUE(world_->until([&] { return client->answered(tag); }));
        EXPECT_EQ(client->take(tag).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
    }
    EXPECT_GE(world_->totals().aborted, 8u);
    limit({});
    EXPECT_EQ(world_->read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
}

TEST_F(Limits, give_the_time_of_an_aborted_command_to_the_next) {
    limit({.iops = 10});
    auto client = world_->client(1), other = world_->client(2);
    auto tags = reads(*client, 3);
    arrived(3);
    client->close();
    ASSERT_TRUE(world_->until([&] { return client->closed() && world_->service().sessions().count() == 1; }));
    auto next = reads(*other, 1);
    arrived(4);
    advance(from_ms(100));
    expect_answered(*other, next, 1);
}

TEST_F(Limits, hold_up_no_deletion_of_the_volume) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 10);
    arrived(10);
    std::optional<Status> removed;
    world_->volumes().remove_async("limited", [&](Status status) { removed = status; });
    ASSERT_TRUE(world_->until([&] { return removed.has_value(); }));
    EXPECT_TRUE(*removed);
    expect_answered(*client, tags, 10);
    EXPECT_EQ(client->take(tags[9]).response.status, wire::kCheckCondition);
}

TEST_F(Limits, hold_up_no_shrink_and_waiting_commands_see_the_new_end) {
    limit({.iops = 10});
    auto client = world_->client();
    reads(*client, 2);
    arrived(2);
    const uint64_t beyond =
        client->start(0, cdb_read16(kSize / 512 - 8, 8), Direction::kIn, {client->remote(0, 4096)});
    arrived(3);
    std::optional<Status> shrunk;
    world_->volumes().resize_async("limited", kSize / 2, [&](Status status) { shrunk = status; });
    ASSERT_TRUE(world_->until([&] { return shrunk.has_value(); }));
    advance(from_ms(100));
    ASSERT_TRUE(world_->until([&] { return client->answered(beyond); }));
    EXPECT_EQ(client->take(beyond).response.status, wire::kCheckCondition);
}

TEST_F(Limits, let_no_waiting_write_pass_that_is_forbidden_meanwhile) {
    limit({.iops = 10});
    auto client = world_->client();
    reads(*client, 2);
    arrived(2);
    const uint64_t write = client->start(0, cdb_write16(0, 8), Direction::kOut, {client->remote(0, 4096)});
    arrived(3);
    std::optional<Status> done;
    world_->volumes().set_read_only_async("limited", true, [&](Status status) { done = status; });
    ASSERT_TRUE(world_->until([&] { return done.has_value(); }));
    advance(from_ms(100));
    ASSERT_TRUE(world_->until([&] { return client->answered(write); }));
    EXPECT_EQ(client->take(write).response.status, wire::kCheckCondition);
}

TEST_F(Limits, answer_busy_before_initiators_give_up) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 60);
    arrived(60);
    for (int i = 0; i < 41; ++i) advance(from_ms(500));
    expect_answered(*client, tags, 60);
    const auto busy = std::count_if(tags.begin(), tags.end(), [&](uint64_t tag) {
        return client->take(tag).response.status == wire::kBusy;
    });
    EXPECT_GE(busy, 38);
    EXPECT_LE(busy, 41);
}

TEST_F(Limits, hold_up_no_stop_of_the_target) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 20);
    arrived(20);
    world_->stop();
    EXPECT_EQ(client->take(tags[19]).response.status, wire::kBusy);
}

TEST_F(Limits, count_what_a_write_same_of_a_pattern_writes) {
    world_->add_volume("queue", "delay:us=1:ram:8M", kSize);
    limit({.bandwidth = 1 << 20}, "queue");
    auto client = world_->client();
    fill(client->memory(), 512, 1);
    auto write_same = cdb({0x93});
    wire::put32(write_same.data() + 10, (1 << 20) / 512);
    const uint64_t tag = client->start(2, write_same, Direction::kOut, {client->remote(0, 512)});
    arrived(1);
    for (int i = 0; i < 80; ++i) {
        advance(from_ms(10));
        for (int n = 0; n < 20; ++n) world_->step();
    }
    EXPECT_FALSE(client->answered(tag));
    for (int i = 0; i < 40 && !client->answered(tag); ++i) {
        advance(from_ms(10));
        for (int n = 0; n < 20; ++n) world_->step();
    }
    ASSERT_TRUE(client->answered(tag));
    EXPECT_EQ(client->take(tag).response.status, wire::kGood);
}

}  // namespace
}  // namespace wss::block::testing
