// SPDX-License-Identifier: Apache-2.0
// A store without a disk whose memory is full: rule S7. Deletion and expiry must still work and free memory.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

class FullStore : public testing::Test {
  protected:
    Bench bench{{}, size_t{1} << 20};
    uint64_t ticks = 1'000'000;
    uint64_t keys = 0;

    uint64_t now() { return Timestamp::make(++ticks, 1).value; }
    static std::string key(uint64_t number) { return "key" + std::to_string(number); }
    Answer write(size_t bytes, Timestamp expires = {}) {
        const std::string value(bytes, 'v'), name = key(keys);
        const Answer answer = bench.write(
            now(), std::vector<Write>{{.key = name, .value = bytes_of(value), .expires = expires}});
        keys += answer == Answer::kOk;
        return answer;
    }
    void fill(size_t bytes, Timestamp expires = {}) {
        while (write(bytes, expires) == Answer::kOk) {
        }
        ASSERT_GT(keys, 10u);
    }
    void pass(Nanoseconds time) {
        bench.clock.pass(time);
        ticks += static_cast<uint64_t>(time.count / 1000);
        bench.store->maintain(Timestamp::make(ticks, 0), 1u << 20);
    }
};

TEST_F(FullStore, lets_every_key_be_deleted_and_reuses_its_memory) {
    fill(100);
    const uint64_t before = keys;
    for (uint64_t i = 0; i < before; i++) {
        Answer answer = bench.erase(now(), key(i));
        // The reserve covers the deletions of one window. After that window the memory of deleted keys is
        // collected.
        for (int waits = 0; answer == Answer::kNoMemory && waits < 3; waits++) {
            pass(from_s(1));
            answer = bench.erase(now(), key(i));
        }
        ASSERT_EQ(answer, Answer::kOk) << i << " of " << before;
    }
    for (int i = 0; i < 20; i++) pass(from_s(10));
    EXPECT_EQ(bench.store->statistics().keys, 0u);
    keys = 0;
    fill(3000);
    EXPECT_GT(keys, (size_t{1} << 20) / 3000 / 2);
}

TEST_F(FullStore, lets_every_key_expire) {
    fill(100, Timestamp::make(ticks + 10'000'000, 0));
    pass(from_s(11));
    for (int i = 0; i < 60; i++) pass(from_s(5));
    EXPECT_EQ(bench.store->statistics().expired, keys);
    EXPECT_EQ(write(100), Answer::kOk);
    for (int i = 0; i < 20; i++) pass(from_s(10));
    EXPECT_EQ(bench.store->statistics().keys, 1u)
        << "tombstones are collected once a later write is forgotten";
}

TEST_F(FullStore, keeps_addresses_of_readers_from_using_up_the_memory_of_values) {
    fill(100);
    for (uint64_t i = 0; i < keys; i++) (void)bench.store->get(key(i));
    for (uint64_t i = 0; i < keys; i++) {
        Answer answer = bench.erase(now(), key(i));
        for (int waits = 0; answer == Answer::kNoMemory && waits < 3; waits++) {
            pass(from_s(1));
            answer = bench.erase(now(), key(i));
        }
        ASSERT_EQ(answer, Answer::kOk) << i;
    }
    for (int i = 0; i < 20; i++) pass(from_s(10));
    keys = 0;
    fill(3000);
    EXPECT_GT(keys, (size_t{1} << 20) / 3000 / 8);
}

TEST_F(FullStore, permits_deletions_after_many_deletions_of_absent_keys) {
    fill(100);
    for (uint64_t i = 0; i < 20'000; i++) (void)bench.erase(now(), "absent" + std::to_string(i));
    EXPECT_EQ(bench.erase(now(), key(0)), Answer::kOk);
}

TEST(FullHeap, permits_deletions_after_many_deletions_of_absent_keys) {
    Bench bench({.heap_limit = 200'000});
    uint64_t ts = 1, keys = 0;
    while (bench.put(ts++, {{"key" + std::to_string(keys), "value"}}) == Answer::kOk) keys++;
    for (uint64_t i = 0; i < 2000; i++) (void)bench.erase(ts++, "absent" + std::to_string(i));
    EXPECT_EQ(bench.erase(ts++, "key0"), Answer::kOk);
}

TEST(FullHeap, lets_keys_be_deleted_at_its_limit) {
    Bench bench({.heap_limit = 200'000});
    uint64_t ts = 1, keys = 0;
    while (bench.put(ts++, {{"key" + std::to_string(keys), "value"}}) == Answer::kOk) keys++;
    EXPECT_EQ(bench.erase(ts++, "key0"), Answer::kOk);
}

// The memory outside the arena, which records of finished transactions use, is limited.
TEST(KvFinishedTransactions, make_room_for_writes_if_the_index_memory_is_limited) {
    Bench bench({.heap_limit = 4u << 20});
    uint64_t ticks = 1'000'000;
    for (int i = 0; i < 400'000; i++) {
        if (i % 10 == 0)
            bench.clock.pass(from_ms(5)), bench.store->maintain(Timestamp::make(ticks += 5000, 0));
        ASSERT_EQ(bench.put(Timestamp::make(ticks, i % 10).value, {{"key", "value"}}), Answer::kOk) << i;
    }
    EXPECT_LT(bench.store->statistics().heap_used, 5u << 20);
}

TEST(KvFinishedTransactions, are_limited_in_number_however_fast_they_arrive) {
    Bench bench({.finished_max = 1000});
    uint64_t ticks = 1'000'000;
    bench.store->maintain(Timestamp::make(ticks + 10'000, 0));
    for (int i = 0; i < 5000; i++)
        ASSERT_EQ(bench.put(Timestamp::make(++ticks, 1).value, {{"key", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.store->statistics().decisions, 1000u);
    // The outcome of a forgotten transaction is no longer reported.
    const uint64_t forgotten = Timestamp::make(ticks - 1000, 1).value;
    EXPECT_EQ(bench.store->withdraw({forgotten}, {}), Answer::kTooOld);
    EXPECT_EQ(bench.store->inquire({forgotten}, {}), Answer::kTooOld);
    EXPECT_EQ(bench.store->withdraw({Timestamp::make(ticks, 1).value}, {}), Answer::kCommitted);
}

// The floor cannot pass the clock, so there is no room until the clock has reached these timestamps.
TEST(KvFinishedTransactions, that_are_ahead_of_the_clock_are_not_forgotten) {
    Bench bench({.finished_max = 10});
    const auto ahead = [](uint64_t number) { return Timestamp::make(2'000'000 + number, 1).value; };
    bench.store->maintain(Timestamp::make(1'000'000, 0));
    for (uint64_t i = 0; i < 10; i++) ASSERT_EQ(bench.put(ahead(i), {{"key", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.put(ahead(10), {{"key", "value"}}), Answer::kBusy);
    EXPECT_EQ(bench.store->floor(), kNoTimestamp);
    bench.store->maintain(Timestamp::make(3'000'000, 0));
    EXPECT_EQ(bench.put(ahead(10), {{"key", "value"}}), Answer::kOk);
}

// Other partitions may inquire about these transactions. A partition that could not reach this store until
// now would otherwise abort a transaction that is committed here.
TEST(KvFinishedTransactions, of_several_partitions_outlive_the_others_if_memory_is_short) {
    Bench bench({.heap_limit = 1u << 20});
    uint64_t ticks = 1'000'000;
    const uint64_t shared = Timestamp::make(ticks, 1).value, alone = Timestamp::make(ticks, 2).value;
    ASSERT_EQ(bench.prepare(shared, {{"key", "value"}}), Answer::kOk);
    ASSERT_EQ(bench.store->commit({shared}), Answer::kOk);
    ASSERT_EQ(bench.put(alone, {{"key", "value"}}), Answer::kOk);
    const auto pass = [&](Nanoseconds time) {
        bench.clock.pass(time);
        bench.store->maintain(Timestamp::make(ticks += static_cast<uint64_t>(time.count / 1000), 0));
    };
    for (uint64_t i = 0; bench.store->statistics().heap_used < (1u << 20) / 10 * 9; i++)
        ASSERT_EQ(bench.put(Timestamp::make(++ticks, 1).value, {{"key" + std::to_string(i), "value"}}),
                  Answer::kOk);
    pass(from_s(20));
    EXPECT_EQ(bench.store->inquire({alone}, {}), Answer::kTooOld);
    EXPECT_EQ(bench.store->inquire({shared}, {}), Answer::kCommitted);
    pass(from_s(41));
    EXPECT_EQ(bench.store->inquire({shared}, {}), Answer::kTooOld);
}

TEST(KvFinishedTransactions, of_several_partitions_are_not_forgotten_because_of_their_number) {
    Bench bench({.finished_max = 10, .finished_shared_max = 10});
    uint64_t ticks = 1'000'000;
    bench.store->maintain(Timestamp::make(ticks + 10'000, 0));
    const auto commit = [&] {
        const uint64_t at = Timestamp::make(++ticks, 1).value;
        const Answer answer = bench.prepare(at, {{"key", "value"}});
        return answer == Answer::kOk ? bench.store->commit({at}) : answer;
    };
    for (int i = 0; i < 10; i++) ASSERT_EQ(commit(), Answer::kOk);
    EXPECT_EQ(commit(), Answer::kBusy);
    for (int i = 0; i < 20; i++)
        ASSERT_EQ(bench.put(Timestamp::make(++ticks, 1).value, {{"key", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.store->inquire({Timestamp::make(1'000'001, 1).value}, {}), Answer::kCommitted);
    bench.clock.pass(from_s(61));
    EXPECT_EQ(commit(), Answer::kOk);
}

// The clock was set back after these timestamps were issued, and may take years to reach them.
TEST(KvFinishedTransactions, that_are_far_ahead_of_the_clock_make_room_for_writes) {
    Bench bench({.heap_limit = 200'000});
    constexpr uint64_t kNow = 1'000'000, kHour = 3'600'000'000;
    uint64_t ticks = kNow + kHour;
    bench.store->maintain(Timestamp::make(ticks, 0));
    Answer answer = Answer::kOk;
    for (int i = 0; answer == Answer::kOk && i < 100'000; i++) {
        bench.clock.pass(from_ms(5));
        bench.store->maintain(Timestamp::make(kNow + kHour, 0));
        answer = bench.put(Timestamp::make(++ticks, 1).value, {{"key", "value"}});
    }
    ASSERT_EQ(answer, Answer::kNoMemory);
    bench.store->maintain(Timestamp::make(kNow, 0));
    bench.clock.pass(from_s(61));
    EXPECT_EQ(bench.put(Timestamp::make(kNow + 1, 1).value, {{"another key", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.store->floor(), kNoTimestamp) << "current writes are accepted";
    // A forgotten commit is never reported as aborted.
    const Timestamp forgotten = Timestamp::make(kNow + kHour + 1, 1);
    EXPECT_EQ(bench.store->withdraw(forgotten, {}), Answer::kTooOld);
    EXPECT_EQ(bench.store->inquire(forgotten, {}), Answer::kTooOld);
    EXPECT_NE(bench.put(forgotten.value, {{"key", "value"}}), Answer::kOk) << "others rely on that reply";
}

}  // namespace
}  // namespace wss::kv::store
