// SPDX-License-Identifier: Apache-2.0
// A store without a disk whose memory is full: rule S7. Deleting and expiring must still work, and make it
// free.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

class KvFull : public testing::Test {
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

TEST_F(KvFull, EveryKeyCanBeDeletedAndItsMemoryComesBack) {
    fill(100);
    const uint64_t before = keys;
    for (uint64_t i = 0; i < before; i++) {
        Answer answer = bench.erase(now(), key(i));
        // The reserve is as large as what a window takes; what was deleted before is collected then.
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

TEST_F(KvFull, EveryKeyExpires) {
    fill(100, Timestamp::make(ticks + 10'000'000, 0));
    pass(from_s(11));
    for (int i = 0; i < 60; i++) pass(from_s(5));
    EXPECT_EQ(bench.store->statistics().expired, keys);
    EXPECT_EQ(write(100), Answer::kOk);
    for (int i = 0; i < 20; i++) pass(from_s(10));
    EXPECT_EQ(bench.store->statistics().keys, 1u) << "the tombstones go once a later write is forgotten";
}

TEST_F(KvFull, TheAddressesOfReadersDoNotTakeTheRoomOfValues) {
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

TEST_F(KvFull, DeletingKeysThatAreNotThereDoesNotKeepOthersFromBeingDeleted) {
    fill(100);
    for (uint64_t i = 0; i < 20'000; i++) (void)bench.erase(now(), "absent" + std::to_string(i));
    EXPECT_EQ(bench.erase(now(), key(0)), Answer::kOk);
}

TEST(KvHeapFull, DeletingKeysThatAreNotThereDoesNotKeepOthersFromBeingDeleted) {
    Bench bench({.heap_limit = 200'000});
    uint64_t ts = 1, keys = 0;
    while (bench.put(ts++, {{"key" + std::to_string(keys), "value"}}) == Answer::kOk) keys++;
    for (uint64_t i = 0; i < 2000; i++) (void)bench.erase(ts++, "absent" + std::to_string(i));
    EXPECT_EQ(bench.erase(ts++, "key0"), Answer::kOk);
}

TEST(KvHeapFull, KeysCanBeDeletedAtTheLimitOfTheHeap) {
    Bench bench({.heap_limit = 200'000});
    uint64_t ts = 1, keys = 0;
    while (bench.put(ts++, {{"key" + std::to_string(keys), "value"}}) == Answer::kOk) keys++;
    EXPECT_EQ(bench.erase(ts++, "key0"), Answer::kOk);
}

}  // namespace
}  // namespace wss::kv::store
