// SPDX-License-Identifier: Apache-2.0
// Limits of volumes, with a clock that the test advances.
#include "target/block/throttle_places.h"
#include "tests/unit/target/volume_fixture.h"

namespace wss::block::testing {
namespace {

class Limits : public VolumeFixture {
  protected:
    void use(size_t reactors) {
        VolumeFixture::use({.reactors = reactors});
        world_->add_volume("limited", "ram:8M", kSize);
        world_->add_volume("free", "ram:8M", kSize);
        world_->add_volume("queue", "delay:us=1:ram:8M", kSize);
    }
    void SetUp() override { use(1); }

    void limit(const volume::RateLimits& limits, const std::string& name = "limited") {
        VolumeFixture::limit(name, limits);
    }
    // Expects exactly `count` responses now.
    void expect_answered(const RawClient& client, const std::vector<uint64_t>& tags, size_t count) {
        ASSERT_TRUE(world_->until([&] { return answered(client, tags) >= count; }))
            << answered(client, tags) << " of " << count;
        settle();
        EXPECT_EQ(answered(client, tags), count);
    }
    // Advances the clock in steps of a millisecond, so that storage proceeds, and returns the time until the
    // response.
    Nanoseconds until_answered(const RawClient& client, uint64_t tag, Nanoseconds limit) {
        const Nanoseconds began = clock_.now();
        while (!client.answered(tag) && clock_.now() - began < limit) {
            clock_.advance(from_ms(1));
            for (int i = 0; i < 20; ++i) world_->step();
        }
        return clock_.now() - began;
    }
    volume::Totals totals() { return world_->volumes().find("limited")->totals; }
};

TEST_F(Limits, delay_operations_until_their_time_and_count_the_delays) {
    limit({.iops = 10});
    auto client = world_->client();
    auto tags = reads(*client, 0, 5);
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
    auto tags = reads(*client, 0, 3, 1 << 20);
    expect_answered(*client, tags, 1);
    advance(from_ms(899));
    expect_answered(*client, tags, 1);
    advance(from_ms(1));
    expect_answered(*client, tags, 2);
    advance(from_s(1));
    expect_answered(*client, tags, 3);
}

TEST_F(Limits, do_not_delay_other_volumes) {
    limit({.iops = 5});
    auto client = world_->client();
    auto tags = reads(*client, 0, 50);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(world_->read(*client, 1, 0, 8, 0, 4096).response.status, wire::kGood);
    EXPECT_LE(answered(*client, tags), 2u);
}

TEST_F(Limits, hold_no_buffer_while_a_command_waits) {
    limit({.iops = 5}, "queue");
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

TEST_F(Limits, let_the_clients_of_a_volume_alternate) {
    limit({.iops = 10});
    auto deep = world_->client(1), light = world_->client(2);
    auto many = reads(*deep, 0, 50);
    arrived(50);
    auto one = reads(*light, 0, 1);
    arrived(51);
    advance(from_ms(100));
    advance(from_ms(100));
    expect_answered(*light, one, 1);
}

TEST_F(Limits, apply_to_all_reactors_together) {
    use(2);
    limit({.iops = 100});
    auto first = world_->client(1), second = world_->client(2);
    auto a = reads(*first, 0, 100), b = reads(*second, 0, 100);
    arrived(200);
    for (int i = 0; i < 100; ++i) advance(from_ms(10));
    settle();
    EXPECT_NEAR(static_cast<double>(answered(*first, a) + answered(*second, b)), 110, 3);
    EXPECT_GE(answered(*first, a), 45u);
    EXPECT_GE(answered(*second, b), 45u);
}

TEST_F(Limits, that_are_raised_release_waiting_commands_at_once) {
    limit({.iops = 5});
    auto client = world_->client();
    auto tags = reads(*client, 0, 50);
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
    auto tags = reads(*client, 0, 10);
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

TEST_F(Limits, let_the_next_command_begin_in_place_of_an_aborted_one) {
    limit({.iops = 10});
    auto client = world_->client(1), other = world_->client(2);
    auto tags = reads(*client, 0, 3);
    arrived(3);
    client->close();
    ASSERT_TRUE(world_->until([&] { return client->closed() && world_->service().sessions().count() == 1; }));
    auto next = reads(*other, 0, 1);
    arrived(4);
    advance(from_ms(100));
    expect_answered(*other, next, 1);
}

// The command reserves an operation, and must not reserve any bytes.
TEST_F(Limits, do_not_admit_bytes_in_place_of_an_aborted_command_without_bytes) {
    limit({.iops = 10, .bandwidth = 1 << 20});
    auto client = world_->client(1), other = world_->client(2);
    expect_answered(*other, reads(*other, 0, 1, 1 << 20), 1);
    auto verify = cdb({0x8f});
    wire::put32(verify.data() + 10, 1);
    std::vector<uint64_t> tags;
    for (int i = 0; i < 2; ++i) tags.push_back(client->start(0, verify, Direction::kNone, {}));
    arrived(3);
    expect_answered(*client, tags, 1);
    client->close();
    ASSERT_TRUE(world_->until([&] { return client->closed() && world_->service().sessions().count() == 1; }));
    auto next = reads(*other, 0, 1, 1 << 20);
    arrived(4);
    advance(from_ms(500));
    expect_answered(*other, next, 0);
    advance(from_ms(500));
    expect_answered(*other, next, 1);
}

TEST_F(Limits, do_not_delay_a_deletion_of_the_volume) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 0, 10);
    arrived(10);
    finish([&](auto done) { world_->volumes().remove_async("limited", std::move(done)); });
    expect_answered(*client, tags, 10);
    EXPECT_EQ(client->take(tags[9]).response.status, wire::kCheckCondition);
}

TEST_F(Limits, do_not_delay_a_shrink_and_waiting_commands_see_the_new_end) {
    limit({.iops = 10});
    auto client = world_->client();
    reads(*client, 0, 2);
    arrived(2);
    const uint64_t beyond =
        client->start(0, cdb_read16(kSize / 512 - 8, 8), Direction::kIn, {client->remote(0, 4096)});
    arrived(3);
    finish([&](auto done) { world_->volumes().resize_async("limited", kSize / 2, std::move(done)); });
    advance(from_ms(100));
    ASSERT_TRUE(world_->until([&] { return client->answered(beyond); }));
    EXPECT_EQ(client->take(beyond).response.status, wire::kCheckCondition);
}

TEST_F(Limits, let_no_write_pass_that_becomes_forbidden_while_it_waits) {
    limit({.iops = 10});
    auto client = world_->client();
    reads(*client, 0, 2);
    arrived(2);
    const uint64_t write = client->start(0, cdb_write16(0, 8), Direction::kOut, {client->remote(0, 4096)});
    arrived(3);
    finish([&](auto done) { world_->volumes().set_read_only_async("limited", true, std::move(done)); });
    advance(from_ms(100));
    ASSERT_TRUE(world_->until([&] { return client->answered(write); }));
    EXPECT_EQ(client->take(write).response.status, wire::kCheckCondition);
}

TEST_F(Limits, do_not_delay_a_stop_of_the_target) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 0, 20);
    arrived(20);
    world_->stop();
    EXPECT_EQ(client->take(tags[19]).response.status, wire::kBusy);
}

// ---- Commands of several steps ---------------------------------------------------------------------------

TEST_F(Limits, do_not_delay_steps_of_a_command_that_has_begun) {
    limit({.bandwidth = 1 << 20}, "queue");
    auto client = world_->client();
    for (bool zeroes : {false, true}) {
        const uint64_t tag = write_same(*client, 2, (1 << 20) / 512, zeroes);
        EXPECT_LT(until_answered(*client, tag, from_s(5)), from_ms(500)) << zeroes;
        const uint64_t next = reads(*client, 2, 1)[0];
        const Nanoseconds waited = until_answered(*client, next, from_s(5));
        EXPECT_GT(waited, from_ms(800)) << "its written bytes count:  " << zeroes;
        EXPECT_LT(waited, from_ms(1100)) << zeroes;
        advance(from_s(1));
    }
}

TEST_F(Limits, count_the_bytes_that_a_verify_reads) {
    limit({.bandwidth = 1 << 20}, "queue");
    auto client = world_->client();
    auto verify = cdb({0x8f});
    wire::put32(verify.data() + 10, (1 << 20) / 512);
    const uint64_t tag = client->start(2, verify, Direction::kNone, {});
    EXPECT_LT(until_answered(*client, tag, from_s(5)), from_ms(500));
    EXPECT_EQ(client->take(tag).response.status, wire::kGood);
    EXPECT_GT(until_answered(*client, reads(*client, 2, 1)[0], from_s(5)), from_ms(700));
}

TEST_F(Limits, leave_no_debt_that_lasts_longer_than_initiators_wait) {
    limit({.bandwidth = volume::kBandwidthMin}, "queue");
    auto client = world_->client();
    EXPECT_LT(until_answered(*client, write_same(*client, 2, kSize / 512), from_s(5)), from_ms(500));
    const Nanoseconds waited = until_answered(*client, reads(*client, 2, 1)[0], from_s(30));
    EXPECT_GT(waited, from_s(9));
    EXPECT_LE(waited, volume::RateLimiter::kDebtMax);
}

// ---- More than can be served in time ---------------------------------------------------------------------

// An initiator that behaves like the driver. It repeats refused commands after 4 ms, then after twice as
// long, up to 128 ms, in reverse order. It begins a new command for each that succeeds.
class Driver {
  public:
    Driver(RawClient& client, HandClock& clock, uint64_t lun, int depth, int first_block)
        : client_(client), clock_(clock), lun_(lun), next_block_(first_block) {
        for (int i = 0; i < depth; ++i) begin();
    }
    void turn() {
        for (auto at = flying_.begin(); at != flying_.end();) {
            if (!client_.answered(at->tag)) {
                ++at;
                continue;
            }
            const uint8_t status = client_.take(at->tag).response.status;
            Command command = *at;
            at = flying_.erase(at);
            status == wire::kGood ? done(command) : refused(command, status);
        }
        if (!waiting_.empty() && clock_.now() >= again_) {
            while (!waiting_.empty() && client_.credits() > 1) {
                send(waiting_.back());
                waiting_.pop_back();
            }
        }
        for (; owed_ > 0 && client_.credits() > 1; --owed_) begin();
    }
    // Includes commands that have not yet completed.
    Nanoseconds longest() const {
        Nanoseconds longest = longest_;
        for (const auto* list : {&flying_, &waiting_})
            for (const Command& command : *list) longest = std::max(longest, clock_now() - command.first);
        return longest;
    }
    size_t done_count() const { return done_; }
    // Counts commands that completed before another one that was first sent at least `by` earlier.
    size_t overtakings(Nanoseconds by) const {
        size_t count = 0;
        for (const auto& [first, ended] : ended_)
            for (const auto& [other, other_ended] : ended_)
                if (other + by < first && other_ended > ended) ++count;
        return count;
    }
    size_t wrong() const { return wrong_; }

  private:
    struct Command {
        int block;
        Nanoseconds first;
        int refusals;
        uint64_t tag;
    };
    Nanoseconds clock_now() const { return clock_.now(); }
    void begin() { send({next_block_++, clock_.now(), 0, 0}); }
    void send(Command command) {
        command.tag = client_.start(lun_, cdb_read16(uint64_t(command.block) % 16384, 1), Direction::kIn,
                                    {client_.remote(0, 512)});
        flying_.push_back(command);
    }
    void done(const Command& command) {
        ++done_;
        longest_ = std::max(longest_, clock_.now() - command.first);
        ended_.emplace_back(command.first, clock_.now());
        ++owed_;
    }
    void refused(Command command, uint8_t status) {
        wrong_ += status != wire::kBusy && status != wire::kTaskSetFull;
        again_ = clock_.now() + from_ms(std::min(4 << std::min(command.refusals, 8), 128));
        ++command.refusals;
        waiting_.push_back(command);
    }

    RawClient& client_;
    HandClock& clock_;
    const uint64_t lun_;
    int next_block_;
    std::vector<Command> flying_, waiting_;
    std::vector<std::pair<Nanoseconds, Nanoseconds>> ended_;  // times of first sending and end
    Nanoseconds again_{}, longest_{};
    size_t done_ = 0, wrong_ = 0;
    int owed_ = 0;
};

class Overload : public Limits {
  protected:
    // `count` initiators with one channel and `depth` commands each.
    void load(int count, int depth) {
        for (int i = 0; i < count; ++i) {
            clients_.push_back(world_->client(static_cast<uint8_t>(i + 1)));
            drivers_.push_back(std::make_unique<Driver>(*clients_.back(), clock_, 0, depth, i * 1000));
        }
    }
    void run_for(Nanoseconds time) {
        for (const Nanoseconds end = clock_.now() + time; clock_.now() < end;) {
            clock_.advance(from_ms(4));
            for (int i = 0; i < 3; ++i) world_->step();
            for (auto& driver : drivers_) driver->turn();
        }
    }
    Nanoseconds longest() const {
        Nanoseconds longest{};
        for (const auto& driver : drivers_) longest = std::max(longest, driver->longest());
        return longest;
    }

    std::vector<std::unique_ptr<RawClient>> clients_;
    std::vector<std::unique_ptr<Driver>> drivers_;
};

TEST_F(Overload, lets_commands_be_served_in_the_order_of_their_first_sending) {
    limit({.iops = 5});
    load(1, 126);
    run_for(from_s(60));
    EXPECT_EQ(drivers_[0]->wrong(), 0u);
    EXPECT_GE(drivers_[0]->done_count(), 300u);
    EXPECT_LE(drivers_[0]->done_count(), 305u) << "the limit holds";
    EXPECT_LT(longest(), from_s(27)) << "126 at 5 a second";
    EXPECT_EQ(drivers_[0]->overtakings(from_ms(200)), 0u);
}

TEST_F(Overload, lets_a_light_initiator_alternate_with_a_deep_one) {
    limit({.iops = 5});
    load(1, 126);
    run_for(from_s(30));
    clients_.push_back(world_->client(9));
    Driver light(*clients_.back(), clock_, 0, 1, 5000);
    for (int i = 0; i < 10 * 250; ++i) {
        run_for(from_ms(4));
        light.turn();
    }
    EXPECT_GE(light.done_count(), 20u) << "every second turn";
    EXPECT_LT(light.longest(), from_ms(700));
    EXPECT_LT(longest(), from_s(40));
}

TEST_F(Overload, by_more_initiators_than_can_be_served_in_time_leaves_none_unserved) {
    limit({.iops = 2});
    load(60, 1);
    run_for(from_s(90));
    EXPECT_LT(longest(), from_s(32)) << "60 at 2 a second";
    for (auto& driver : drivers_) EXPECT_GE(driver->done_count(), 2u);
}

TEST_F(Overload, makes_no_command_wait_until_its_initiator_fails_it) {
    limit({.iops = 1});
    load(2, 100);
    run_for(from_s(100));
    EXPECT_LE(longest(), kThrottleTotal + from_s(1)) << "200 at 1 a second";
    for (auto& driver : drivers_) EXPECT_GE(driver->done_count(), 100u);
}

TEST_F(Overload, ends_a_refused_command_with_task_set_full) {
    limit({.iops = 1});
    auto client = world_->client();
    auto tags = reads(*client, 0, 60);
    expect_answered(*client, tags, 60 - 20);
    size_t good = 0;
    for (uint64_t tag : tags) {
        if (!client->answered(tag)) continue;
        const uint8_t status = client->take(tag).response.status;
        EXPECT_TRUE(status == wire::kGood || status == wire::kTaskSetFull) << int{status};
        good += status == wire::kGood;
    }
    EXPECT_EQ(good, 1u);
}

TEST_F(Overload, ends_a_refused_command_that_is_the_only_one_of_its_channel_with_busy) {
    limit({.bandwidth = volume::kBandwidthMin});
    auto client = world_->client(), other = world_->client(2);
    auto tags = reads(*client, 0, 2, 1 << 20);
    arrived(2);
    auto one = reads(*other, 0, 1, 1 << 20);
    expect_answered(*other, one, 1);
    expect_answered(*client, tags, 1);
    EXPECT_EQ(other->take(one[0]).response.status, wire::kBusy);
}

TEST(ThrottlePlaces, return_the_oldest_of_equal_ones_and_keep_the_oldest_of_too_many) {
    ThrottlePlaces places;
    EXPECT_FALSE(places.take(7, from_s(1)).has_value());
    places.keep(7, from_s(2), from_s(5));
    places.keep(7, from_s(1), from_s(5));
    EXPECT_EQ(places.take(7, from_s(5)), from_s(1));
    EXPECT_EQ(places.take(7, from_s(5)), from_s(2));
    EXPECT_FALSE(places.take(7, from_s(5)).has_value());
    for (uint32_t i = 0; i <= kThrottlePlaces; ++i) places.keep(i, from_ms(1000 - i), from_s(5));
    EXPECT_FALSE(places.take(0, from_s(5)).has_value()) << "the newest one";
    EXPECT_EQ(places.take(kThrottlePlaces, from_s(5)), from_ms(1000 - kThrottlePlaces));
    EXPECT_FALSE(places.take(1, from_s(5) + kThrottlePlaceKept + from_ms(1)).has_value()) << "it never came";
}

}  // namespace
}  // namespace wss::block::testing
