// SPDX-License-Identifier: Apache-2.0
// A target with a hostile cache engine: a peer that sends the records of a cache engine (lib/wire/cache.h)
// with arbitrary claims, from the join through the inventory to its time as a member.
#include <algorithm>

#include "target/cache/limits.h"
#include "target/cache/remote.h"
#include "tests/sim/tests/hostile_engine.h"

namespace wss::sim {
namespace {

TEST_F(HostileEngines, that_claim_more_slots_than_their_memory_holds_are_disconnected) {
    join(16);
    peer_->inventory_end(0xffffffff);
    peer_->plain(RecordType::kReady);
    EXPECT_TRUE(is_closed());
    expect_service();
}

TEST_F(HostileEngines, with_as_many_slots_as_their_memory_holds_are_admitted) {
    join(16);
    peer_->inventory_end(16);
    peer_->plain(RecordType::kReady);
    ASSERT_TRUE(is_live());
    EXPECT_EQ(target_->cache().info().capacity_lines, 16u);
}

TEST_F(HostileEngines, whose_lines_exceed_the_index_of_the_target_are_refused_with_the_reason) {
    join(1025);
    ASSERT_TRUE(is_closed());
    EXPECT_FALSE(peer_->welcomed);
    EXPECT_NE(peer_->why.find("1025 lines"), std::string::npos) << peer_->why;
    EXPECT_NE(peer_->why.find("1024"), std::string::npos) << peer_->why;
    join(1ull << 47);
    ASSERT_TRUE(is_closed());
    EXPECT_FALSE(peer_->welcomed);
    expect_service();
}

TEST_F(HostileEngines, count_with_their_lines_before_they_have_sent_their_inventory) {
    HostileEngine first(world_.add_node("first"), network_);
    first.join({.engine = 1, .memory = 1000 * kLineBytes});
    ASSERT_TRUE(until([&] { return first.welcomed; }));
    join(25);
    EXPECT_TRUE(peer_->over);
    join(24);
    EXPECT_TRUE(peer_->welcomed);
    first.close();
    ASSERT_TRUE(until([&] { return first.over; }));
}

// A target that authenticates engines.
class StrangeEngines : public HostileEngines {
  protected:
    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        start_target(1024, 0,
                     std::make_shared<const auth::SecretBook>(
                         "engines", std::vector<NamedSecret>{{"one", Secret("the secret of one 12")}}));
    }
};

TEST_F(StrangeEngines, of_one_node_leave_a_place_for_an_engine_of_another) {
    auto& node = world_.add_node("pending");
    std::vector<std::unique_ptr<HostileEngine>> pending;
    auto one_more = [&] {
        pending.push_back(std::make_unique<HostileEngine>(node, network_));
        pending.back()->join({.engine = 1000 + pending.size(), .memory = 16 * kLineBytes});
        ASSERT_TRUE(until([&] { return pending.back()->asked_for_proof || pending.back()->over; }));
    };
    while (pending.size() < 2 * cache::kEnginesPendingMax) one_more();
    peer_->join({.engine = 1, .memory = 16 * kLineBytes});
    ASSERT_TRUE(until([&] { return peer_->asked_for_proof || peer_->over; }));
    EXPECT_TRUE(peer_->asked_for_proof) << peer_->why;
    for (size_t i = 0; i < cache::kEnginesPendingMax; ++i) one_more();
    EXPECT_FALSE(peer_->over) << "it may still authenticate";
    ASSERT_TRUE(until([&] { return peer_->over; })) << "its time has expired";
    for (auto& engine : pending) engine->close();
    ASSERT_TRUE(until(
        [&] { return std::all_of(pending.begin(), pending.end(), [](auto& each) { return each->over; }); }));
}

TEST_F(HostileEngines, whose_inventory_does_not_ascend_or_exceeds_their_memory_are_disconnected) {
    for (const auto& [one, two] : {std::pair{3u, 3u}, {3u, 2u}, {0u, 16u}, {0u, 0xffffffffu}}) {
        join(16);
        peer_->item(one);
        peer_->item(two);
        EXPECT_TRUE(is_closed()) << one << ", " << two;
    }
    expect_service();
}

TEST_F(HostileEngines, that_join_as_real_storage_and_claim_slots_are_disconnected) {
    join(16, true);
    peer_->inventory_end(1);
    EXPECT_TRUE(is_closed());
}

TEST_F(HostileEngines, that_report_the_state_of_a_volume_they_do_not_have_are_disconnected) {
    auto state_of = [this](uint32_t number) {
        peer_->say([number](auto room) {
            return wire::put_volume_state({.number = number, .error = 108, .text = "taken"}, room);
        });
    };
    join(16, true);
    EXPECT_TRUE(peer_->welcome.states);
    peer_->say(
        [](auto room) { return wire::put_volume({.bytes = 1u << 20, .number = 3, .name = "disk"}, room); });
    state_of(3);
    state_of(3);
    world_.run_for(from_ms(100));
    EXPECT_FALSE(peer_->over);
    state_of(4);
    EXPECT_TRUE(is_closed());
    join(16);
    state_of(0);
    EXPECT_TRUE(is_closed());
    expect_service();
}

TEST_F(HostileEngines, that_leave_too_many_grants_unanswered_are_disconnected) {
    join(16);
    peer_->pongs_of_grants = false;
    peer_->say([](auto room) { return wire::put_text(RecordType::kAddress, "sim://peer:9", room); });
    peer_->inventory_end(16);
    peer_->plain(RecordType::kReady);
    ASSERT_TRUE(is_live());
    expect_service();
    ASSERT_TRUE(until([&] { return peer_->granted != 0; }));
    // Each notice that a client has detached causes a new grant.
    for (uint64_t last = 0, sent = 0; sent <= 2 * cache::kGrantsUnconfirmedMax && !peer_->over; ++sent) {
        ASSERT_TRUE(until([&] { return peer_->granted != last || peer_->over; }));
        last = peer_->granted;
        peer_->handle(RecordType::kDetached, last);
    }
    EXPECT_TRUE(peer_->over);
}

// Two processes offer the storage of the only volume. They have no disk, so tests send them no commands that
// move data.
class WithTwoStorageProcesses : public HostileEngines {
  protected:
    static constexpr uint64_t kBytes = 8192 * io::SimDisk::kSector;

    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        start_target(1024, kBytes);
        other_ = std::make_unique<HostileEngine>(other_node_, network_);
    }
    void TearDown() override {
        HostileEngines::TearDown();
        retire(std::move(other_));
    }
    void start_client() {
        client_ = std::make_unique<BlockClient>(client_node_, network_, "target", 8, shared_);
        client_->start();
        ASSERT_TRUE(until([&] { return client_->live(); }));
    }
    // `error` is the volume's state, for example that its image has another owner.
    void offer(HostileEngine& storage, uint64_t identity, uint32_t error = 0, uint64_t bytes = kBytes) {
        storage.join({.engine = identity, .is_storage = true});
        ASSERT_TRUE(until([&] { return storage.welcomed; }));
        storage.say([&](auto room) {
            return wire::put_volume({.bytes = bytes, .boot = identity, .number = 1, .name = "disk"}, room);
        });
        report(storage, error, bytes);
        storage.inventory_end(0);
        storage.plain(RecordType::kReady);
        world_.run_for(from_ms(300));
        ASSERT_FALSE(storage.over) << storage.why;
    }
    static void report(HostileEngine& storage, uint32_t error, uint64_t bytes = kBytes) {
        storage.say([&](auto room) {
            return wire::put_volume_state({.number = 1,
                                           .error = error,
                                           .bytes = error == 0 ? bytes : 0,
                                           .text = error == 0 ? "" : "taken"},
                                          room);
        });
    }
    void leave(HostileEngine& storage) {
        storage.close();
        ASSERT_TRUE(until([&] { return storage.over; }));
        world_.run_for(from_s(1));
    }
    // Returns the process that receives a command.
    HostileEngine* serving() {
        const uint64_t before = peer_->storage_commands;
        const uint64_t others = other_->storage_commands;
        EXPECT_TRUE(client_->begin(initiator::Operation::kFlush, 0, 8));
        EXPECT_TRUE(until([&] { return client_->under_way() == 0; }));
        if (peer_->storage_commands > before) return peer_.get();
        return other_->storage_commands > others ? other_.get() : nullptr;
    }
    std::string trouble() { return target_->volumes().find("disk")->trouble; }

    Node& other_node_ = world_.add_node("other");
    std::unique_ptr<HostileEngine> other_;
};

TEST_F(WithTwoStorageProcesses, the_target_keeps_the_serving_one_when_another_one_joins) {
    offer(*peer_, 1);
    start_client();
    ASSERT_EQ(serving(), peer_.get());
    offer(*other_, 2);
    EXPECT_EQ(serving(), peer_.get());
    report(*other_, ESHUTDOWN);
    world_.run_for(from_s(1));
    EXPECT_EQ(serving(), peer_.get());
    EXPECT_EQ(trouble(), "");
}

TEST_F(WithTwoStorageProcesses, the_target_ignores_the_loss_of_the_one_that_does_not_serve_the_volume) {
    offer(*peer_, 1);
    start_client();
    offer(*other_, 2, ESHUTDOWN);
    EXPECT_EQ(serving(), peer_.get());
    // The link of the serving process breaks for a moment.
    leave(*peer_);
    offer(*peer_, 1);
    EXPECT_EQ(serving(), peer_.get());
    EXPECT_EQ(trouble(), "");
}

TEST_F(WithTwoStorageProcesses, the_target_prefers_the_one_that_has_the_storage) {
    offer(*peer_, 1);
    start_client();
    offer(*other_, 2, 0, kBytes / 2);
    leave(*peer_);
    EXPECT_NE(trouble(), "");
    offer(*peer_, 3);
    EXPECT_EQ(serving(), peer_.get());
    EXPECT_EQ(trouble(), "");
}

TEST_F(WithTwoStorageProcesses,
       the_target_waits_for_the_one_that_served_instead_of_one_that_lost_the_storage) {
    offer(*peer_, 1);
    start_client();
    offer(*other_, 2, ESHUTDOWN);
    leave(*peer_);
    EXPECT_TRUE(until([&] { return trouble().find("has lost it (taken)") != std::string::npos; }));
    world_.run_for(cache::RemoteQueue::kAwayMax + from_s(1));
    offer(*peer_, 3);
    EXPECT_EQ(serving(), peer_.get());
    EXPECT_EQ(trouble(), "");
}

TEST_F(WithTwoStorageProcesses, the_target_loses_the_volume_when_the_serving_one_has_lost_the_storage) {
    offer(*peer_, 1);
    start_client();
    leave(*peer_);
    offer(*peer_, 1, ESHUTDOWN);
    EXPECT_TRUE(until([&] { return trouble() == "taken"; }));
    leave(*peer_);
    offer(*other_, 2);
    EXPECT_EQ(trouble(), "taken") << "for good";
}

TEST_F(HostileEngines, that_fail_to_destage_dirty_data_are_disconnected) {
    join(64);
    peer_->inventory_end(64);
    peer_->plain(RecordType::kReady);
    ASSERT_TRUE(is_live());
    set_policy({.policy = cache::Policy::kBack, .unsafe = true});
    expect_service();
    ASSERT_EQ(target_->cache().info().index.dirty_lines, 1u);
    peer_->refuses = true;
    ASSERT_TRUE(client_->begin(initiator::Operation::kFlush, 0, 8));
    EXPECT_TRUE(until([&] { return client_->under_way() == 0; }));
    EXPECT_TRUE(is_closed());
    EXPECT_EQ(peer_->refused, 1u);
}

TEST_F(HostileEngines, that_answer_pings_and_do_nothing_are_disconnected) {
    join(64);
    peer_->inventory_end(64);
    peer_->plain(RecordType::kReady);
    ASSERT_TRUE(is_live());
    expect_service();
    peer_->obedient = false;
    set_policy({.policy = cache::Policy::kBack, .unsafe = true});
    ASSERT_TRUE(client_->begin(initiator::Operation::kWrite, 0, 8));
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    EXPECT_TRUE(is_closed());
    EXPECT_EQ(client_->last_outcome(), initiator::Outcome::kOk);
}

// Well-formed records in any order and with any numbers, over many lives of the engine.
TEST_F(HostileEngines, do_not_keep_the_target_from_serving_its_clients_whatever_they_send) {
    expect_service();
    Random random(7);
    auto number = [&] {
        const uint64_t edges[] = {0, 1, 15, 16, 17, 1024, 0x7fffffff, 0xffffffff, UINT64_MAX};
        return random.chance(2) ? edges[random.below(std::size(edges))] : random.below(64);
    };
    for (int life = 0; life < 300; ++life) {
        // Some return with an identity that the target has recorded.
        wire::CacheJoin as{.engine = 1 + random.below(4),
                           .memory = random.chance(8) ? number() * kLineBytes : 16 * kLineBytes,
                           .incarnation = static_cast<uint32_t>(random.below(8)),
                           .storage = membership_.text.empty() ? 0 : random.next(),
                           .is_storage = random.chance(4)};
        if (auto saved = cache::Membership::parse(membership_.text); saved) as.storage = saved->storage;
        peer_->obedient = random.chance(2);
        peer_->join(as);
        ASSERT_TRUE(until([&] { return peer_->welcomed || peer_->over; }));
        for (uint64_t left = random.below(40); left > 0 && !peer_->over; --left) {
            const auto small = static_cast<uint32_t>(number());
            switch (random.below(18)) {
                case 0:
                    peer_->item(small);
                    break;
                case 1:
                case 2:
                    peer_->inventory_end(random.chance(2) ? 16 : small);
                    break;
                case 3:
                case 4:
                    peer_->plain(RecordType::kReady);
                    break;
                case 5:
                    peer_->say(
                        [](auto room) { return wire::put_text(RecordType::kAddress, "sim://peer:9", room); });
                    break;
                case 6:
                    peer_->plain(RecordType::kLeave);
                    break;
                case 7:
                    peer_->handle(RecordType::kAttached, peer_->granted);
                    break;
                case 8:
                    peer_->handle(RecordType::kDetached, peer_->granted);
                    break;
                case 9:
                    peer_->plain(RecordType::kDone, small);
                    break;
                case 10:
                    peer_->say([&](auto room) {
                        return wire::put_volume({.bytes = number() | 1, .number = small, .name = "disk"},
                                                room);
                    });
                    break;
                case 11:
                    peer_->say([&](auto room) {
                        return wire::put_staging({1u << 20, number() | 1, small}, room);
                    });
                    break;
                case 12:
                    peer_->handle(RecordType::kEngineGone, number());
                    break;
                case 13:
                    peer_->say([&](auto room) { return wire::put_failed(small, 5, room); });
                    break;
                case 14:
                    peer_->say([&](auto room) {
                        return wire::put_volume_state({.number = small, .error = small % 2, .bytes = 512},
                                                      room);
                    });
                    break;
                default:
                    if (client_->under_way() < 4)
                        client_->begin(
                            random.chance(2) ? initiator::Operation::kWrite : initiator::Operation::kRead,
                            random.below(64) * 128, 8 * (1 + random.below(16)));
                    world_.run_for(from_ms(static_cast<int64_t>(random.below(50))));
            }
        }
        peer_->close();
        ASSERT_TRUE(is_closed());
    }
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    ASSERT_TRUE(client_->begin(initiator::Operation::kWrite, 0, 8));
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    EXPECT_EQ(client_->last_outcome(), initiator::Outcome::kOk);
    EXPECT_EQ(target_->cache().info().capacity_lines, 0u);
}

}  // namespace
}  // namespace wss::sim
