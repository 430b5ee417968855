// SPDX-License-Identifier: Apache-2.0
// Rules S7 and S8 of store.h, for a table larger than memory: cold values go to disk and can still be read.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

TEST(KvEviction, keeps_every_value_of_a_table_larger_than_the_arena) {
    for (Durability durability : {Durability::kSync, Durability::kAsync, Durability::kMemory}) {
        MemoryLog log;
        Bench bench({.durability = durability}, size_t{1} << 20, &log);
        const auto value = [](uint64_t ts) { return std::string(5000, static_cast<char>('a' + ts % 26)); };
        for (uint64_t ts = 1; ts <= 1000; ts++) {
            Answer answer = Answer::kNoMemory;
            for (int tries = 0; tries < 5 && answer == Answer::kNoMemory; tries++) {
                bench.store->maintain({});
                bench.store->poll();
                answer = bench.put(ts, {{"key" + std::to_string(ts), value(ts)}});
                bench.store->poll();
            }
            ASSERT_TRUE(answer == Answer::kOk || answer == Answer::kPending) << ts;
        }
        EXPECT_GT(bench.store->statistics().cold_versions, 700u);
        for (uint64_t ts = 1; ts <= 1000; ts++) {
            const std::string key = "key" + std::to_string(ts);
            std::string seen = bench.get(key);
            if (seen == "(cold)") {
                const SlotAddress no_slot{};
                EXPECT_EQ(bench.store->get(key).slot, no_slot);
                seen.clear();
                bench.store->fetch(key, {ts},
                                   {[](void* context, const Found& found) noexcept {
                                        *static_cast<std::string*>(context) = text_of(found.version.value);
                                    },
                                    &seen});
                bench.store->poll();
            }
            ASSERT_EQ(seen, value(ts)) << key;
            bench.store->maintain({});
        }
    }
}

TEST(KvEviction, lets_no_address_of_an_evicted_key_yield_the_value_of_another_key) {
    MemoryLog log;
    Bench bench({.durability = Durability::kAsync}, size_t{1} << 20, &log);
    EXPECT_EQ(bench.put(1, {{"victim", std::string(1000, 'v')}}), Answer::kOk);
    const SlotAddress address = bench.store->get("victim").slot;
    for (uint64_t ts = 2; ts <= 5000; ts++) {
        ASSERT_EQ(bench.put(ts, {{"key" + std::to_string(ts), std::string(1000, 'k')}}), Answer::kOk) << ts;
        bench.store->maintain({});
        const RemoteRead read = bench.read_remotely("victim", address);
        ASSERT_TRUE(!read.latest || *read.latest == std::string(1000, 'v'));
    }
    EXPECT_EQ(bench.get("victim"), "(cold)");
    EXPECT_NE(bench.read_remotely("victim", address).slot, SlotStatus::kOk);
}

// Collecting a version that is on disk frees no arena memory, so it must not prevent an eviction.
TEST(KvEviction, makes_room_in_a_full_arena_even_if_versions_on_disk_were_collected) {
    MemoryLog log;
    Bench bench({.durability = Durability::kAsync}, size_t{1} << 20, &log);
    uint64_t ts = 1;
    const auto put = [&](uint64_t number) {
        return bench.put(ts++, {{"key" + std::to_string(number), std::string(1000, 'v')}});
    };
    for (uint64_t number = 0; number < 3000; number++) {
        ASSERT_EQ(put(number), Answer::kOk) << number;
        bench.store->poll();
        bench.store->maintain({});
    }
    ASSERT_GT(bench.store->statistics().cold_versions, 500u);
    for (uint64_t number = 0; number < 500; number++) ASSERT_EQ(put(number), Answer::kOk) << number;
    bench.clock.pass(bench.options.window);
    for (uint64_t number = 3000; number < 6000; number++) {
        ASSERT_EQ(put(number), Answer::kOk) << number;
        bench.store->poll();
    }
}

TEST(KvEviction, keeps_cold_keys_across_a_restart) {
    Bench bench({.durability = Durability::kSync}, size_t{1} << 20);
    for (uint64_t ts = 1; ts <= 300; ts++) {
        (void)bench.put(ts, {{"key" + std::to_string(ts), std::string(5000, 'v')}});
        bench.persist();
        bench.store->maintain({});
    }
    bench.restart(99);
    ASSERT_TRUE(bench.recovered.is_ok()) << bench.recovered.to_string();
    EXPECT_EQ(bench.store->statistics().keys, 300u);
    EXPECT_GT(bench.store->statistics().cold_versions, 50u);
}

}  // namespace
}  // namespace wss::kv::store
