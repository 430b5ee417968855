// SPDX-License-Identifier: Apache-2.0
// Commands other than READ and WRITE, residuals, and the responses for storage errors.
#include <algorithm>

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;
using Residual = wire::Residual;

class Commands : public ::testing::Test {
  protected:
    static constexpr uint64_t kSize = 8 << 20;
    // `backend`: RDMA reaches the memory of "ram:8M"; behind a filter it is accessed through a disk queue.
    std::unique_ptr<RawClient> open(const std::string& backend, uint32_t caps = 0) {
        world_.add_volume("v0", backend, kSize);
        return world_.client(1, caps);
    }
    static std::vector<byte> cdb16(int opcode, int flags, uint64_t lba, uint32_t blocks) {
        auto made = cdb({opcode, flags});
        wire::put64(made.data() + 2, lba);
        wire::put32(made.data() + 10, blocks);
        return made;
    }
    static std::vector<byte> cdb_compare_and_write(uint64_t lba, uint8_t blocks) {
        auto made = cdb16(0x89, 0, lba, 0);
        made[13] = byte(blocks);
        return made;
    }
    Answer out(RawClient& client, std::span<const byte> command, size_t offset, uint32_t bytes) {
        return world_.run(client, 0, command, Direction::kOut, {client.remote(offset, bytes)});
    }
    World world_;
};

// The same tests on both kinds of storage.
class BlockCommands : public Commands, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Storage, BlockCommands, ::testing::Values("ram:8M", "delay:us=1:ram:8M"),
                         [](const auto& each) { return each.param[0] == 'r' ? "memory" : "queue"; });

TEST_P(BlockCommands, that_read_into_too_small_a_buffer_are_truncated_and_report_the_residual) {
    auto client = open(GetParam());
    fill(client->memory(), 4096, 1);
    out(*client, cdb_write16(0, 8), 0, 4096);
    std::memset(client->memory(), 0, 8192);
    auto answer = world_.read(*client, 0, 0, 8, 0, 1000);
    EXPECT_EQ(answer.response.status, wire::kGood);
    EXPECT_EQ(answer.response.in, (Residual{Residual::Kind::kOver, 3096}));
    EXPECT_TRUE(holds(client->memory(), 1000, 1));
    EXPECT_EQ(client->memory()[1000], byte{0}) << "nothing is written beyond the buffer";
}

TEST_P(BlockCommands, that_read_into_too_large_a_buffer_report_the_residual) {
    auto client = open(GetParam());
    auto answer = world_.read(*client, 0, 0, 8, 0, 8192);
    EXPECT_EQ(answer.response.in, (Residual{Residual::Kind::kUnder, 4096}));
}

TEST_P(BlockCommands, that_write_too_little_data_change_nothing) {
    auto client = open(GetParam());
    fill(client->memory(), 4096, 1);
    auto answer = out(*client, cdb_write16(0, 8), 0, 2048);
    EXPECT_EQ(answer.response.status, wire::kCheckCondition);
    EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kIllegalRequest);
    EXPECT_EQ(answer.response.out, (Residual{Residual::Kind::kUnder, 2048}));
    world_.read(*client, 0, 0, 8, 0, 4096);
    EXPECT_EQ(std::count(client->memory(), client->memory() + 4096, byte{0}), 4096);
}

// The length of the initiator's buffer differs from the length in the CDB.
TEST_P(BlockCommands, whose_data_out_has_another_length_than_in_the_cdb_are_rejected) {
    auto client = open(GetParam());
    fill(client->memory(), 16384, 1);
    const auto unmap = cdb({0x42, 0, 0, 0, 0, 0, 0, 0, 24});
    struct {
        const char* name;
        std::vector<byte> command;
        uint32_t right;  // correct number of bytes of data-out
    } kinds[] = {{"WRITE", cdb_write16(0, 8), 4096},
                 {"WRITE of no blocks", cdb_write16(0, 0), 0},
                 {"WRITE SAME", cdb16(0x93, 0, 0, 8), 512},
                 {"WRITE SAME without data-out", cdb16(0x93, 1, 0, 8), 0},
                 {"COMPARE AND WRITE", cdb_compare_and_write(0, 2), 2048},
                 {"VERIFY", cdb16(0x8f, 2, 0, 8), 4096},
                 {"VERIFY of the medium", cdb16(0x8f, 0, 0, 8), 0},
                 {"UNMAP", unmap, 24},
                 {"READ", cdb_read16(0, 8), 0},
                 {"SYNCHRONIZE CACHE", cdb({0x91}), 0},
                 {"TEST UNIT READY", cdb({0}), 0}};
    for (const auto& kind : kinds) {
        for (uint32_t length : {kind.right / 2, kind.right + 512, 2 * kind.right}) {
            if (length == kind.right || length == 0) continue;
            auto answer = out(*client, kind.command, 0, length);
            ASSERT_EQ(answer.response.status, wire::kCheckCondition) << kind.name << ", " << length;
            EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kIllegalRequest) << kind.name;
            EXPECT_EQ(answer.parsed_sense().code, wire::AdditionalSense::kInvalidFieldInCommandIu)
                << kind.name;
            EXPECT_EQ(answer.response.out, (Residual{Residual::Kind::kUnder, length})) << kind.name;
            const std::vector<byte> data(length, byte{1});
            const uint64_t tag = client->start_immediate(0, kind.command, data);
            ASSERT_TRUE(world_.until([&] { return client->answered(tag); }));
            EXPECT_EQ(client->take(tag).response.status, wire::kCheckCondition) << kind.name;
        }
    }
    world_.read(*client, 0, 0, 16, 0, 8192);
    EXPECT_EQ(std::count(client->memory(), client->memory() + 8192, byte{0}), 8192) << "nothing is changed";
}

TEST_P(BlockCommands, beyond_the_end_are_refused_with_the_address_of_the_block) {
    auto client = open(GetParam());
    auto answer = world_.read(*client, 0, kSize / 512 - 1, 2, 0, 1024);
    EXPECT_EQ(answer.parsed_sense().code, wire::AdditionalSense::kLbaOutOfRange);
}

TEST_P(BlockCommands, of_write_same_fill_blocks_with_a_pattern_or_with_zeroes) {
    auto client = open(GetParam());
    fill(client->memory(), 512, 7);
    // 300 blocks need more than one segment of the buffer.
    ASSERT_EQ(out(*client, cdb16(0x93, 0, 10, 300), 0, 512).response.status, wire::kGood);
    world_.read(*client, 0, 9, 302, 4096, 302 * 512);
    byte* got = client->memory() + 4096;
    EXPECT_EQ(got[0], byte{0}) << "block 9 is not affected";
    for (int i = 1; i <= 300; ++i) ASSERT_TRUE(holds(got + i * 512, 512, 7)) << i;
    EXPECT_EQ(std::count(got + 301 * 512, got + 302 * 512, byte{0}), 512);
    // With NDOB the command writes zeroes and has no data.
    ASSERT_EQ(world_.run(*client, 0, cdb16(0x93, 1, 20, 100), Direction::kNone, {}).response.status,
              wire::kGood);
    world_.read(*client, 0, 20, 100, 4096, 51200);
    EXPECT_EQ(std::count(got, got + 51200, byte{0}), 51200);
    world_.read(*client, 0, 120, 1, 4096, 512);
    EXPECT_TRUE(holds(got, 512, 7)) << "the block after the zeroes keeps the pattern";
}

TEST_P(BlockCommands, that_read_unmapped_ranges_return_zeroes) {
    auto client = open(GetParam());
    fill(client->memory(), 65536, 3);
    out(*client, cdb_write16(0, 128), 0, 65536);
    byte* list = client->memory();
    std::memset(list, 0, 40);
    wire::put16(list, 38);
    wire::put16(list + 2, 32);
    wire::put64(list + 8, 8);
    wire::put32(list + 16, 16);
    wire::put64(list + 24, 64);
    wire::put32(list + 32, 8);
    auto answer = out(*client, cdb({0x42, 0, 0, 0, 0, 0, 0, 0, 40}), 0, 40);
    ASSERT_EQ(answer.response.status, wire::kGood);
    world_.read(*client, 0, 0, 128, 65536, 65536);
    byte* got = client->memory() + 65536;
    EXPECT_EQ(std::count(got + 8 * 512, got + 24 * 512, byte{0}), 16 * 512);
    EXPECT_EQ(std::count(got + 64 * 512, got + 72 * 512, byte{0}), 8 * 512);
    fill(client->memory(), 65536, 3);
    EXPECT_EQ(std::memcmp(got + 24 * 512, client->memory() + 24 * 512, 40 * 512), 0);
}

TEST_P(BlockCommands, that_verify_find_the_first_byte_that_differs) {
    auto client = open(GetParam());
    fill(client->memory(), 1 << 18, 3);
    out(*client, cdb_write16(0, 512), 0, 1 << 18);
    EXPECT_EQ(out(*client, cdb16(0x8f, 2, 0, 512), 0, 1 << 18).response.status, wire::kGood);
    EXPECT_EQ(world_.run(*client, 0, cdb16(0x8f, 0, 0, 512), Direction::kNone, {}).response.status,
              wire::kGood);
    client->memory()[100'000] ^= byte{1};
    auto answer = out(*client, cdb16(0x8f, 2, 0, 512), 0, 1 << 18);
    EXPECT_EQ(answer.response.status, wire::kCheckCondition);
    EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kMiscompare);
    EXPECT_EQ(answer.parsed_sense().information, 100'000u);
}

TEST_P(BlockCommands, that_compare_and_write_write_only_on_a_match) {
    auto client = open(GetParam());
    fill(client->memory(), 1024, 1);
    out(*client, cdb_write16(5, 2), 0, 1024);
    fill(client->memory() + 1024, 1024, 2);
    EXPECT_EQ(out(*client, cdb_compare_and_write(5, 2), 0, 2048).response.status, wire::kGood);
    world_.read(*client, 0, 5, 2, 8192, 1024);
    EXPECT_TRUE(holds(client->memory() + 8192, 1024, 2));
    auto again = out(*client, cdb_compare_and_write(5, 2), 0, 2048);
    EXPECT_EQ(again.parsed_sense().key, wire::SenseKey::kMiscompare);
    EXPECT_EQ(world_.service().range_locks().count(), 0u) << "the lock is released";
}

TEST_F(Commands, that_compare_and_write_concurrently_on_two_reactors_lose_no_update) {
    World world({.reactors = 2});
    world.add_volume("v0", "ram:8M", kSize);
    auto a = world.client(1), b = world.client(2);
    RawClient* clients[] = {a.get(), b.get()};
    // Each client tries to increment a counter in block 0. Other commands keep writing next to it.
    uint64_t tags[2] = {}, beside[2] = {}, counted = 0;
    auto attempt = [&](int i) {
        RawClient& client = *clients[i];
        std::memset(client.memory(), 0, 1024);
        wire::put64(client.memory(), counted);
        wire::put64(client.memory() + 512, counted + 1);
        tags[i] = client.start(0, cdb_compare_and_write(0, 1), Direction::kOut, {client.remote(0, 1024)});
        beside[i] = client.start(0, cdb_write16(1, 8), Direction::kOut, {client.remote(4096, 4096)});
    };
    for (int round = 0; round < 50; ++round) {
        attempt(0);
        attempt(1);
        ASSERT_TRUE(world.until([&] {
            return a->answered(tags[0]) && b->answered(tags[1]) && a->answered(beside[0]) &&
                   b->answered(beside[1]);
        }));
        int won = (a->take(tags[0]).response.status == wire::kGood) +
                  (b->take(tags[1]).response.status == wire::kGood);
        ASSERT_EQ(won, 1) << "exactly one of two equal compares wins, round " << round;
        a->take(beside[0]);
        b->take(beside[1]);
        ++counted;
    }
    world.read(*a, 0, 0, 1, 0, 512);
    EXPECT_EQ(wire::get64(a->memory()), 50u);
    EXPECT_EQ(world.service().range_locks().count(), 0u);
}

TEST_F(Commands, that_write_wait_for_a_compare_and_write_of_the_same_blocks) {
    // The compare reads slowly. A write that arrives meanwhile must not take effect between compare and
    // write.
    auto client = open("delay:us=30000,op=read:ram:8M");
    std::memset(client->memory(), 0, 4096);
    std::memset(client->memory() + 512, 0xaa, 512);
    std::memset(client->memory() + 1024, 0xbb, 512);
    uint64_t compare =
        client->start(0, cdb_compare_and_write(0, 1), Direction::kOut, {client->remote(0, 1024)});
    for (int i = 0; i < 20; ++i) world_.step();
    uint64_t write = client->start(0, cdb_write16(0, 1), Direction::kOut, {client->remote(1024, 512)});
    ASSERT_TRUE(world_.until([&] { return client->answered(write); }));
    ASSERT_TRUE(client->answered(compare)) << "the write overtook the lock";
    EXPECT_EQ(client->take(compare).response.status, wire::kGood);
    world_.read(*client, 0, 0, 1, 0, 512);
    EXPECT_EQ(client->memory()[0], byte{0xbb});
}

TEST_F(Commands, on_a_bad_block_end_with_a_medium_error_that_names_it) {
    auto client = open("error:from=1M,to=2M,errno=EIO:ram:8M");
    auto read = world_.read(*client, 0, 2040, 16, 0, 8192);
    EXPECT_EQ(read.response.status, wire::kCheckCondition);
    EXPECT_EQ(read.parsed_sense().code, wire::AdditionalSense::kUnrecoveredReadError);
    EXPECT_GE(read.parsed_sense().information, 2040u);
    EXPECT_LE(read.parsed_sense().information, 2048u);
    EXPECT_EQ(read.response.in, (Residual{Residual::Kind::kUnder, 8192}));
    auto write = out(*client, cdb_write16(2048, 8), 0, 4096);
    EXPECT_EQ(write.parsed_sense().code, wire::AdditionalSense::kWriteError);
    EXPECT_EQ(world_.read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    EXPECT_EQ(world_.totals().medium_errors, 2u);
}

TEST_F(Commands, on_a_full_disk_end_with_space_allocation_failed_write_protect) {
    auto client = open("error:every=1,errno=ENOSPC,op=write:ram:8M");
    auto answer = out(*client, cdb_write16(0, 8), 0, 4096);
    EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kDataProtect);
    EXPECT_EQ(answer.parsed_sense().code, wire::AdditionalSense::kSpaceAllocationFailed);
}

TEST_F(Commands, that_end_with_sense_return_their_credit_and_can_revoke_the_region) {
    auto client =
        open("error:every=1,errno=EIO:ram:8M", WSS_CAP_REMOTE_INVALIDATE | WSS_CAP_FUSED_COMPLETION);
    auto answer = world_.read(*client, 0, 0, 8, 0, 4096);
    EXPECT_FALSE(answer.fused) << "only a good answer is fused";
    EXPECT_EQ(answer.response.status, wire::kCheckCondition);
    EXPECT_EQ(answer.invalidated, (client->login().caps & WSS_CAP_REMOTE_INVALIDATE) != 0);
    EXPECT_EQ(client->credits(), kCreditsDefault);
}

TEST_F(Commands, without_a_free_buffer_wait_and_are_all_served) {
    World world({.service = {.arena_bytes = kArenaMin}});  // 4 MiB for large buffers
    world.add_volume("v0", "delay:us=200:ram:8M", kSize);
    auto client = world.client(1);
    fill(client->memory(), 1 << 20, 9);
    for (int i = 0; i < 64; ++i)
        client->start(0, cdb_write16(0, 2048), Direction::kOut, {client->remote(0, 1 << 20)});
    // Administrative commands do not wait behind the writes.
    uint64_t admin =
        client->start(0, cdb({0x12, 0, 0, 0, 96}), Direction::kIn, {client->remote(1 << 20, 96)});
    ASSERT_TRUE(world.until([&] { return client->answered(admin); }));
    EXPECT_LT(client->credits(), kCreditsDefault) << "some writes are still waiting";
    ASSERT_TRUE(world.until([&] { return client->credits() == kCreditsDefault; }));
    EXPECT_GT(world.totals().waited_for_buffer, 0u);
    EXPECT_EQ(world.totals().check_conditions, 0u);
}

TEST_F(Commands, with_a_descriptor_table_outside_the_message_make_the_target_fetch_it) {
    auto client = open("delay:us=1:ram:8M");
    constexpr uint32_t kSegments = 300;
    byte* table = client->memory() + (2 << 20);
    for (uint32_t i = 0; i < kSegments; ++i) {
        auto segment = client->remote(i * 1024, 512);
        wire::put64(table + i * 16, segment.address);
        wire::put32(table + i * 16 + 8, segment.rkey);
        wire::put32(table + i * 16 + 12, segment.length);
        fill(client->memory() + i * 1024, 512, i);
    }
    auto partial = [&](std::span<const byte> command, bool is_out) {
        // The message has two descriptors; the table has all of them.
        std::vector<byte> message(48 + 20 + 32);
        message[0] = byte{WSS_SRP_CMD};
        message[5] = byte(is_out ? WSS_SRP_DESC_INDIRECT << 4 : WSS_SRP_DESC_INDIRECT);
        message[is_out ? 6 : 7] = byte{2};
        message[8] = byte(is_out ? 201 : 202);
        std::memcpy(message.data() + 32, command.data(), 16);
        auto where = client->remote(2 << 20, kSegments * 16);
        wire::put64(message.data() + 48, where.address);
        wire::put32(message.data() + 56, where.rkey);
        wire::put32(message.data() + 60, where.length);
        wire::put32(message.data() + 64, kSegments * 512);
        std::memcpy(message.data() + 68, table, 32);
        client->send(message);
        uint64_t tag = is_out ? 201 : 202;
        EXPECT_TRUE(world_.until([&] { return client->answered(tag); }));
        EXPECT_EQ(client->take(tag).response.status, wire::kGood);
    };
    partial(cdb_write16(3, kSegments), true);
    for (uint32_t i = 0; i < kSegments; ++i) std::memset(client->memory() + i * 1024, 0, 512);
    partial(cdb_read16(3, kSegments), false);
    for (uint32_t i = 0; i < kSegments; ++i) ASSERT_TRUE(holds(client->memory() + i * 1024, 512, i)) << i;
    EXPECT_EQ(world_.totals().table_reads, 2u);
}

TEST_F(Commands, do_not_reuse_a_buffer_before_the_data_in_it_has_arrived) {
    auto client = open("delay:us=1:ram:8M");
    client->start(0, cdb_read16(0, 8), Direction::kIn, {client->remote(0, 4096)});
    BufferPool& buffers = world_.service().worker(0).lane(0).arena().pool(Part::kSmall);
    ASSERT_TRUE(world_.until([&] { return buffers.free_bytes() < buffers.size(); }));
    // The client sleeps, so it cannot acknowledge the RDMA WRITE.
    SystemClock clock;
    const Nanoseconds limit = clock.now() + from_ms(100);
    while (clock.now() < limit) world_.step_target();
    EXPECT_EQ(buffers.free_bytes(), buffers.size() - 4096);
    ASSERT_TRUE(world_.until([&] { return client->credits() == kCreditsDefault; }));
    ASSERT_TRUE(world_.until([&] { return buffers.free_bytes() == buffers.size(); }));
}

TEST_F(Commands, with_more_work_requests_than_the_send_queue_holds_post_them_step_by_step) {
    auto client = open("ram:8M");
    constexpr uint32_t kSegments = 200;  // times 128 commands: ninety times the send queue
    fill(client->memory(), kSegments * 512, 4);
    std::vector<wire::RemoteBuffer> there, back;
    for (uint32_t i = 0; i < kSegments; ++i) {
        there.push_back(client->remote(i * 512, 512));
        back.push_back(client->remote((1 << 20) + i * 512, 512));
    }
    for (uint32_t i = 0; i < kCreditsDefault; ++i)
        client->start(0, cdb_write16(i % 8 * kSegments, kSegments), Direction::kOut, there);
    ASSERT_TRUE(world_.until([&] { return client->credits() == kCreditsDefault; }));
    for (uint32_t i = 0; i < kCreditsDefault; ++i)
        client->start(0, cdb_read16(i % 8 * kSegments, kSegments), Direction::kIn, back);
    ASSERT_TRUE(world_.until([&] { return client->credits() == kCreditsDefault; }));
    EXPECT_TRUE(holds(client->memory() + (1 << 20), kSegments * 512, 4));
    EXPECT_EQ(world_.totals().rdma_reads, kCreditsDefault * kSegments);
    EXPECT_EQ(world_.totals().rdma_writes, kCreditsDefault * kSegments);
}

TEST_F(Commands, report_all_luns_of_hundreds_of_volumes) {
    for (int i = 0; i < 600; ++i) world_.add_volume("v" + std::to_string(i), "ram:64K", 65536);
    auto client = world_.client(1);
    auto answer = world_.run(*client, 0, cdb({0xa0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0}), Direction::kIn,
                             {client->remote(0, 16384)});
    ASSERT_EQ(answer.response.status, wire::kGood);
    wire::LunList luns;
    ASSERT_TRUE(wire::parse_report_luns({client->memory(), 16384 - answer.response.in.bytes}, luns));
    EXPECT_EQ(luns.count, 600u);
    EXPECT_TRUE(luns.complete);
}

}  // namespace
}  // namespace wss::block::testing
