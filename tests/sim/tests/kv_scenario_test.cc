// SPDX-License-Identifier: Apache-2.0
// The key-value store in the simulated world. More seeds: make sim-soak SCENARIO=kv.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/kv.h"

namespace wss::sim {
namespace {

TEST(KvScenario, without_faults_every_transaction_succeeds) {
    KvOptions options;
    options.seed = 7;
    KvResult result = run_kv(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.failed, 0u);
    EXPECT_EQ(result.unknown, 0u);
}

TEST(KvScenario, the_same_seed_gives_the_same_run) {
    KvOptions options = KvOptions::draw(11);
    KvResult first = run_kv(options), second = run_kv(options);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_NE(first.trace, run_kv(KvOptions::draw(12)).trace);
}

// Without control readers do see parts of transactions; if they did not, the next test would show nothing.
TEST(KvScenario, readers_without_concurrency_control_see_fractured_transactions) {
    KvOptions options;
    options.seed = 3;
    options.keys = 6;
    options.transactions = 2000;
    options.algorithm = kv::Algorithm::kNone;
    EXPECT_GT(run_kv(options).fractured, 0u);
}

TEST(KvScenario, no_reader_sees_half_a_transaction_whatever_fails) {
    ASSERT_TRUE(log::set_level("error"));
    for (uint64_t seed = 200; seed < 225; ++seed) {
        KvResult result = run_kv(KvOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "again: make sim SCENARIO=kv SEED=" << seed;
    }
}

// One hot key: the client whose clock is behind must get a write in beside those that are ahead.
TEST(KvScenario, slow_clocks_do_not_starve_beside_fast_ones) {
    ASSERT_TRUE(log::set_level("off"));
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        KvOptions options;
        options.seed = seed;
        options.partitions = 1 + seed % 2;
        options.clients = 4;
        options.depth = 4;
        options.keys = 2;
        options.keys_per_transaction = 2;
        options.write_percent = 100;
        options.skew_ms = 5'000;
        options.transactions = 3000;
        KvResult result = run_kv(options);
        EXPECT_EQ(result.failure, "") << options.to_string();
        EXPECT_EQ(result.failed, 0u) << options.to_string();
    }
}

// Clocks seconds apart, replies that are lost, logs that cannot be written: what is acknowledged is later
// than all that was acknowledged before it began, and what is reported as failed is never seen.
TEST(KvScenario, no_acknowledged_write_is_lost_and_no_refused_one_appears_whatever_fails) {
    ASSERT_TRUE(log::set_level("off"));
    uint64_t won = 0, lost = 0, unknown = 0, failed_logs = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        KvOptions options = KvOptions::draw(seed);
        options.algorithm = static_cast<kv::Algorithm>(seed % 3);
        options.skew_ms = 10'000;
        options.conditional_percent = 40;
        options.fail_log_one_in = 60;
        options.crash_one_in = 60;
        options.cut_one_in = 40;
        options.network.break_one_in = 300;
        KvResult result = run_kv(options);
        EXPECT_EQ(result.failure, "") << options.to_string();
        won += result.conditions_won, lost += result.conditions_lost;
        unknown += result.unknown, failed_logs += result.log_failures;
    }
    EXPECT_GT(won, 100u);
    EXPECT_GT(lost, 100u);
    EXPECT_GT(unknown, 10u);
    EXPECT_GT(failed_logs, 10u);
}

// Half of the clients lock. What they write is seen as a whole by those that do not, and the other way round.
TEST(KvScenario, transactions_with_and_without_locks_see_each_other_as_a_whole) {
    ASSERT_TRUE(log::set_level("off"));
    for (kv::Algorithm algorithm : {kv::Algorithm::kRampFast, kv::Algorithm::kRampSmall,
                                    kv::Algorithm::kRampHybrid, kv::Algorithm::kLockSequential})
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            KvOptions options;
            options.seed = seed;
            options.algorithm = algorithm;
            options.mixed = true;
            options.clients = 4;
            options.keys = 6;
            options.transactions = 1000;
            options.conditional_percent = 20;
            options.skew_ms = seed % 2 == 0 ? 5 : 10'000;
            KvResult result = run_kv(options);
            EXPECT_EQ(result.failure, "") << options.to_string();
        }
}

// … also where messages wait longer than a lock's lease, and where clients and partitions fail.
TEST(KvScenario, locks_that_end_before_the_write_arrives_leave_no_half_of_it) {
    ASSERT_TRUE(log::set_level("off"));
    for (kv::Algorithm algorithm : {kv::Algorithm::kLockParallel, kv::Algorithm::kLockSequential,
                                    kv::Algorithm::kRampFast, kv::Algorithm::kRampSmall})
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            KvOptions options;
            options.seed = seed;
            options.algorithm = algorithm;
            options.mixed = true;
            options.clients = 4;
            options.keys = 6;
            options.transactions = 1000;
            options.half_one_in = 10;
            options.kill_one_in = 60;
            options.cut_one_in = 60;
            options.network.slow_one_in = 40;
            options.network.slow_delay = from_ms(5500);
            KvResult result = run_kv(options);
            EXPECT_EQ(result.failure, "") << options.to_string();
        }
}

// Reads and rings whose bytes the processor moves by itself, and who sleeps is told by a word in memory
// (shm).
TEST(KvScenario, nothing_is_lost_where_the_processor_reaches_the_peers_memory) {
    ASSERT_TRUE(log::set_level("error"));
    for (kv::Transport transport :
         {kv::Transport::kMessage, kv::Transport::kRing, kv::Transport::kRingAnnounced})
        for (uint64_t seed = 300; seed < 301; ++seed) {
            KvOptions options = KvOptions::draw(seed);
            options.algorithm = kv::Algorithm::kRampFast;
            options.transport = transport;
            options.one_sided = kv::OneSided::kOn;
            options.network.direct = true;
            options.address_cache = transport == kv::Transport::kMessage ? 0 : 1 << 10;
            KvResult result = run_kv(options);
            EXPECT_EQ(result.failure, "") << options.to_string();
            options.network.direct = false;
            EXPECT_NE(run_kv(options).trace, result.trace) << "nothing was moved so";
        }
}

}  // namespace
}  // namespace wss::sim
