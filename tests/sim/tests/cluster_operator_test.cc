// SPDX-License-Identifier: Apache-2.0
// Operator actions on a cluster whose engines hold dirty lines: starting the target with another policy,
// without a volume, or without engines. They must not lose or corrupt an acknowledged write.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

// ---- The default policy ----------------------------------------------------------------------------------

class ClusterDefaultPolicy : public ClusterOperator {
  protected:
    ClusterDefaultPolicy() { options_.default_policy.policy = Policy::kBack; }
};

TEST_F(ClusterDefaultPolicy, leaves_dirty_lines_that_survive_a_restart) {
    create("a", a_);
    attach("a", a_);
    for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_EQ(dirty(), 8u);
    restart_target();
    create("a", a_);
    for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(ClusterDefaultPolicy, may_change_at_a_restart_without_loss_of_dirty_lines) {
    create("a", a_);
    attach("a", a_);
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    options_.default_policy.policy = Policy::kThrough;
    restart_target();
    create("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    EXPECT_TRUE(until([&] { return membership().dirty.empty(); })) << "it has no dirty lines left";
    restart_target();
    EXPECT_FALSE(target_->cache().recovering()) << "no engine is awaited";
    create("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

// This is the state after a failed start: the target has not yet determined which lines of the volume engines
// hold.
TEST_F(ClusterDefaultPolicy, loses_no_dirty_line_of_a_volume_that_is_not_open_at_a_stop_during_a_recovery) {
    create("a", a_);
    attach("a", a_);
    set_policy("disk", Policy::kThrough);
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    options_.default_policy.policy = Policy::kThrough;
    restart_target();
    ASSERT_TRUE(target_->cache().recovering());
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_EQ(membership().dirty.size(), 1u);
    world_.heal_all();
    restart_target();
    create("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST(CacheDefaultPolicy, of_write_back_is_refused_without_a_state_file) {
    SystemClock clock;
    reactor::Reactor reactor(clock, {.spin = kNever});
    Random random(1);
    auto cache = cache::Cache::create(reactor, random, {}, cache::open_membership_memory(reactor),
                                      {.default_policy = {.policy = Policy::kBack}});
    ASSERT_FALSE(cache);
    EXPECT_EQ(cache.status().code(), Code::kRefused);
    EXPECT_NE(cache.status().text().find("--state"), std::string::npos) << cache.status().text();
}

// ---- Engines that are forgotten --------------------------------------------------------------------------

class WhileEnginesAreAway : public ClusterOperator {
  protected:
    // "b" is under write-through.
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        create("b", b_);
        attach("b", b_);
        ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
        ASSERT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
        ASSERT_EQ(run(b_, Operation::kFlush), Outcome::kOk);
    }
    void restart() {
        restart_target();
        create("a", a_);
        create("b", b_);
        ASSERT_TRUE(until([&] { return a_.client->live() && b_.client->live(); }));
    }
    void forget() {
        target_->cache().forget_awaited();
        ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    }
};

TEST_F(WhileEnginesAreAway, data_that_only_forgotten_engines_hold_is_lost_and_not_read_from_stale_storage) {
    for (EngineNode& engine : engines_) kill_engine(engine);
    restart();
    ASSERT_TRUE(target_->cache().recovering());
    forget();
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kMediumError);
    EXPECT_EQ(run(b_, Operation::kRead), Outcome::kOk) << "it was never under write-back";
    EXPECT_EQ(run(b_, Operation::kFlush), Outcome::kOk);
    for (EngineNode& engine : engines_) start_engine(engine);
    restart();
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kMediumError) << "even after another restart";
    ASSERT_TRUE(give_up("a"));
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError) << "acknowledged data is not stable";
    a_.shared.model.crash();  // the operator gave up the unflushed data
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(WhileEnginesAreAway, the_engines_that_recovery_waits_for_are_listed_until_they_return) {
    std::vector<uint64_t> identities;
    for (const auto& engine : target_->cache().info().engines) identities.push_back(engine.identity);
    ASSERT_EQ(identities.size(), 2u);
    std::sort(identities.begin(), identities.end());
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    restart();
    EXPECT_EQ(target_->cache().info().awaited, identities);
    world_.heal(node_, *engines_[0].node);
    ASSERT_TRUE(until([&] { return target_->cache().info().awaited.size() == 1; }));
    const uint64_t back = target_->cache().info().engines.at(0).identity;
    EXPECT_NE(target_->cache().info().awaited.at(0), back);
    world_.heal(node_, *engines_[1].node);
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    EXPECT_TRUE(target_->cache().info().awaited.empty());
}

TEST_F(WhileEnginesAreAway, no_data_is_lost_if_a_returned_engine_has_a_copy_of_everything) {
    kill_engine(engines_[1]);
    restart();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    world_.run_for(from_s(1));
    ASSERT_TRUE(target_->cache().recovering()) << "the other engine may return";
    forget();
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(WhileEnginesAreAway, engines_present_during_a_forget_are_not_forgotten_when_they_are_lost_later) {
    membership_.stuck = true;
    restart();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    ASSERT_TRUE(target_->cache().recovering()) << "it is not recorded that every engine is needed";
    target_->cache().forget_awaited();
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    world_.run_for(from_s(2));
    EXPECT_EQ(target_->cache().info().volumes.at(1).lost_bytes, 0u);
}

TEST_F(WhileEnginesAreAway, commands_of_volumes_without_dirty_lines_do_not_wait_for_a_recovery) {
    world_.cut(node_, *engines_[1].node);
    restart();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, kLine));
    for (Operation operation : {Operation::kRead, Operation::kWrite, Operation::kRead, Operation::kDiscard,
                                Operation::kWrite, Operation::kFlush, Operation::kRead})
        EXPECT_EQ(run(b_, operation), Outcome::kOk);
    ASSERT_TRUE(target_->cache().recovering());
    EXPECT_EQ(a_.client->under_way(), 1u) << "it may show old data before the other engine is back";
    EXPECT_EQ(target_->cache().info().index.lines, 0u) << "slots may hold dirty lines not yet found";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(b_, Operation::kRead), Outcome::kOk);
}

TEST_F(WhileEnginesAreAway, a_full_state_disk_and_a_lost_engine_do_not_stop_write_through) {
    ASSERT_EQ(run(b_, Operation::kRead), Outcome::kOk);
    membership_.stuck = true;
    kill_engine(engines_[1]);
    ASSERT_TRUE(until([&] { return live_engines() == 1; }));
    for (Operation operation : {Operation::kWrite, Operation::kRead, Operation::kDiscard, Operation::kWrite,
                                Operation::kFlush, Operation::kRead})
        EXPECT_EQ(run(b_, operation), Outcome::kOk);
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    EXPECT_EQ(a_.client->under_way(), 1u) << "after a crash the lost copy would undo the write";
}

// ---- Volumes that are missing at a restart ---------------------------------------------------------------

class AbsentVolume : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), 4u);
    }
    // Restarts the target without "a".
    void restart() {
        restart_target();
        ASSERT_TRUE(until([&] { return recovered(); }));
        world_.run_for(from_s(1));
    }
    void bring_back() {
        create("a", a_);
        attach("a", a_);
    }
    cache::AbsentVolumeInfo absent() {
        auto info = target_->cache().info();
        return info.absent.empty() ? cache::AbsentVolumeInfo{} : info.absent.front();
    }
    // Creates as many volumes as a target can have; the last one is "b".
    void fill_up() {
        for (size_t i = target_->volumes().count(); i < volume::kVolumesMax - 1; ++i)
            create(fmt::format("other{}", i), b_);
        create("b", b_);
    }
    void remove(const std::string& name) {
        std::optional<Status> removed;
        target_->remove_volume(name, [&](Status status) { removed = status; });
        ASSERT_TRUE(until([&] { return removed.has_value(); }));
    }
    void expect_all_read(Outcome outcome) {
        for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), outcome);
    }
};

TEST_F(AbsentVolume, keeps_its_dirty_lines_in_engines_until_it_returns) {
    restart();
    EXPECT_EQ(absent().name, "a");
    EXPECT_EQ(absent().dirty_lines, 4u);
    restart();
    EXPECT_EQ(absent().dirty_lines, 4u) << "also across another restart";
    EXPECT_TRUE(until([&] { return absent().single_lines == 0 && !membership().degraded; }))
        << "each line has two copies again";
    bring_back();
    EXPECT_EQ(absent().dirty_lines, 0u);
    expect_all_read(Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(dirty(), 0u);
    EXPECT_TRUE(until([&] { return !membership().degraded; }));
}

TEST_F(AbsentVolume, is_not_replaced_by_a_volume_that_is_created_meanwhile) {
    restart();
    create("b", b_);
    attach("b", b_);
    set_policy("b", Policy::kBack);
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(run(b_, Operation::kRead, i * kLine), Outcome::kOk);
        EXPECT_EQ(run(b_, Operation::kWrite, i * kLine), Outcome::kOk);
    }
    bring_back();
    expect_all_read(Outcome::kOk);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(b_, Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(AbsentVolume, keeps_its_lines_in_engines_at_an_orderly_stop) {
    restart();
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    restart_target();
    bring_back();
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_all_read(Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(AbsentVolume, loses_its_lines_with_their_engines) {
    restart();
    for (EngineNode& engine : engines_) kill_engine(engine);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    EXPECT_TRUE(absent().lost);
    bring_back();
    expect_all_read(Outcome::kMediumError);
    EXPECT_EQ(run(a_, Operation::kRead, 4 * kLine), Outcome::kOk);
}

TEST_F(AbsentVolume, that_is_given_up_loses_its_lines_for_good_and_fails_one_flush) {
    restart();
    EXPECT_EQ(give_up("b").status().code(), Code::kNotFound);
    ASSERT_TRUE(give_up("a"));
    EXPECT_EQ(absent().name, "");
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    restart();
    EXPECT_EQ(absent().name, "") << "none of its data reappears";
    bring_back();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError);
    a_.shared.model.crash();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    expect_all_read(Outcome::kOk);
    EXPECT_TRUE(until([&] { return membership().given_up.empty(); }));
}

TEST_F(AbsentVolume, whose_name_another_volume_has_taken_is_not_given_up_by_that_name) {
    restart();
    const std::string former = volume::wwid_text(absent().wwid);
    std::optional<Status> created;
    target_->create_volume(
        "a", b_.disk, [&](Status status) { created = status; }, 0, "another");
    ASSERT_TRUE(until([&] { return created.has_value(); }) && *created);
    auto refused = give_up("a");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.status().text().find(former), std::string::npos) << refused.status().text();
    EXPECT_EQ(absent().dirty_lines, 4u);
    std::optional<Status> removed;
    target_->remove_volume("a", [&](Status status) { removed = status; });
    ASSERT_TRUE(until([&] { return removed.has_value(); }));
    auto given_up = give_up(former);
    ASSERT_TRUE(given_up);
    EXPECT_EQ(volume::wwid_text(*given_up), former);
    EXPECT_EQ(absent().name, "");
}

TEST_F(AbsentVolume, leaves_the_full_number_of_cached_volumes_to_others) {
    restart();
    fill_up();
    attach("b", b_);
    for (Operation operation : {Operation::kWrite, Operation::kRead, Operation::kFlush, Operation::kRead})
        EXPECT_EQ(run(b_, operation, 3 * kLine), Outcome::kOk);
    remove("b");
    bring_back();
    expect_all_read(Outcome::kOk);
}

TEST_F(AbsentVolume, that_is_dirty_does_not_lose_its_place_to_clean_volumes) {
    world_.cut(node_, *engines_[1].node);
    restart_target();
    fill_up();
    world_.heal_all();
    ASSERT_TRUE(until([&] { return recovered(); }));
    world_.run_for(from_s(1));
    EXPECT_EQ(absent().dirty_lines, 4u);
    remove("b");
    bring_back();
    expect_all_read(Outcome::kOk);
}

TEST_F(AbsentVolume, that_was_deleted_is_not_awaited) {
    restart();
    target_->cache().deletions().over(absent().wwid, [] {});
    EXPECT_TRUE(until([&] { return dirty() == 0 && !membership().degraded; }));
    EXPECT_EQ(absent().name, "");
    bring_back();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(AbsentVolume, that_is_given_up_causes_no_wipe_of_the_next_one_with_its_number) {
    options_.default_policy.policy = Policy::kBack;
    restart();
    for (EngineNode& engine : engines_) kill_engine(engine);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    for (EngineNode& engine : engines_) start_engine(engine);
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    membership_.full = true;
    EXPECT_FALSE(give_up("a")) << "the give-up is not recorded yet";
    world_.run_for(from_s(1));
    create("b", b_);
    attach("b", b_);
    ASSERT_TRUE(b_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    membership_.full = false;
    ASSERT_TRUE(until([&] { return b_.client->under_way() == 0; }));
    EXPECT_EQ(b_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(run(b_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(dirty(), 1u) << "acknowledged, but not yet destaged";
}

TEST_F(AbsentVolume, that_is_given_up_fails_a_flush_of_the_client_and_not_that_of_a_stop) {
    restart();
    ASSERT_TRUE(give_up("a"));
    bring_back();
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_TRUE(target_->cache_stopped());
    restart_target();
    bring_back();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError);
    a_.shared.model.crash();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    expect_all_read(Outcome::kOk);
}

TEST_F(AbsentVolume, that_is_given_up_fails_a_flush_of_the_client_and_not_that_of_a_drain) {
    restart();
    ASSERT_TRUE(give_up("a"));
    bring_back();
    EXPECT_TRUE(drain(""));
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError);
    a_.shared.model.crash();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(AbsentVolume, makes_a_drain_fail_while_engines_have_its_lines) {
    restart();
    for (const char* which : {"", "a"}) {
        const Status left = drain(which);
        EXPECT_EQ(left.code(), Code::kRefused) << left.to_string();
        EXPECT_NE(left.text().find("a (4 lines)"), std::string::npos) << left.text();
    }
    EXPECT_EQ(drain("b").code(), Code::kNotFound);
    bring_back();
    EXPECT_TRUE(drain(""));
    EXPECT_TRUE(drain("a"));
    expect_all_read(Outcome::kOk);
}

TEST_F(AbsentVolume, makes_a_drain_fail_while_the_lines_in_engines_are_unknown) {
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    restart_target();
    const Status unknown = drain("");
    EXPECT_EQ(unknown.code(), Code::kBusy);
    EXPECT_NE(unknown.text().find("waits for the engines"), std::string::npos) << unknown.text();
}

TEST_F(AbsentVolume, that_is_deleted_does_not_overwrite_the_next_one_of_its_identity) {
    world_.cut(node_, *engines_[1].node);
    restart_target();
    create("a", a_);
    ASSERT_TRUE(target_->cache().recovering());
    std::optional<Status> removed;
    target_->remove_volume("a", [&](Status status) { removed = status; });
    ASSERT_TRUE(until([&] { return removed.has_value(); }));
    create("a", a_);
    attach("a", a_);
    a_.shared.model.crash();
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    ASSERT_TRUE(target_->cache().recovering());
    world_.heal_all();
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_all_read(Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    expect_all_read(Outcome::kOk);
}

TEST_F(AbsentVolume, that_shrank_is_refused_and_keeps_its_lines) {
    struct Small : Volume {
        explicit Small(World& world)
            : Volume(world), half(world, kSectors / 2 * io::SimDisk::kSector, faults) {}
        io::SimDisk half;
    } small(world_);
    restart_target();
    std::optional<Status> created;
    target_->create_volume("a", small.half, [&](Status status) { created = status; });
    ASSERT_TRUE(until([&] { return created.has_value(); }));
    EXPECT_EQ(created->code(), Code::kRefused) << created->to_string();
    ASSERT_TRUE(until([&] { return recovered(); }));
    EXPECT_EQ(absent().dirty_lines, 4u);
    bring_back();
    expect_all_read(Outcome::kOk);
}

// The engines' data is older than what the other owner may have written.
TEST_F(AbsentVolume, whose_storage_had_another_owner_is_refused_until_its_lines_are_given_up) {
    ASSERT_GT(dirty(), 0u);
    a_.disk.take_away();
    world_.run_for(from_ms(500));
    EXPECT_EQ(membership().storage_lost.size(), 1u);
    a_.disk.give_back();
    for (int restarts = 0; restarts < 2; ++restarts) {
        restart_target();
        ASSERT_TRUE(until([&] { return recovered(); }));
        EXPECT_EQ(try_create("a", a_).code(), Code::kRefused);
    }
    ASSERT_TRUE(give_up("a"));
    ASSERT_TRUE(until([&] { return membership().storage_lost.empty(); }));
    create("a", a_);
    attach("a", a_);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError) << "acknowledged data is not stable";
    a_.shared.model.crash();  // the operator gave up the unflushed data
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

// The loss is detected when the stop destages, or just before that: the cache has no tick in between.
TEST_F(AbsentVolume, whose_storage_is_lost_at_a_stop_is_refused_until_its_lines_are_given_up) {
    ASSERT_GT(dirty(), 0u);
    a_.disk.take_away();
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_EQ(membership().storage_lost.size(), 1u);
    a_.disk.give_back();
    restart_target_alone();
    ASSERT_TRUE(until([&] { return recovered(); }));
    EXPECT_EQ(try_create("a", a_).code(), Code::kRefused);
}

// The target ended before it could notice the change of the owner.
TEST_F(AbsentVolume, that_changed_hands_unnoticed_is_refused_until_its_lines_are_given_up) {
    ASSERT_GT(dirty(), 0u);
    a_.disk.change_hands();
    for (int restarts = 0; restarts < 2; ++restarts) {
        restart_target();
        ASSERT_TRUE(until([&] { return recovered(); }));
        EXPECT_EQ(try_create("a", a_).code(), Code::kRefused);
    }
    ASSERT_TRUE(give_up("a"));
    ASSERT_TRUE(until([&] { return membership().dirty.empty(); }));
    create("a", a_);
}

TEST_F(AbsentVolume, whose_storage_no_longer_names_an_owner_is_refused_and_keeps_its_owner) {
    ASSERT_GT(dirty(), 0u);
    const std::string owner = membership().dirty.begin()->second.ownership;
    ASSERT_FALSE(owner.empty());
    a_.disk.forget_owners();
    restart_target();
    ASSERT_TRUE(until([&] { return recovered(); }));
    EXPECT_EQ(try_create("a", a_).code(), Code::kRefused);
    ASSERT_EQ(membership().dirty.size(), 1u);
    EXPECT_EQ(membership().dirty.begin()->second.ownership, owner);
}

// Real storage has been silent for so long that another owner may have it.
TEST_F(AbsentVolume,
       that_is_suspended_neither_serves_reads_from_engines_nor_acknowledges_writes_by_them_alone) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    auto counters = [&] { return target_->cache().info().volumes.at(1).counters; };
    ASSERT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    const uint64_t hits = counters().read_hits;
    ASSERT_GT(hits, 0u);
    a_.disk.suspend(true);
    world_.run_for(from_ms(200));
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kWrite, kLine), Outcome::kOk);
    EXPECT_EQ(counters().read_hits, hits);
    EXPECT_EQ(dirty(), 0u);
    a_.disk.suspend(false);
    world_.run_for(from_ms(200));
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    EXPECT_GT(counters().read_hits, hits);
    EXPECT_EQ(run(a_, Operation::kWrite, kLine), Outcome::kOk);
    EXPECT_EQ(dirty(), 1u);
}

TEST_F(AbsentVolume, whose_storage_had_another_owner_is_opened_if_it_had_no_dirty_lines) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    a_.disk.take_away();
    world_.run_for(from_ms(500));
    EXPECT_TRUE(membership().storage_lost.empty());
    a_.disk.give_back();
    restart_target();
    create("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

// The loss is recorded because a hanging request may make lines dirty. At the stop no line is dirty.
TEST_F(AbsentVolume, whose_storage_had_another_owner_is_opened_after_a_stop_that_left_no_dirty_lines) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    a_.faults.latency_min = a_.faults.latency_max = from_s(10);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 20 * kLine, kLine));
    world_.run_for(from_ms(100));
    a_.disk.take_away();
    world_.run_for(from_ms(500));
    ASSERT_EQ(membership().storage_lost.size(), 1u);
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_TRUE(membership().storage_lost.empty());
    a_.faults = {};
    a_.disk.give_back();
    restart_target_alone();
    ASSERT_TRUE(until([&] { return recovered(); }));
    EXPECT_TRUE(try_create("a", a_));
}

TEST_F(AbsentVolume, without_dirty_lines_may_shrink) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    target_->stop();
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    io::SimDisk half(world_, kSectors / 2 * io::SimDisk::kSector, a_.faults);
    node_.crash();
    retire(std::move(target_));
    node_.restart();
    start_target();
    std::optional<Status> created;
    target_->create_volume("a", half, [&](Status status) { created = status; });
    ASSERT_TRUE(until([&] { return created.has_value(); }));
    EXPECT_TRUE(*created) << created->to_string();
    retire(std::move(target_));
}

}  // namespace
}  // namespace wss::sim
