// SPDX-License-Identifier: Apache-2.0
// INQUIRY, its pages, READ CAPACITY and MODE SENSE: bytes against the standard's tables, and the same data
// read by the initiator library's parsers.
#include <gtest/gtest.h>

#include "tests/unit/scsi/unit.h"

namespace wss::scsi {
namespace {

TEST(Inquiry, returns_standard_data_that_matches_the_standard) {
    Unit unit;
    EXPECT_EQ(unit.answer("12 00 00 00ff 00"),
              spaced("00 00 06 12 45 00 00 02"
                     "5753532020202020"                  // WSS
                     "566f6c756d6520202020202020202020"  // Volume
                     "31202020"
                     "00000000000000000000000000000000000000000000"
                     "00a0 0460 04c0 0940 0000000000000000"));
}

TEST(Inquiry, truncates_its_answer_and_not_the_length_field_to_the_allocation_length) {
    Unit unit;
    EXPECT_EQ(unit.answer("12 00 00 0005 00"), spaced("00 00 06 12 45"));
    EXPECT_EQ(unit.answer("12 00 00 0000 00"), "");
    EXPECT_EQ(unit.answer("12 01 00 0004 00"), spaced("00 00 00 06"));
}

TEST(Inquiry, is_truncated_by_a_small_buffer_as_by_a_small_allocation_length) {
    Unit unit;
    unit.data_in.resize(3);
    EXPECT_EQ(unit.answer("12 00 00 00ff 00"), spaced("00 00 06"));
}

TEST(Inquiry, page_00_lists_the_pages_in_order) {
    Unit unit;
    EXPECT_EQ(unit.answer("12 01 00 00ff 00"), spaced("00 00 00 06 00 80 83 b0 b1 b2"));
}

TEST(Inquiry, answers_each_listed_page_and_no_other) {
    Unit unit;
    wire::VpdPages pages;
    Action list = unit.run("12 01 00 00ff 00");
    ASSERT_TRUE(wire::parse_vpd_pages(unit.answer(list), pages));
    for (unsigned page = 0; page < 256; page++) {
        wire::Cdb cdb = wire::make_inquiry_page(uint8_t(page), 255);
        Action action = unit.run(cdb);
        if (!pages.has(uint8_t(page))) {
            EXPECT_EQ(sense_of(action), "05/24/00 @2") << page;
            continue;
        }
        ASSERT_EQ(action.kind, Kind::kRespond) << page;
        wire::Bytes answer = unit.answer(action);
        EXPECT_EQ(wire::get8(&answer[1]), page);
        EXPECT_EQ(wire::get16(&answer[2]), answer.size() - 4) << page;
    }
}

TEST(Inquiry, page_80_is_the_wwid_in_hexadecimal) {
    Unit unit;
    EXPECT_EQ(unit.answer("12 01 80 00ff 00"), spaced("00 80 00 10 30313233343536373839616263646566"));
}

TEST(Inquiry, page_83_names_the_unit_and_the_port) {
    Unit unit;
    EXPECT_EQ(unit.answer("12 01 83 00ff 00"),
              spaced("00 83 00 35"
                     "01 03 00 08 3123456789abcdef"
                     "02 01 00 1d 5753532020202020 64617461 3a 33313233343536373839616263646566"
                     "41 94 00 04 00000001"));
}

TEST(Inquiry, page_83_is_readable_by_our_initiator) {
    Unit unit;
    unit.device.wwid = ~uint64_t{0};
    unit.device.name = "größe";
    Action action = unit.run("12 01 83 00ff 00");
    wire::Identification out;
    ASSERT_TRUE(wire::parse_identification(unit.answer(action), out));
    EXPECT_EQ(out.naa, 0x3fffffffffffffffu) << "60 bits and type 3, whatever the wwid";
    EXPECT_EQ(out.vendor, "WSS");
    EXPECT_EQ(out.name, "größe:3fffffffffffffff") << "some initiators read only this designator";
}

TEST(Inquiry, page_83_has_room_for_the_longest_name) {
    Unit unit;
    std::string name(300, 'x');
    unit.device.name = name;
    Action action = unit.run("12 01 83 ffff 00");
    wire::Identification out;
    ASSERT_TRUE(wire::parse_identification(unit.answer(action), out));
    EXPECT_EQ(out.name.substr(0, out.name.rfind(':')), name.substr(0, 230))
        << "a designator's length is one byte";
}

TEST(Inquiry, pages_b0_b1_b2_are_readable_by_our_initiator) {
    Unit unit;
    wire::BlockLimits limits;
    ASSERT_TRUE(wire::parse_block_limits(unit.answer(unit.run("12 01 b0 00ff 00")), limits));
    EXPECT_TRUE(limits.zero_length_write_same_refused);
    EXPECT_EQ(limits.compare_and_write_max, 16);
    EXPECT_EQ(limits.optimal_granularity, 8);
    EXPECT_EQ(limits.transfer_max, 2048u);
    EXPECT_EQ(limits.transfer_optimal, 256u);
    EXPECT_EQ(limits.unmap_blocks_max, 0x100000u);
    EXPECT_EQ(limits.unmap_ranges_max, 256u);
    EXPECT_EQ(limits.unmap_granularity, 8u);
    EXPECT_FALSE(limits.has_unmap_alignment);
    EXPECT_EQ(limits.write_same_max, 0x100000u);

    wire::BlockCharacteristics characteristics;
    ASSERT_TRUE(
        wire::parse_block_characteristics(unit.answer(unit.run("12 01 b1 00ff 00")), characteristics));
    EXPECT_EQ(characteristics.rotation_rate, 1);

    wire::Provisioning provisioning;
    ASSERT_TRUE(wire::parse_provisioning(unit.answer(unit.run("12 01 b2 00ff 00")), provisioning));
    EXPECT_TRUE(provisioning.unmap && provisioning.write_same && provisioning.write_same10);
    EXPECT_TRUE(provisioning.reads_zero);
}

void expect_no_discard_promised(Unit& unit) {
    wire::BlockLimits limits;
    ASSERT_TRUE(wire::parse_block_limits(unit.answer(unit.run("12 01 b0 00ff 00")), limits));
    EXPECT_EQ(limits.unmap_blocks_max, 0u);
    EXPECT_EQ(limits.unmap_ranges_max, 0u);
    wire::Provisioning provisioning;
    ASSERT_TRUE(wire::parse_provisioning(unit.answer(unit.run("12 01 b2 00ff 00")), provisioning));
    EXPECT_FALSE(provisioning.unmap || provisioning.write_same || provisioning.write_same10);
    wire::Capacity capacity;
    ASSERT_TRUE(
        wire::parse_capacity16(unit.answer(unit.run("9e 10 0000000000000000 00000020 00 00")), capacity));
    EXPECT_FALSE(capacity.provisioning);
}

TEST(Inquiry, of_a_volume_without_discard_promises_none) {
    Unit unit;
    unit.device.discard = false;
    expect_no_discard_promised(unit);
}

TEST(Inquiry, of_a_read_only_volume_promises_no_discard) {
    Unit unit;
    unit.device.read_only = true;
    expect_no_discard_promised(unit);
}

TEST(Inquiry, has_a_transfer_limit_that_keeps_the_number_of_bytes_within_32_bits) {
    Unit unit;
    unit.device.block_size = 65536;
    unit.device.max_transfer_blocks = 0;
    wire::BlockLimits limits;
    ASSERT_TRUE(wire::parse_block_limits(unit.answer(unit.run("12 01 b0 00ff 00")), limits));
    EXPECT_EQ(limits.transfer_max, 65535u);
}

TEST(Inquiry, reports_an_absent_unit_as_absent) {
    Unit unit;
    unit.device = Device{.present = false};
    EXPECT_EQ(unit.answer("12 00 00 0003 00"), spaced("7f 00 06"));
    EXPECT_EQ(unit.answer("12 01 00 00ff 00"), spaced("7f 00 00 01 00"));
    EXPECT_EQ(sense_of(unit.run("12 01 83 00ff 00")), "05/24/00 @2");
    wire::StandardInquiry out;
    ASSERT_TRUE(wire::parse_standard_inquiry(unit.answer(unit.run("12 00 00 00ff 00")), out));
    EXPECT_FALSE(out.present);
}

TEST(Inquiry, of_a_page_without_evpd_is_refused) {
    Unit unit;
    EXPECT_EQ(sense_of(unit.run("12 00 80 00ff 00")), "05/24/00 @2");
    EXPECT_EQ(sense_of(unit.run("12 02 00 00ff 00")), "05/24/00 @1.1") << "CMDDT is obsolete";
}

// ---- Capacity.

TEST(ReadCapacity, has_a_ten_byte_answer_that_matches_the_standard) {
    Unit unit;
    EXPECT_EQ(unit.answer("25"), spaced("001fffff 00000200"));
    unit.device.blocks = uint64_t{UINT32_MAX} + 1;
    EXPECT_EQ(unit.answer("25"), spaced("ffffffff 00000200"));
    unit.device.blocks = uint64_t{1} << 40;
    EXPECT_EQ(unit.answer("25"), spaced("ffffffff 00000200")) << "use READ CAPACITY (16)";
}

TEST(ReadCapacity, has_a_sixteen_byte_answer_that_matches_the_standard) {
    Unit unit;
    unit.device.blocks = uint64_t{1} << 40;
    EXPECT_EQ(unit.answer("9e 10 0000000000000000 00000020 00 00"),
              spaced("000000ffffffffff 00000200 00 03 c0 00 00000000000000000000000000000000"));
    EXPECT_EQ(unit.answer("9e 10 0000000000000000 00000008 00 00"), spaced("000000ffffffffff"));
    wire::Capacity out;
    ASSERT_TRUE(wire::parse_capacity16(unit.answer(unit.run(wire::make_read_capacity16(32))), out));
    EXPECT_EQ(out.blocks, uint64_t{1} << 40);
    EXPECT_EQ(out.physical_block, 4096u);
}

TEST(ReadCapacity, of_an_empty_volume_is_not_ready) {
    Unit unit;
    unit.device.blocks = 0;
    EXPECT_EQ(sense_of(unit.run("25")), "02/04/00");
    EXPECT_EQ(sense_of(unit.run(wire::make_read_capacity16(32))), "02/04/00");
    EXPECT_EQ(sense_of(unit.run("00")), "02/04/00");
    EXPECT_EQ(unit.run("12 00 00 00ff 00").kind, Kind::kRespond);
}

// ---- Mode sense.

TEST(ModeSense, returns_all_pages_to_the_six_byte_command) {
    Unit unit;
    EXPECT_EQ(unit.answer("1a 00 3f 00 ff 00"), spaced("37 00 10 08  00200000 00000200"
                                                       "08 12 04 00 0000 0000 0000 0000 00 00 00 00 00000000"
                                                       "0a 0a 20 10 00 40 00 00 ffff 0000"
                                                       "1c 0a 08 00 00000000 00000000"));
}

TEST(ModeSense, returns_the_caching_page_alone_to_the_ten_byte_command) {
    Unit unit;
    EXPECT_EQ(unit.answer("5a 08 08 00 000000 00ff 00"),
              spaced("001a 00 10 00 00 0000 08 12 04 00 0000 0000 0000 0000 00 00 00 00 00000000"));
    wire::ModeInfo out;
    unit.device.read_only = true;
    unit.device.volatile_cache = false;
    ASSERT_TRUE(wire::parse_mode_sense10(unit.answer(unit.run(wire::make_mode_sense10(0x3f, 255))), out));
    EXPECT_TRUE(out.write_protected && out.dpo_fua && out.has_caching);
    EXPECT_FALSE(out.write_cache);
}

TEST(ModeSense, returns_a_large_capacity_in_a_long_descriptor_to_the_ten_byte_command) {
    Unit unit;
    unit.device.blocks = uint64_t{1} << 40;
    EXPECT_EQ(
        unit.answer("5a 10 1c 00 000000 00ff 00"),
        spaced("0022 00 10 01 00 0010 0000010000000000 00000000 00000200 1c 0a 08 00 00000000 00000000"));
    EXPECT_EQ(unit.answer("5a 00 1c 00 000000 0010 00"), spaced("001a 00 10 00 00 0008 ffffffff 00000200"));
}

TEST(ModeSense, reports_nothing_as_changeable) {
    Unit unit;
    EXPECT_EQ(unit.answer("1a 08 48 00 ff 00"),
              spaced("17 00 10 00 08 12 000000000000000000000000000000000000"));
    EXPECT_EQ(unit.answer("1a 08 88 00 ff 00"), unit.answer("1a 08 08 00 ff 00")) << "default is current";
    EXPECT_EQ(sense_of(unit.run("1a 08 c8 00 ff 00")), "05/39/00") << "no values are saved";
}

TEST(ModeSense, of_an_unknown_page_or_subpage_is_refused) {
    Unit unit;
    EXPECT_EQ(sense_of(unit.run("1a 00 01 00 ff 00")), "05/24/00 @2.5");
    EXPECT_EQ(sense_of(unit.run("1a 00 0a 01 ff 00")), "05/24/00 @3");
    EXPECT_EQ(sense_of(unit.run("5a 00 3f 01 000000 00ff 00")), "05/24/00 @3");
    EXPECT_EQ(unit.answer("1a 08 3f ff ff 00"), unit.answer("1a 08 3f 00 ff 00"));
}

TEST(ModeSense, shows_the_format_of_sense_data_in_d_sense) {
    Unit unit;
    unit.device.blocks = uint64_t{UINT32_MAX} + 1;
    EXPECT_EQ(unit.answer("1a 08 0a 00 ff 00").substr(18, 2), "20") << "TST";
    EXPECT_EQ(sense_format(unit.device), wire::SenseFormat::kFixed) << "the last LBA still fits";
    unit.device.blocks++;
    EXPECT_EQ(unit.answer("1a 08 0a 00 ff 00").substr(18, 2), "24");
    EXPECT_EQ(sense_format(unit.device), wire::SenseFormat::kDescriptor);
}

}  // namespace
}  // namespace wss::scsi
