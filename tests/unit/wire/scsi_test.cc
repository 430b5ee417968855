// SPDX-License-Identifier: Apache-2.0
// CDBs, sense data and responses as bytes, against the tables of SPC-4 and SBC-3.
#include "lib/wire/scsi.h"

#include <gtest/gtest.h>

#include "lib/wire/srp.h"
#include "tests/unit/wire/hex.h"

namespace wss::wire {
namespace {

TEST(Cdb, of_each_command_has_its_fields_where_the_standard_has_them) {
    struct Case {
        Cdb cdb;
        const char* bytes;
    };
    for (const Case& c : {
             Case{make_test_unit_ready(), "00 00 00 00 00 00"},
             Case{make_inquiry(0x1234), "12 00 00 1234 00"},
             Case{make_inquiry_page(0x83, 0x00fc), "12 01 83 00fc 00"},
             Case{make_read_capacity16(32), "9e 10 0000000000000000 00000020 00 00"},
             Case{make_report_luns(4096), "a0 00 00 000000 00001000 00 00"},
             Case{make_mode_sense10(0x08, 256), "5a 08 08 00 000000 0100 00"},
             Case{make_read16(0x0102030405060708, 0x090a0b0c), "88 00 0102030405060708 090a0b0c 00 00"},
             Case{make_write16(1, 2, true), "8a 08 0000000000000001 00000002 00 00"},
             Case{make_synchronize_cache16(), "91 00 0000000000000000 00000000 00 00"},
             Case{make_write_same16(1, 2, true), "93 08 0000000000000001 00000002 00 00"},
             Case{make_write_zeroes16(1, 2, false), "93 01 0000000000000001 00000002 00 00"},
             Case{make_compare_and_write(1, 2, true), "89 08 0000000000000001 000000 02 00 00"},
             Case{make_unmap(24), "42 00 00000000 00 0018 00"},
         }) {
        std::vector<std::byte> expected = from_hex(c.bytes);
        expected.resize(16);
        EXPECT_EQ(to_hex(c.cdb), to_hex(expected));
    }
}

TEST(UnmapList, has_lengths_that_do_not_count_themselves) {
    BlockRange ranges[] = {{0x10, 8}, {0x200000000, 0xffffffff}};
    std::array<std::byte, 40> out;
    ASSERT_EQ(encode_unmap_list(ranges, out), 40u);
    EXPECT_EQ(to_hex(out), spaced("0026 0020 00000000"
                                  "0000000000000010 00000008 00000000"
                                  "0000000200000000 ffffffff 00000000"));
    EXPECT_EQ(encode_unmap_list(ranges, MutableBytes(out).first(39)), 0u);
}

// ---- Sense data

constexpr Sense kFieldSense{.key = SenseKey::kIllegalRequest,
                            .code = AdditionalSense::kInvalidFieldInCdb,
                            .field = {.valid = true, .in_cdb = true, .bit = 4, .byte = 1}};
constexpr Sense kMediumSense{.key = SenseKey::kMediumError,
                             .code = AdditionalSense::kUnrecoveredReadError,
                             .has_information = true,
                             .information = 0x12345678};

std::string encoded(const Sense& sense, SenseFormat format) {
    std::array<std::byte, kSenseMax> out;
    return to_hex(Bytes(out).first(encode_sense(sense, format, out)));
}

TEST(Sense, in_fixed_format_matches_the_standard) {
    EXPECT_EQ(encoded(kFieldSense, SenseFormat::kFixed),
              spaced("70 00 05 00000000 0a 00000000 24 00 00 cc0001"));
    EXPECT_EQ(encoded(kMediumSense, SenseFormat::kFixed),
              spaced("f0 00 03 12345678 0a 00000000 11 00 00 000000"));
}

TEST(Sense, in_descriptor_format_matches_the_standard) {
    EXPECT_EQ(encoded(kFieldSense, SenseFormat::kDescriptor),
              spaced("72 05 24 00 000000 08  02 06 0000 cc0001 00"));
    EXPECT_EQ(encoded(kMediumSense, SenseFormat::kDescriptor),
              spaced("72 03 11 00 000000 0c  00 0a 80 00 0000000012345678"));
}

TEST(Sense, is_parsed_from_either_format) {
    Sense list = kFieldSense;
    list.field.in_cdb = false;
    list.field.bit = -1;
    for (const Sense& sense : {kFieldSense, kMediumSense, list, Sense{}})
        for (SenseFormat format : {SenseFormat::kFixed, SenseFormat::kDescriptor}) {
            std::array<std::byte, kSenseMax> out;
            Sense back;
            ASSERT_TRUE(parse_sense(Bytes(out).first(encode_sense(sense, format, out)), back));
            EXPECT_EQ(back, sense);
        }
}

TEST(Sense, omits_a_large_lba_from_fixed_format_and_keeps_it_in_descriptors) {
    Sense sense = kMediumSense;
    sense.information = 0x100000000;
    std::array<std::byte, kSenseMax> out;
    Sense back;
    ASSERT_TRUE(parse_sense(Bytes(out).first(encode_sense(sense, SenseFormat::kFixed, out)), back));
    EXPECT_FALSE(back.has_information) << "a truncated LBA would name the wrong block";
    ASSERT_TRUE(parse_sense(Bytes(out).first(encode_sense(sense, SenseFormat::kDescriptor, out)), back));
    EXPECT_EQ(back.information, 0x100000000u);
}

TEST(Sense, that_is_truncated_is_parsed_as_far_as_it_goes) {
    Sense back;
    EXPECT_FALSE(parse_sense(from_hex("70 00 05 00000000"), back));
    ASSERT_TRUE(parse_sense(from_hex("70 00 05 00000000 0a"), back));
    EXPECT_EQ(back.key, SenseKey::kIllegalRequest);
    EXPECT_EQ(back.code, AdditionalSense::kNone);
    ASSERT_TRUE(parse_sense(from_hex("70 00 05 00000000 00 00000000 24 00"), back));
    EXPECT_EQ(back.code, AdditionalSense::kNone) << "bytes beyond the additional length do not count";
    ASSERT_TRUE(parse_sense(from_hex("72 03 11 00 000000 0c 00 0a 80 00 00000000"), back));
    EXPECT_EQ(back.key, SenseKey::kMediumError);
    EXPECT_FALSE(back.has_information);
    EXPECT_FALSE(parse_sense(from_hex("7f 00 05 00000000 0a"), back)) << "vendor-specific format";
}

TEST(Sense, is_found_after_descriptors_of_other_kinds) {
    Sense back;
    ASSERT_TRUE(parse_sense(
        from_hex("73 0b 47 00 000000 14  80 02 aabb 0902 ccdd  00 0a 80 00 0000000000000042"), back));
    EXPECT_EQ(back.information, 0x42u);
}

// ---- Responses of a stock target and of a hostile one

TEST(Inquiry, of_a_stock_target_is_parsed) {
    StandardInquiry out;
    ASSERT_TRUE(parse_standard_inquiry(from_hex("00 00 06 02 1f 00 00 02 4c494f2d4f524700"
                                                "52414d4449534b2d4d4350 2020202020 342e3020"),
                                       out));
    EXPECT_TRUE(out.present);
    EXPECT_EQ(out.version, 6);
    EXPECT_STREQ(out.vendor.data(), "LIO-ORG");
    EXPECT_STREQ(out.product.data(), "RAMDISK-MCP");
    EXPECT_STREQ(out.revision.data(), "4.0");
    ASSERT_TRUE(parse_standard_inquiry(from_hex("7f 00 06 02 1f"), out));
    EXPECT_FALSE(out.present);
    EXPECT_STREQ(out.vendor.data(), "") << "a unit that is absent has no vendor, not the previous one";
    EXPECT_FALSE(parse_standard_inquiry(from_hex("00 00 06 02"), out));
}

TEST(Inquiry, names_cannot_control_the_terminal) {
    StandardInquiry out;
    ASSERT_TRUE(parse_standard_inquiry(from_hex("00 00 06 02 1f 00 00 02 1b5b33316d202020"
                                                "52414d4449534b2d4d4350 2020202020 342e3020"),
                                       out));
    EXPECT_STREQ(out.vendor.data(), "?[31m");
}

TEST(Identification, uses_the_designator_of_the_unit_and_not_of_the_port) {
    Identification out;
    std::vector<std::byte> page = from_hex(
        "00 83 0030"
        "41 93 00 08 2000000000000001"                  // NAA of the target port
        "01 03 00 10 60014050112233445566778899aabbcc"  // NAA 6 of the unit
        "02 01 00 0c 5753532020202020 64617461");       // T10 vendor id
    ASSERT_TRUE(parse_identification(page, out));
    EXPECT_TRUE(out.has_naa);
    EXPECT_EQ(out.naa, 0x6001405011223344u);
    EXPECT_EQ(out.vendor, "WSS");
    EXPECT_EQ(out.name, "data");
}

TEST(Identification, reads_no_designator_beyond_the_page) {
    Identification out;
    ASSERT_TRUE(parse_identification(from_hex("00 83 000c 01 03 00 ff 6001405011223344"), out));
    EXPECT_FALSE(out.has_naa);
    ASSERT_TRUE(parse_identification(from_hex("00 83 0004 01 03 00 08 6001405011223344"), out));
    EXPECT_FALSE(out.has_naa) << "the page's own length counts";
    EXPECT_FALSE(parse_identification(from_hex("00 80 0004 01 03 00 08"), out)) << "another page";
    EXPECT_FALSE(parse_identification(from_hex("00 83 00"), out));
}

TEST(Capacity, is_refused_if_arithmetic_would_overflow) {
    Capacity out;
    ASSERT_TRUE(parse_capacity16(from_hex("00000000000007ff 00000200 00 03 c0 00"), out));
    EXPECT_EQ(out.blocks, 2048u);
    EXPECT_EQ(out.physical_block, 4096u);
    EXPECT_TRUE(out.provisioning);
    EXPECT_TRUE(out.unmapped_reads_zero);
    EXPECT_FALSE(parse_capacity16(from_hex("ffffffffffffffff 00000200 00 00 00 00"), out));
    EXPECT_FALSE(parse_capacity16(from_hex("003fffffffffffff 00000200 00 00 00 00"), out)) << "2^63 bytes";
    EXPECT_TRUE(parse_capacity16(from_hex("003ffffffffffffe 00000200 00 00 00 00"), out));
    for (const char* block : {"00000000", "00000001", "00000100", "00000208", "00020000", "80000000"})
        EXPECT_FALSE(parse_capacity16(from_hex("00000000000007ff" + std::string(block) + "00000000"), out))
            << block;
    EXPECT_FALSE(parse_capacity16(from_hex("00000000000007ff 00000200 00 03 c0"), out));
}

TEST(BlockLimits, in_a_short_page_of_an_old_target_mean_no_unmap) {
    BlockLimits out;
    ASSERT_TRUE(parse_block_limits(from_hex("00 b0 000c 0000 0008 00000800 00000100"), out));
    EXPECT_EQ(out.optimal_granularity, 8);
    EXPECT_EQ(out.transfer_max, 2048u);
    EXPECT_EQ(out.unmap_blocks_max, 0u);
    EXPECT_EQ(out.write_same_max, 0u);
}

TEST(ModeSense, finds_the_caching_page_among_others) {
    ModeInfo out;
    ASSERT_TRUE(parse_mode_sense10(from_hex("0038 00 90 00 00 0008 0000000000000200"
                                            "0a 0a 0000000000000000 0000"
                                            "4a 01 0004 00000000"
                                            "88 12 04 00 00000000000000000000000000000000"),
                                   out));
    EXPECT_TRUE(out.write_protected);
    EXPECT_TRUE(out.dpo_fua);
    EXPECT_TRUE(out.has_caching);
    EXPECT_TRUE(out.write_cache);
}

TEST(ModeSense, tolerates_contradictory_lengths) {
    ModeInfo out;
    EXPECT_FALSE(parse_mode_sense10(from_hex("0038 00 90 00 00 0009 0000000000000200"), out));
    EXPECT_FALSE(parse_mode_sense10(from_hex("0000 00 90 00 00 0000"), out)) << "declares less than a header";
    ASSERT_TRUE(parse_mode_sense10(from_hex("ffff 00 00 00 00 0000 08 12 04"), out));
    EXPECT_TRUE(out.write_cache) << "present bytes count";
    ASSERT_TRUE(parse_mode_sense10(from_hex("ffff 00 00 00 00 0000 08 12"), out));
    EXPECT_FALSE(out.has_caching);
}

TEST(ReportLuns, shows_whether_it_is_complete) {
    LunList out;
    std::vector<std::byte> data = from_hex("00000010 00000000 0000000000000000 0003000000000000");
    ASSERT_TRUE(parse_report_luns(data, out));
    EXPECT_TRUE(out.complete);
    ASSERT_EQ(out.count, 2u);
    EXPECT_EQ(out.lun(1), 3u);
    put32(&data[0], 0x18);
    ASSERT_TRUE(parse_report_luns(data, out));
    EXPECT_FALSE(out.complete);
    EXPECT_EQ(out.needed_bytes, 0x20u);
    EXPECT_EQ(out.count, 2u);
    put32(&data[0], 0xfffffff8);
    EXPECT_FALSE(parse_report_luns(data, out)) << "no target has that many";
    put32(&data[0], 0x11);
    EXPECT_FALSE(parse_report_luns(data, out));
}

TEST(VpdPages, list_the_supported_pages) {
    VpdPages out;
    ASSERT_TRUE(parse_vpd_pages(from_hex("00 00 0003 00 83 b0"), out));
    EXPECT_TRUE(out.has(0x83));
    EXPECT_TRUE(out.has(0xb0));
    EXPECT_FALSE(out.has(0xb1));
}

}  // namespace
}  // namespace wss::wire
