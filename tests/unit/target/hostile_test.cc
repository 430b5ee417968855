// SPDX-License-Identifier: Apache-2.0
// Messages that no correct initiator sends. The target must not crash or hang, must release all resources,
// and must serve a correct initiator meanwhile.
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

class HostileInitiator : public ::testing::Test {
  protected:
    HostileInitiator() {
        world_.add_volume("v0", "ram:4M", 4 << 20);
        world_.add_volume("v1", "delay:us=1:ram:4M", 4 << 20);
        good_ = world_.client(200);
    }
    void expect_good_client_undisturbed() {
        for (uint64_t lun : {0u, 1u})
            EXPECT_EQ(world_.read(*good_, lun, 0, 8, 0, 4096).response.status, wire::kGood);
        EXPECT_FALSE(good_->closed());
    }
    void expect_nothing_lost() {
        ASSERT_TRUE(world_.until([&] { return world_.service().sessions().count() == 1; }));
        Arena& arena = world_.service().worker(0).lane(0).arena();
        for (Part part : {Part::kSmall, Part::kLarge, Part::kAdmin})
            EXPECT_TRUE(
                world_.until([&] { return arena.pool(part).free_bytes() == arena.pool(part).size(); }));
        EXPECT_EQ(world_.service().range_locks().count(), 0u);
    }
    World world_;
    std::unique_ptr<RawClient> good_;
};

TEST_F(HostileInitiator, that_exceeds_its_credits_loses_its_connection) {
    auto bad = world_.client(1);
    for (uint32_t i = 0; i <= kCreditsDefault; ++i)
        bad->start(1, cdb_read16(0, 8), Direction::kIn, {bad->remote(0, 4096)});
    ASSERT_TRUE(world_.until([&] { return bad->closed(); }));
    EXPECT_EQ(world_.totals().violations, 1u);
    expect_good_client_undisturbed();
    bad.reset();
    expect_nothing_lost();
}

TEST_F(HostileInitiator, that_names_memory_outside_its_regions_loses_only_its_own_connection) {
    for (bool is_read : {true, false})
        for (uint64_t lun : {0u, 1u}) {
            auto bad = world_.client(1);
            auto remote = bad->remote(0, 4096);
            remote.rkey ^= 0x5a5a5a;
            bad->start(lun, is_read ? cdb_read16(0, 8) : cdb_write16(0, 8),
                       is_read ? Direction::kIn : Direction::kOut, {remote});
            ASSERT_TRUE(world_.until([&] { return bad->closed(); }));
            expect_good_client_undisturbed();
        }
    expect_nothing_lost();
}

TEST_F(HostileInitiator, that_sends_messages_of_invalid_kind_or_length_is_disconnected) {
    for (size_t length : {0u, 1u, 15u, 47u, 48u, 64u}) {
        auto bad = world_.client(1);
        std::vector<byte> message(length, byte{0x37});
        bad->send(message);
        ASSERT_TRUE(world_.until([&] { return bad->closed(); })) << length;
    }
    auto bad = world_.client(1);
    std::vector<byte> cut(20, byte{0});
    cut[0] = byte{WSS_SRP_CMD};
    bad->send(cut);
    ASSERT_TRUE(world_.until([&] { return bad->closed(); }));
    expect_good_client_undisturbed();
}

// Returns the reason in the logout that the target sent when it ended the connection.
uint32_t reason_told(const RawClient& client) {
    wire::TargetLogout logout;
    if (client.others.empty() ||
        wire::parse_target_logout(client.others.back(), logout) != wire::ParseError::kNone)
        return WSS_SRP_LOGOUT_NO_REASON;
    return logout.reason;
}

TEST_F(HostileInitiator, that_violates_the_protocol_gets_the_reason) {
    auto damaged = world_.client(1);
    uint64_t before = damaged->start(1, cdb_read16(0, 8), Direction::kIn, {damaged->remote(0, 4096)});
    for (int i = 0; i < 3; ++i) damaged->send(std::vector<byte>(48, byte{0x37}));
    ASSERT_TRUE(world_.until([&] { return damaged->closed(); }));
    EXPECT_TRUE(damaged->answered(before)) << "its earlier request is completed";
    EXPECT_EQ(reason_told(*damaged), uint32_t{WSS_SRP_LOGOUT_UNKNOWN_MESSAGE});
    auto cut = world_.client(2);
    cut->send(std::vector<byte>(20, byte{WSS_SRP_CMD}));
    ASSERT_TRUE(world_.until([&] { return cut->closed(); }));
    EXPECT_EQ(reason_told(*cut), uint32_t{WSS_SRP_LOGOUT_MALFORMED});
    expect_good_client_undisturbed();
}

TEST(HostileEnd, of_a_channel_whose_command_does_not_end_takes_place_in_bounded_time) {
    World world({.service = {.drain_timeout = from_ms(300)}});
    world.add_volume("v0", "delay:us=4000000:ram:4M", 4 << 20);
    auto bad = world.client(1);
    uint64_t tag = bad->start(0, cdb_read16(0, 8), Direction::kIn, {bad->remote(0, 4096)});
    bad->send(std::vector<byte>(48, byte{0x37}));
    ASSERT_TRUE(world.until([&] { return bad->closed(); }));
    EXPECT_FALSE(bad->answered(tag));
}

TEST_F(HostileInitiator, that_sends_a_message_longer_than_negotiated_is_disconnected) {
    auto bad = world_.client(1);
    std::vector<byte> message(WSS_SRP_MAX_IT_IU_LEN + 1, byte{2});
    bad->send(message);
    ASSERT_TRUE(world_.until([&] { return bad->closed(); }));
    expect_good_client_undisturbed();
}

TEST_F(HostileInitiator, that_sends_contradictory_descriptors_is_refused_with_sense) {
    auto bad = world_.client(1);
    std::vector<byte> message(48 + 20 + 32);
    message[0] = byte{WSS_SRP_CMD};
    message[5] = byte{WSS_SRP_DESC_INDIRECT};
    message[7] = byte{2};
    message[8] = byte{9};
    auto command = cdb_read16(0, 8);
    std::memcpy(message.data() + 32, command.data(), 16);
    wire::put32(message.data() + 60, 32);
    wire::put32(message.data() + 64, 4096);  // a total length of zero
    bad->send(message);
    ASSERT_TRUE(world_.until([&] { return bad->answered(9); }));
    EXPECT_EQ(bad->take(9).response.status, wire::kCheckCondition);
    EXPECT_FALSE(bad->closed());
}

TEST_F(HostileInitiator, that_dies_with_a_full_queue_leaves_no_resources_in_use) {
    for (uint64_t lun : {0u, 1u}) {
        auto bad = world_.client(1);
        for (uint32_t i = 0; i < 100; ++i)
            bad->start(lun, i % 2 ? cdb_read16(0, 256) : cdb_write16(0, 256),
                       i % 2 ? Direction::kIn : Direction::kOut, {bad->remote(0, 131072)});
        for (int i = 0; i < 3; ++i) world_.step();
        bad->close();
        ASSERT_TRUE(world_.until([&] { return bad->closed(); }));
    }
    expect_nothing_lost();
    expect_good_client_undisturbed();
}

// Randomly damaged copies of valid messages; their number and the seed are fixed.
TEST_F(HostileInitiator, that_sends_mutated_messages_does_not_affect_others) {
    Random random(20261121);
    std::unique_ptr<RawClient> bad;
    uint8_t initiator = 1;
    for (int round = 0; round < 4000; ++round) {
        if (bad == nullptr || bad->closed() || bad->credits() < 2) {
            bad.reset();
            initiator = static_cast<uint8_t>(initiator % 100 + 1);
            bad = world_.client(initiator, random.chance(2) ? WSS_CAP_ALL : 0);
            bad->repeats_tags = true;
        }
        std::array<byte, 16452> message{};
        auto command = random.chance(2)
                           ? cdb_read16(random.below(9000), static_cast<uint32_t>(random.below(300)))
                           : cdb_write16(random.below(9000), static_cast<uint32_t>(random.below(300)));
        if (random.chance(3))
            for (byte& each : command) each = byte(random.next());
        std::vector<wire::RemoteBuffer> data(1 + random.below(20), bad->remote(0, 4096));
        wire::CommandRequest request{.tag = static_cast<uint64_t>(round),
                                     .lun = random.below(3),
                                     .direction = random.chance(2) ? Direction::kIn : Direction::kOut,
                                     .cdb = command,
                                     .descriptors = data};
        size_t length = wire::encode_command(request, message);
        ASSERT_GT(length, 0u);
        for (uint64_t flips = random.below(4); flips > 0; --flips)
            message[random.below(length)] = byte(random.next());
        if (random.chance(8)) length = random.below(message.size());
        bad->send({message.data(), length});
        if (random.chance(4))
            for (int i = 0; i < 3; ++i) world_.step();
        if (round % 500 == 0) expect_good_client_undisturbed();
    }
    bad.reset();
    expect_nothing_lost();
    expect_good_client_undisturbed();
}

}  // namespace
}  // namespace wss::block::testing
