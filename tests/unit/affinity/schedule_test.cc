// SPDX-License-Identifier: Apache-2.0
// Schedule: operators run where their blocks are; idle nodes read remotely as long as that shortens the whole
// run.
#include "lib/affinity/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace wss::affinity {
namespace {

constexpr double kRounding = 1 + 1e-6;
constexpr Policy kPolicies[] = {Policy::kRandom, Policy::kLocal, Policy::kRemote, Policy::kAffinity};

// `count` operators of `accesses` each, all blocks on `home`.
void add(Operators& to, uint32_t nodes, uint32_t home, uint32_t count, uint32_t accesses = 10) {
    Operator one{std::vector<uint32_t>(nodes)};
    one.accesses[home] = accesses;
    to.insert(to.end(), count, one);
}

double seconds(const Cluster& cluster, const Operators& operators, Policy policy) {
    return model(cluster, operators, policy).seconds;
}

struct Case {
    Cluster cluster;
    Operators operators;
};

// Draws a random case. Remote reads are at most as fast as local ones, unless `any_rates` is set.
Case any_case(bool any_rates) {
    Case one;
    one.cluster.nodes = *rc::gen::inRange<uint32_t>(1, 6);
    one.cluster.workers = *rc::gen::inRange<uint32_t>(1, 4);
    auto remote = *rc::gen::inRange<uint32_t>(1, 100);
    one.cluster.rates.remote = remote;
    one.cluster.rates.local = *rc::gen::inRange<uint32_t>(any_rates ? 1 : remote, 200);
    if (any_rates && *rc::gen::arbitrary<bool>())
        one.cluster.rates.storage = *rc::gen::inRange<uint32_t>(1, 400);
    for (uint32_t i = *rc::gen::inRange<uint32_t>(1, 30); i > 0; --i) {
        Operator made;
        for (uint32_t node = 0; node < one.cluster.nodes; ++node)
            made.accesses.push_back(*rc::gen::inRange<uint32_t>(0, 50));
        ++made.accesses[*rc::gen::inRange<uint32_t>(0, one.cluster.nodes)];
        one.operators.push_back(std::move(made));
    }
    return one;
}

TEST(Affinity, runs_operators_at_home_if_the_blocks_are_distributed_evenly) {
    Cluster cluster{.nodes = 4, .workers = 2, .rates = {.local = 100, .remote = 50}};
    Operators operators;
    for (uint32_t node = 0; node < 4; ++node) add(operators, 4, node, 20);
    Outcome ours = model(cluster, operators, Policy::kAffinity);
    EXPECT_EQ(ours.remote_share, 0);
    EXPECT_NEAR(ours.seconds, 20 * 10 / 100.0, 1e-9);
}

TEST(Affinity, lets_idle_nodes_take_operators_of_a_node_with_all_blocks) {
    Cluster cluster{.nodes = 4, .workers = 1, .rates = {.local = 100, .remote = 50}};
    Operators operators;
    add(operators, 4, 0, 250);
    Outcome ours = model(cluster, operators, Policy::kAffinity);
    // 100/s locally and three times 50/s remotely.
    EXPECT_NEAR(ours.seconds, 10.0, 0.2);
    EXPECT_NEAR(ours.remote_share, 0.6, 0.02);
    EXPECT_NEAR(bound_seconds(cluster, operators), 10.0, 1e-6);
    EXPECT_NEAR(seconds(cluster, operators, Policy::kLocal), 25.0, 1e-6);
    EXPECT_NEAR(seconds(cluster, operators, Policy::kRemote), 2500 / 150.0, 0.2);
}

TEST(Affinity, lets_a_node_run_its_longest_operator_first_and_give_its_shortest_away) {
    Cluster cluster{.nodes = 2, .workers = 1, .rates = {.local = 100, .remote = 50}};
    Operators operators;
    for (uint32_t accesses : {30, 10, 50, 20}) add(operators, 2, 0, 1, accesses);
    Schedule schedule(cluster, operators, Policy::kAffinity);
    EXPECT_EQ(schedule.take(0, 0), 2u);
    EXPECT_EQ(schedule.take(1, 0), 1u);
    EXPECT_EQ(schedule.take(0, 0.5), 0u);
}

TEST(Affinity, lets_no_node_steal_what_the_home_would_finish_earlier) {
    Cluster cluster{.nodes = 2, .workers = 1, .rates = {.local = 100, .remote = 10}};
    Operators operators;
    add(operators, 2, 0, 5);  // 0.5 s at home; one of them takes 1 s remotely
    Schedule schedule(cluster, operators, Policy::kAffinity);
    EXPECT_EQ(schedule.take(1, 0), Schedule::kNone);
    EXPECT_EQ(schedule.take(0, 0), 0u);
}

TEST(Affinity, counts_the_operator_that_runs_at_home_as_work_left) {
    Cluster cluster{.nodes = 2, .workers = 1, .rates = {.local = 100, .remote = 90}};
    Operators operators;
    add(operators, 2, 0, 2);
    Schedule early(cluster, operators, Policy::kAffinity), late = early;
    ASSERT_EQ(early.take(0, 0), 0u);
    EXPECT_EQ(early.take(1, 0), 1u);
    ASSERT_EQ(late.take(0, 0), 0u);
    EXPECT_EQ(late.take(1, 0.09), Schedule::kNone);
}

TEST(Affinity, lets_steals_from_saturated_storage_take_no_time) {
    Cluster cluster{.nodes = 3, .workers = 1, .rates = {.local = 100, .remote = 50, .storage = 100}};
    Operators operators;
    add(operators, 3, 0, 50);
    EXPECT_NEAR(bound_seconds(cluster, operators), 5, 1e-6);
    EXPECT_NEAR(seconds(cluster, operators, Policy::kAffinity), 5, 0.2);
}

TEST(Affinity, with_remote_placement_avoids_the_home_and_shares_the_accesses_equally) {
    Cluster cluster{.nodes = 3, .workers = 1, .rates = {.local = 100, .remote = 100}};
    Operators operators;
    add(operators, 3, 1, 40);
    Outcome remote = model(cluster, operators, Policy::kRemote);
    EXPECT_EQ(remote.remote_share, 1);
    EXPECT_NEAR(remote.seconds, 2, 1e-6);
}

TEST(Affinity, is_never_slower_than_the_better_of_all_local_and_all_remote) {
    EXPECT_TRUE(rc::check([] {
        Case one = any_case(true);
        double best = std::min(seconds(one.cluster, one.operators, Policy::kLocal),
                               seconds(one.cluster, one.operators, Policy::kRemote));
        Policy chosen = choose(one.cluster, one.operators);
        RC_ASSERT(seconds(one.cluster, one.operators, chosen) <= best * kRounding);
    }));
}

TEST(Affinity, with_stealing_alone_is_never_slower_than_all_local) {
    EXPECT_TRUE(rc::check([] {
        Case one = any_case(false);
        RC_ASSERT(seconds(one.cluster, one.operators, Policy::kAffinity) <=
                  seconds(one.cluster, one.operators, Policy::kLocal) * kRounding);
    }));
}

TEST(Affinity, has_no_schedule_that_is_faster_than_the_bound) {
    EXPECT_TRUE(rc::check([] {
        Case one = any_case(true);
        double bound = bound_seconds(one.cluster, one.operators);
        for (Policy policy : kPolicies)
            RC_ASSERT(seconds(one.cluster, one.operators, policy) * kRounding >= bound);
    }));
}

TEST(Affinity, makes_equal_decisions_for_equal_input) {
    EXPECT_TRUE(rc::check([] {
        Case one = any_case(true);
        for (Policy policy : kPolicies) {
            Schedule first(one.cluster, one.operators, policy, 5), second = first;
            Schedule third(one.cluster, one.operators, policy, 5);
            for (size_t i = 0; i < one.operators.size() + one.cluster.nodes; ++i) {
                auto node = static_cast<uint32_t>(i % one.cluster.nodes);
                auto now = static_cast<double>(i);
                uint32_t index = first.take(node, now);
                RC_ASSERT(second.take(node, now) == index);
                RC_ASSERT(third.take(node, now) == index);
            }
        }
    }));
}

// A worker stops at the first kNone. So there is one decision for each operator, and one for each worker.
TEST(Affinity, runs_every_operator_once_although_workers_stop) {
    EXPECT_TRUE(rc::check([] {
        Case one = any_case(true);
        for (Policy policy : kPolicies) {
            Schedule schedule(one.cluster, one.operators, policy);
            std::vector<uint32_t> runs(one.operators.size());
            for (uint32_t node = 0; node < one.cluster.nodes; ++node)
                for (uint32_t index; (index = schedule.take(node, 0)) != Schedule::kNone;) {
                    ++runs[index];
                    schedule.ended(index);
                }
            for (uint32_t count : runs) RC_ASSERT(count == 1u);
        }
    }));
}

}  // namespace
}  // namespace wss::affinity
