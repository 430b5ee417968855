// SPDX-License-Identifier: Apache-2.0
// The basic path: log in, discover volumes, read, write, log out.
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

// A volume's file that is deleted after the test. /tmp may be a tmpfs, which the backend supports.
struct TemporaryFile {
    std::string path = "/tmp/wss-target-test-XXXXXX";
    explicit TemporaryFile(off_t size) {
        int fd = mkstemp(path.data());
        EXPECT_GE(fd, 0);
        EXPECT_EQ(ftruncate(fd, size), 0);
        ::close(fd);
    }
    ~TemporaryFile() { unlink(path.c_str()); }
};

// Each test runs on both kinds of storage: memory that RDMA reaches, and a disk queue with buffers.
class BlockService : public ::testing::TestWithParam<const char*> {
  protected:
    static constexpr uint64_t kSize = 16 << 20;
    BlockService() : file_(kSize) { world_.add_volume("v0", backend(), kSize); }
    std::string backend() const { return std::string(GetParam()) == "ram" ? "ram:16M" : "aio:" + file_.path; }
    TemporaryFile file_;
    World world_;
};
INSTANTIATE_TEST_SUITE_P(Storage, BlockService, ::testing::Values("ram", "aio"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(BlockService, gives_a_stock_initiator_credits_and_immediate_data) {
    auto client = world_.client();
    EXPECT_EQ(client->login().tag, 77u);
    EXPECT_EQ(client->login().credits, kCreditsDefault);
    EXPECT_EQ(client->login().max_it_iu, uint32_t{WSS_SRP_MAX_IT_IU_LEN});
    EXPECT_TRUE(client->login().immediate);
    EXPECT_FALSE(client->login().extended) << "a stock initiator requests no extension";
    EXPECT_EQ(client->login().session_epoch, 0u);
}

TEST_P(BlockService, lists_the_volume_in_report_luns_and_returns_its_name) {
    auto client = world_.client();
    auto answer = world_.run(*client, 0, cdb({0xa0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}), Direction::kIn,
                             {client->remote(0, 4096)});
    EXPECT_EQ(answer.response.status, wire::kGood);
    wire::LunList luns;
    ASSERT_TRUE(wire::parse_report_luns({client->memory(), 4096 - answer.response.in.bytes}, luns));
    ASSERT_EQ(luns.count, 1u);
    const uint64_t lun = luns.lun(0);
    answer = world_.run(*client, lun, cdb({0x12, 1, 0x83, 2, 0}), Direction::kIn, {client->remote(0, 512)});
    EXPECT_EQ(answer.response.status, wire::kGood);
    EXPECT_EQ(answer.response.in.kind, wire::Residual::Kind::kUnder);
    wire::Identification id;
    ASSERT_TRUE(wire::parse_identification({client->memory(), 512 - answer.response.in.bytes}, id));
    EXPECT_EQ(id.name.substr(0, 3), "v0:") << "name and identity";
    answer = world_.run(*client, lun, cdb({0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}), Direction::kIn,
                        {client->remote(0, 32)});
    wire::Capacity capacity;
    ASSERT_TRUE(wire::parse_capacity16({client->memory(), 32}, capacity));
    EXPECT_EQ(capacity.blocks * capacity.block_size, kSize);
}

// Linux reads ahead twice the optimal transfer length. Without one it sends commands of 128 KiB.
TEST_P(BlockService, gives_initiators_a_large_optimal_transfer_length) {
    auto client = world_.client();
    auto answer =
        world_.run(*client, 0, cdb({0x12, 1, 0xb0, 0, 64}), Direction::kIn, {client->remote(0, 64)});
    ASSERT_EQ(answer.response.status, wire::kGood);
    wire::BlockLimits limits;
    ASSERT_TRUE(wire::parse_block_limits({client->memory(), 64}, limits));
    EXPECT_EQ(limits.transfer_max * 512, kTransferMax);
    EXPECT_EQ(limits.transfer_optimal * 512, kTransferMax / 2);
}

TEST_P(BlockService, reads_written_data_back) {
    auto client = world_.client();
    for (uint32_t blocks : {1u, 8u, 33u, 256u, 2048u}) {
        uint32_t bytes = blocks * 512;
        fill(client->memory(), bytes, blocks);
        auto wrote = world_.write(*client, 0, 100, blocks, 0, bytes);
        ASSERT_EQ(wrote.response.status, wire::kGood) << blocks;
        auto read = world_.read(*client, 0, 100, blocks, 2 << 20, bytes);
        ASSERT_EQ(read.response.status, wire::kGood) << blocks;
        EXPECT_TRUE(holds(client->memory() + (2 << 20), bytes, blocks)) << blocks;
        EXPECT_EQ(read.response.in.kind, wire::Residual::Kind::kNone);
    }
    EXPECT_EQ(client->credits(), kCreditsDefault) << "every credit is returned";
}

TEST_P(BlockService, serves_a_request_of_one_descriptor_with_one_rdma_operation) {
    auto client = world_.client();
    for (int i = 0; i < 10; ++i) {
        world_.write(*client, 0, 8 * i, 256, 0, 256 * 512);
        world_.read(*client, 0, 8 * i, 256, 0, 256 * 512);
    }
    auto totals = world_.totals();
    EXPECT_EQ(totals.data_requests, 20u);
    EXPECT_EQ(totals.rdma_reads, 10u);
    EXPECT_EQ(totals.rdma_writes, 10u);
    EXPECT_EQ(totals.sends, 20u);
}

TEST_P(BlockService, sends_no_response_message_for_a_fused_read) {
    auto client = world_.client(1, WSS_CAP_FUSED_COMPLETION);
    ASSERT_TRUE(client->login().caps & WSS_CAP_FUSED_COMPLETION);
    fill(client->memory(), 4096, 5);
    EXPECT_TRUE(world_.write(*client, 0, 0, 8, 0, 4096).fused);
    EXPECT_TRUE(world_.read(*client, 0, 0, 8, 8192, 4096).fused);
    EXPECT_TRUE(holds(client->memory() + 8192, 4096, 5));
    EXPECT_EQ(world_.totals().sends, 0u);
    EXPECT_EQ(client->credits(), kCreditsDefault);
}

TEST_P(BlockService, uses_one_operation_per_descriptor_of_scattered_memory) {
    auto client = world_.client();
    fill(client->memory(), 64 * 1024, 3);
    std::vector<wire::RemoteBuffer> segments, back;
    for (uint32_t i = 0; i < 16; ++i) {
        segments.push_back(client->remote(i * 4096, 4096));
        back.push_back(client->remote((1 << 20) + i * 4096, 4096));
    }
    EXPECT_EQ(world_.run(*client, 0, cdb_write16(7, 128), Direction::kOut, segments).response.status,
              wire::kGood);
    EXPECT_EQ(world_.run(*client, 0, cdb_read16(7, 128), Direction::kIn, back).response.status, wire::kGood);
    EXPECT_TRUE(holds(client->memory() + (1 << 20), 64 * 1024, 3));
    EXPECT_EQ(world_.totals().rdma_writes, 16u);
    EXPECT_EQ(world_.totals().rdma_reads, 16u);
}

TEST_P(BlockService, writes_immediate_data_without_an_rdma_operation) {
    auto client = world_.client();
    std::vector<byte> data(16384);
    fill(data.data(), data.size(), 11);
    uint64_t tag = client->start_immediate(0, cdb_write16(64, 32), data);
    ASSERT_TRUE(world_.until([&] { return client->answered(tag); }));
    EXPECT_EQ(client->take(tag).response.status, wire::kGood);
    world_.read(*client, 0, 64, 32, 0, 16384);
    EXPECT_TRUE(holds(client->memory(), 16384, 11));
    EXPECT_EQ(world_.totals().rdma_reads, 0u);
    EXPECT_EQ(world_.totals().immediate, 1u);
}

// Returns how many of `count` writes, sent together, were answered in a message with others.
static uint64_t batched_of_a_burst(World& world, RawClient& client, uint32_t count) {
    std::vector<byte> data(512);
    std::vector<uint64_t> tags;
    for (uint32_t i = 0; i < count; ++i) tags.push_back(client.start_immediate(0, cdb_write16(i, 1), data));
    EXPECT_TRUE(world.until([&] { return client.credits() == kCreditsDefault; }));
    uint64_t batched = 0;
    for (uint64_t tag : tags) {
        Answer answer = client.take(tag);
        EXPECT_EQ(answer.response.status, wire::kGood);
        EXPECT_NE(answer.fused, answer.batched);
        batched += answer.batched;
    }
    return batched;
}

TEST_P(BlockService, answers_writes_that_complete_together_in_one_message) {
    constexpr uint32_t kCaps = WSS_CAP_FUSED_COMPLETION | WSS_CAP_BATCHED_COMPLETION;
    auto client = world_.client(1, kCaps);
    ASSERT_EQ(client->login().caps & kCaps, kCaps);
    // Timing determines which writes complete in one turn, but some will. 40 responses are more than one
    // message holds.
    uint64_t batched = 0, writes = 0;
    for (int round = 0; batched == 0 && round < 1000; ++round, writes += 40)
        batched = batched_of_a_burst(world_, *client, 40);
    EXPECT_GT(batched, 1u);
    EXPECT_EQ(world_.totals().batched, batched);
    EXPECT_EQ(world_.totals().fused, writes - batched);
    EXPECT_LE(world_.totals().sends, batched / 2);
}

TEST_P(BlockService, answers_writes_one_by_one_without_batched_completion) {
    auto client = world_.client(1, WSS_CAP_FUSED_COMPLETION);
    for (int round = 0; round < 10; ++round) EXPECT_EQ(batched_of_a_burst(world_, *client, 40), 0u);
    auto other = world_.client(2, WSS_CAP_BATCHED_COMPLETION);
    EXPECT_EQ(other->login().caps & WSS_CAP_BATCHED_COMPLETION, 0u) << "needs fused completions";
}

TEST_P(BlockService, serves_a_full_queue_of_commands) {
    auto client = world_.client();
    fill(client->memory(), 2 << 20, 1);
    std::vector<uint64_t> tags;
    for (uint32_t i = 0; i < kCreditsDefault; ++i)
        tags.push_back(
            client->start(0, cdb_write16(i * 32, 32), Direction::kOut, {client->remote(i * 16384, 16384)}));
    EXPECT_EQ(client->credits(), 0u);
    ASSERT_TRUE(world_.until([&] { return client->credits() == kCreditsDefault; }));
    for (uint64_t tag : tags) EXPECT_EQ(client->take(tag).response.status, wire::kGood);
    std::memset(client->memory(), 0, 2 << 20);
    for (uint32_t i = 0; i < kCreditsDefault; ++i)
        client->start(0, cdb_read16(i * 32, 32), Direction::kIn, {client->remote(i * 16384, 16384)});
    ASSERT_TRUE(world_.until([&] { return client->credits() == kCreditsDefault; }));
    EXPECT_TRUE(holds(client->memory(), 2 << 20, 1));
}

TEST_P(BlockService, returns_sense_for_an_absent_unit) {
    auto client = world_.client();
    auto answer = world_.read(*client, 5, 0, 1, 0, 512);
    EXPECT_EQ(answer.response.status, wire::kCheckCondition);
    EXPECT_EQ(answer.parsed_sense().code, wire::AdditionalSense::kLunNotSupported);
}

TEST_P(BlockService, closes_the_connection_and_ends_the_session_at_logout) {
    auto client = world_.client();
    std::array<byte, 16> message{};
    wire::encode_short({.opcode = WSS_SRP_I_LOGOUT, .tag = 5}, message);
    client->send(message);
    ASSERT_TRUE(world_.until([&] { return client->closed() && world_.service().sessions().count() == 0; }));
}

}  // namespace
}  // namespace wss::block::testing
