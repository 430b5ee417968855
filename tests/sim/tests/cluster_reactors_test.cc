// SPDX-License-Identifier: Apache-2.0
// A target with a cache and two reactors: the cache belongs to the first one. Channels are spread over the
// reactors in turn, so every second client is on the other one.
#include "tests/sim/tests/cluster_operator.h"
#include "tests/sim/tests/raw_side.h"

namespace wss::sim {
namespace {

using block::testing::RawClient;
using Direction = wire::CommandRequest::Direction;

class WithTwoReactors : public ClusterOperator {
  protected:
    WithTwoReactors() { options_.reactors = 2; }
    void SetUp() override {
        ClusterOperator::SetUp();
        create("a", a_);
        create("b", b_);
        attach("a", a_);
        attach("b", b_);
    }
    cache::CachedVolumeInfo info_of(const std::string& name) {
        for (const auto& volume : target_->cache().info().volumes)
            if (volume.name == name) return volume;
        return {};
    }
    // Reads a line until the client is connected to the engines, which then answer.
    bool read_until_delegated(const std::string& name, Volume& volume) {
        const uint64_t before = info_of(name).counters.fast_path_hits;
        for (int i = 0; i < 200; ++i) {
            if (run(volume, Operation::kRead) != Outcome::kOk) return false;
            if (info_of(name).counters.fast_path_hits >= before + 20) return true;
            world_.run_for(from_ms(10));
        }
        return false;
    }
};

TEST_F(WithTwoReactors, engines_answer_reads_of_channels_on_every_reactor) {
    for (auto& [name, volume] : {std::pair("a", &a_), std::pair("b", &b_)}) {
        ASSERT_EQ(run(*volume, Operation::kWrite), Outcome::kOk);
        EXPECT_TRUE(read_until_delegated(name, *volume)) << name;
        ASSERT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
    }
}

TEST_F(WithTwoReactors, a_write_is_seen_by_readers_on_the_other_reactor) {
    for (Policy policy : {Policy::kThrough, Policy::kBack, Policy::kAround}) {
        set_policy("b", policy);
        for (uint64_t line = 0; line < 4; ++line)
            ASSERT_EQ(run(b_, Operation::kWrite, line * kLine + 8, 16), Outcome::kOk);
        // The first client of "b" after this is on the first reactor, the next on the second.
        for (int i = 0; i < 2; ++i) {
            retire(std::move(b_.client));
            attach("b", b_);
            for (uint64_t line = 0; line < 4; ++line)
                EXPECT_EQ(run(b_, Operation::kRead, line * kLine), Outcome::kOk);
        }
        ASSERT_EQ(b_.shared.failure, "");
    }
}

TEST_F(WithTwoReactors, a_discard_of_the_second_reactor_waits_for_writes_in_progress) {
    set_policy("b", Policy::kBack);
    ASSERT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(dirty(), 1u);
    b_.faults.latency_min = b_.faults.latency_max = from_ms(100);
    for (int round = 0; round < 4; ++round) {
        ASSERT_TRUE(b_.client->begin(Operation::kWrite, 2 * kLine, kLine));
        EXPECT_EQ(run(b_, Operation::kDiscard, 0, kLine), Outcome::kOk);
        EXPECT_EQ(run(b_, Operation::kRead, 0, 3 * kLine), Outcome::kOk);
    }
    EXPECT_FALSE(info_of("b").frozen);
    EXPECT_EQ(run(b_, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(dirty(), 0u);
}

TEST_F(WithTwoReactors, the_deletion_of_a_volume_ends_the_waiting_commands_of_every_reactor) {
    b_.faults.latency_min = b_.faults.latency_max = from_s(2);
    RawSide side(world_, network_);
    RawClient first(side), second(side);
    for (RawClient* client : {&first, &second}) {
        client->connect(block::testing::World::login(client == &first ? 1 : 2, 0));
        ASSERT_TRUE(side.until([&] { return client->established(); }));
    }
    // More than there are command objects, so that some wait for one.
    std::vector<std::pair<RawClient*, uint64_t>> begun;
    for (RawClient* client : {&first, &second})
        for (uint32_t i = 0; i < 30; ++i)
            begun.emplace_back(client, client->start(2, block::testing::cdb_read16(i * kLine, 8),
                                                     Direction::kIn, {client->remote(i * 4096, 4096)}));
    world_.run_for(from_ms(100));
    std::optional<Status> removed;
    target_->remove_volume("b", [&](Status status) { removed = status; });
    for (auto& [client, tag] : begun)
        ASSERT_TRUE(side.until([&, on = client, of = tag] { return on->answered(of); }));
    ASSERT_TRUE(until([&] { return removed.has_value(); }));
    EXPECT_TRUE(*removed);
    EXPECT_EQ(info_of("b").name, "");
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    for (RawClient* client : {&first, &second}) {
        client->close();
        ASSERT_TRUE(side.until([&] { return client->closed(); }));
    }
}

// A fill may continue after the read was answered, and after its channel is gone.
TEST_F(WithTwoReactors, channels_that_close_leave_no_command_behind) {
    for (int round = 0; round < 20; ++round) {
        RawSide side(world_, network_);
        RawClient client(side);
        client.connect(block::testing::World::login(1, 0));
        ASSERT_TRUE(side.until([&] { return client.established(); }));
        for (uint32_t i = 0; i < 40; ++i)
            client.start(2, block::testing::cdb_read16(((round * 7 + i) % 60) * kLine, 8), Direction::kIn,
                         {client.remote(i * 4096, 4096)});
        world_.run_for(from_us(static_cast<int64_t>(world_.random().below(3000))));
        client.close();
        ASSERT_TRUE(side.until([&] { return client.closed(); }));
    }
    ASSERT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
    EXPECT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
}

}  // namespace
}  // namespace wss::sim
