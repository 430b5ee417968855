// SPDX-License-Identifier: Apache-2.0
// All engines that hold an acknowledged write are silent for a while. Commands that need its data wait
// without delaying others. If the engines return in time, no command fails.
#include "tests/sim/tests/cluster_operator.h"
#include "tests/sim/tests/raw_side.h"

namespace wss::sim {
namespace {

using block::testing::RawClient;
using Direction = wire::CommandRequest::Direction;

// The channels are on the only reactor, or on the second of two, to which the cache does not belong.
class ClusterGrace : public ClusterOperator, public ::testing::WithParamInterface<uint32_t> {
  protected:
    static constexpr uint64_t kDirty = 4;  // lines

    void SetUp() override {
        grace_ = from_s(8);  // less than the clients' time limit
        options_.commands = 4;
        options_.reactors = GetParam();
        ClusterOperator::SetUp();
        ASSERT_TRUE(try_create("a", a_, (kSectors - kLine) * io::SimDisk::kSector));
        // Channels are spread over the reactors in turn.
        for (uint32_t i = 1; i < GetParam(); ++i) seen(0, 1);
        attach("a", a_);
        set_policy("a", Policy::kBack);
        for (uint64_t i = 0; i < kDirty; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), kDirty);
    }
    void fall_silent() {
        for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
        ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    }
    void lose_all_engines_for_good() {
        for (EngineNode& engine : engines_) kill_engine(engine);
        world_.run_for(grace_ + from_s(1));
        EXPECT_EQ(run(a_, Operation::kRead), Outcome::kMediumError);
        for (EngineNode& engine : engines_) start_engine(engine);
        ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    }
    void begin(Operation operation, uint64_t first = 0, uint64_t count = kLine) {
        ASSERT_TRUE(a_.client->begin(operation, first, count));
    }
    uint64_t waiting() {
        for (const auto& volume : target_->cache().info().volumes)
            if (volume.name == "a") return volume.waiting;
        return 0;
    }
    // Begins one command of each kind that needs lost data.
    void begin_all() {
        begin(Operation::kRead);
        begin(Operation::kWrite, kLine + 1, 1);
        begin(Operation::kFlush, 0, 1);
        begin(Operation::kDiscard, 8 * kLine, kLine);
        begin(Operation::kWriteZeroes, 9 * kLine, kLine);
        world_.run_for(from_ms(300));
        ASSERT_EQ(waiting(), 5u);
    }
    bool all_ended(Nanoseconds limit = from_s(3)) {
        return until([&] { return a_.client->under_way() == 0; }, limit);
    }
};

INSTANTIATE_TEST_SUITE_P(Reactors, ClusterGrace, ::testing::Values(1u, 2u));

TEST_P(ClusterGrace, lets_engines_that_are_silent_for_five_seconds_cause_no_error) {
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    const Nanoseconds until_then = world_.now() + from_s(5);
    for (uint64_t i = 0; world_.now() < until_then; ++i) {
        const Operation operation = i % 3 == 0 ? Operation::kRead : Operation::kWrite;
        if (a_.client->under_way() < 6) a_.client->begin(operation, i * 37 % (kDirty * kLine), 1 + i % 70);
        world_.run_for(from_ms(50));
    }
    EXPECT_GT(a_.client->under_way(), 0u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(8)));
    EXPECT_EQ(a_.shared.failed, 0u);
    for (uint64_t i = 0; i < kDirty; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_P(ClusterGrace, lets_commands_that_need_lost_data_wait_and_complete_when_it_returns) {
    fall_silent();
    begin_all();
    world_.run_for(from_s(3));
    EXPECT_EQ(waiting(), 5u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.shared.failed, 0u);
    EXPECT_EQ(waiting(), 0u);
    for (uint64_t i = 0; i < kDirty; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_P(ClusterGrace, lets_waiting_commands_hold_no_buffer) {
    constexpr uint64_t kMany = 20;  // more than the 14 buffers of that size that a volume may hold
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    fall_silent();
    std::vector<uint64_t> tags;
    for (uint64_t i = 0; i < kMany; ++i) {
        auto write_same = block::testing::cdb_write16((10 + i) * kLine, kLine);
        write_same[0] = std::byte{0x93};
        tags.push_back(client.start(1, write_same, Direction::kOut, {client.remote(0, 512)}));
    }
    EXPECT_TRUE(side.until([&] { return waiting() == kMany; })) << waiting();
    const uint64_t read = client.start(1, block::testing::cdb_read16(8 * kLine, 8), Direction::kIn,
                                       {client.remote(4096, 4096)});
    EXPECT_TRUE(side.until([&] { return client.answered(read); }));
    world_.heal_all();
    for (uint64_t tag : tags) {
        ASSERT_TRUE(until([&] { return client.answered(tag); }, from_s(5)));
        EXPECT_EQ(client.take(tag).response.status, wire::kGood);
    }
    client.close();
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
}

TEST_P(ClusterGrace, needs_no_check_of_a_waiting_command_at_each_tick) {
    fall_silent();
    begin_all();
    const uint64_t checks = target_->cache().info().waiting_checks;
    world_.run_for(from_s(3));
    EXPECT_EQ(waiting(), 5u);
    EXPECT_EQ(target_->cache().info().waiting_checks, checks);
}

TEST_P(ClusterGrace, leaves_other_lines_and_other_volumes_available) {
    create("b", b_);
    attach("b", b_);
    fall_silent();
    for (int i = 0; i < 6; ++i) begin(Operation::kRead, 0, kLine);  // more commands than the cache has
    world_.run_for(from_ms(300));
    ASSERT_EQ(waiting(), 6u);
    for (Operation operation : {Operation::kWrite, Operation::kRead, Operation::kDiscard, Operation::kFlush})
        EXPECT_EQ(run(b_, operation), Outcome::kOk);
    begin(Operation::kWrite, kDirty * kLine, kLine);
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 6; }, from_s(1)));
    begin(Operation::kRead, kDirty * kLine, kLine);
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 6; }, from_s(1)));
    begin(Operation::kWrite, kLine, kLine);
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 6; }, from_s(1))) << "they need no lost data";
    EXPECT_EQ(a_.shared.failed, 0u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(6)));
    EXPECT_EQ(a_.shared.failed, 0u);
}

TEST_P(ClusterGrace, fails_waiting_commands_when_it_expires) {
    const Nanoseconds began = world_.now();
    fall_silent();
    begin_all();
    ASSERT_TRUE(all_ended(from_s(12)));
    EXPECT_GE(world_.now() - began, grace_);
    EXPECT_EQ(a_.shared.failed, 5u);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kMediumError) << "commands no longer wait";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    fall_silent();
    EXPECT_EQ(waiting(), 0u);
}

TEST_P(ClusterGrace, begins_anew_at_the_next_loss) {
    fall_silent();
    world_.run_for(from_s(6));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    fall_silent();
    begin(Operation::kRead);
    world_.run_for(from_s(4));
    EXPECT_EQ(waiting(), 1u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.shared.failed, 0u);
}

TEST_P(ClusterGrace, is_not_shortened_by_an_earlier_loss_that_was_not_given_up) {
    ASSERT_NO_FATAL_FAILURE(lose_all_engines_for_good());
    ASSERT_EQ(run(a_, Operation::kWrite, 8 * kLine), Outcome::kOk);
    const uint64_t failed = a_.shared.failed;
    fall_silent();
    begin(Operation::kRead, 8 * kLine, kLine);
    world_.run_for(from_s(4));
    EXPECT_EQ(waiting(), 1u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.shared.failed, failed);
}

TEST_P(ClusterGrace, that_has_expired_is_not_extended_by_the_next_loss) {
    ASSERT_NO_FATAL_FAILURE(lose_all_engines_for_good());
    ASSERT_EQ(run(a_, Operation::kWrite, 8 * kLine), Outcome::kOk);
    fall_silent();
    for (Operation operation : {Operation::kRead, Operation::kFlush, Operation::kDiscard}) {
        begin(operation, 0, kLine);
        EXPECT_TRUE(all_ended(from_s(1))) << "its data is lost for good";
        EXPECT_NE(a_.client->last_outcome(), Outcome::kOk);
    }
    begin(Operation::kRead, 8 * kLine, kLine);
    world_.run_for(from_s(4));
    EXPECT_EQ(waiting(), 1u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
}

TEST_P(ClusterGrace, fails_a_waiting_write_if_the_volume_becomes_read_only_meanwhile) {
    fall_silent();
    begin(Operation::kWrite, kLine + 1, 1);
    begin(Operation::kWriteZeroes, 9 * kLine, kLine);
    begin(Operation::kRead);
    world_.run_for(from_ms(300));
    ASSERT_EQ(waiting(), 3u);
    std::optional<Status> changed;
    target_->volumes().set_read_only_async("a", true, [&](Status status) { changed = status; });
    ASSERT_TRUE(until([&] { return changed.has_value(); }) && *changed);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.shared.failed, 2u);
    EXPECT_EQ(run(a_, Operation::kRead, kLine), Outcome::kOk);
}

TEST_P(ClusterGrace, gives_no_data_after_the_wait_to_an_initiator_that_loses_access) {
    fall_silent();
    begin(Operation::kRead);
    world_.run_for(from_ms(300));
    ASSERT_EQ(waiting(), 1u);
    std::optional<Status> changed;
    target_->volumes().set_access_async("a", {"somebody=rw"}, [&](Status status) { changed = status; });
    ASSERT_TRUE(until([&] { return changed.has_value(); }) && *changed);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.shared.failed, 1u);
}

TEST_P(ClusterGrace, ends_when_the_volume_is_removed) {
    fall_silent();
    begin_all();
    std::optional<Status> removed;
    target_->remove_volume("a", [&](Status status) { removed = status; });
    EXPECT_TRUE(until([&] { return removed.has_value(); }, from_s(1)));
    EXPECT_TRUE(all_ended(from_s(1)));
    EXPECT_EQ(a_.shared.failed, 5u);
}

TEST_P(ClusterGrace, ends_at_a_shrink_for_data_beyond_the_end) {
    fall_silent();
    begin(Operation::kRead, 0, kLine);
    begin(Operation::kRead, 2 * kLine, kLine);
    world_.run_for(from_ms(300));
    ASSERT_EQ(waiting(), 2u);
    std::optional<Status> resized;
    target_->resize_volume("a", kLineBytes, [&](Status status) { resized = status; });
    EXPECT_TRUE(until([&] { return resized.has_value() && a_.client->under_way() == 1; }, from_s(1)));
    EXPECT_TRUE(resized && *resized);
    EXPECT_EQ(waiting(), 1u);
    world_.heal_all();
    ASSERT_TRUE(all_ended(from_s(5)));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
}

TEST_P(ClusterGrace, does_not_delay_a_stop_and_the_next_target_completes_the_waiting_commands) {
    fall_silent();
    begin_all();
    target_->stop();
    EXPECT_TRUE(until([&] { return target_->stopped(); }, from_s(10)));
    world_.heal_all();
    restart_target();
    ASSERT_TRUE(try_create("a", a_, (kSectors - kLine) * io::SimDisk::kSector));
    ASSERT_TRUE(all_ended(from_s(10)));
    EXPECT_EQ(a_.shared.failed, 0u);
}

TEST_P(ClusterGrace, ends_with_a_session_for_the_commands_of_that_session) {
    fall_silent();
    begin_all();
    a_.shared.failure = "";
    retire(std::move(a_.client));
    client_node().crash();
    EXPECT_TRUE(until([&] { return waiting() == 0; }, from_s(7)));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    attach("a", a_);
    for (uint64_t i = 2; i < kDirty; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_P(ClusterGrace, ends_at_a_logout_for_the_commands_of_that_session) {
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    fall_silent();
    const uint64_t read =
        client.start(1, block::testing::cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)});
    ASSERT_TRUE(side.until([&] { return waiting() == 1; }));
    std::array<std::byte, 16> message;
    ASSERT_EQ(wire::encode_short({.opcode = WSS_SRP_I_LOGOUT, .tag = 2}, message), message.size());
    client.send(message);
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
    ASSERT_TRUE(client.answered(read));
    EXPECT_EQ(client.take(read).response.status, wire::kBusy);
    EXPECT_EQ(waiting(), 0u);
}

TEST_P(ClusterGrace, returns_busy_to_a_command_that_has_to_wait_on_a_draining_channel) {
    const uint64_t partly_dirty = 8 * kLine;
    ASSERT_EQ(run(a_, Operation::kWrite, partly_dirty, 8), Outcome::kOk);
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_s(3);
    const uint64_t read = client.start(1, block::testing::cdb_read16(partly_dirty, 16), Direction::kIn,
                                       {client.remote(0, 8192)});
    world_.run_for(from_ms(100));
    std::array<std::byte, 16> message;
    ASSERT_EQ(wire::encode_short({.opcode = WSS_SRP_I_LOGOUT, .tag = 2}, message), message.size());
    client.send(message);
    fall_silent();
    ASSERT_FALSE(client.closed()) << "real storage has the command";
    ASSERT_TRUE(until([&] { return client.closed(); }, from_s(4)));
    ASSERT_TRUE(client.answered(read));
    EXPECT_EQ(client.take(read).response.status, wire::kBusy);
}

TEST_P(ClusterGrace, returns_busy_to_a_write_during_which_every_engine_is_lost) {
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    const uint64_t write =
        client.start(1, block::testing::cdb_write16(1, 1), Direction::kOut, {client.remote(0, 512)});
    ASSERT_TRUE(until([&] { return client.answered(write); }, from_s(4)));
    EXPECT_EQ(client.take(write).response.status, wire::kBusy);
    EXPECT_EQ(waiting(), 0u);
    client.close();
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
}

TEST_P(ClusterGrace, ends_for_a_command_that_the_initiator_aborts) {
    constexpr uint64_t kLun = 1;
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    fall_silent();
    const uint64_t read =
        client.start(kLun, block::testing::cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)});
    const uint64_t write =
        client.start(kLun, block::testing::cdb_write16(1, 1), Direction::kOut, {client.remote(0, 512)});
    ASSERT_TRUE(side.until([&] { return waiting() == 2; }));
    std::array<std::byte, 48> message;
    const wire::TaskManagement abort{
        .tag = 0x80000001u, .lun = kLun, .function = WSS_SRP_TSK_ABORT_TASK_SET, .task_tag = 0};
    ASSERT_EQ(wire::encode_task_management(abort, message), message.size());
    client.send(message);
    ASSERT_TRUE(side.until([&] { return client.answered(abort.tag); }));
    EXPECT_EQ(client.take(abort.tag).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
    EXPECT_FALSE(client.answered(read) || client.answered(write));
    EXPECT_EQ(waiting(), 0u);
    client.close();
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
}

TEST_P(ClusterGrace, ends_when_the_data_is_given_up) {
    fall_silent();
    begin(Operation::kRead, 4 * kLine - 1, 1);
    world_.run_for(from_ms(300));
    ASSERT_EQ(waiting(), 1u);
    a_.shared.model.crash();
    ASSERT_TRUE(give_up("a"));
    EXPECT_TRUE(all_ended(from_s(1)));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
}

}  // namespace
}  // namespace wss::sim
