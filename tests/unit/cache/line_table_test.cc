// SPDX-License-Identifier: Apache-2.0
// The table of lines grows by one bucket at a time. Every line can be found during the growth.
#include "lib/cache/line_table.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_map>

namespace wss::cache::testing {
namespace {

TEST(LineTable, finds_every_line_while_it_grows_and_after_others_were_removed) {
    LineTable table;
    constexpr uint64_t kLines = 50'000;
    table.allow(1000);
    table.allow(kLines);
    std::unordered_map<uint64_t, Line*> lines;
    for (uint64_t i = 0; i < kLines; ++i) {
        lines[i] = &table.add({3, i * 7});
        if (i % 5 == 4) {
            table.remove(*lines[i - 2]);
            lines.erase(i - 2);
        }
        if (i % 4999 != 0 && i + 1 != kLines) continue;
        for (const auto& [at, line] : lines) ASSERT_EQ(table.find({3, at * 7}), line);
        EXPECT_EQ(table.find({3, 1}), nullptr);
        EXPECT_EQ(table.find({2, 0}), nullptr);
    }
    EXPECT_EQ(table.free(), kLines - lines.size());
}

TEST(LineTable, creates_entries_only_for_new_lines_and_visits_each_once) {
    LineTable table;
    table.allow(uint64_t{64} << 20);
    EXPECT_EQ(table.places(), 0u);
    std::set<Line*> added, seen;
    for (uint64_t i = 0; i < 3000; ++i) added.insert(&table.add({1, i}));
    EXPECT_LT(table.places(), 4000u);
    for (uint64_t at = 0; at < table.places(); at += 100)
        table.visit(at, 100, [&](Line& line) { EXPECT_TRUE(seen.insert(&line).second); });
    EXPECT_EQ(seen.size(), table.places());
    for (Line* line : added) EXPECT_TRUE(seen.contains(line));
}

}  // namespace
}  // namespace wss::cache::testing
