// SPDX-License-Identifier: Apache-2.0
// REPORT LUNS, REPORT SUPPORTED OPERATION CODES, REQUEST SENSE and unit attentions.
#include <gtest/gtest.h>

#include "lib/wire/srp.h"
#include "target/scsi/commands.h"
#include "tests/unit/scsi/unit.h"

namespace wss::scsi {
namespace {

TEST(ReportLuns, lists_existing_units) {
    Unit unit;
    EXPECT_EQ(unit.answer("a0 00 00 000000 00001000 00 00"),
              spaced("00000018 00000000 0000000000000000 0001000000000000 412c000000000000"));
    EXPECT_EQ(unit.answer("a0 00 02 000000 00001000 00 00"), unit.answer("a0 00 00 000000 00001000 00 00"));
    EXPECT_EQ(unit.answer("a0 00 01 000000 00001000 00 00"), spaced("00000000 00000000"))
        << "well-known: none";
    EXPECT_EQ(sense_of(unit.run("a0 00 03 000000 00001000 00 00")), "05/24/00 @2");
}

TEST(ReportLuns, that_is_truncated_reports_its_complete_length) {
    Unit unit;
    EXPECT_EQ(unit.answer("a0 00 00 000000 00000010 00 00"), spaced("00000018 00000000 0000000000000000"));
    wire::LunList list;
    ASSERT_TRUE(wire::parse_report_luns(unit.answer(unit.run(wire::make_report_luns(16))), list));
    EXPECT_FALSE(list.complete);
    ASSERT_TRUE(
        wire::parse_report_luns(unit.answer(unit.run(wire::make_report_luns(list.needed_bytes))), list));
    EXPECT_TRUE(list.complete);
    EXPECT_EQ(list.lun(2), 300u);
}

TEST(ReportLuns, is_answered_by_an_absent_unit) {
    Unit unit;
    unit.device = Device{.present = false};
    EXPECT_EQ(unit.run("a0 00 00 000000 00001000 00 00").data_in_length, 32u);
}

// ---- REPORT SUPPORTED OPERATION CODES.

TEST(ReportOpcodes, reports_one_command_with_its_usage_map) {
    Unit unit;
    EXPECT_EQ(unit.answer("a3 0c 01 28 0000 000000ff 00 00"), spaced("00 03 000a 28 18 ffffffff 00 ffff 00"));
    EXPECT_EQ(unit.answer("a3 0c 02 9e 0010 000000ff 00 00"),
              spaced("00 03 0010 9e 10 0000000000000000 ffffffff 00 00"));
    EXPECT_EQ(unit.answer("a3 0c 03 93 0000 000000ff 00 00"),
              spaced("00 03 0010 93 09 ffffffffffffffff ffffffff 00 00"));
}

TEST(ReportOpcodes, reports_an_unsupported_command_and_does_not_refuse_it) {
    Unit unit;
    EXPECT_EQ(unit.answer("a3 0c 01 15 0000 000000ff 00 00"), spaced("00 01 0000"));
    EXPECT_EQ(unit.answer("a3 0c 02 9e 0011 000000ff 00 00"), spaced("00 01 0000"));
    EXPECT_EQ(unit.answer("a3 0c 03 9e 0110 000000ff 00 00"), spaced("00 01 0000"))
        << "action beyond five bits";
    EXPECT_EQ(unit.answer("a3 0c 03 28 0001 000000ff 00 00"), spaced("00 01 0000"));
    unit.device.discard = false;
    EXPECT_EQ(unit.answer("a3 0c 01 42 0000 000000ff 00 00"), spaced("00 01 0000"));
}

TEST(ReportOpcodes, refuses_a_format_that_does_not_match_the_opcode) {
    Unit unit;
    EXPECT_EQ(sense_of(unit.run("a3 0c 01 9e 0000 000000ff 00 00")), "05/24/00 @2.2")
        << "has service actions";
    EXPECT_EQ(sense_of(unit.run("a3 0c 02 28 0000 000000ff 00 00")), "05/24/00 @2.2") << "has none";
    EXPECT_EQ(sense_of(unit.run("a3 0c 04 28 0000 000000ff 00 00")), "05/24/00 @2.2");
    EXPECT_EQ(sense_of(unit.run("a3 0c 08 28 0000 000000ff 00 00")), "05/24/00 @2.3");
}

TEST(ReportOpcodes, returns_a_timeouts_descriptor_on_request_that_promises_nothing) {
    Unit unit;
    EXPECT_EQ(unit.answer("a3 0c 81 00 0000 000000ff 00 00"),
              spaced("00 83 0006 00 00000000 00  000a 00000000000000000000"));
}

TEST(ReportOpcodes, lists_all_commands_of_the_table) {
    Unit unit;
    Action action = unit.run("a3 0c 00 00 0000 00001000 00 00");
    wire::Bytes answer = unit.answer(action);
    ASSERT_EQ(answer.size(), 4 + 8 * command_rows().size());
    EXPECT_EQ(wire::get32(&answer[0]), answer.size() - 4);
    for (size_t i = 0; i < command_rows().size(); i++) {
        const std::byte* entry = &answer[4 + 8 * i];
        const Row& row = command_rows()[i];
        EXPECT_EQ(wire::get8(entry), row.opcode);
        EXPECT_EQ(wire::get8(entry + 5), row.service_action == kNoServiceAction ? 0 : 1);
        EXPECT_EQ(wire::get16(entry + 6), row.length);
    }
    EXPECT_EQ(unit.run("a3 0c 80 00 0000 00001000 00 00").data_in_length, 4 + 20 * command_rows().size());
}

TEST(ReportOpcodes, has_a_consistent_table) {
    for (const Row& row : command_rows()) {
        EXPECT_EQ(row.usage[0], row.opcode);
        if (row.service_action != kNoServiceAction) {
            EXPECT_EQ(row.usage[1], row.service_action);
        }
        constexpr uint8_t kLengthOfGroup[] = {6, 10, 10, 0, 16, 12, 0, 0};
        EXPECT_EQ(row.length, kLengthOfGroup[row.opcode >> 5]) << unsigned(row.opcode);
        for (size_t i = row.length; i < row.usage.size(); i++) EXPECT_EQ(row.usage[i], 0);
    }
}

// Every bit of every command: a bit inside the usage map may be refused for its value, but not as reserved. A
// bit outside is refused with its own position as the field pointer.
TEST(ReportOpcodes, has_usage_maps_that_match_the_checks) {
    for (const Row& row : command_rows())
        for (size_t byte = 1; byte < row.length; byte++)
            for (int bit = 0; bit < 8; bit++) {
                if (byte == 1 && row.service_action != kNoServiceAction && bit < 5) continue;
                if (row.usage[byte] >> bit & 1) continue;
                Unit unit;
                std::array<std::byte, 16> cdb{};
                cdb[0] = std::byte{row.opcode};
                if (row.service_action != kNoServiceAction) cdb[1] = std::byte(row.service_action);
                cdb[byte] |= std::byte(1 << bit);
                std::string at = std::to_string(byte) + "." + std::to_string(bit);
                EXPECT_EQ(sense_of(unit.run(cdb)), "05/24/00 @" + at) << "opcode " << unsigned(row.opcode);
            }
}

// ---- REQUEST SENSE and unit attentions.

TEST(RequestSense, returns_no_sense_in_most_cases) {
    Unit unit;
    EXPECT_EQ(unit.answer("03 00 00 00 ff 00"), spaced("70 00 00 00000000 0a 00000000 0000 00 000000"));
    EXPECT_EQ(unit.answer("03 01 00 00 ff 00"), spaced("72 00 0000 000000 00"));
    EXPECT_EQ(unit.answer("03 00 00 00 04 00"), spaced("70 00 00 00"));
    unit.device = Device{.present = false};
    EXPECT_EQ(unit.answer("03 00 00 00 ff 00"), spaced("70 00 05 00000000 0a 00000000 2500 00 000000"));
}

TEST(UnitAttention, fails_one_command_and_is_cleared) {
    Unit unit;
    unit.attentions.add(Attention::kCapacityChanged);
    EXPECT_EQ(sense_of(unit.run("28 00 00000010 00 0008 00")), "06/2a/09");
    EXPECT_EQ(unit.run("28 00 00000010 00 0008 00").kind, Kind::kRead);
}

TEST(UnitAttention, precedes_every_other_error) {
    Unit unit;
    unit.attentions.add(Attention::kReset);
    EXPECT_EQ(sense_of(unit.run("ff")), "06/29/03");
    EXPECT_EQ(sense_of(unit.run("ff")), "05/20/00");
}

TEST(UnitAttention, stays_while_inquiry_and_report_luns_are_answered) {
    Unit unit;
    unit.attentions.add(Attention::kCapacityChanged);
    EXPECT_EQ(unit.run("12 00 00 00ff 00").kind, Kind::kRespond);
    EXPECT_EQ(unit.run("a0 00 00 000000 00001000 00 00").kind, Kind::kRespond);
    EXPECT_EQ(sense_of(unit.run("00")), "06/2a/09");
}

TEST(UnitAttention, is_returned_by_request_sense) {
    Unit unit;
    unit.attentions.add(Attention::kInquiryChanged);
    EXPECT_EQ(unit.answer("03 01 00 00 ff 00"), spaced("72 06 3f03 000000 00"));
    EXPECT_TRUE(unit.attentions.empty());
}

TEST(UnitAttention, about_luns_is_cleared_by_report_luns) {
    Unit unit;
    unit.attentions.add(Attention::kLunsChanged);
    unit.run("a0 00 00 000000 00001000 00 00");
    EXPECT_EQ(unit.run("00").kind, Kind::kRespond);
}

TEST(UnitAttention, is_reported_once_and_the_most_important_one_first) {
    UnitAttentions attentions;
    for (Attention a : {Attention::kModeChanged, Attention::kPowerOn, Attention::kCapacityChanged,
                        Attention::kPowerOn, Attention::kLunsChanged})
        attentions.add(a);
    EXPECT_EQ(attentions.take().code, AdditionalSense::kPowerOn);
    EXPECT_EQ(attentions.take().code, AdditionalSense::kReportedLunsChanged);
    EXPECT_EQ(attentions.take().code, AdditionalSense::kCapacityChanged);
    EXPECT_EQ(attentions.take().code, AdditionalSense::kModeParametersChanged);
    EXPECT_TRUE(attentions.empty());
}

TEST(UnitAttention, without_a_nexus_does_not_occur) {
    Unit unit;
    std::vector<std::byte> cdb = from_hex("00 00 00 00 00 00");
    EXPECT_EQ(interpret(cdb, unit.device, unit.luns, nullptr, unit.data_in).kind, Kind::kRespond);
}

}  // namespace
}  // namespace wss::scsi
