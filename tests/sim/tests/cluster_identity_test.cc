// SPDX-License-Identifier: Apache-2.0
// A volume is deleted or given up, and another volume of the same identity is opened, while the target
// crashes. Destroyed data must not return, and data whose destruction was not recorded must be complete.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterIdentity : public ClusterOperator {
  protected:
    void SetUp() override {
        options_.default_policy.policy = Policy::kBack;
        ClusterOperator::SetUp();
        create("a", a_);
        attach("a", a_);
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), 4u);
    }
    void remove(const std::string& name) {
        std::optional<Status> removed;
        target_->remove_volume(name, [&](Status status) { removed = status; });
        ASSERT_TRUE(until([&] { return removed.has_value(); }, from_s(1)));
    }
    // Records sent to engines after this call are lost before the target notices the cut.
    void cut_engines() {
        for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    }
    void restart() {
        restart_target();
        world_.heal_all();
    }
    // Reads with a model in which nothing was ever written: real storage has zeroes.
    void expect_that_nothing_came_back() {
        BlockShared fresh{kSectors};
        BlockClient client(world_.add_node(fmt::format("{} of a", ++clients_)), network_, "target", 8, fresh);
        client.use_volume("a");
        client.start();
        ASSERT_TRUE(until([&] { return client.live(); }));
        for (uint64_t i = 0; i < 4; ++i) {
            EXPECT_TRUE(client.begin_read(i * kLine, kLine));
            EXPECT_TRUE(until([&] { return client.under_way() == 0; }));
            EXPECT_EQ(client.last_outcome(), Outcome::kOk);
        }
        EXPECT_EQ(fresh.failure, "");
        client.close();
        EXPECT_TRUE(until([&] { return client.closed(); }));
    }
};

TEST_F(ClusterIdentity, keeps_given_up_data_from_reappearing_in_a_volume_that_is_opened_before_the_wipe) {
    restart();
    ASSERT_TRUE(until([&] { return recovered(); }));
    cut_engines();
    ASSERT_TRUE(give_up("a"));
    create("a", a_);
    world_.run_for(from_ms(200));
    restart();
    create("a", a_);
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_that_nothing_came_back();
}

TEST_F(ClusterIdentity, keeps_deleted_data_from_reappearing_in_a_volume_that_is_created_before_the_wipe) {
    cut_engines();
    remove("a");
    create("a", a_);
    world_.run_for(from_ms(200));
    restart();
    create("a", a_);
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_that_nothing_came_back();
}

TEST_F(ClusterIdentity, keeps_deleted_data_from_reappearing_if_the_target_crashes_twice_before_the_wipe) {
    create("b", b_);
    attach("b", b_);
    ASSERT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
    cut_engines();
    remove("a");
    world_.run_for(from_ms(200));
    for (int crashes = 0; crashes < 2; ++crashes) {
        restart_target();
        create("a", a_);
        create("b", b_);
        world_.run_for(from_ms(200));
    }
    world_.heal_all();
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_that_nothing_came_back();
    EXPECT_EQ(run(b_, Operation::kRead), Outcome::kOk);
}

TEST_F(ClusterIdentity, lets_a_volume_use_write_back_as_soon_as_the_former_one_is_wiped) {
    remove("a");
    create("a", a_);
    attach("a", a_);
    a_.shared.model.crash();
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    ASSERT_TRUE(until([&] { return membership().dirty.size() == 2; }, from_s(1)));
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(dirty(), 1u);
    restart();
    create("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(ClusterIdentity, lets_a_deletion_destroy_nothing_before_it_is_recorded) {
    membership_.stuck = true;
    target_->remove_volume("a", [](const Status&) {});
    world_.run_for(from_ms(500));
    membership_.stuck = false;
    restart();
    create("a", a_);
    ASSERT_TRUE(until([&] { return recovered(); }));
    attach("a", a_);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

}  // namespace
}  // namespace wss::sim
