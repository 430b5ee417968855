// SPDX-License-Identifier: Apache-2.0
// Commands that need a frozen volume, with other commands that arrive meanwhile.
#include "tests/sim/tests/cluster_operator.h"
#include "tests/sim/tests/raw_side.h"

namespace wss::sim {
namespace {

using block::testing::RawClient;
using Direction = wire::CommandRequest::Direction;

class ClusterFreeze : public ClusterOperator {};

TEST_F(ClusterFreeze, for_compare_and_write_is_not_blocked_by_a_write_that_arrives_during_it) {
    constexpr uint64_t kLun = 1;
    create_under_write_back();
    ASSERT_EQ(run(a_, Operation::kWrite, 8 * kLine), Outcome::kOk);
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_ms(200);
    std::memset(client.memory(), 0, 4096);
    std::vector<std::byte> compare(16);
    compare[0] = std::byte{0x89};
    compare[13] = std::byte{1};
    const uint64_t first = client.start(kLun, compare, Direction::kOut, {client.remote(0, 1024)});
    world_.run_for(from_ms(50));
    const uint64_t second =
        client.start(kLun, block::testing::cdb_write16(0, 1), Direction::kOut, {client.remote(0, 512)});
    ASSERT_TRUE(side.until([&] { return client.answered(first) && client.answered(second); }));
    EXPECT_EQ(client.take(first).response.status, wire::kGood);
    EXPECT_EQ(client.take(second).response.status, wire::kGood);
    client.close();
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
}

// If every VERIFY destaged, a check of the whole volume, command by command, would destage the volume once
// per command.
TEST_F(ClusterFreeze, for_verify_destages_only_if_its_range_is_dirty) {
    create_under_write_back();
    write_lines(2);
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, 0));
    ASSERT_TRUE(side.until([&] { return client.established(); }));
    auto verify = [&](uint8_t line) {
        std::vector<std::byte> command(16);
        command[0] = std::byte{0x8f};  // VERIFY(16) without a comparison
        command[8] = std::byte{static_cast<uint8_t>(line * kLine >> 8)};
        command[9] = std::byte{static_cast<uint8_t>(line * kLine)};
        command[13] = std::byte{kLine};
        const uint64_t tag = client.start(1, command, Direction::kNone, {});
        EXPECT_TRUE(side.until([&] { return client.answered(tag); }));
        EXPECT_EQ(client.take(tag).response.status, wire::kGood);
    };
    ASSERT_EQ(run(a_, Operation::kRead, 5 * kLine), Outcome::kOk);
    const uint64_t lines = target_->cache().info().index.lines;
    verify(5);
    EXPECT_EQ(dirty(), 2u);
    verify(1);
    EXPECT_EQ(dirty(), 0u);
    EXPECT_EQ(target_->cache().info().index.lines, lines) << "VERIFY changes nothing";
    client.close();
    ASSERT_TRUE(side.until([&] { return client.closed(); }));
}

}  // namespace
}  // namespace wss::sim
