// SPDX-License-Identifier: Apache-2.0
// Commands that name blocks: the resulting actions, and each possible error.
#include <gtest/gtest.h>

#include "tests/unit/scsi/unit.h"

namespace wss::scsi {
namespace {

struct Wanted {
    const char* name;
    const char* cdb;
    Kind kind;
    uint64_t lba;
    uint64_t blocks;
    uint32_t data_out;
    uint32_t data_in;
    bool fua = false;
    bool unmap = false;
    bool no_data_out = false;
};

class BlockCommand : public testing::TestWithParam<Wanted> {};

TEST_P(BlockCommand, becomes_an_action) {
    const Wanted& wanted = GetParam();
    Unit unit;
    Action action = unit.run(wanted.cdb);
    ASSERT_EQ(sense_of(action), "") << wanted.name;
    EXPECT_EQ(action.kind, wanted.kind) << wanted.name;
    EXPECT_EQ(action.status, wire::kGood) << wanted.name;
    EXPECT_EQ(action.lba, wanted.lba) << wanted.name;
    EXPECT_EQ(action.blocks, wanted.blocks) << wanted.name;
    EXPECT_EQ(action.data_out_length, wanted.data_out) << wanted.name;
    EXPECT_EQ(action.data_in_length, wanted.data_in) << wanted.name;
    EXPECT_EQ(action.fua, wanted.fua) << wanted.name;
    EXPECT_EQ(action.unmap, wanted.unmap) << wanted.name;
    EXPECT_EQ(action.no_data_out, wanted.no_data_out) << wanted.name;
}

// The device has 200000h blocks of 200h bytes.
INSTANTIATE_TEST_SUITE_P(
    Scsi, BlockCommand,
    testing::Values(
        Wanted{"READ (6)", "08 1f ffff 01 00", Kind::kRead, 0x1fffff, 1, 0, 0x200},
        Wanted{"READ (6) of 0 is 256", "08 00 0010 00 00", Kind::kRead, 0x10, 256, 0, 0x20000},
        Wanted{"READ (10)", "28 00 00000010 00 0008 00", Kind::kRead, 0x10, 8, 0, 0x1000},
        Wanted{"READ (10) FUA and DPO", "28 18 00000010 00 0008 00", Kind::kRead, 0x10, 8, 0, 0x1000, true},
        Wanted{"READ (12)", "a8 00 00000010 00000008 00 00", Kind::kRead, 0x10, 8, 0, 0x1000},
        Wanted{"READ (16)", "88 00 0000000000000010 00000008 00 00", Kind::kRead, 0x10, 8, 0, 0x1000},
        Wanted{"READ (16) of the last block", "88 00 00000000001fffff 00000001 00 00", Kind::kRead, 0x1fffff,
               1, 0, 0x200},
        Wanted{"READ (16) of the maximum", "88 00 0000000000000000 00000800 00 00", Kind::kRead, 0, 0x800, 0,
               0x100000},
        Wanted{"READ (10) of 0 does nothing", "28 00 00000010 00 0000 00", Kind::kRespond, 0, 0, 0, 0},
        Wanted{"WRITE (6)", "0a 00 0010 08 00", Kind::kWrite, 0x10, 8, 0x1000, 0},
        Wanted{"WRITE (10)", "2a 00 00000010 00 0008 00", Kind::kWrite, 0x10, 8, 0x1000, 0},
        Wanted{"WRITE (12)", "aa 08 00000010 00000008 00 00", Kind::kWrite, 0x10, 8, 0x1000, 0, true},
        Wanted{"WRITE (16)", "8a 08 0000000000000010 00000008 00 00", Kind::kWrite, 0x10, 8, 0x1000, 0, true},
        Wanted{"WRITE (16) of 0 does nothing", "8a 08 0000000000000010 00000000 00 00", Kind::kRespond, 0, 0,
               0, 0},
        Wanted{"VERIFY (10) medium", "2f 00 00000010 00 0008 00", Kind::kVerify, 0x10, 8, 0, 0},
        Wanted{"VERIFY (10) bytes", "2f 02 00000010 00 0008 00", Kind::kVerify, 0x10, 8, 0x1000, 0},
        Wanted{"VERIFY (12) bytes", "af 12 00000010 00000008 00 00", Kind::kVerify, 0x10, 8, 0x1000, 0},
        Wanted{"VERIFY (16) bytes", "8f 02 0000000000000010 00000008 00 00", Kind::kVerify, 0x10, 8, 0x1000,
               0},
        Wanted{"SYNCHRONIZE CACHE (10) all", "35 00 00000000 00 0000 00", Kind::kFlush, 0, 0x200000, 0, 0},
        Wanted{"SYNCHRONIZE CACHE (10) rest, IMMED", "35 02 00000010 00 0000 00", Kind::kFlush, 0x10,
               0x1ffff0, 0, 0},
        Wanted{"SYNCHRONIZE CACHE (16) part", "91 00 0000000000000010 00000008 00 00", Kind::kFlush, 0x10, 8,
               0, 0},
        Wanted{"START STOP UNIT stop makes data stable", "1b 00 00 00 00 00", Kind::kFlush, 0, 0x200000, 0,
               0},
        Wanted{"START STOP UNIT stop, NO_FLUSH", "1b 00 00 00 04 00", Kind::kRespond, 0, 0, 0, 0},
        Wanted{"START STOP UNIT start, IMMED", "1b 01 00 00 01 00", Kind::kRespond, 0, 0, 0, 0},
        Wanted{"WRITE SAME (10)", "41 00 00000010 00 0008 00", Kind::kWriteSame, 0x10, 8, 0x200, 0},
        Wanted{"WRITE SAME (10) UNMAP", "41 08 00000010 00 0008 00", Kind::kWriteSame, 0x10, 8, 0x200, 0,
               false, true},
        Wanted{"WRITE SAME (16) beyond one transfer", "93 00 0000000000000010 00100000 00 00",
               Kind::kWriteSame, 0x10, 0x100000, 0x200, 0},
        Wanted{"WRITE SAME (16) NDOB", "93 01 0000000000000010 00000008 00 00", Kind::kWriteSame, 0x10, 8, 0,
               0, false, false, true},
        Wanted{"WRITE SAME (16) UNMAP NDOB", "93 09 0000000000000010 00000008 00 00", Kind::kWriteSame, 0x10,
               8, 0, 0, false, true, true},
        Wanted{"COMPARE AND WRITE", "89 08 0000000000000010 000000 02 00 00", Kind::kCompareAndWrite, 0x10, 2,
               0x800, 0, true},
        Wanted{"COMPARE AND WRITE of 0", "89 00 0000000000000010 000000 00 00 00", Kind::kRespond, 0, 0, 0,
               0},
        Wanted{"UNMAP", "42 00 00000000 00 0018 00", Kind::kUnmap, 0, 0, 24, 0},
        Wanted{"UNMAP of the longest list", "42 00 00000000 00 1008 00", Kind::kUnmap, 0, 0, 8 + 256 * 16, 0},
        Wanted{"UNMAP of nothing", "42 00 00000000 00 0000 00", Kind::kRespond, 0, 0, 0, 0},
        Wanted{"TEST UNIT READY", "00", Kind::kRespond, 0, 0, 0, 0}));

struct Wrong {
    const char* name;
    const char* cdb;
    const char* sense;
};

class WrongCommand : public testing::TestWithParam<Wrong> {};

TEST_P(WrongCommand, gets_the_standard_sense) {
    Unit unit;
    EXPECT_EQ(sense_of(unit.run(GetParam().cdb)), GetParam().sense) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    Scsi, WrongCommand,
    testing::Values(
        Wrong{"READ (10) beyond the end", "28 00 00200000 00 0001 00", "05/21/00 lba 2097152"},
        Wrong{"READ (10) across the end", "28 00 001fffff 00 0002 00", "05/21/00 lba 2097152"},
        Wrong{"READ (10) of 0 beyond the end", "28 00 00200000 00 0000 00", "05/21/00 lba 2097152"},
        Wrong{"READ (16) with a sum that wraps", "88 00 ffffffffffffffff 00000002 00 00",
              "05/21/00 lba 18446744073709551615"},
        Wrong{"READ (16) too long", "88 00 0000000000000000 00000801 00 00", "05/24/00 @10"},
        Wrong{"READ (12) too long", "a8 00 00000000 ffffffff 00 00", "05/24/00 @6"},
        Wrong{"WRITE (10) too long", "2a 00 00000000 00 0801 00", "05/24/00 @7"},
        Wrong{"READ (10) RDPROTECT", "28 20 00000010 00 0008 00", "05/24/00 @1.5"},
        Wrong{"READ (10) FUA_NV", "28 02 00000010 00 0008 00", "05/24/00 @1.1"},
        Wrong{"READ (10) group number", "28 00 00000010 01 0008 00", "05/24/00 @6.0"},
        Wrong{"READ (10) NACA", "28 00 00000010 00 0008 04", "05/24/00 @9.2"},
        Wrong{"READ (6) reserved bits", "08 20 0010 08 00", "05/24/00 @1.5"},
        Wrong{"WRITE (16) WRPROTECT", "8a e0 0000000000000010 00000008 00 00", "05/24/00 @1.7"},
        Wrong{"VERIFY (10) BYTCHK 2", "2f 04 00000010 00 0008 00", "05/24/00 @1.2"},
        Wrong{"VERIFY (10) BYTCHK 3", "2f 06 00000010 00 0008 00", "05/24/00 @1.2"},
        Wrong{"VERIFY (16) beyond the end", "8f 00 0000000000200000 00000001 00 00", "05/21/00 lba 2097152"},
        Wrong{"SYNCHRONIZE CACHE (16) across the end", "91 00 00000000001fffff 00000002 00 00",
              "05/21/00 lba 2097152"},
        Wrong{"SYNCHRONIZE CACHE (10) beyond the end", "35 00 00200000 00 0000 00", "05/21/00 lba 2097152"},
        Wrong{"START STOP UNIT load or eject", "1b 00 00 00 02 00", "05/24/00 @4.1"},
        Wrong{"START STOP UNIT power condition", "1b 00 00 00 10 00", "05/24/00 @4.4"},
        Wrong{"WRITE SAME (16) of 0", "93 00 0000000000000000 00000000 00 00", "05/24/00 @10"},
        Wrong{"WRITE SAME (16) too long", "93 00 0000000000000000 00100001 00 00", "05/24/00 @10"},
        Wrong{"WRITE SAME (16) ANCHOR", "93 18 0000000000000010 00000008 00 00", "05/24/00 @1.4"},
        Wrong{"WRITE SAME (10) NDOB", "41 01 00000010 00 0008 00", "05/24/00 @1.0"},
        Wrong{"COMPARE AND WRITE too long", "89 00 0000000000000010 000000 11 00 00", "05/24/00 @13"},
        Wrong{"COMPARE AND WRITE across the end", "89 00 00000000001fffff 000000 02 00 00",
              "05/21/00 lba 2097152"},
        Wrong{"UNMAP ANCHOR", "42 01 00000000 00 0018 00", "05/24/00 @1.0"},
        Wrong{"UNMAP list without a header", "42 00 00000000 00 0007 00", "05/1a/00"},
        Wrong{"UNMAP list too long", "42 00 00000000 00 1009 00", "05/24/00 @7"},
        Wrong{"READ CAPACITY (10) with an LBA", "25 00 00000001", "05/24/00 @5.0"},
        Wrong{"SERVICE ACTION IN (16) of another kind", "9e 12", "05/24/00 @1.4"},
        Wrong{"MAINTENANCE IN of another kind", "a3 0a", "05/24/00 @1.4"},
        Wrong{"MODE SELECT (6)", "15", "05/20/00"}, Wrong{"EXTENDED COPY", "83", "05/20/00"},
        Wrong{"READ (32)", "7f 00 00 00 00 00 00 18 00 09", "05/20/00"}, Wrong{"vendor", "ff", "05/20/00"}));

TEST(BlockCommand, is_refused_by_a_read_only_volume_if_it_writes_and_served_otherwise) {
    Unit unit;
    unit.device.read_only = true;
    for (const char* cdb : {"0a 00 0010 08 00", "2a 00 00000010 00 0008 00", "aa 00 00000010 00000008 00 00",
                            "8a 00 0000000000000010 00000008 00 00", "8a 00 0000000000000010 00000000 00 00",
                            "41 00 00000010 00 0008 00", "93 09 0000000000000010 00000008 00 00",
                            "89 00 0000000000000010 000000 02 00 00", "42 00 00000000 00 0018 00"})
        EXPECT_EQ(sense_of(unit.run(cdb)), "07/27/00") << cdb;
    EXPECT_EQ(unit.run("28 00 00000010 00 0008 00").kind, Kind::kRead);
    EXPECT_EQ(unit.run("2f 02 00000010 00 0008 00").kind, Kind::kVerify);
    EXPECT_EQ(unit.run("35").kind, Kind::kFlush);
}

TEST(BlockCommand, to_unmap_is_refused_by_a_volume_without_discard) {
    Unit unit;
    unit.device.discard = false;
    EXPECT_EQ(sense_of(unit.run("42 00 00000000 00 0018 00")), "05/20/00");
    EXPECT_EQ(sense_of(unit.run("93 08 0000000000000010 00000008 00 00")), "05/24/00 @1.3");
    EXPECT_EQ(unit.run("93 01 0000000000000010 00000008 00 00").kind, Kind::kWriteSame);
}

TEST(BlockCommand, is_not_served_by_an_absent_unit) {
    Unit unit;
    unit.device = Device{.present = false};
    for (const char* cdb :
         {"00", "28 00 00000000 00 0001 00", "25", "1a 00 3f 00 ff 00", "35", "ff", "a3 0c"})
        EXPECT_EQ(sense_of(unit.run(cdb)), "05/25/00") << cdb;
}

TEST(BlockCommand, with_too_short_a_cdb_is_refused) {
    Unit unit;
    std::vector<std::byte> cdb = from_hex("88 00 0000000000000010 00000008 00");
    EXPECT_EQ(sense_of(interpret(cdb, unit.device, unit.luns, nullptr, unit.data_in)), "05/20/00");
    EXPECT_EQ(sense_of(interpret({}, unit.device, unit.luns, nullptr, unit.data_in)), "05/20/00");
    cdb = from_hex("00 00 00 00 00 00");
    EXPECT_EQ(interpret(cdb, unit.device, unit.luns, nullptr, unit.data_in).kind, Kind::kRespond);
}

TEST(BlockCommand, is_not_affected_by_the_bytes_after_it) {
    Unit unit;
    EXPECT_EQ(unit.run("28 00 00000010 00 0008 00 ffffffffffff").kind, Kind::kRead);
}

// ---- UNMAP's list.

std::string parse(const Device& device, wire::Bytes list, std::vector<wire::BlockRange>* ranges = nullptr) {
    UnmapList out;
    Action failure;
    if (!parse_unmap_list(list, device, out, failure.sense)) return sense_of(failure);
    for (uint32_t i = 0; ranges && i < out.count(); i++) ranges->push_back(out.range(i));
    return "";
}

TEST(UnmapList, is_parsed_as_the_initiator_encoded_it) {
    wire::BlockRange ranges[] = {{0x10, 8}, {0x1fffff, 1}, {0x300000, 0}};
    std::array<std::byte, 56> list;
    ASSERT_EQ(wire::encode_unmap_list(ranges, list), list.size());
    std::vector<wire::BlockRange> back;
    EXPECT_EQ(parse(example_device(), list, &back), "") << "a range of no blocks may be anywhere";
    EXPECT_EQ(back, std::vector(std::begin(ranges), std::end(ranges)));
}

TEST(UnmapList, of_257_ranges_is_refused) {
    std::vector<wire::BlockRange> ranges(257, {0, 1});
    std::vector<std::byte> list(wire::unmap_list_bytes(257));
    wire::encode_unmap_list(ranges, list);
    EXPECT_EQ(parse(example_device(), list), "05/26/00 list@2");
    ranges.pop_back();
    list.resize(wire::encode_unmap_list(ranges, list));
    EXPECT_EQ(parse(example_device(), list), "");
}

TEST(UnmapList, with_false_lengths_is_refused) {
    Device device = example_device();
    auto list = [](const char* hex) { return from_hex(hex); };
    EXPECT_EQ(parse(device, list("0006 0000 000000")), "05/1a/00");
    EXPECT_EQ(parse(device, list("0006 0000 00000000")), "");
    EXPECT_EQ(parse(device, list("0016 0020 00000000 0000000000000010 00000008 00000000")),
              "05/26/00 list@0");
    EXPECT_EQ(parse(device, list("0026 0020 00000000 0000000000000010 00000008 00000000")),
              "05/26/00 list@2");
    EXPECT_EQ(parse(device, list("0016 0010 00000000 0000000000200000 00000001 00000000")),
              "05/21/00 lba 2097152");
    EXPECT_EQ(parse(device, list("0016 0010 00000000 ffffffffffffffff 00000002 00000000")),
              "05/21/00 lba 18446744073709551615");
    EXPECT_EQ(parse(device, list("0016 0010 00000000 0000000000000000 00100001 00000000")),
              "05/26/00 list@16")
        << "more blocks than VPD B0 allows";
    EXPECT_EQ(parse(device, list("0026 0020 00000000 0000000000000000 00080000 00000000"
                                 "0000000000000000 00080001 00000000")),
              "05/26/00 list@32")
        << "of all ranges together";
}

TEST(UnmapList, ends_before_an_incomplete_last_range) {
    std::vector<wire::BlockRange> ranges;
    EXPECT_EQ(
        parse(example_device(),
              from_hex("001e 0018 00000000 0000000000000010 00000008 00000000 ffffffffffffffff"), &ranges),
        "");
    EXPECT_EQ(ranges.size(), 1u);
}

}  // namespace
}  // namespace wss::scsi
