// SPDX-License-Identifier: Apache-2.0
// Clients that leave or abort while their commands wait for an event that may never come: the end of a
// recovery, or a saved membership. Such commands must not keep the session, because then the same initiator
// could not log in again, and would lose its other volumes as well.
#include "tests/sim/tests/cluster_operator.h"
#include "tests/sim/tests/raw_side.h"

namespace wss::sim {
namespace {

using block::testing::cdb_read16;
using block::testing::cdb_write16;
using block::testing::RawClient;
using Direction = wire::CommandRequest::Direction;

constexpr uint64_t kLunA = 1, kLunB = 2;

// The channels are on the only reactor, or on both of two, of which the cache belongs to the first.
class ClientsOfBusyVolumes : public ClusterOperator, public ::testing::WithParamInterface<uint32_t> {
  protected:
    void SetUp() override {
        options_.reactors = GetParam();
        ClusterOperator::SetUp();
        create_under_write_back();
        create("b", b_);
        write_lines(1);
    }
    // Only one of two engines comes back, and the target waits for the other one.
    void restart_and_recover() {
        a_.client->close();
        ASSERT_TRUE(until([&] { return a_.client->closed(); }));
        options_.recovery_grace = from_s(600);
        world_.cut(node_, *engines_[1].node);
        restart_target();
        create("a", a_);
        create("b", b_);
        ASSERT_TRUE(until([&] { return live_engines() == 1 || !target_->cache().info().engines.empty(); }));
        ASSERT_TRUE(target_->cache().recovering());
    }
    // A write has reached all copies, but the membership that counts for the next start cannot be saved.
    void prevent_saves() {
        membership_.full = true;
        world_.cut(node_, *engines_[1].node);
        ASSERT_TRUE(until([&] { return live_engines() == 1; }));
    }
    void connect(RawClient& client) {
        client.connect(block::testing::World::login(1, 0));
        ASSERT_TRUE(until([&] { return client.established() || client.refused(); }, from_s(6)));
        ASSERT_TRUE(client.established()) << client.reject().text();
    }
    // The order matters for the unsaved membership: a read that follows the write waits for its line, and a
    // command that freezes the volume waits for both.
    std::vector<uint64_t> start_commands(RawClient& client) {
        std::vector<uint64_t> tags;
        tags.push_back(client.start(kLunA, cdb_write16(0, 8), Direction::kOut, {client.remote(0, 4096)}));
        world_.run_for(from_ms(50));
        tags.push_back(client.start(kLunA, cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)}));
        std::vector<std::byte> flush(10), write_same(16);
        flush[0] = std::byte{0x35};  // SYNCHRONIZE CACHE(10)
        tags.push_back(client.start(kLunA, flush, Direction::kNone, {}));
        world_.run_for(from_ms(50));
        write_same[0] = std::byte{0x93};  // WRITE SAME(16)
        write_same[13] = std::byte{8};
        tags.push_back(client.start(kLunA, write_same, Direction::kOut, {client.remote(0, 512)}));
        world_.run_for(from_ms(50));
        tags.push_back(client.start(kLunA, cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)}));
        world_.run_for(from_ms(200));
        return tags;
    }
    void expect_that_it_reads_the_other_volume(RawClient& client) {
        const uint64_t tag = client.start(kLunB, cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)});
        ASSERT_TRUE(until([&] { return client.answered(tag); }, from_s(2)));
        EXPECT_EQ(client.take(tag).response.status, wire::kGood);
    }
    // Each of several logins of the same initiator replaces the one before. With two reactors, they are on
    // both in turn.
    void expect_that_it_logs_in_again() {
        for (int i = 0; i < 4; ++i) {
            RawSide side(world_, network_);
            RawClient client(side);
            connect(client);
            if (!client.established()) return;
            expect_that_it_reads_the_other_volume(client);
            const auto tags = start_commands(client);
            EXPECT_FALSE(client.answered(tags.back())) << "it waits";
            client.close();
            EXPECT_TRUE(until([&] { return client.closed(); }));
        }
        RawSide side(world_, network_);
        RawClient client(side);
        connect(client);
        if (!client.established()) return;
        expect_that_it_reads_the_other_volume(client);
        client.close();
        EXPECT_TRUE(until([&] { return client.closed(); }));
    }
    void expect_that_it_aborts() {
        RawSide side(world_, network_);
        RawClient client(side);
        connect(client);
        const auto tags = start_commands(client);
        std::array<std::byte, 48> message;
        const wire::TaskManagement abort{
            .tag = 0x80000001u, .lun = kLunA, .function = WSS_SRP_TSK_ABORT_TASK_SET, .task_tag = 0};
        ASSERT_EQ(wire::encode_task_management(abort, message), message.size());
        client.send(message);
        ASSERT_TRUE(until([&] { return client.answered(abort.tag); }, from_s(2)));
        EXPECT_EQ(client.take(abort.tag).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
        expect_that_it_reads_the_other_volume(client);
        client.close();
        EXPECT_TRUE(until([&] { return client.closed(); }));
    }
    // Nothing is left of the ended commands, and no acknowledged write was lost.
    void expect_that_all_ends() {
        membership_.full = false;
        world_.heal_all();
        ASSERT_TRUE(until([&] { return recovered() && target_->cache().info().index.operations == 0; }));
        attach("a", a_);
        EXPECT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kDiscard), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    }
};

INSTANTIATE_TEST_SUITE_P(Reactors, ClientsOfBusyVolumes, ::testing::Values(1, 2));

TEST_P(ClientsOfBusyVolumes, log_in_again_although_a_recovery_held_their_commands) {
    restart_and_recover();
    expect_that_it_logs_in_again();
    EXPECT_TRUE(target_->cache().recovering());
    expect_that_all_ends();
}

TEST_P(ClientsOfBusyVolumes, abort_commands_that_a_recovery_holds) {
    restart_and_recover();
    expect_that_it_aborts();
    EXPECT_TRUE(target_->cache().recovering());
    expect_that_all_ends();
}

TEST_P(ClientsOfBusyVolumes, log_in_again_although_an_unsaved_membership_delayed_their_commands) {
    prevent_saves();
    expect_that_it_logs_in_again();
    expect_that_all_ends();
}

TEST_P(ClientsOfBusyVolumes, abort_commands_that_an_unsaved_membership_delays) {
    prevent_saves();
    expect_that_it_aborts();
    expect_that_all_ends();
}

}  // namespace
}  // namespace wss::sim
