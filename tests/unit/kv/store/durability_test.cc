// SPDX-License-Identifier: Apache-2.0
// Rules S2 and S9 of store.h: acknowledged writes survive a crash at any moment, others survive as a whole or
// not at all. The log here is a MemoryLog. rocks_log_test.cc tests the log on disk.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

constexpr Options kSync{.durability = Durability::kSync};

TEST(KvDurability, answers_a_prepare_once_it_is_on_stable_storage) {
    Bench bench(kSync);
    Heard heard;
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}, heard.continuation()), Answer::kPending);
    bench.store->poll();
    EXPECT_FALSE(heard.answer.has_value());
    bench.persist();
    EXPECT_EQ(heard.answer, Answer::kOk);
}

TEST(KvDurability, answers_a_repeated_prepare_together_with_the_first) {
    Bench bench(kSync);
    Heard first;
    Heard second;
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}, first.continuation()), Answer::kPending);
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}, second.continuation()), Answer::kPending);
    bench.persist();
    EXPECT_EQ(first.answer, Answer::kOk);
    EXPECT_EQ(second.answer, Answer::kOk);
}

TEST(KvDurability, does_not_call_a_forgotten_owner) {
    Bench bench(kSync);
    Heard heard;
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}, heard.continuation()), Answer::kPending);
    bench.store->forget(&heard);
    bench.persist();
    EXPECT_FALSE(heard.answer.has_value());
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kPrepared);
}

TEST(KvDurability, restores_a_prepared_transaction_for_termination) {
    Bench bench(kSync);
    EXPECT_EQ(bench.put(5, {{"x", "old"}}), Answer::kPending);
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}, {"y", "b"}}), Answer::kPending);
    bench.persist();
    bench.restart(0);
    std::vector<Overdue> overdue = bench.store->overdue(from_s(1), 10);
    ASSERT_EQ(overdue.size(), 1u);
    EXPECT_EQ(overdue[0].timestamp, Timestamp{10});
    EXPECT_EQ(text_of(overdue[0].participants), "participants");
    EXPECT_EQ(overdue[0].keys.size(), 2u);
    EXPECT_EQ(bench.get("x"), "old");
    EXPECT_TRUE(bench.read_remotely("x").view.invalid);
    EXPECT_EQ(bench.store->commit({10}), Answer::kOk);
    EXPECT_EQ(bench.get("x") + bench.get("y"), "ab");
}

TEST(KvDurability, keeps_a_transaction_whose_commit_record_was_lost_prepared) {
    Bench bench(kSync);
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.store->commit({10}), Answer::kOk);
    bench.restart(0);
    EXPECT_EQ(bench.get("x"), "(absent)");
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kPrepared);
}

// A write with an earlier timestamp that was acknowledged before the partitions decide would never be read.
TEST(KvDurability, refuses_a_write_behind_one_whose_commit_record_was_lost) {
    Bench bench(kSync);
    const auto put_in_order = [&](uint64_t ts, std::string_view value) {
        const Write write{.key = "x", .value = bytes_of(value)};
        return bench.store->put({.timestamp = {ts}, .writes = {&write, 1}, .in_order = true}, {});
    };
    EXPECT_EQ(bench.prepare(20, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    bench.restart(0);
    EXPECT_EQ(put_in_order(10, "b"), Answer::kTooOld);
    const Write of_x{.key = "x"};
    EXPECT_EQ(bench.store->newest({.writes = {&of_x, 1}}), Timestamp{20}) << "what the next one must exceed";
    EXPECT_EQ(put_in_order(30, "c"), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "c");
}

TEST(KvDurability, keeps_a_committed_decision_and_its_values) {
    Bench bench(kSync);
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.store->commit({10}), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"y", "b"}}), Answer::kPending);
    bench.restart(99);
    EXPECT_EQ(bench.get("x") + bench.get("y"), "ab");
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kCommitted);
    EXPECT_EQ(bench.put(20, {{"y", "again"}}), Answer::kOk) << "a repeated put after the restart";
    EXPECT_EQ(bench.get("y"), "b");
    EXPECT_EQ(bench.read_remotely("y").latest, "b");
}

TEST(KvDurability, answers_an_abort_once_it_cannot_be_undone) {
    Bench bench(kSync);
    Heard unknown;
    Heard prepared;
    EXPECT_EQ(bench.store->inquire({7}, unknown.continuation()), Answer::kPending);
    EXPECT_EQ(bench.prepare(7, {{"x", "a"}}), Answer::kPending) << "waits for the abort";
    EXPECT_FALSE(unknown.answer.has_value());
    bench.persist();
    EXPECT_EQ(unknown.answer, Answer::kAborted);
    EXPECT_EQ(bench.prepare(8, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.store->abort({8}, prepared.continuation()), Answer::kPending);
    bench.persist();
    EXPECT_EQ(prepared.answer, Answer::kAborted);
    bench.restart(0);
    EXPECT_EQ(bench.prepare(7, {{"x", "a"}}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(8, {{"x", "a"}}), Answer::kAborted);
    EXPECT_EQ(bench.get("x"), "(absent)");
}

TEST(KvDurability, lets_an_abort_that_overtakes_a_prepare_being_logged_win) {
    Bench bench(kSync);
    Heard prepare;
    Heard abort;
    EXPECT_EQ(bench.prepare(7, {{"x", "a"}}, prepare.continuation()), Answer::kPending);
    EXPECT_EQ(bench.store->inquire({7}, {}), Answer::kBusy);
    EXPECT_EQ(bench.store->commit({7}), Answer::kBusy);
    EXPECT_EQ(bench.store->abort({7}, abort.continuation()), Answer::kPending);
    bench.persist();
    EXPECT_EQ(prepare.answer, Answer::kAborted);
    EXPECT_EQ(abort.answer, Answer::kAborted);
    bench.restart(0);
    EXPECT_EQ(bench.store->inquire({7}, {}), Answer::kAborted);
    EXPECT_EQ(bench.store->statistics().versions, 0u);
}

TEST(KvDurability, with_a_failed_log_refuses_writes_and_keeps_reads) {
    Bench bench(kSync);
    EXPECT_EQ(bench.put(5, {{"x", "old"}}), Answer::kPending);
    bench.persist();
    bench.log.fail();
    Heard heard;
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}, {"y", "b"}}, heard.continuation()), Answer::kPending);
    bench.persist();
    EXPECT_EQ(heard.answer, Answer::kIo);
    EXPECT_EQ(bench.put(11, {{"x", "a"}}), Answer::kIo);
    EXPECT_EQ(bench.get("x"), "old");
    EXPECT_EQ(bench.get("y"), "(absent)");
    EXPECT_EQ(bench.store->statistics().versions, 1u);
}

// The transaction's row in the log still has the state "prepared", and a restart uses the log.
TEST(KvDurability, never_answers_an_abort_that_could_not_be_logged) {
    Bench bench(kSync);
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    bench.log.fail();
    Heard heard;
    EXPECT_EQ(bench.store->abort({10}, heard.continuation()), Answer::kPending);
    bench.persist();
    EXPECT_EQ(heard.answer, Answer::kIo);
    EXPECT_EQ(bench.store->abort({10}, {}), Answer::kIo) << "repeated";
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kIo) << "another participant";
    EXPECT_EQ(bench.prepare(10, {{"x", "a"}}), Answer::kIo);
    bench.restart(0);
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kPrepared);
}

TEST(KvDurability, removes_collected_and_deleted_versions_from_disk_too) {
    Bench bench(kSync);
    for (uint64_t ts = 1; ts <= 50; ts++) {
        EXPECT_EQ(bench.put(ts, {{"x", "value"}}), Answer::kPending);
        bench.persist();
    }
    EXPECT_EQ(bench.log.stored_versions(), 50u);
    bench.pass(from_s(6));
    bench.persist();
    EXPECT_EQ(bench.log.stored_versions(), 1u);
    EXPECT_EQ(bench.erase(60, "x"), Answer::kPending);
    bench.persist();
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    bench.persist();
    EXPECT_EQ(bench.log.stored_versions(), 0u);
    const Timestamp floor = bench.store->floor();
    EXPECT_GE(floor, Timestamp{60});
    bench.restart(0);
    EXPECT_EQ(bench.store->floor(), floor);
    EXPECT_EQ(bench.put(55, {{"x", "zombie"}}), Answer::kTooOld);
}

// Without this answer, a partition that has prepared the transaction would wait forever for a partition that
// never received the transaction.
TEST(KvDurability, reports_a_transaction_never_prepared_as_aborted_however_late_the_inquiry_is) {
    Bench bench({.durability = Durability::kSync});
    const uint64_t late = Timestamp::make(1'000'000, 0).value, newer = Timestamp::make(2'000'000, 0).value;
    EXPECT_EQ(bench.put(newer, {{"x", "1"}}), Answer::kPending);
    bench.persist();
    bench.clock.pass(bench.options.decision_window + from_s(1));
    bench.store->maintain(Timestamp::make(3'000'000, 0), 1u << 20);
    ASSERT_EQ(bench.store->floor(), Timestamp{newer}) << "its decision is forgotten";
    EXPECT_EQ(bench.store->inquire({late}, {}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(late, {{"x", "2"}}), Answer::kTooOld) << "the promise holds";
    const Timestamp days_later = Timestamp::make(uint64_t{48} * 3600 * 1'000'000, 0);
    bench.store->maintain(days_later, 1u << 20);
    EXPECT_EQ(bench.store->inquire({late}, {}), Answer::kTooOld) << "the log may have dropped its row";
}

}  // namespace
}  // namespace wss::kv::store
