// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "lib/kv/store/pool.h"

namespace wss::kv::store {
namespace {

struct Object {
    uint64_t hash = 0;
    Object* hash_next = nullptr;
    bool inserted = false;
};

size_t in_bucket(HashIndex<Object>& index, size_t bucket) {
    size_t objects = 0;
    index.for_each(bucket, [&](Object&) { objects++; });
    return objects;
}
size_t longest_bucket(HashIndex<Object>& index) {
    size_t longest = 0;
    for (size_t bucket = 0; bucket < index.buckets(); bucket++)
        longest = std::max(longest, in_bucket(index, bucket));
    return longest;
}

TEST(KvHashIndex, has_the_objects_that_were_inserted_and_not_erased) {
    HashIndex<Object> index;
    std::vector<Object> objects(20'000);
    std::mt19937_64 random(7);
    for (Object& object : objects) object.hash = random();
    size_t inserted = 0;
    for (int step = 0; step < 100'000; step++) {
        Object& object = objects[random() % objects.size()];
        object.inserted ? index.erase(&object) : index.insert(&object);
        object.inserted = !object.inserted;
        inserted += object.inserted ? 1 : -1;
    }
    EXPECT_EQ(index.size(), inserted);
    for (Object& object : objects) {
        Object* found = index.find(object.hash, [](const Object&) { return true; });
        ASSERT_EQ(found, object.inserted ? &object : nullptr);
    }
    size_t visited = 0;
    for (size_t bucket = 0; bucket < index.buckets(); bucket++) visited += in_bucket(index, bucket);
    EXPECT_EQ(visited, inserted);
}

// Each insertion blocks a reactor. The keys of a bucket that is divided move, all others stay.
TEST(KvHashIndex, divides_at_most_one_bucket_per_insertion) {
    HashIndex<Object> index;
    std::vector<Object> objects((1u << 18) + 1);
    std::mt19937_64 random(7);
    for (Object& object : objects) {
        object.hash = random();
        const size_t buckets = index.buckets();
        index.insert(&object);
        ASSERT_LE(index.buckets() - buckets, 1u) << index.size();
    }
    EXPECT_GE(index.buckets(), objects.size());
    EXPECT_LE(longest_bucket(index), 16u);
}

// For an iteration by bucket during which the index grows.
TEST(KvHashIndex, moves_objects_only_to_higher_buckets) {
    HashIndex<Object> index;
    std::vector<Object> objects(1000);
    std::mt19937_64 random(7);
    const auto bucket_of_first = [&] {
        for (size_t bucket = 0; bucket < index.buckets(); bucket++) {
            bool is_here = false;
            index.for_each(bucket, [&](Object& object) { is_here |= &object == objects.data(); });
            if (is_here) return bucket;
        }
        return SIZE_MAX;
    };
    size_t bucket = 0;
    for (Object& object : objects) {
        object.hash = random();
        index.insert(&object);
        const size_t now = bucket_of_first();
        ASSERT_GE(now, bucket);
        ASSERT_LT(now, index.buckets());
        bucket = now;
    }
}

TEST(KvHashIndex, spreads_hashes_that_a_peer_has_chosen) {
    constexpr size_t kObjects = 1u << 14;
    for (const int shift : {0, 14, 32, 50}) {
        HashIndex<Object> index;
        std::vector<Object> objects(kObjects);
        for (size_t i = 0; i < kObjects; i++) {
            objects[i].hash = uint64_t{i} << shift;
            index.insert(&objects[i]);
        }
        EXPECT_LE(longest_bucket(index), 32u) << shift;
    }
}

}  // namespace
}  // namespace wss::kv::store
