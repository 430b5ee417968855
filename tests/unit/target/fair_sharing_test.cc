// SPDX-License-Identifier: Apache-2.0
// Volumes and sessions share the buffers of a reactor. A slow or dead one, or one with a deep queue, must not
// delay others.
#include <gtest/gtest.h>

#include <set>

#include "target/block/arena.h"
#include "tests/unit/target/prover.h"
#include "tests/unit/target/volume_fixture.h"

namespace wss::block::testing {
namespace {

class Arenas : public ::testing::Test {
  protected:
    struct Block {
        std::byte* at;
        size_t bytes;
    };
    // Takes blocks until the arena refuses.
    std::vector<Block> take_all(Part part, size_t bytes, ShareRef& volume, ShareRef& initiator) {
        std::vector<Block> blocks;
        auto nexus = ShareRef::make();
        while (std::byte* block = arena_->take(part, bytes, {*volume, *initiator, *nexus}))
            blocks.push_back({block, bytes});
        return blocks;
    }
    void give_all(Part part, std::vector<Block>& blocks) {
        for (Block& block : blocks) arena_->give(part, block.at, block.bytes);
        blocks.clear();
    }
    std::unique_ptr<fabric::Fabric> fabric_ =
        *std::move(fabric::open({.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0}));
    std::unique_ptr<Arena> arena_ = *std::move(Arena::create(*fabric_, kArenaDefault));
};

TEST_F(Arenas, let_a_volume_hold_no_more_than_it_leaves_free) {
    const size_t total = arena_->pool(Part::kSmall).size();
    std::vector<ShareRef> shares;
    std::vector<std::vector<Block>> taken;
    for (size_t n = 1; n <= 8; ++n) {
        shares.push_back(ShareRef::make());
        auto session = ShareRef::make();
        taken.push_back(take_all(Part::kSmall, 4096, shares.back(), session));
        const size_t held = (*shares.back()).held(Part::kSmall);
        EXPECT_EQ(held, taken.back().size() * 4096);
        EXPECT_LE(held, arena_->pool(Part::kSmall).free_bytes()) << n << " volumes";
        EXPECT_GE(held, total / 3 * 2 >> n) << n << " volumes";
    }
    EXPECT_GE(arena_->pool(Part::kSmall).free_bytes(), total / 9) << "for volumes that hold nothing";
    for (auto& blocks : taken) give_all(Part::kSmall, blocks);
    EXPECT_EQ(arena_->pool(Part::kSmall).free_bytes(), total);
}

TEST_F(Arenas, let_an_initiator_hold_no_more_than_it_leaves_free_across_all_its_volumes) {
    auto session = ShareRef::make();
    std::vector<std::vector<Block>> taken;
    for (int n = 0; n < 3; ++n) {
        auto volume = ShareRef::make();
        taken.push_back(take_all(Part::kLarge, 1 << 20, volume, session));
    }
    EXPECT_LE((*session).held(Part::kLarge), arena_->pool(Part::kLarge).free_bytes());
    EXPECT_GE((*session).held(Part::kLarge), arena_->pool(Part::kLarge).size() / 3);
    for (auto& blocks : taken) give_all(Part::kLarge, blocks);
}

TEST_F(Arenas, make_an_initiator_leave_a_part_of_its_volume_to_others) {
    for (const auto& [part, bytes] :
         {std::pair{Part::kSmall, size_t{65536}}, {Part::kLarge, size_t{1} << 20}}) {
        auto volume = ShareRef::make(), slow = ShareRef::make(), other = ShareRef::make();
        auto first = take_all(part, bytes, volume, slow);
        EXPECT_GE((*slow).held(part), arena_->pool(part).size() / 3) << "alone it has nearly all of a volume";
        auto second = take_all(part, bytes, volume, other);
        EXPECT_GE(second.size(), part == Part::kSmall ? 4u : 1u);
        EXPECT_LE((*volume).held(part), arena_->pool(part).free_bytes());
        give_all(part, first);
        give_all(part, second);
    }
}

TEST_F(Arenas, give_the_next_initiator_a_block_however_many_initiators_of_its_volume_are_slow) {
    for (const auto& [part, bytes] :
         {std::pair{Part::kSmall, size_t{65536}}, {Part::kLarge, size_t{1} << 20}}) {
        auto volume = ShareRef::make();
        std::vector<std::vector<Block>> taken;
        for (int slow = 0; slow < 3; ++slow) {
            auto initiator = ShareRef::make();
            taken.push_back(take_all(part, bytes, volume, initiator));
            EXPECT_GE(taken.back().size(), 1u) << slow;
        }
        // The share that one volume may hold, and one block for each initiator but the first.
        EXPECT_LE((*volume).held(part), arena_->pool(part).size() / 2 + 2 * bytes);
        for (auto& blocks : taken) give_all(part, blocks);
    }
}

TEST_F(Arenas, make_many_initiators_of_a_slow_volume_leave_the_last_eighth_to_other_volumes) {
    auto volume = ShareRef::make();
    std::vector<std::vector<Block>> taken;
    for (int slow = 0; slow < 100; ++slow) {
        auto initiator = ShareRef::make();
        taken.push_back(take_all(Part::kLarge, 1 << 20, volume, initiator));
    }
    EXPECT_GE(arena_->pool(Part::kLarge).free_bytes(), arena_->pool(Part::kLarge).size() / 8);
    auto other = ShareRef::make(), initiator = ShareRef::make();
    taken.push_back(take_all(Part::kLarge, 1 << 20, other, initiator));
    EXPECT_EQ(taken.back().size(), 1u);
    for (auto& blocks : taken) give_all(Part::kLarge, blocks);
}

TEST_F(Arenas, keep_the_memory_of_short_transfers_from_long_ones) {
    std::vector<std::pair<ShareRef, std::vector<Block>>> taken;
    for (int n = 0; n < 40; ++n) {
        auto volume = ShareRef::make(), session = ShareRef::make();
        taken.emplace_back(volume, take_all(Part::kLarge, 1 << 20, volume, session));
    }
    auto volume = ShareRef::make(), session = ShareRef::make();
    EXPECT_EQ(arena_->take(Part::kLarge, 1 << 20, {*volume, *session, *session}), nullptr)
        << "all of it is allocated";
    std::byte* block = arena_->take(Part::kSmall, 4096, {*volume, *session, *session});
    ASSERT_NE(block, nullptr);
    arena_->give(Part::kSmall, block, 4096);
    for (auto& [share, blocks] : taken) give_all(Part::kLarge, blocks);
}

TEST_F(Arenas, keep_a_share_beyond_the_end_of_its_volume_until_its_last_block_is_returned) {
    auto session = ShareRef::make();
    std::byte* block = nullptr;
    {
        auto volume = ShareRef::make();
        block = arena_->take(Part::kSmall, 4096, {*volume, *session, *session});
    }
    ASSERT_NE(block, nullptr);
    arena_->give(Part::kSmall, block, 4096);
    EXPECT_EQ((*session).held(Part::kSmall), 0u);
}

// --- The target

class FairSharing : public VolumeFixture {
  protected:
    void SetUp() override { use({}, "delay:us=2000000:ram:8M", "delay:us=1:ram:8M"); }
    void use(WorldOptions options, const char* first, const char* second) {
        VolumeFixture::use(std::move(options), Time::kReal);
        world_->add_volume("slow", first, kSize);
        world_->add_volume("fast", second, kSize);
    }
};

TEST_F(FairSharing, keeps_a_slow_volume_full_of_long_reads_from_delaying_short_reads_of_another) {
    // `other` is a client of another session, and `client` is one of the same session.
    auto client = world_->client(1), other = world_->client(2);
    auto slow = reads(*client, 0, 64, 1 << 20);
    ASSERT_TRUE(world_->until([&] { return world_->totals().waited_for_buffer > 0; }));
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(world_->read(*other, 1, 0, 8, 0, 4096).response.status, wire::kGood);
        EXPECT_EQ(world_->read(*client, 1, 0, 8, 2 << 20, 4096).response.status, wire::kGood);
    }
    for (uint64_t tag : slow) EXPECT_FALSE(client->answered(tag)) << "a short read waited for a long one";
}

TEST_F(FairSharing, keeps_slow_short_reads_from_delaying_short_reads_of_another_volume) {
    std::vector<std::unique_ptr<RawClient>> deep;
    for (uint8_t i = 1; i <= 3; ++i) {
        deep.push_back(world_->client(i));
        reads(*deep.back(), 0, kCreditsDefault - 1, 65536);
    }
    auto other = world_->client(9);
    ASSERT_TRUE(world_->until([&] { return world_->totals().waited_for_buffer > 0; }));
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(world_->read(*other, 1, 0, 128, 0, 65536).response.status, wire::kGood);
    EXPECT_EQ(deep[0]->credits(), 1u) << "no slow read has completed";
}

TEST_F(FairSharing, serves_both_of_two_waiting_volumes) {
    use({.service = {.arena_bytes = kArenaMin}}, "delay:us=1000:ram:8M", "delay:us=1000:ram:8M");
    auto first = world_->client(1), second = world_->client(2);
    reads(*first, 0, 100, 1 << 20);
    auto tags = reads(*second, 1, 4, 1 << 20);
    ASSERT_TRUE(world_->until([&] { return answered(*second, tags) == tags.size(); }));
    EXPECT_LT(first->credits(), kCreditsDefault - 50u) << "four commands did not wait for a hundred";
    ASSERT_TRUE(world_->until([&] { return first->credits() == kCreditsDefault; }));
}

TEST_F(FairSharing, counts_all_sessions_of_a_source_as_one_initiator_without_authentication) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (uint8_t i = 1; i <= 5; ++i) clients.push_back(world_->client(i));
    std::set<const InitiatorShare*> shares;
    world_->service().worker(0).lane(0).for_each_channel(
        [&](Channel& channel) { shares.insert(channel.share().get()); });
    EXPECT_EQ(world_->service().sessions().count(), clients.size());
    EXPECT_EQ(shares.size(), 1u) << "more sessions give a host no larger share";
}

// A client whose process stands still while everything else runs.
class Sleeper final : public ClientSide {
  public:
    explicit Sleeper(World& world) : world_(world) { reactor_.add(*poller_); }
    ~Sleeper() override { reactor_.remove(*poller_); }
    fabric::Fabric& client_fabric() override { return *fabric_; }
    fabric::Poller& client_poller() override { return *poller_; }
    const fabric::Address& address() const override { return world_.address(); }
    bool until(const std::function<bool()>& done) override {
        return world_.until([&] {
            reactor_.step();
            return done();
        });
    }

  private:
    World& world_;
    SystemClock clock_;
    std::unique_ptr<fabric::Fabric> fabric_ =
        *std::move(fabric::open({.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0}));
    std::unique_ptr<fabric::Poller> poller_ = *std::move(fabric_->create_poller());
    reactor::Reactor reactor_{clock_};
};

TEST(SlowInitiator, that_consumes_nothing_keeps_its_share_and_is_disconnected_in_time) {
    WorldOptions options = guarded();
    options.service.take_timeout = from_ms(1000);
    World world(options);
    world.add_volume("v0", "delay:us=1:ram:8M", 8 << 20);
    Sleeper side(world);
    Prove alice(side, 1), bob(world, 2);
    RawClient &sleeper = *alice.client, &other = *bob.client;
    ASSERT_TRUE(alice.run("alice", kAlice).granted && bob.run("bob", kBob).granted);
    for (int i = 0; i < 100; ++i)
        sleeper.start(0, cdb_read16(0, 2048), Direction::kIn, {sleeper.remote(0, 1 << 20)});
    ASSERT_TRUE(side.until([&] { return world.totals().waited_for_buffer > 0; }));
    // After this, the sleeper is not stepped.
    Arena& arena = world.service().worker(0).lane(0).arena();
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(world.read(other, 0, 0, 2048, 0, 1 << 20).response.status, wire::kGood);
    EXPECT_GE(arena.pool(Part::kLarge).free_bytes(), arena.pool(Part::kLarge).size() / 2);
    ASSERT_TRUE(world.until([&] { return world.service().sessions().count() == 1; })) << "it has ended";
    EXPECT_TRUE(world.until(
        [&] { return arena.pool(Part::kLarge).free_bytes() == arena.pool(Part::kLarge).size(); }));
    EXPECT_EQ(world.read(other, 0, 0, 2048, 0, 1 << 20).response.status, wire::kGood);
    ASSERT_TRUE(side.until([&] { return sleeper.closed(); }));
}

TEST(SlowInitiator, that_consumes_nothing_does_not_delay_others_of_its_volume) {
    World world(guarded());
    world.add_volume("v0", "delay:us=1:ram:8M", 8 << 20);
    Sleeper side(world);
    Prove alice(side, 1), bob(world, 2);
    RawClient &sleeper = *alice.client, &other = *bob.client;
    ASSERT_TRUE(alice.run("alice", kAlice).granted && bob.run("bob", kBob).granted);
    for (int i = 0; i < 100; ++i)
        sleeper.start(0, cdb_read16(0, 2048), Direction::kIn, {sleeper.remote(0, 1 << 20)});
    ASSERT_TRUE(side.until([&] { return world.totals().waited_for_buffer > 0; }));
    // After this, the sleeper is not stepped for a time far below take_timeout.
    SystemClock clock;
    const Nanoseconds began = clock.now();
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(world.read(other, 0, 0, 2048, 0, 1 << 20).response.status, wire::kGood);
    EXPECT_LT((clock.now() - began).count, kTakeTimeout.count / 2) << "the sleeper stays connected";
    EXPECT_EQ(world.service().sessions().count(), 2u);
    ASSERT_TRUE(side.until([&] { return sleeper.credits() == kCreditsDefault; })) << "it continues";
}

TEST(IdleInitiator, is_not_disconnected) {
    World world({.service = {.take_timeout = from_ms(300)}});
    world.add_volume("v0", "delay:us=1:ram:8M", 8 << 20);
    auto client = world.client(1);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(world.read(*client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
        SystemClock clock;
        const Nanoseconds later = clock.now() + from_ms(700);
        ASSERT_TRUE(world.until([&] { return clock.now() > later; }));
    }
    EXPECT_FALSE(client->closed());
}

}  // namespace
}  // namespace wss::block::testing
