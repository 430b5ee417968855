// SPDX-License-Identifier: Apache-2.0
// Rules S1 (one state per timestamp), S3, S4 and S5 of store.h, as a RAMP client sees them.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

TEST(KvTransactions, do_not_make_a_prepared_version_the_latest_until_they_commit) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "old"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(20, {{"x", "new"}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "old");
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "new");
}

TEST(KvTransactions, show_all_their_keys_when_they_commit) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}, {"y", "2"}, {"z", "3"}}), Answer::kOk);
    EXPECT_EQ(bench.get("y"), "(absent)");
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.get("x") + bench.get("y") + bench.get("z"), "123");
    EXPECT_EQ(text_of(bench.store->get("y").version.metadata), "metadata");
}

TEST(KvTransactions, may_be_prepared_committed_and_aborted_repeatedly) {
    Bench bench;
    for (int i = 0; i < 3; i++) EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    for (int i = 0; i < 3; i++) EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.prepare(20, {{"x", "other"}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "1");
    EXPECT_EQ(bench.prepare(30, {{"x", "2"}}), Answer::kOk);
    for (int i = 0; i < 3; i++) EXPECT_EQ(bench.store->abort({30}, {}), Answer::kAborted);
    EXPECT_EQ(bench.get("x"), "1");
}

TEST(KvTransactions, never_change_their_decision) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.store->abort({20}, {}), Answer::kCommitted);
    EXPECT_EQ(bench.prepare(30, {{"x", "2"}}), Answer::kOk);
    EXPECT_EQ(bench.store->abort({30}, {}), Answer::kAborted);
    EXPECT_EQ(bench.store->commit({30}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(30, {{"x", "2"}}), Answer::kAborted);
    EXPECT_EQ(bench.put(30, {{"x", "2"}}), Answer::kAborted);
    EXPECT_EQ(bench.get("x"), "1");
}

TEST(KvTransactions, are_known_once_they_are_prepared_or_put) {
    Bench bench;
    EXPECT_FALSE(bench.store->knows({20}));
    EXPECT_EQ(bench.put(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_TRUE(bench.store->knows({20}));
    EXPECT_EQ(bench.prepare(30, {{"x", "2"}}), Answer::kOk);
    EXPECT_TRUE(bench.store->knows({30}));
    EXPECT_EQ(bench.store->commit({40}), Answer::kUnknown) << "its prepare may still arrive";
    EXPECT_FALSE(bench.store->knows({40}));
}

// Another participant may have committed because of that reply.
TEST(KvTransactions, that_were_reported_as_prepared_cannot_be_withdrawn_by_their_writer) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"y", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kPrepared);
    EXPECT_EQ(bench.store->withdraw({20}, {}), Answer::kPrepared);
    EXPECT_EQ(bench.store->withdraw({30}, {}), Answer::kAborted) << "this one was not reported";
    EXPECT_EQ(bench.store->abort({20}, {}), Answer::kAborted) << "the participants may, together";
    EXPECT_EQ(bench.store->withdraw({20}, {}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(40, {{"x", "2"}}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({40}, {}), Answer::kPrepared);
    EXPECT_EQ(bench.store->commit({40}), Answer::kOk);
    EXPECT_EQ(bench.store->withdraw({40}, {}), Answer::kCommitted);
}

// If the floor passed the clock, every write of a client with a correct clock would be refused until the
// clock reaches the floor.
TEST(KvFloor, does_not_pass_the_clock_of_the_partition) {
    Bench bench;
    const uint64_t ahead = Timestamp::make(5'000'000, 1).value, now = Timestamp::make(2'000'000, 1).value;
    EXPECT_EQ(bench.put(ahead, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.put(now, {{"y", "1"}}), Answer::kOk);
    bench.clock.pass(bench.options.decision_window + from_s(1));
    bench.store->maintain(Timestamp::make(2'000'001, 0));
    EXPECT_EQ(bench.store->floor(), Timestamp{now});
    EXPECT_EQ(bench.store->inquire({ahead}, {}), Answer::kCommitted) << "it is remembered until then";
    bench.clock.pass(bench.options.decision_window + from_s(1));
    bench.store->maintain(Timestamp::make(5'000'001, 0));
    EXPECT_EQ(bench.store->floor(), Timestamp{ahead});
}

TEST(KvFloor, does_not_follow_a_clock_that_was_set_back) {
    Bench bench;
    const uint64_t wrong = 90'000'000'000, right = 2'000'000;
    bench.store->maintain(Timestamp::make(wrong, 0));
    EXPECT_EQ(bench.put(Timestamp::make(wrong, 1).value, {{"x", "1"}}), Answer::kOk);
    bench.clock.pass(bench.options.decision_window + from_s(1));
    bench.store->maintain(Timestamp::make(right, 0));
    EXPECT_EQ(bench.put(Timestamp::make(right, 1).value, {{"y", "1"}}), Answer::kOk);
}

TEST(KvCommit, of_an_unknown_transaction_does_not_return_ok_and_is_remembered) {
    Bench bench;
    EXPECT_EQ(bench.store->commit({20}), Answer::kUnknown);
    EXPECT_EQ(bench.store->commit({20}), Answer::kUnknown);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kCommitted);
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "1");
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
}

TEST(KvInquiry, about_an_unknown_transaction_aborts_it_for_ever) {
    Bench bench;
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kAborted);
    EXPECT_EQ(bench.store->commit({20}), Answer::kAborted);
    EXPECT_EQ(bench.get("x"), "(absent)");
}

TEST(KvInquiry, returns_prepared_and_committed) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kPrepared);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({20}, {}), Answer::kCommitted);
}

TEST(KvTransactions, let_the_last_writer_win_in_any_order_of_commits) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "older"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"x", "newer"}}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({30}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "newer");
    EXPECT_EQ(text_of(bench.store->get_exact("x", {20}).version.value), "older");
    EXPECT_EQ(bench.store->statistics().commits_lost, 1u);
}

TEST(KvTransactions, that_were_prepared_long_ago_are_listed_as_overdue_with_their_participants) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}, {"y", "1"}}), Answer::kOk);
    bench.pass(from_s(2));
    EXPECT_EQ(bench.prepare(30, {{"z", "1"}}), Answer::kOk);
    std::vector<Overdue> overdue = bench.store->overdue(from_s(1), 10);
    ASSERT_EQ(overdue.size(), 1u);
    EXPECT_EQ(overdue[0].timestamp, Timestamp{20});
    EXPECT_EQ(text_of(overdue[0].participants), "participants");
    EXPECT_EQ(overdue[0].keys.size(), 2u);
    EXPECT_EQ(bench.store->abort({20}, {}), Answer::kAborted);
    EXPECT_TRUE(bench.store->overdue(from_s(1), 10).empty());
}

TEST(KvTransactions, that_are_deferred_are_listed_as_overdue_too_if_there_is_no_limit) {
    Bench bench;
    EXPECT_EQ(bench.prepare(20, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"y", "1"}}), Answer::kOk);
    bench.store->defer({20});
    EXPECT_EQ(bench.store->overdue({0}, SIZE_MAX).size(), 2u);
    EXPECT_EQ(bench.store->overdue({0}, 1).size(), 1u);
}

TEST(KvTransactions, that_are_malformed_are_refused_and_leave_nothing) {
    Bench bench;
    const std::string long_key(kKeyMax + 1, 'k');
    const std::string long_value(kValueMax + 1, 'v');
    EXPECT_EQ(bench.put(0, {{"x", "1"}}), Answer::kInvalid);
    EXPECT_EQ(bench.put(5, {}), Answer::kInvalid);
    EXPECT_EQ(bench.put(5, {{"", "1"}}), Answer::kInvalid);
    EXPECT_EQ(bench.put(5, {{long_key, "1"}}), Answer::kInvalid);
    EXPECT_EQ(bench.put(5, {{"x", long_value}}), Answer::kInvalid);
    EXPECT_EQ(bench.put(5, {{"x", "1"}, {"y", "1"}, {"x", "2"}}), Answer::kInvalid);
    EXPECT_EQ(bench.store->statistics().keys, 0u);
    EXPECT_EQ(bench.store->statistics().prepared, 0u);
    EXPECT_EQ(bench.put(5, {{std::string(kKeyMax, 'k'), std::string(kValueMax, 'v')}}), Answer::kOk);
}

TEST(KvTransactions, beyond_the_limit_of_prepared_ones_are_refused_as_busy) {
    Bench bench({.prepared_max = 2});
    EXPECT_EQ(bench.prepare(1, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(2, {{"x", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(3, {{"x", "1"}}), Answer::kBusy);
    EXPECT_EQ(bench.store->commit({1}), Answer::kOk);
    EXPECT_EQ(bench.prepare(3, {{"x", "1"}}), Answer::kOk);
}

// --- lookups

TEST(KvLookup, finds_the_prepared_version_of_a_writer_that_committed_elsewhere) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "old"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(20, {{"x", "new"}}), Answer::kOk);
    const Found found = bench.store->get_exact("x", {20});
    EXPECT_EQ(found.presence, Presence::kExact);
    EXPECT_FALSE(found.committed);
    EXPECT_EQ(text_of(found.version.value), "new");
}

TEST(KvLookup, of_a_collected_version_returns_a_newer_one) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"x", "b"}}), Answer::kOk);
    bench.pass(from_s(4));
    EXPECT_EQ(bench.store->get_exact("x", {10}).presence, Presence::kExact);
    bench.pass(from_s(2));
    const Found found = bench.store->get_exact("x", {10});
    EXPECT_EQ(found.presence, Presence::kNewer);
    EXPECT_EQ(found.version.timestamp, Timestamp{20});
}

TEST(KvLookup, of_a_version_that_never_existed_reports_it_as_gone) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(bench.store->get_exact("x", {15}).presence, Presence::kGone);
    EXPECT_EQ(bench.store->get_exact("nobody", {15}).presence, Presence::kGone);
    EXPECT_EQ(bench.store->get_exact("x", {5}).presence, Presence::kNewer);
}

TEST(KvLookup, of_a_set_finds_the_newest_prepared_or_committed_member) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"x", "b"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"x", "c"}}), Answer::kOk);
    const std::vector<Timestamp> both = {{10}, {20}, {25}};
    const std::vector<Timestamp> all = {{10}, {20}, {30}};
    const std::vector<Timestamp> none = {{11}, {40}};
    EXPECT_EQ(text_of(bench.store->get_newest("x", both).version.value), "b");
    EXPECT_EQ(text_of(bench.store->get_newest("x", all).version.value), "c");
    EXPECT_EQ(bench.store->get_newest("x", none).presence, Presence::kAbsent);
}

TEST(KvLookup, of_a_set_visits_each_version_once_and_none_below_the_set) {
    constexpr uint64_t kVersions = 1000;
    Bench bench({.window = from_s(60)});
    for (uint64_t i = 1; i <= kVersions; ++i) EXPECT_EQ(bench.put(10 * i, {{"x", "v"}}), Answer::kOk);
    const auto visited = [&](std::vector<Timestamp> of) {
        size_t looks = 1u << 20;
        EXPECT_EQ(bench.store->get_newest("x", of, false, &looks).presence, Presence::kAbsent);
        return (1u << 20) - looks;
    };
    std::vector<Timestamp> between;
    for (uint64_t i = 1; i < kVersions; ++i) between.push_back({10 * i + 5});
    EXPECT_EQ(visited(between), kVersions);
    EXPECT_EQ(visited({{10 * (kVersions - 3) + 5}}), 4u);
    size_t looks = 100;
    EXPECT_EQ(bench.store->get_exact("x", {10 * (kVersions - 50)}, false, &looks).presence, Presence::kExact);
    EXPECT_EQ(looks, 49u);
    (void)bench.store->get_exact("x", {10}, false, &looks);
    EXPECT_EQ(looks, 0u);
}

// Timestamp 5 commits after 9 and 12, and is therefore collected after 9. A reader whose set has 5 and 9 must
// not get 5.
TEST(KvLookup, of_a_set_with_a_collected_member_does_not_return_an_older_member) {
    Bench bench;
    EXPECT_EQ(bench.prepare(5, {{"x", "five"}}), Answer::kOk);
    EXPECT_EQ(bench.put(9, {{"x", "nine"}}), Answer::kOk);
    EXPECT_EQ(bench.put(12, {{"x", "twelve"}}), Answer::kOk);
    bench.pass(from_s(3));
    EXPECT_EQ(bench.store->commit({5}), Answer::kOk);
    bench.pass(from_s(3));
    ASSERT_EQ(bench.store->get_exact("x", {9}).presence, Presence::kNewer);
    ASSERT_EQ(bench.store->get_exact("x", {5}).presence, Presence::kExact);
    const std::vector<Timestamp> set = {{5}, {9}};
    const Found found = bench.store->get_newest("x", set);
    EXPECT_EQ(found.presence, Presence::kNewer);
    EXPECT_EQ(text_of(found.version.value), "twelve");
}

// --- deletes, expiry, conditions

TEST(KvDelete, of_a_key_is_forgotten_only_when_older_writes_are_refused) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(bench.erase(20, "x"), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "(deleted)");
    bench.pass(from_s(6));
    EXPECT_EQ(bench.put(15, {{"x", "late"}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "(deleted)") << "an older write must not bring it back";
    bench.pass(from_s(61));
    bench.pass(from_s(6));
    bench.pass(from_s(6));
    EXPECT_EQ(bench.store->statistics().keys, 0u);
    EXPECT_EQ(bench.put(16, {{"x", "very late"}}), Answer::kTooOld);
    const Found found = bench.store->get_exact("x", {10});
    EXPECT_EQ(found.presence, Presence::kNewer);
    EXPECT_TRUE(found.version.tombstone);
}

TEST(KvExpiry, turns_a_version_into_a_tombstone_of_that_time) {
    Bench bench;
    const std::vector<Write> writes = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(10, writes), Answer::kOk);
    EXPECT_EQ(bench.store->get("x").version.expires, Timestamp{500});
    bench.store->maintain({499});
    EXPECT_EQ(bench.get("x"), "a");
    bench.store->maintain({500});
    EXPECT_EQ(bench.get("x"), "(deleted)");
    EXPECT_EQ(bench.store->get("x").version.timestamp, Timestamp{500});
    EXPECT_EQ(bench.put(600, {{"x", "again"}}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "again");
}

TEST(KvExpiry, does_not_affect_an_overwritten_version) {
    Bench bench;
    const std::vector<Write> writes = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(10, writes), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"x", "b"}}), Answer::kOk);
    bench.store->maintain({1000});
    EXPECT_EQ(bench.get("x"), "b");
}

TEST(KvExpiry, waits_for_a_write_that_may_precede_it) {
    Bench bench;
    const std::vector<Write> writes = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(10, writes), Answer::kOk);
    EXPECT_EQ(bench.prepare(499, {{"x", "renewed"}}), Answer::kOk);
    bench.store->maintain({500});
    EXPECT_EQ(bench.store->commit({499}), Answer::kOk);
    EXPECT_EQ(bench.get("x"), "renewed");
    bench.store->maintain({600});
    EXPECT_EQ(bench.get("x"), "renewed") << "it does not expire";
}

// A writer with locks on several partitions chose its timestamp when it had all of them. No partition may
// refuse the write.
TEST(KvExpiry, waits_for_a_writer_that_holds_the_lock) {
    Bench bench;
    const std::vector<Write> writes = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(10, writes), Answer::kOk);
    bench.store->locks().lock({.key = "x", .owner = 1, .mode = LockMode::kExclusive}, {});
    bench.store->maintain({500});
    EXPECT_EQ(bench.put(499, {{"x", "of another owner"}}), Answer::kBusy);
    const std::vector<Write> renewed = {{.key = "x", .value = bytes_of("renewed")}};
    EXPECT_EQ(bench.store->put({.timestamp = {499}, .writes = renewed, .owner = 1}, {}), Answer::kOk);
    bench.store->locks().unlock_all(1);
    bench.store->maintain({600});
    EXPECT_EQ(bench.get("x"), "renewed");
}

TEST(KvExpiry, of_one_key_does_not_wait_for_others_that_cannot_expire_yet) {
    Bench bench;
    for (uint64_t i = 0; i < 8; i++) {
        const std::string key = "key" + std::to_string(i);
        const std::vector<Write> writes = {{.key = key, .value = bytes_of("a"), .expires = {500 + i}}};
        EXPECT_EQ(bench.write(10 + i, writes), Answer::kOk);
        if (i < 5) {
            EXPECT_EQ(bench.prepare(400 + i, {{key, "renewed"}}), Answer::kOk);
        }
    }
    for (int turn = 0; turn < 4; turn++) bench.store->maintain({600}, 4);
    EXPECT_EQ(bench.store->statistics().expired, 3u);
    for (uint64_t i = 0; i < 5; i++) EXPECT_EQ(bench.store->abort({400 + i}, {}), Answer::kAborted);
    for (int turn = 0; turn < 4; turn++) bench.store->maintain({600}, 4);
    EXPECT_EQ(bench.store->statistics().expired, 8u);
}

TEST(KvExpiry, takes_place_after_an_earlier_write_was_aborted) {
    Bench bench;
    const std::vector<Write> writes = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(10, writes), Answer::kOk);
    EXPECT_EQ(bench.prepare(499, {{"x", "renewed"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(501, {{"x", "later"}}), Answer::kOk);
    bench.store->maintain({500});
    EXPECT_EQ(bench.store->abort({499}, {}), Answer::kAborted);
    bench.store->maintain({500});
    EXPECT_EQ(bench.get("x"), "(deleted)") << "a write later than the expiry does not prevent it";
}

TEST(KvExpiry, does_not_overtake_a_conditional_put_that_is_being_logged) {
    Bench bench({.durability = Durability::kSync});
    const std::vector<Write> lease = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    bench.write(10, lease);
    bench.persist();
    const std::vector<Write> renewal = {{.key = "x", .value = bytes_of("renewed"), .expires = {900}}};
    Heard heard;
    EXPECT_EQ(bench.write_if(499, renewal, {{"x", {10}}}, true, heard.continuation()), Answer::kPending);
    bench.store->maintain({500});
    bench.persist();
    EXPECT_EQ(heard.answer, Answer::kOk);
    EXPECT_EQ(bench.get("x"), "renewed");
}

constexpr uint64_t kAbsent = 0;

Answer put_if(Bench& bench, uint64_t ts, uint64_t expected, bool at_once = true) {
    return bench.write_if(ts, {{.key = "x", .value = bytes_of("new")}}, {{"x", {expected}}}, at_once);
}

TEST(KvExpiry, uses_the_current_clock_for_conditions_too) {
    Bench bench;
    bench.store->maintain({1000});
    bench.store->maintain({100});
    const std::vector<Write> lease = {{.key = "x", .value = bytes_of("a"), .expires = {500}}};
    EXPECT_EQ(bench.write(101, lease), Answer::kOk);
    EXPECT_EQ(put_if(bench, 102, kAbsent), Answer::kConflict);
}

TEST(KvCondition, if_absent_holds_once_and_again_after_a_delete) {
    Bench bench;
    EXPECT_EQ(put_if(bench, 10, kAbsent), Answer::kOk);
    EXPECT_EQ(put_if(bench, 20, kAbsent), Answer::kConflict);
    EXPECT_EQ(bench.erase(30, "x"), Answer::kOk);
    EXPECT_EQ(put_if(bench, 40, kAbsent), Answer::kOk);
    EXPECT_EQ(bench.store->statistics().conflicts, 1u);
}

TEST(KvCondition, if_timestamp_holds_for_the_latest_version_only) {
    Bench bench;
    EXPECT_EQ(put_if(bench, 5, 3), Answer::kConflict);
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(put_if(bench, 20, 9), Answer::kConflict);
    EXPECT_EQ(put_if(bench, 9, 10), Answer::kTooOld);
    EXPECT_EQ(put_if(bench, 20, 10), Answer::kOk);
    EXPECT_EQ(put_if(bench, 30, 10), Answer::kConflict);
}

TEST(KvCondition, excludes_writes_between_the_check_and_the_commit) {
    Bench bench;
    EXPECT_EQ(put_if(bench, 20, kAbsent, false), Answer::kOk);
    EXPECT_EQ(bench.put(10, {{"x", "between"}}), Answer::kBusy);
    EXPECT_EQ(put_if(bench, 30, kAbsent), Answer::kBusy);
    EXPECT_EQ(bench.store->abort({20}, {}), Answer::kAborted);
    EXPECT_EQ(bench.prepare(40, {{"x", "b"}}), Answer::kOk);
    EXPECT_EQ(put_if(bench, 50, kAbsent), Answer::kBusy);
    EXPECT_EQ(bench.store->commit({40}), Answer::kOk);
    EXPECT_EQ(put_if(bench, 50, 40), Answer::kOk);
}

// --- scan, pins, snapshots

TEST(KvScan, returns_keys_of_a_prefix_in_order_from_a_cursor_and_skips_deleted_ones) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"a1", "1"}, {"b1", "2"}, {"b2", "3"}, {"b3", "4"}, {"c", "5"}}), Answer::kOk);
    EXPECT_EQ(bench.erase(20, "b2"), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"b0", "not yet"}}), Answer::kOk);
    const auto scan = [&](std::string_view prefix, std::string_view after, size_t limit) {
        std::string keys;
        bench.store->scan(prefix, after, {}, [&](const Found& found) {
            keys += std::string(found.version.key) + " ";
            return --limit > 0;
        });
        return keys;
    };
    EXPECT_EQ(scan("b", "", 10), "b1 b3 ");
    EXPECT_EQ(scan("b", "b1", 10), "b3 ");
    EXPECT_EQ(scan("", "", 3), "a1 b1 b3 ");
    EXPECT_EQ(scan("", "b3", 10), "c ");
    EXPECT_EQ(scan("zz", "", 10), "");
}

TEST(KvPin, keeps_versions_visible_at_its_timestamp_beyond_the_window) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"x", "b"}}), Answer::kOk);
    Pin pin = *bench.store->pin({15});
    EXPECT_EQ(bench.put(30, {{"x", "c"}}), Answer::kOk);
    bench.pass(from_s(60));
    EXPECT_EQ(text_of(bench.store->get_at("x", {15}).version.value), "a");
    EXPECT_EQ(bench.store->get_exact("x", {20}).presence, Presence::kNewer) << "not pinned";
    pin.release();
    bench.pass(from_s(1));
    EXPECT_EQ(bench.store->statistics().versions, 1u);
    EXPECT_FALSE(bench.store->pin({15}).is_ok());
}

TEST(KvSnapshot, of_a_time_has_every_older_transaction_completely_and_no_newer_one) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "1"}, {"y", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(40, {{"x", "4"}, {"y", "4"}}), Answer::kOk);
    bench.store->raise_floor({50});
    EXPECT_FALSE(bench.store->settled({50}));
    EXPECT_EQ(bench.prepare(45, {{"x", "too late"}}), Answer::kTooOld);
    EXPECT_EQ(bench.put(60, {{"x", "6"}, {"y", "6"}}), Answer::kOk);
    EXPECT_EQ(bench.store->commit({40}), Answer::kOk);
    ASSERT_TRUE(bench.store->settled({50}));
    Pin pin = *bench.store->pin({50});
    std::string seen;
    bench.store->scan("", "", {50}, [&](const Found& found) {
        seen += text_of(found.version.value);
        return true;
    });
    EXPECT_EQ(seen, "44");
}

// --- memory

TEST(FullArena, refuses_writes_and_keeps_answering_reads) {
    Bench bench({}, size_t{1} << 20);
    const std::string value(10000, 'v');
    uint64_t ts = 1;
    Answer answer = Answer::kOk;
    while (answer == Answer::kOk && ts < 1000)
        answer = bench.put(ts, {{"key" + std::to_string(ts), value}}), ts++;
    EXPECT_EQ(answer, Answer::kNoMemory);
    EXPECT_GT(ts, 60u);
    EXPECT_EQ(bench.get("key1"), value);
    EXPECT_EQ(bench.store->statistics().refused_memory, 1u);
    EXPECT_EQ(bench.get("key" + std::to_string(ts - 1)), "(absent)");
    EXPECT_EQ(bench.store->statistics().prepared, 0u);
}

TEST(FullArena, shortens_the_window_before_it_refuses) {
    Bench bench({}, size_t{1} << 20);
    const std::string value(10000, 'v');
    for (uint64_t ts = 1; ts <= 5000; ts++) {
        bench.clock.pass(from_ms(10));
        ASSERT_EQ(bench.put(ts, {{"x", value}}), Answer::kOk) << ts;
    }
    EXPECT_LT(bench.store->statistics().window_now, from_s(5));
    EXPECT_GE(bench.store->statistics().window_now, from_ms(500));
}

TEST(KvMemory, stays_within_the_limit_of_the_heap) {
    Bench bench({.heap_limit = 200'000});
    uint64_t ts = 1;
    while (ts < 10000 && bench.put(ts, {{"key" + std::to_string(ts), "v"}}) == Answer::kOk) ts++;
    EXPECT_LT(ts, 2000u);
    EXPECT_LT(bench.store->statistics().heap_used, 220'000u);
    EXPECT_EQ(bench.get("key1"), "v");
}

TEST(KvVersions, that_no_other_partition_reports_are_kept_for_milliseconds_only) {
    Bench bench({.window = from_s(5), .window_alone = from_ms(20)});
    const auto put = [&](uint64_t ts, bool alone) {
        const std::vector<Write> writes{{.key = "x", .value = bytes_of("value")}};
        EXPECT_EQ(bench.store->put({.timestamp = {ts}, .writes = writes, .alone = alone}, {}), Answer::kOk);
    };
    const auto presence = [&](uint64_t ts) { return bench.store->get_exact("x", {ts}).presence; };
    put(10, false);
    put(20, true);
    put(30, true);
    bench.pass(from_ms(19));
    EXPECT_EQ(presence(20), Presence::kExact);
    bench.pass(from_ms(2));
    EXPECT_EQ(presence(20), Presence::kNewer) << "a reader that requests it continues with the next version";
    EXPECT_EQ(presence(10), Presence::kExact) << "another partition may report it to a reader";
    EXPECT_EQ(presence(30), Presence::kExact) << "the latest stays";
    bench.pass(from_s(6));
    EXPECT_EQ(presence(10), Presence::kNewer);
}

TEST(KvVersions, that_are_unreported_are_limited_to_the_newest_and_free_their_memory_at_once) {
    Bench bench({.retired_alone_max = 4});
    const auto put = [&](uint64_t ts, std::string_view key) {
        const std::vector<Write> writes{{.key = key, .value = bytes_of("value")}};
        EXPECT_EQ(bench.store->put({.timestamp = {ts}, .writes = writes, .alone = true}, {}), Answer::kOk);
    };
    for (uint64_t ts = 1; ts <= 20; ++ts) put(ts, "x");
    EXPECT_EQ(bench.store->statistics().versions, 1u + 4u) << "the latest one, and four";
    EXPECT_EQ(bench.store->get_exact("x", {16}).presence, Presence::kExact);
    EXPECT_EQ(bench.store->get_exact("x", {15}).presence, Presence::kNewer);
    // One-sided readers read key by key: a version that was reported to such a reader is kept for the window.
    put(21, "shown");
    bench.store->get("shown", true);
    for (uint64_t ts = 22; ts <= 40; ++ts) put(ts, "shown");
    EXPECT_EQ(bench.store->get_exact("shown", {21}).presence, Presence::kExact);
    bench.pass(from_s(1));
    EXPECT_EQ(bench.store->get_exact("shown", {21}).presence, Presence::kNewer);
}

TEST(KvPin, keeps_versions_that_are_otherwise_kept_for_milliseconds_only) {
    Bench bench;
    const auto put = [&](uint64_t ts, std::string_view value) {
        const std::vector<Write> writes{{.key = "x", .value = bytes_of(value)}};
        EXPECT_EQ(bench.store->put({.timestamp = {ts}, .writes = writes, .alone = true}, {}), Answer::kOk);
    };
    put(10, "old");
    Pin pin = *bench.store->pin({15});
    put(20, "new");
    bench.pass(from_s(60));
    EXPECT_EQ(text_of(bench.store->get_at("x", {15}).version.value), "old");
    pin.release();
    bench.pass(from_s(60));
    EXPECT_FALSE(bench.store->pin({15}).is_ok());
}

}  // namespace
}  // namespace wss::kv::store
