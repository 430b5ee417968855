// SPDX-License-Identifier: Apache-2.0
// The key-value store in the simulated world. For more seeds: make sim-soak SCENARIO=kv.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/kv.h"

namespace wss::sim {
namespace {

TEST(KvScenario, completes_every_transaction_without_faults) {
    KvOptions options;
    options.seed = 7;
    KvResult result = run_kv(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.failed, 0u);
    EXPECT_EQ(result.unknown, 0u);
}

TEST(KvScenario, repeats_the_same_run_for_the_same_seed) {
    KvOptions options = KvOptions::draw(11);
    KvResult first = run_kv(options), second = run_kv(options);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_NE(first.trace, run_kv(KvOptions::draw(12)).trace);
}

// Without concurrency control readers do see fractured transactions. Otherwise the next test would prove
// nothing.
TEST(KvScenario, shows_fractured_transactions_to_readers_without_concurrency_control) {
    KvOptions options;
    options.seed = 3;
    options.keys = 6;
    options.transactions = 2000;
    options.algorithm = kv::Algorithm::kNone;
    EXPECT_GT(run_kv(options).fractured, 0u);
}

TEST(KvScenario, shows_no_reader_half_a_transaction_whatever_fails) {
    ASSERT_TRUE(log::set_level("error"));
    for (uint64_t seed = 200; seed < 225; ++seed) {
        KvResult result = run_kv(KvOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "to repeat: make sim SCENARIO=kv SEED=" << seed;
    }
}

// All clients write one hot key. The client whose clock is behind must succeed too.
TEST(KvScenario, does_not_starve_clients_with_slow_clocks) {
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

// Clocks differ by seconds, replies are lost and logs cannot be written. An acknowledged write must be later
// than all that were acknowledged before it began, and a write reported as failed must never be seen.
TEST(KvScenario, loses_no_acknowledged_write_and_shows_no_refused_one_whatever_fails) {
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

// Half of the clients use locks.
KvOptions mixed_options(kv::Algorithm algorithm, uint64_t seed) {
    KvOptions options;
    options.seed = seed;
    options.algorithm = algorithm;
    options.mixed = true;
    options.clients = 4;
    options.keys = 6;
    options.transactions = 1000;
    return options;
}

// Transactions with and without locks must see each other as a whole.
TEST(KvScenario, shows_transactions_with_and_without_locks_to_each_other_as_a_whole) {
    ASSERT_TRUE(log::set_level("off"));
    for (kv::Algorithm algorithm : {kv::Algorithm::kRampFast, kv::Algorithm::kRampSmall,
                                    kv::Algorithm::kRampHybrid, kv::Algorithm::kLockSequential})
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            KvOptions options = mixed_options(algorithm, seed);
            options.conditional_percent = 20;
            options.skew_ms = seed % 2 == 0 ? 5 : 10'000;
            KvResult result = run_kv(options);
            EXPECT_EQ(result.failure, "") << options.to_string();
        }
}

// The same as above, but with messages that are delayed beyond a lock's lease, and with clients and
// partitions that fail.
TEST(KvScenario, leaves_no_half_of_a_write_whose_locks_expire_before_it_arrives) {
    ASSERT_TRUE(log::set_level("off"));
    for (kv::Algorithm algorithm : {kv::Algorithm::kLockParallel, kv::Algorithm::kLockSequential,
                                    kv::Algorithm::kRampFast, kv::Algorithm::kRampSmall})
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            KvOptions options = mixed_options(algorithm, seed);
            options.half_one_in = 10;
            options.kill_one_in = 60;
            options.cut_one_in = 60;
            options.network.slow_one_in = 40;
            options.network.slow_delay = from_ms(5500);
            KvResult result = run_kv(options);
            EXPECT_EQ(result.failure, "") << options.to_string();
        }
}

// As over shm, the processor itself moves the bytes of reads and rings, and wakes a sleeper through a word in
// memory.
TEST(KvScenario, loses_no_write_when_the_processor_reaches_the_memory_of_the_peer) {
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
            EXPECT_NE(run_kv(options).trace, result.trace) << "nothing was moved directly";
        }
}

}  // namespace
}  // namespace wss::sim
