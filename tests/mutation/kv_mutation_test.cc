// SPDX-License-Identifier: Apache-2.0
// Known bugs of a key-value store (lib/kv/mutation.h), switched on in the simulation. The checker or the
// scenario must detect each, and must report nothing when none is on. (A window of length zero is not
// detected here, because readers whose version is gone start again. kv_store_mutation_test.cc detects it.)
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "lib/kv/mutation.h"
#include "tests/sim/scenarios/kv.h"

namespace wss::sim {
namespace {

// Hot keys on several partitions. The only faults are those that a test adds.
KvOptions contended(uint64_t seed) {
    KvOptions options;
    options.seed = seed;
    options.clients = 4;
    options.keys = 8;
    options.transactions = 1500;
    return options;
}

class KvSimMutation : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(log::set_level("off")); }
    void TearDown() override { kv::mutations = 0; }

    // Returns the first failure of seeds 1 to `seeds`, or an empty string.
    std::string caught(kv::Mutation mutation, KvOptions (*options)(uint64_t seed), uint64_t seeds = 10) {
        kv::mutations = static_cast<uint32_t>(mutation);
        for (uint64_t seed = 1; seed <= seeds; ++seed)
            if (KvResult result = run_kv(options(seed)); !result.failure.empty()) return result.failure;
        return "";
    }
};

KvOptions with_skew(uint64_t seed) {
    KvOptions options = contended(seed);
    options.skew_ms = 10'000;
    return options;
}

// Conditional writes of keys that were read, while replies and logs fail.
KvOptions with_conditions(uint64_t seed) {
    KvOptions options = with_skew(seed);
    options.conditional_percent = 50;
    options.fail_log_one_in = 60;
    options.crash_one_in = 60;
    options.cut_one_in = 40;
    options.network.break_one_in = 300;
    options.network.slow_one_in = 100;
    return options;
}

// Transactions that write some of the keys on which they have conditions. The bug has an effect only if two
// transactions on the same keys reach two partitions in opposite orders.
KvOptions with_crossing_conditions(uint64_t seed) {
    KvOptions options = contended(seed);
    options.partitions = 4;
    options.keys_per_transaction = 2;
    options.write_percent = options.conditional_percent = 100;
    return options;
}

KvOptions with_deaths(uint64_t seed) {
    KvOptions options = contended(seed);
    options.half_one_in = 3;
    options.network.slow_one_in = 20;
    options.network.slow_delay = from_ms(900);
    return options;
}

KvOptions with_slow_reads(uint64_t seed) {
    KvOptions options = contended(seed);
    options.network.slow_one_in = 30;
    options.network.slow_delay = from_ms(100);
    return options;
}

KvOptions with_sleepers(uint64_t seed) {
    KvOptions options = contended(seed);
    options.transport = kv::Transport::kRing;
    options.sleep = true;
    return options;
}

KvOptions with_sleepers_told_by_immediates(uint64_t seed) {
    KvOptions options = with_sleepers(seed);
    options.transport = kv::Transport::kRingAnnounced;
    return options;
}

KvOptions with_sleepers_in_reach(uint64_t seed) {
    KvOptions options = with_sleepers(seed);
    options.network.direct = true;
    return options;
}

// Sometimes the peer's memory is not directly accessible. A node that has announced its sleep, but not that
// it is awake, then announces its sleep again.
KvOptions with_sleepers_in_reach_at_times(uint64_t seed) {
    KvOptions options = with_sleepers_in_reach(seed);
    options.network.indirect_one_in = 8;
    return options;
}

// Many faults. Some nodes can access the memory of their peers directly.
KvOptions with_everything(uint64_t seed) {
    KvOptions options = KvOptions::draw(710835);
    options.seed = seed;
    options.transport = kv::Transport::kRing;
    return options;
}

// As above, with a single client that waits for each reply, so no frames of other clients wake its peer.
KvOptions with_a_quiet_client(uint64_t seed) {
    KvOptions options = with_everything(seed);
    options.clients = options.depth = 1;
    options.transactions = 20;
    return options;
}

TEST_F(KvSimMutation, the_unmodified_store_passes) {
    for (auto* options :
         {contended, with_skew, with_conditions, with_crossing_conditions, with_deaths, with_slow_reads,
          with_sleepers, with_sleepers_told_by_immediates, with_sleepers_in_reach,
          with_sleepers_in_reach_at_times, with_everything, with_a_quiet_client})
        for (uint64_t seed = 1; seed <= 8; ++seed) EXPECT_EQ(run_kv(options(seed)).failure, "") << seed;
}

TEST_F(KvSimMutation, a_skipped_second_round_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kSkipSecondRound, contended), "");
}

TEST_F(KvSimMutation, colliding_timestamps_are_detected) {
    EXPECT_NE(caught(kv::Mutation::kCollidingTimestamps, contended), "");
}

TEST_F(KvSimMutation, clocks_that_ignore_timestamps_of_reads_are_caught) {
    EXPECT_NE(caught(kv::Mutation::kNoHybridClock, with_skew), "");
}

TEST_F(KvSimMutation, a_write_that_is_accepted_behind_an_acknowledged_one_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kBlindOrder, with_skew).find("lost write"), std::string::npos);
}

TEST_F(KvSimMutation, a_condition_that_does_not_hold_until_the_commit_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kConditionNotHeld, with_crossing_conditions, 40).find("condition"),
              std::string::npos);
}

TEST_F(KvSimMutation, a_termination_that_keeps_no_promise_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kTerminationRace, with_deaths, 30), "");
}

// Sleepers are woken by messages, and by a word in memory.
TEST_F(KvSimMutation, a_wake_up_that_is_lost_is_caught) {
    for (auto* options : {with_sleepers, with_sleepers_in_reach})
        EXPECT_NE(caught(kv::Mutation::kLostWakeUp, options).find("was not woken"), std::string::npos);
}

// A node accesses the peer's memory directly only while nothing else is in flight. With the bug, a reader
// announced its sleep by a word in memory and could not withdraw the announcement. It did not announce its
// sleep again, although the writer had woken it and assumed that it was awake. Or it fell asleep while a
// frame was in flight as a WRITE.
TEST_F(KvSimMutation, a_sleeper_that_is_assumed_to_be_awake_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kToldOnce, with_sleepers_in_reach_at_times, 200).find("was not woken"),
              std::string::npos);
}

TEST_F(KvSimMutation, a_sleeper_that_misses_a_frame_in_flight_is_caught) {
    EXPECT_NE(caught(kv::Mutation::kLooksOnce, with_a_quiet_client, 130).find("was not woken"),
              std::string::npos);
}

}  // namespace
}  // namespace wss::sim
