// SPDX-License-Identifier: Apache-2.0
// Fields of reused objects of the table.
#include "lib/kv/store/table.h"

#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

struct KvTable : ::testing::Test {
    static constexpr uint64_t kVersions = 40;  // more than a slot shows

    Version& commit(Item& item, uint64_t timestamp, bool tombstone = false) {
        Version* version = table.add(
            item,
            {.key = item.key, .value = bytes_of("value"), .timestamp = {timestamp}, .tombstone = tombstone});
        version->logged = true;
        table.commit(*version, from_s(static_cast<int64_t>(timestamp)));
        table.publish(item);
        return *version;
    }
    // An item with a full slot.
    Item& make_full(std::string_view key) {
        Item& item = table.find_or_create(key);
        commit(item, 1);
        table.show(item);
        for (uint64_t ts = 2; ts <= kVersions; ts++) commit(item, ts);
        EXPECT_FALSE(item.shown_from.is_none());
        return item;
    }

    std::vector<uint64_t> memory = std::vector<uint64_t>(Bench::kArena / 8);
    std::vector<uint64_t> index = std::vector<uint64_t>(SlotIndex::bytes_for(Bench::kArena) / 8);
    Table table{{.epoch = 1, .inline_cells = 2, .inline_max = 256},
                std::as_writable_bytes(std::span(memory)),
                std::as_writable_bytes(std::span(index))};
};

// Collection publishes an item only if its slot may have shown the collected version, or if it has no slot:
// publish() then offers it one.
TEST_F(KvTable, shows_nothing_of_an_item_without_a_slot) {
    Item& item = make_full("key");
    for (Version* at = item.newest; at != nullptr; at = at->older) table.cool(*at);
    EXPECT_EQ(item.slot, Arena::kNowhere);
    EXPECT_TRUE(item.shown_from.is_none());
}

TEST_F(KvTable, leaves_nothing_of_a_forgotten_key_in_the_new_key_that_uses_its_memory) {
    Item& old = make_full("old");
    Version& grave = commit(old, kVersions + 1, true);
    EXPECT_NE(old.grave_at, Nanoseconds{});
    EXPECT_NE(grave.older->retired_at, Nanoseconds{});
    while (old.newest != nullptr) table.erase(*old.newest);
    table.erase_if_empty(old);
    Item& item = table.find_or_create("new");
    ASSERT_EQ(&item, &old);
    EXPECT_TRUE(item.shown_from.is_none());
    EXPECT_EQ(item.grave_at, Nanoseconds{});
    EXPECT_EQ(commit(item, 1).retired_at, Nanoseconds{});
}

}  // namespace
}  // namespace wss::kv::store
