// SPDX-License-Identifier: Apache-2.0
// Geometry, sets of sub-blocks and line headers.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "lib/cache/geometry.h"
#include "lib/cache/header.h"

namespace wss::cache {
namespace {

LineGeometry geometry_of(uint64_t bytes) {
    auto geometry = LineGeometry::of(bytes);
    EXPECT_TRUE(geometry.is_ok());
    return *geometry;
}

TEST(CacheGeometry, has_line_sizes_that_are_powers_of_two_from_4_to_256_KiB) {
    for (uint64_t good = 4096; good <= 256 * 1024; good *= 2) EXPECT_TRUE(LineGeometry::of(good).is_ok());
    for (uint64_t bad : {0, 1, 2048, 4095, 12288, 512 * 1024}) EXPECT_FALSE(LineGeometry::of(bad).is_ok());
    EXPECT_EQ(geometry_of(256 * 1024).all().count(), 64u);
    EXPECT_EQ(LineGeometry().line_bytes(), 65536u);
}

TEST(CacheGeometry, splits_any_range_into_lines_without_gap_or_overlap) {
    EXPECT_TRUE(rc::check([] {
        LineGeometry geometry = *LineGeometry::of(uint64_t{4096} << *rc::gen::inRange(0, 7));
        uint64_t offset = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
        uint64_t left = *rc::gen::inRange<uint64_t>(1, 2 << 20);
        uint64_t at = offset;
        while (left > 0) {
            Span span = geometry.first_span(at, left);
            RC_ASSERT(span.length > 0u && span.length <= left);
            RC_ASSERT(geometry.start_of(span.line) + span.offset == at);
            RC_ASSERT(span.offset + span.length <= geometry.line_bytes());
            at += span.length;
            left -= span.length;
        }
    }));
}

TEST(CacheGeometry, finds_the_same_touched_and_covered_sub_blocks_as_a_count_of_bytes) {
    EXPECT_TRUE(rc::check([] {
        LineGeometry geometry = *LineGeometry::of(uint64_t{4096} << *rc::gen::inRange(0, 7));
        uint32_t begin = *rc::gen::inRange<uint32_t>(0, geometry.line_bytes());
        uint32_t length = *rc::gen::inRange<uint32_t>(0, geometry.line_bytes() - begin + 1);
        SubBlocks touched, covered;
        for (uint32_t sub_block = 0; sub_block < geometry.sub_blocks(); ++sub_block) {
            uint32_t first = sub_block * kSubBlockBytes, end = first + kSubBlockBytes;
            if (begin < end && begin + length > first && length > 0) touched.bits |= uint64_t{1} << sub_block;
            if (begin <= first && begin + length >= end) covered.bits |= uint64_t{1} << sub_block;
        }
        RC_ASSERT(geometry.touched({0, begin, length}) == touched);
        RC_ASSERT(geometry.covered({0, begin, length}) == covered);
    }));
}

TEST(CacheSubBlocks, have_the_lowest_contiguous_range_as_their_first_run) {
    EXPECT_EQ(SubBlocks{0b110110}.first_run(), SubBlocks{0b000110});
    EXPECT_EQ(SubBlocks{~uint64_t{0}}.first_run(), SubBlocks{~uint64_t{0}});
    EXPECT_EQ(SubBlocks{uint64_t{1} << 63}.first_run(), SubBlocks{uint64_t{1} << 63});
    EXPECT_TRUE(SubBlocks{}.first_run().empty());
}

LineHeader draw_header() {
    LineHeader header;
    header.line_shift = *rc::gen::inRange<uint32_t>(12, 19);
    SubBlocks all = LineGeometry::of(uint64_t{1} << header.line_shift).value().all();
    header.volume = *rc::gen::arbitrary<uint64_t>();
    header.line = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 45);
    header.generation = *rc::gen::arbitrary<uint64_t>();
    header.incarnation = *rc::gen::arbitrary<uint64_t>();
    header.valid = SubBlocks{*rc::gen::arbitrary<uint64_t>()} & all;
    header.dirty = SubBlocks{*rc::gen::arbitrary<uint64_t>()} & header.valid;
    return header;
}

TEST(CacheHeader, is_parsed_as_it_was_written) {
    EXPECT_TRUE(rc::check([] {
        LineHeader header = draw_header();
        std::array<std::byte, kHeaderBytes> bytes;
        write_header(header, bytes);
        ParsedHeader parsed = parse_header(bytes);
        RC_ASSERT(parsed.fault == HeaderFault::kNone);
        RC_ASSERT(parsed.header == header);
    }));
}

TEST(CacheHeader, that_is_partly_written_over_another_is_refused) {
    EXPECT_TRUE(rc::check([] {
        LineHeader old_header = draw_header(), new_header = draw_header();
        std::array<std::byte, kHeaderBytes> old_bytes, new_bytes;
        write_header(old_header, old_bytes);
        write_header(new_header, new_bytes);
        size_t written = *rc::gen::inRange<size_t>(1, kHeaderBytes);
        auto torn = old_bytes;
        std::copy_n(new_bytes.begin(), written, torn.begin());
        RC_PRE(torn != old_bytes && torn != new_bytes);
        RC_ASSERT(parse_header(torn).fault == HeaderFault::kCheck);
    }));
}

TEST(CacheHeader, with_any_damaged_bit_is_detected) {
    std::array<std::byte, kHeaderBytes> good;
    write_header({.volume = 7, .line = 9, .generation = 3, .incarnation = 2, .valid = {0xff}, .dirty = {1}},
                 good);
    for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
        auto bytes = good;
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_NE(parse_header(bytes).fault, HeaderFault::kNone) << "bit " << bit;
    }
}

TEST(CacheHeader, that_is_erased_is_empty_and_with_impossible_contents_is_refused) {
    std::array<std::byte, kHeaderBytes> bytes;
    erase_header(bytes);
    EXPECT_EQ(parse_header(bytes).fault, HeaderFault::kEmpty);
    // Complete headers with a correct checksum but impossible contents: dirty and not valid; sub-blocks
    // beyond the line; a line of 512 KiB.
    for (LineHeader header : {LineHeader{.valid = {1}, .dirty = {2}},
                              LineHeader{.valid = {1u << 16}, .dirty = {}, .line_shift = 16},
                              LineHeader{.valid = {1}, .dirty = {}, .line_shift = 19},
                              LineHeader{.line = UINT64_MAX, .valid = {1}, .dirty = {}}}) {
        write_header(header, bytes);
        EXPECT_EQ(parse_header(bytes).fault, HeaderFault::kImpossible);
    }
}

}  // namespace
}  // namespace wss::cache
