// SPDX-License-Identifier: Apache-2.0
#include "lib/base/size.h"

#include <gtest/gtest.h>

namespace wss {
namespace {

TEST(Size, is_parsed_with_and_without_units) {
    EXPECT_EQ(*parse_size("0"), 0u);
    EXPECT_EQ(*parse_size("4096"), 4096u);
    EXPECT_EQ(*parse_size("64M"), 64u << 20);
    EXPECT_EQ(*parse_size("64m"), 64u << 20);
    EXPECT_EQ(*parse_size("3GiB"), uint64_t{3} << 30);
    EXPECT_EQ(*parse_size("2TB"), uint64_t{2} << 40);
    EXPECT_EQ(*parse_size("1P"), uint64_t{1} << 50);
}

TEST(Size, that_is_invalid_or_too_large_is_refused) {
    for (const char* text :
         {"", "M", "-1", "1.5G", "64 M", "64X", "64MM", "64Mi", "8388608T", "99999999999999999999"})
        EXPECT_FALSE(parse_size(text)) << text;
    EXPECT_TRUE(parse_size("9223372036854775807"));
    EXPECT_FALSE(parse_size("9223372036854775808"));
}

TEST(Size, that_is_written_reads_back_as_the_same_number) {
    for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024}, uint64_t{64} << 20,
                           (uint64_t{1} << 40) + 512})
        EXPECT_EQ(*parse_size(format_size(bytes)), bytes) << format_size(bytes);
    EXPECT_EQ(format_size(64 << 20), "64M");
    EXPECT_EQ(readable_size(512), "512 B");
    EXPECT_EQ(readable_size(3 << 19), "1.50 MiB");
    EXPECT_EQ(readable_size(uint64_t{1} << 40), "1.00 TiB");
}

}  // namespace
}  // namespace wss
