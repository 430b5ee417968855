// SPDX-License-Identifier: Apache-2.0
// Task management: an aborted command gets no response, and has no further effect when the abort is answered.
#include <algorithm>

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

// Ten slow writes on each of two channels of one initiator, and on one channel of another.
struct Load {
    explicit Load(World& world)
        : first(world.client(1, WSS_CAP_NOTIFY)),
          second(world.client(1, WSS_CAP_NOTIFY, true)),
          other(world.client(2)) {
        RawClient* clients[] = {first.get(), second.get(), other.get()};
        for (int i = 0; i < 3; ++i)
            for (int n = 0; n < 10; ++n)
                tags[i].push_back(clients[i]->start(0, cdb_write16(uint64_t(8 * n), 8), Direction::kOut,
                                                    {clients[i]->remote(0, 4096)}));
        EXPECT_TRUE(world.until([&] { return world.totals().commands == 30; }));
    }
    std::unique_ptr<RawClient> first, second, other;
    std::vector<uint64_t> tags[3];
};

class TaskManagement : public ::testing::Test {
  protected:
    // Sends a task management request and returns its tag.
    uint64_t ask(RawClient& client, uint8_t function, uint64_t lun, uint64_t task_tag = 0) {
        std::array<byte, 48> message;
        const uint64_t tag = 0x8000'0000u + next_++;
        EXPECT_EQ(wire::encode_task_management(
                      {.tag = tag, .lun = lun, .function = function, .task_tag = task_tag}, message),
                  48u);
        client.send(message);
        return tag;
    }
    // Does the same, but returns the status of the response.
    uint8_t manage(World& world, RawClient& client, uint8_t function, uint64_t lun, uint64_t task_tag = 0) {
        const uint64_t tag = ask(client, function, lun, task_tag);
        EXPECT_TRUE(world.until([&] { return client.answered(tag); }));
        Answer answer = client.take(tag);
        EXPECT_TRUE(answer.response.has_task_status);
        return answer.response.task_status;
    }
    uint64_t next_ = 0;
};

TEST_F(TaskManagement, sends_no_response_to_an_aborted_write_and_returns_its_credit) {
    World world;
    world.add_volume("v0", "delay:us=50000,op=write:ram:4M", 4 << 20);
    auto client = world.client(1);
    uint64_t tag = client->start(0, cdb_write16(0, 8), Direction::kOut, {client->remote(0, 4096)});
    uint64_t other = client->start(0, cdb_read16(0, 8), Direction::kIn, {client->remote(4096, 4096)});
    ASSERT_TRUE(world.until([&] { return client->answered(other); }));
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_ABORT_TASK, 0, tag), WSS_SRP_TSK_MGMT_SUCCESS);
    EXPECT_FALSE(client->answered(tag));
    EXPECT_EQ(world.totals().aborted, 1u);
    // manage() takes no credit from the client's count, but two credits came with its response.
    EXPECT_EQ(client->credits(), kCreditsDefault + 1);
    EXPECT_EQ(world.read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood) << "the channel stays up";
}

TEST_F(TaskManagement, answers_an_abort_only_after_the_storage_has_finished) {
    World world;
    world.add_volume("v0", "delay:us=100000,op=write:ram:4M", 4 << 20);
    auto client = world.client(1);
    fill(client->memory(), 4096, 1);
    uint64_t tag = client->start(0, cdb_write16(0, 8), Direction::kOut, {client->remote(0, 4096)});
    ASSERT_TRUE(world.until([&] { return world.totals().written_bytes == 4096; }));
    manage(world, *client, WSS_SRP_TSK_ABORT_TASK, 0, tag);
    // The write is complete or has no effect: the content must not change after the response.
    world.read(*client, 0, 0, 8, 8192, 4096);
    std::vector<byte> first(client->memory() + 8192, client->memory() + 12288);
    SystemClock clock;
    Nanoseconds limit = clock.now() + from_ms(150);
    ASSERT_TRUE(world.until([&] { return clock.now() > limit; }));
    world.read(*client, 0, 0, 8, 8192, 4096);
    EXPECT_EQ(std::memcmp(first.data(), client->memory() + 8192, 4096), 0);
}

TEST_F(TaskManagement, succeeds_in_aborting_a_completed_task) {
    World world;
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto client = world.client(1);
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_ABORT_TASK, 0, 4711), WSS_SRP_TSK_MGMT_SUCCESS);
}

TEST_F(TaskManagement, clears_the_commands_of_all_channels_of_the_initiator_and_no_others) {
    World world({.reactors = 2});
    world.add_volume("v0", "delay:us=50000:ram:4M", 4 << 20);
    Load load(world);
    EXPECT_EQ(manage(world, *load.first, WSS_SRP_TSK_CLEAR_TASK_SET, 0), WSS_SRP_TSK_MGMT_SUCCESS);
    EXPECT_EQ(world.totals().aborted, 20u);
    ASSERT_TRUE(world.until([&] { return load.other->credits() == kCreditsDefault; }));
    for (uint64_t tag : load.tags[2]) EXPECT_EQ(load.other->take(tag).response.status, wire::kGood);
    for (uint64_t tag : load.tags[0]) EXPECT_FALSE(load.first->answered(tag));
    for (uint64_t tag : load.tags[1]) EXPECT_FALSE(load.second->answered(tag));
}

// SAM-5, LOGICAL UNIT RESET: it ends all task sets, and causes a unit attention for all other initiators.
TEST_F(TaskManagement, ends_all_commands_and_notifies_other_initiators_at_a_reset_of_the_unit) {
    World world({.reactors = 2});
    world.add_volume("v0", "delay:us=50000:ram:4M", 4 << 20);
    Load load(world);
    EXPECT_EQ(manage(world, *load.first, WSS_SRP_TSK_LUN_RESET, 0), WSS_SRP_TSK_MGMT_SUCCESS);
    EXPECT_EQ(world.totals().aborted, 30u);
    ASSERT_TRUE(world.until([&] { return load.other->credits() == kCreditsDefault; }));
    for (uint64_t tag : load.tags[2]) EXPECT_EQ(load.other->take(tag).response.status, wire::kTaskAborted);
    for (uint64_t tag : load.tags[0]) EXPECT_FALSE(load.first->answered(tag));
    auto attention = world.read(*load.other, 0, 0, 1, 0, 512);
    EXPECT_EQ(attention.parsed_sense().code, wire::AdditionalSense::kBusDeviceReset);
    EXPECT_EQ(world.read(*load.other, 0, 0, 1, 0, 512).response.status, wire::kGood) << "reported once";
    EXPECT_EQ(world.read(*load.first, 0, 0, 1, 0, 512).response.status, wire::kGood) << "not to itself";
}

TEST_F(TaskManagement, waits_for_data_in_flight_on_other_channels_before_it_answers_a_reset) {
    World world({.reactors = 2});
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto first = world.client(1), second = world.client(1, 0, true);
    // The target answers reads of a RAM volume without waiting for a completion.
    for (int round = 0; round < 20; ++round) {
        const uint64_t sent = world.totals().commands + 20;
        for (int n = 0; n < 20; ++n)
            second->start(0, cdb_read16(8 * n, 256), Direction::kIn, {second->remote(0, 131072)});
        // All commands have arrived. Commands after the reset are served.
        ASSERT_TRUE(world.until([&] { return world.totals().commands == sent; }));
        for (int n = 0; n < round % 5; ++n) world.step();
        EXPECT_EQ(manage(world, *first, WSS_SRP_TSK_LUN_RESET, 0), WSS_SRP_TSK_MGMT_SUCCESS);
        std::memset(second->memory(), 0x77, 131072);
        for (int n = 0; n < 5; ++n) world.step();
        ASSERT_EQ(std::count(second->memory(), second->memory() + 131072, byte{0x77}), 131072) << round;
        ASSERT_EQ(world.read(*second, 0, 0, 1, 0, 512).response.status, wire::kGood);
    }
}

TEST_F(TaskManagement, aborts_commands_that_wait_for_a_buffer_at_once) {
    World world({.service = {.arena_bytes = kArenaMin}});
    world.add_volume("v0", "delay:us=400000:ram:8M", 8 << 20);
    auto client = world.client(1);
    for (int i = 0; i < 20; ++i)
        client->start(0, cdb_write16(0, 2048), Direction::kOut, {client->remote(0, 1 << 20)});
    ASSERT_TRUE(world.until([&] { return world.totals().waited_for_buffer > 0; }));
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_CLEAR_TASK_SET, 0), WSS_SRP_TSK_MGMT_SUCCESS);
    EXPECT_EQ(world.totals().aborted, 20u);
    EXPECT_EQ(world.read(*client, 0, 0, 2048, 0, 1 << 20).response.status, wire::kGood);
    BufferPool& buffers = world.service().worker(0).lane(0).arena().pool(Part::kLarge);
    EXPECT_TRUE(world.until([&] { return buffers.free_bytes() == buffers.size(); }))
        << "every buffer is returned";
}

// An initiator resets the unit because its abort is not answered. Both must be answered eventually.
TEST_F(TaskManagement, succeeds_in_a_reset_after_an_unanswered_abort_of_the_same_command) {
    for (size_t reactors : {1, 2}) {
        World world({.reactors = reactors});
        world.add_volume("v0", "delay:us=1000000,op=write:ram:4M", 4 << 20);
        auto first = world.client(1, WSS_CAP_NOTIFY), second = world.client(1, WSS_CAP_NOTIFY, true);
        const uint64_t write = first->start(0, cdb_write16(0, 8), Direction::kOut, {first->remote(0, 4096)});
        ASSERT_TRUE(world.until([&] { return world.totals().written_bytes == 4096; }));
        const uint64_t abort = ask(*first, WSS_SRP_TSK_ABORT_TASK, 0, write);
        ASSERT_TRUE(world.until([&] { return world.totals().task_management == 1; }));
        const uint64_t reset = ask(*first, WSS_SRP_TSK_LUN_RESET, 0);
        const uint64_t other = ask(*second, WSS_SRP_TSK_LUN_RESET, 0);
        ASSERT_TRUE(world.until(
            [&] { return first->answered(abort) && first->answered(reset) && second->answered(other); }));
        EXPECT_EQ(first->take(abort).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
        EXPECT_EQ(first->take(reset).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
        EXPECT_EQ(second->take(other).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
        EXPECT_FALSE(first->answered(write));
        EXPECT_EQ(world.totals().aborted, 1u);
    }
}

// Two commands are stuck. One is aborted, then the unit is reset. An initiator that mistakes the late
// response of the abort for that of the reset repeats both commands, so both must have ended by then.
TEST_F(TaskManagement, answers_an_abort_overtaken_by_a_reset_only_after_all_commands_of_the_unit_ended) {
    for (size_t reactors : {1, 2}) {
        World world({.reactors = reactors});
        world.add_volume("v0", "delay:us=1000000,op=write:ram:4M", 4 << 20);
        auto first = world.client(1, WSS_CAP_NOTIFY), second = world.client(1, WSS_CAP_NOTIFY, true);
        const uint64_t one = first->start(0, cdb_write16(0, 8), Direction::kOut, {first->remote(0, 4096)});
        SystemClock clock;
        const Nanoseconds later = clock.now() + from_ms(500);
        ASSERT_TRUE(world.until([&] { return clock.now() > later; }));
        second->start(0, cdb_write16(8, 8), Direction::kOut, {second->remote(0, 4096)});
        ASSERT_TRUE(world.until([&] { return world.totals().written_bytes == 8192; }));
        const uint64_t abort = ask(*first, WSS_SRP_TSK_ABORT_TASK, 0, one);
        const uint64_t reset = ask(*first, WSS_SRP_TSK_LUN_RESET, 0);
        ASSERT_TRUE(world.until([&] { return first->answered(abort) || first->answered(reset); }));
        EXPECT_EQ(world.totals().aborted, 2u) << "a command still executes";
        ASSERT_TRUE(world.until([&] { return first->answered(abort) && first->answered(reset); }));
        EXPECT_EQ(first->take(abort).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
        EXPECT_EQ(first->take(reset).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
    }
}

// Initiators that reset the same unit at the same time may wait for each other, but must not deadlock.
TEST_F(TaskManagement, answers_all_resets_from_two_reactors_at_once) {
    World world({.reactors = 2});
    world.add_volume("v0", "delay:us=20000:ram:4M", 4 << 20);
    Load load(world);
    std::vector<std::pair<RawClient*, uint64_t>> asked;
    for (int round = 0; round < 5; ++round)
        for (RawClient* client : {load.first.get(), load.second.get(), load.other.get()}) {
            asked.emplace_back(client, ask(*client, WSS_SRP_TSK_LUN_RESET, 0));
            asked.emplace_back(client, ask(*client, WSS_SRP_TSK_CLEAR_TASK_SET, 0));
        }
    ASSERT_TRUE(world.until([&] {
        return std::all_of(asked.begin(), asked.end(),
                           [](const auto& each) { return each.first->answered(each.second); });
    }));
    for (auto& [client, tag] : asked)
        EXPECT_EQ(client->take(tag).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
}

TEST_F(TaskManagement, distinguishes_unsupported_functions_from_absent_units) {
    World world;
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto client = world.client(1);
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_CLEAR_ACA, 0), WSS_SRP_TSK_MGMT_NOT_SUPPORTED);
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_LUN_RESET, 99), WSS_SRP_TSK_MGMT_FAILED);
}

TEST_F(TaskManagement, releases_the_lock_of_an_aborted_compare_and_write) {
    World world;
    world.add_volume("v0", "delay:us=20000:ram:4M", 4 << 20);
    auto client = world.client(1);
    auto command = cdb({0x89});
    command[13] = byte{1};
    std::vector<uint64_t> tags;
    for (int i = 0; i < 5; ++i)
        tags.push_back(client->start(0, command, Direction::kOut, {client->remote(0, 1024)}));
    ASSERT_TRUE(world.until([&] { return world.service().range_locks().count() == 5; }));
    EXPECT_EQ(manage(world, *client, WSS_SRP_TSK_ABORT_TASK_SET, 0), WSS_SRP_TSK_MGMT_SUCCESS);
    ASSERT_TRUE(world.until([&] { return world.service().range_locks().count() == 0; }));
    EXPECT_EQ(world.write(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
}

}  // namespace
}  // namespace wss::block::testing
