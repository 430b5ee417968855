// SPDX-License-Identifier: Apache-2.0
// Keys and bounds: the only protection of local memory against a peer.
#include "lib/fabric/stream/region_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "lib/fabric/stream/queues.h"

namespace wss::fabric::stream {
namespace {

TEST(RegionTable, makes_exactly_the_bytes_of_a_region_reachable) {
    RegionTable table;
    std::vector<std::byte> memory(100);
    uint32_t key = table.add(memory, Access::kRemoteRead);
    uint64_t base = reinterpret_cast<uintptr_t>(memory.data());
    auto guard = table.guard();
    auto reach = [&](uint64_t address, uint32_t length, Access need = Access::kRemoteRead) {
        return table.remote({address, key}, length, need) != nullptr;
    };
    EXPECT_TRUE(reach(base, 100));
    EXPECT_TRUE(reach(base + 99, 1));
    EXPECT_FALSE(reach(base, 101));
    EXPECT_FALSE(reach(base + 99, 2));
    EXPECT_FALSE(reach(base - 1, 2));
    EXPECT_FALSE(reach(base + 100, 1));
    EXPECT_FALSE(reach(UINT64_MAX, 2)) << "the sum wraps around";
    EXPECT_FALSE(reach(UINT64_MAX - 10, UINT32_MAX));
    EXPECT_FALSE(reach(base, UINT32_MAX));
    EXPECT_FALSE(reach(base, 1, Access::kRemoteWrite));
    EXPECT_FALSE(table.remote({base, key + 1}, 1, Access::kRemoteRead));
    RegionTable::Memo memo;
    EXPECT_TRUE(table.is_local({.address = memory.data(), .length = 100, .lkey = key}, memo));
    EXPECT_FALSE(table.is_local({.address = memory.data(), .length = 101, .lkey = key}, memo));
}

TEST(RegionTable, ends_a_remembered_lookup_with_its_region) {
    RegionTable table;
    std::vector<std::byte> memory(100), other(100);
    uint32_t key = table.add(memory, Access::kLocal), second = table.add(other, Access::kLocal);
    RegionTable::Memo memo;
    auto is_local = [&](std::vector<std::byte>& of, uint32_t lkey) {
        auto guard = table.guard();
        return table.is_local({.address = of.data(), .length = 100, .lkey = lkey}, memo);
    };
    EXPECT_FALSE(is_local(memory, 0)) << "no lookup is remembered";
    EXPECT_TRUE(is_local(memory, key));
    EXPECT_FALSE(is_local(other, key)) << "the memory of another region";
    EXPECT_TRUE(is_local(other, second));
    EXPECT_TRUE(is_local(memory, key));
    table.remove(key);
    EXPECT_FALSE(is_local(memory, key));
    EXPECT_TRUE(is_local(other, second));
}

TEST(RegionTable, makes_a_revoked_key_invalid_and_does_not_draw_it_again_soon) {
    RegionTable table;
    std::vector<std::byte> memory(16);
    std::set<uint32_t> keys;
    for (int i = 0; i < 4000; ++i) {
        uint32_t key = table.add(memory, Access::kRemoteReadWrite);
        EXPECT_TRUE(keys.insert(key).second);
        table.remove(key);
        auto guard = table.guard();
        EXPECT_EQ(table.find(key), nullptr);
    }
    table.remove(12345);  // an unknown key is ignored
}

TEST(Segments, are_split_at_every_boundary_when_gathered_and_scattered) {
    std::vector<std::byte> memory(64);
    std::vector<Segment> segments{{.address = &memory[0], .length = 3},
                                  {.address = &memory[10], .length = 0},
                                  {.address = &memory[20], .length = 5}};
    for (uint64_t offset = 0; offset <= 8; ++offset) {
        for (uint64_t length = 0; length <= 8 - offset; ++length) {
            std::vector<std::byte> bytes(length);
            for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(offset + i + 1);
            std::fill(memory.begin(), memory.end(), std::byte{0});
            scatter(segments, offset, bytes);
            iovec vecs[4];
            size_t count = gather(segments, offset, length, vecs);
            std::vector<std::byte> back;
            for (size_t i = 0; i < count; ++i) {
                auto* from = static_cast<std::byte*>(vecs[i].iov_base);
                back.insert(back.end(), from, from + vecs[i].iov_len);
            }
            EXPECT_EQ(back, bytes) << offset << "+" << length;
        }
    }
}

}  // namespace
}  // namespace wss::fabric::stream
