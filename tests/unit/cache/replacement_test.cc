// SPDX-License-Identifier: Apache-2.0
// Replacement: its structure under random use, and its purpose: scans do not evict lines in use.
#include "lib/cache/replacement.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include "lib/base/clock.h"

namespace wss::cache {
namespace {

// A cache of lines by number. The entry in the map owns the line.
struct ModelCache {
    explicit ModelCache(uint32_t capacity) : replacement(capacity) {}

    bool use(uint64_t number, const std::set<uint64_t>& pinned = {}) {
        if (auto found = lines.find(number); found != lines.end()) {
            replacement.touch(found->second.node);
            return true;
        }
        if (replacement.resident() == replacement.capacity() && !evict(pinned)) return false;
        Entry& entry = lines[number];
        entry.number = number;
        entry.node = replacement.insert({0, number}, &entry);
        return false;
    }
    bool evict(const std::set<uint64_t>& pinned) {
        void* owner = replacement.victim(
            [&pinned](void* line) { return pinned.count(static_cast<Entry*>(line)->number) == 0; });
        if (owner == nullptr) return false;
        Entry& entry = *static_cast<Entry*>(owner);
        EXPECT_EQ(pinned.count(entry.number), 0u);
        replacement.remove(entry.node, Replacement::Reason::kEvicted);
        lines.erase(entry.number);
        return true;
    }

    struct Entry {
        uint64_t number = 0;
        uint32_t node = 0;
    };
    Replacement replacement;
    std::map<uint64_t, Entry> lines;
};

TEST(CacheReplacement, keeps_its_invariants_under_random_operations) {
    EXPECT_TRUE(rc::check([] {
        uint32_t capacity = *rc::gen::inRange<uint32_t>(1, 40);
        ModelCache cache(capacity);
        auto steps = *rc::gen::container<std::vector<std::pair<uint8_t, uint8_t>>>(
            rc::gen::pair(rc::gen::inRange<uint8_t>(0, 10), rc::gen::inRange<uint8_t>(0, 120)));
        for (auto [what, number] : steps) {
            auto found = cache.lines.find(number);
            if (what == 0 && found != cache.lines.end()) {
                cache.replacement.remove(found->second.node, Replacement::Reason::kForgotten);
                cache.lines.erase(found);
            } else if (what == 1) {
                // Every second line is pinned.
                std::set<uint64_t> pinned;
                for (auto& [line, entry] : cache.lines)
                    if (line % 2 == 0) pinned.insert(line);
                cache.use(number, pinned);
            } else {
                cache.use(number);
                RC_ASSERT(cache.lines.count(number) == 1u);
            }
            RC_ASSERT(cache.replacement.resident() == cache.lines.size());
            RC_ASSERT(cache.replacement.consistent());
        }
    }));
}

TEST(CacheReplacement, has_no_victim_if_no_line_may_be_evicted) {
    ModelCache cache(10);
    for (uint64_t i = 0; i < 10; ++i) cache.use(i);
    EXPECT_EQ(cache.replacement.victim([](void*) { return false; }), nullptr);
    EXPECT_EQ(cache.replacement.resident(), 10u);
}

// Uses are processed when a victim is needed. Each call processes a bounded number of them.
TEST(CacheReplacement, finds_a_victim_even_if_every_line_was_used_since_the_last_one) {
    for (uint32_t capacity : {10u, 1000u}) {
        ModelCache cache(capacity);
        for (int round = 0; round < 3; ++round)
            for (uint64_t i = 0; i < capacity; ++i) cache.use(i);
        for (uint64_t i = capacity; i < 3 * capacity; ++i) {
            cache.use(i);
            ASSERT_EQ(cache.lines.count(i), 1u);
            ASSERT_TRUE(cache.replacement.consistent());
            for (auto& [number, entry] : cache.lines) cache.use(number);
        }
    }
}

TEST(CacheReplacement, keeps_nearly_all_lines_in_use_during_a_scan) {
    ModelCache cache(100);
    for (int round = 0; round < 10; ++round)
        for (uint64_t i = 0; i < 80; ++i) cache.use(i);
    for (uint64_t i = 1000; i < 3000; ++i) cache.use(i);
    uint64_t left = 0;
    for (uint64_t i = 0; i < 80; ++i) left += cache.lines.count(i);
    EXPECT_GE(left, 75u) << "a scan of twenty times the cache pushed out lines in use";
}

TEST(CacheReplacement, has_hits_in_a_loop_over_ten_times_the_cache) {
    ModelCache cache(100);
    uint64_t hits = 0;
    for (int round = 0; round < 20; ++round)
        for (uint64_t i = 0; i < 1000; ++i) hits += cache.use(i);
    // The optimum is nearly a tenth of 20000. LRU would have no hit.
    EXPECT_GE(hits, 600u);
}

TEST(CacheReplacement, lets_a_moving_working_set_make_the_window_grow) {
    ModelCache cache(200);
    Random random(1);
    uint64_t hits = 0;
    constexpr uint64_t kUses = 100000, kSet = 150;
    for (uint64_t i = 0; i < kUses; ++i) hits += cache.use(i / 20 + random.below(kSet));
    EXPECT_GT(cache.replacement.window_target(), 100u);
    EXPECT_GT(hits, kUses * 90 / 100);
}

}  // namespace
}  // namespace wss::cache
