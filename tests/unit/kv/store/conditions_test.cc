// SPDX-License-Identifier: Apache-2.0
// Transactions with conditions (S13 of store.h): a condition that is true at the prepare stays true until the
// decision.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

constexpr Timestamp kAbsent{};

std::vector<Write> writes_of(const std::vector<std::string>& keys) {
    std::vector<Write> writes;
    for (const std::string& key : keys) writes.push_back({.key = key, .value = bytes_of("new")});
    return writes;
}

struct KvConditions : testing::Test {
    Bench bench;

    Answer prepare_if(uint64_t ts, const std::vector<std::string>& keys,
                      const std::vector<Condition>& conditions) {
        return bench.write_if(ts, writes_of(keys), conditions, false);
    }
};

TEST_F(KvConditions, on_several_keys_hold_together_or_nothing_is_written) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    ASSERT_EQ(bench.put(11, {{"y", "a"}}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {"x", "z"}, {{"x", {10}}, {"y", {10}}}), Answer::kConflict);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kAborted) << "the transaction left no trace";
    EXPECT_EQ(prepare_if(21, {"x", "z"}, {{"x", {10}}, {"y", {11}}, {"none", kAbsent}}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({21}), Answer::kOk);
    EXPECT_EQ(bench.get("z"), "new");
}

TEST_F(KvConditions, that_failed_are_reported) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    const std::vector<Condition> conditions = {{"y", kAbsent}, {"x", {9}}};
    const Transaction transaction{.timestamp = {20}, .conditions = conditions, .conditional = true};
    ASSERT_EQ(bench.store->put(transaction, {}), Answer::kConflict);
    EXPECT_EQ(bench.store->failed(transaction), 1u);
    EXPECT_EQ(bench.store->present("x", {20}), Timestamp{10});
}

TEST_F(KvConditions, on_unwritten_keys_are_held_until_the_decision) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    for (const bool commits : {false, true}) {
        const uint64_t ts = commits ? 30 : 20;
        ASSERT_EQ(prepare_if(ts, {"y"}, {{"x", {10}}}), Answer::kOk);
        EXPECT_EQ(bench.put(40, {{"x", "between"}}), Answer::kBusy);
        EXPECT_EQ(bench.prepare(40, {{"x", "between"}}), Answer::kBusy);
        EXPECT_EQ(prepare_if(40, {"x"}, {{"z", kAbsent}}), Answer::kBusy);
        EXPECT_EQ(commits ? bench.store->commit({ts}) : bench.store->abort({ts}, {}),
                  commits ? Answer::kOk : Answer::kAborted);
    }
    EXPECT_EQ(bench.put(40, {{"x", "after"}}), Answer::kOk);
}

TEST_F(KvConditions, of_several_transactions_hold_a_key_at_the_same_time) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    ASSERT_EQ(prepare_if(20, {"y"}, {{"x", {10}}}), Answer::kOk);
    ASSERT_EQ(prepare_if(21, {"z"}, {{"x", {10}}}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.put(30, {{"x", "b"}}), Answer::kBusy);
    EXPECT_EQ(bench.store->commit({21}), Answer::kOk);
    EXPECT_EQ(bench.put(30, {{"x", "b"}}), Answer::kOk);
}

// Each transaction has read the key that the other one writes.
TEST_F(KvConditions, that_cross_the_writes_of_others_do_not_both_succeed) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}, {"y", "a"}}), Answer::kOk);
    ASSERT_EQ(prepare_if(20, {"x"}, {{"x", {10}}, {"y", {10}}}), Answer::kOk);
    EXPECT_EQ(prepare_if(21, {"y"}, {{"x", {10}}, {"y", {10}}}), Answer::kBusy);
    ASSERT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(prepare_if(21, {"y"}, {{"x", {10}}, {"y", {10}}}), Answer::kConflict);
}

TEST_F(KvConditions, do_not_wait_for_undecided_writes) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    ASSERT_EQ(bench.prepare(15, {{"x", "b"}}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {"y"}, {{"x", {10}}}), Answer::kBusy);
    EXPECT_EQ(prepare_if(20, {"x"}, {{"y", kAbsent}}), Answer::kBusy) << "its writes are exclusive too";
    ASSERT_EQ(bench.store->commit({15}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {"y"}, {{"x", {10}}}), Answer::kConflict);
    EXPECT_EQ(prepare_if(14, {"y"}, {{"x", {15}}}), Answer::kTooOld) << "the version it reads is newer";
    EXPECT_EQ(prepare_if(20, {"y"}, {{"x", {15}}}), Answer::kOk);
}

TEST_F(KvConditions, on_absent_keys_hold_without_those_keys) {
    ASSERT_EQ(prepare_if(20, {"y"}, {{"x", kAbsent}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "(absent)");
    EXPECT_EQ(bench.put(30, {{"x", "a"}}), Answer::kBusy);
    EXPECT_EQ(bench.store->abort({20}, {}), Answer::kAborted);
    EXPECT_EQ(bench.store->statistics().keys, 0u);
    EXPECT_EQ(bench.put(30, {{"x", "a"}}), Answer::kOk);
}

TEST_F(KvConditions, on_a_forgotten_key_do_not_hide_that_it_was_deleted) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    ASSERT_EQ(bench.erase(11, "x"), Answer::kOk);
    bench.store->raise_floor({15});
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    ASSERT_EQ(bench.store->statistics().keys, 0u);
    ASSERT_EQ(prepare_if(20, {}, {{"x", kAbsent}}), Answer::kOk);
    EXPECT_EQ(bench.store->get_exact("x", {10}).presence, Presence::kNewer);
    EXPECT_EQ(bench.store->get_at("x", {10}).presence, Presence::kAbsent);
}

TEST_F(KvConditions, keep_a_deleted_key_until_the_decision) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    ASSERT_EQ(bench.erase(11, "x"), Answer::kOk);
    ASSERT_EQ(prepare_if(20, {}, {{"x", kAbsent}}), Answer::kOk);
    bench.store->raise_floor({15});
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    EXPECT_EQ(bench.put(300, {{"x", "b"}}), Answer::kBusy);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    EXPECT_EQ(bench.store->statistics().keys, 0u);
}

TEST_F(KvConditions, keep_a_key_from_expiring_until_the_decision) {
    const std::vector<Write> lease = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    ASSERT_EQ(bench.write(10, lease), Answer::kOk);
    ASSERT_EQ(prepare_if(20, {"y"}, {{"x", {10}}}), Answer::kOk);
    bench.store->maintain({600});
    EXPECT_EQ(bench.get("x"), "a");
    EXPECT_EQ(prepare_if(30, {"z"}, {{"x", {10}}}), Answer::kConflict) << "it has expired nevertheless";
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    bench.store->maintain({600});
    EXPECT_EQ(bench.get("x"), "(deleted)");
}

TEST_F(KvConditions, compare_expiries_with_the_time_of_the_transaction_too) {
    const std::vector<Write> lease = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    ASSERT_EQ(bench.write(10, lease), Answer::kOk);
    EXPECT_EQ(prepare_if(501, {"y"}, {{"x", {10}}}), Answer::kConflict);
    EXPECT_EQ(prepare_if(501, {"y"}, {{"x", kAbsent}}), Answer::kOk);
}

TEST_F(KvConditions, and_locks_exclude_each_other) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    LockTable& locks = bench.store->locks();
    ASSERT_EQ(locks.lock({.key = "x", .owner = 7, .mode = LockMode::kShared}, {}), LockAnswer::kGranted);
    ASSERT_EQ(prepare_if(20, {"y"}, {{"x", {10}}}), Answer::kOk) << "both read";
    EXPECT_EQ(locks.lock({.key = "x", .owner = 8, .mode = LockMode::kShared}, {}), LockAnswer::kRefused);
    locks.unlock_all(7);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    ASSERT_EQ(locks.lock({.key = "x", .owner = 9, .mode = LockMode::kExclusive}, {}), LockAnswer::kGranted);
    EXPECT_EQ(prepare_if(30, {"z"}, {{"x", {10}}}), Answer::kBusy);
}

TEST_F(KvConditions, grant_a_lock_that_waited_for_their_decision) {
    ASSERT_EQ(prepare_if(20, {"y"}, {{"x", kAbsent}}), Answer::kOk);
    struct Waiting {
        int granted = 0;
    } waiting;
    const LockDone done{[](void* context, LockAnswer answer) noexcept {
                            static_cast<Waiting*>(context)->granted += answer == LockAnswer::kGranted;
                        },
                        &waiting};
    LockTable& locks = bench.store->locks();
    for (const char* key : {"x", "y"})
        ASSERT_EQ(locks.lock({.key = key, .owner = 7, .mode = LockMode::kExclusive, .wait = true}, done),
                  LockAnswer::kWaiting);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(waiting.granted, 2);
}

TEST_F(KvConditions, without_writes_are_prepared_and_committed_like_others) {
    ASSERT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {}, {{"x", {10}}}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {}, {{"x", {10}}}), Answer::kOk) << "its reply was lost";
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kPrepared);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kCommitted);
}

TEST_F(KvConditions, of_a_repeated_prepare_are_not_checked_again) {
    ASSERT_EQ(prepare_if(20, {"x"}, {{"x", kAbsent}}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {"x"}, {{"x", kAbsent}}), Answer::kOk);
    ASSERT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(prepare_if(20, {"x"}, {{"x", kAbsent}}), Answer::kOk);
    ASSERT_EQ(prepare_if(30, {"x"}, {{"x", {20}}}), Answer::kOk);
    ASSERT_EQ(bench.store->abort({30}, {}), Answer::kAborted);
    EXPECT_EQ(prepare_if(30, {"x"}, {{"x", {20}}}), Answer::kAborted);
}

TEST_F(KvConditions, on_absent_keys_need_memory_like_keys) {
    Bench small({.heap_limit = 1000});
    Answer answer = Answer::kOk;
    for (uint64_t ts = 10; ts < 60 && answer == Answer::kOk; ts++)
        answer = small.write_if(ts, {}, {{std::to_string(ts), kAbsent}}, false);
    EXPECT_EQ(answer, Answer::kNoMemory);
    const uint64_t keys = small.store->statistics().keys;
    EXPECT_LT(keys, 50u);
    EXPECT_EQ(keys, small.store->statistics().prepared);
}

// --- restarts

struct KvConditionsAfterRestart : testing::TestWithParam<Durability> {
    Bench bench{Options{.durability = GetParam()}};

    void put(uint64_t ts, const char* key) {
        bench.put(ts, {{key, "a"}});
        bench.persist();
    }
    void prepare() {
        bench.write_if(20, writes_of({"x"}), {{"y", {11}}, {"z", kAbsent}}, false);
        bench.persist();
        ASSERT_EQ(bench.store->inquire({20}, {}), Answer::kPrepared);
    }
    Answer put_now(uint64_t ts, const char* key) {
        const Answer answer = bench.put(ts, {{key, "later"}});
        bench.persist();
        return answer == Answer::kPending ? Answer::kOk : answer;
    }
};

TEST_P(KvConditionsAfterRestart, are_held_until_the_transaction_is_decided) {
    put(10, "x");
    put(11, "y");
    prepare();
    bench.restart(SIZE_MAX);
    ASSERT_EQ(bench.store->inquire({20}, {}), Answer::kPrepared);
    for (const char* key : {"x", "y", "z"}) EXPECT_EQ(put_now(30, key), Answer::kBusy) << key;
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    for (const char* key : {"x", "y", "z"}) EXPECT_EQ(put_now(30, key), Answer::kOk) << key;
}

TEST_P(KvConditionsAfterRestart, are_not_held_by_transactions_that_were_decided_before_it) {
    put(11, "y");
    prepare();
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    bench.persist();
    bench.restart(SIZE_MAX);
    for (const char* key : {"x", "y", "z"}) EXPECT_EQ(put_now(30, key), Answer::kOk) << key;
}

TEST_P(KvConditionsAfterRestart, that_were_not_logged_are_not_held) {
    put(11, "y");
    bench.write_if(20, writes_of({"x"}), {{"y", {11}}}, false);
    bench.restart(0);
    EXPECT_EQ(bench.store->statistics().prepared, 0u);
    EXPECT_EQ(put_now(30, "y"), Answer::kOk);
}

TEST_P(KvConditionsAfterRestart, are_released_if_the_log_has_failed) {
    if (GetParam() != Durability::kSync) GTEST_SKIP();
    put(11, "y");
    bench.log.fail(0);
    Heard heard;
    EXPECT_EQ(bench.write_if(20, writes_of({"x"}), {{"y", {11}}}, false, heard.continuation()),
              Answer::kPending);
    bench.persist();
    EXPECT_EQ(heard.answer, Answer::kIo);
    EXPECT_TRUE(bench.store->locks().lock({.key = "y", .owner = 7, .mode = LockMode::kExclusive}, {}) ==
                LockAnswer::kGranted);
}

INSTANTIATE_TEST_SUITE_P(Durability, KvConditionsAfterRestart,
                         testing::Values(Durability::kAsync, Durability::kSync));

}  // namespace
}  // namespace wss::kv::store
