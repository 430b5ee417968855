// SPDX-License-Identifier: Apache-2.0
// SRP_CMD and its data buffers: every form that a stock initiator sends, and every invalid form that must be
// refused.
#include <gtest/gtest.h>

#include "lib/wire/scsi.h"
#include "lib/wire/srp.h"
#include "tests/unit/wire/hex.h"

namespace wss::wire {
namespace {

using Kind = DataBuffer::Kind;
using Direction = CommandRequest::Direction;

// Returns a command to LUN 3 from opcode to CDB, with the given formats, counts and tail.
std::vector<std::byte> command(std::string_view formats_and_counts, std::string_view tail,
                               std::string_view add_cdb_len = "00") {
    std::string hex = "02 00 000000 " + std::string(formats_and_counts) +
                      " 1122334455667788 00000000 0003000000000000 00 00 00 " + std::string(add_cdb_len) +
                      " 28000000000a0000 0800000000000000 " + std::string(tail);
    return from_hex(hex);
}

ParseError parse(const std::vector<std::byte>& message, uint16_t offset = 68) {
    Command command;
    return parse_command(message, offset, command);
}

constexpr std::string_view kDirect4k = "0000000012345000 00000abc 00001000";

TEST(Command, without_data_is_parsed) {
    std::vector<std::byte> message = command("00 00 00", "");
    Command out;
    ASSERT_EQ(parse_command(message, 68, out), ParseError::kNone);
    EXPECT_EQ(out.lun, 3u);
    EXPECT_EQ(to_hex(std::as_bytes(std::span(&out.tag, 1))), "11 22 33 44 55 66 77 88") << "tag is opaque";
    EXPECT_EQ(out.cdb.size(), 16u);
    EXPECT_EQ(get8(&out.cdb[0]), 0x28);
    EXPECT_EQ(out.out.kind, Kind::kNone);
    EXPECT_EQ(out.in.kind, Kind::kNone);
}

TEST(Command, with_one_direct_descriptor_each_way_is_parsed) {
    Command out;
    std::vector<std::byte> message = command("01 00 00", kDirect4k);
    ASSERT_EQ(parse_command(message, 68, out), ParseError::kNone);
    EXPECT_EQ(out.in.kind, Kind::kDirect);
    EXPECT_EQ(out.in.length, 4096u);
    ASSERT_EQ(out.in.count, 1u);
    EXPECT_EQ(out.in.descriptor(0), (RemoteBuffer{0x12345000, 0xabc, 4096}));

    message = command("10 00 00", kDirect4k);
    ASSERT_EQ(parse_command(message, 68, out), ParseError::kNone);
    EXPECT_EQ(out.in.kind, Kind::kNone);
    EXPECT_EQ(out.out.descriptor(0), (RemoteBuffer{0x12345000, 0xabc, 4096}));
}

TEST(Command, with_both_directions_has_data_out_first) {
    Command out;
    std::vector<std::byte> message =
        command("11 00 00", std::string(kDirect4k) + "0000000000002000 00000def 00000200");
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    EXPECT_EQ(out.out.length, 4096u);
    EXPECT_EQ(out.in.descriptor(0), (RemoteBuffer{0x2000, 0xdef, 512}));
}

TEST(Command, with_additional_cdb_bytes_has_its_descriptor_after_them) {
    Command out;
    std::vector<std::byte> message = command("01 00 00", "a0a1a2a3 a4a5a6a7" + std::string(kDirect4k), "0b");
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    EXPECT_EQ(out.cdb.size(), 24u) << "bits 1:0 of the length are reserved";
    EXPECT_EQ(get8(&out.cdb[23]), 0xa7);
    EXPECT_EQ(out.in.length, 4096u);
}

TEST(Command, with_an_indirect_list_is_parsed) {
    Command out;
    std::vector<std::byte> message = command("20 02 00",
                                             "0000000000009000 00000001 00000020 00001200"
                                             "0000000012345000 00000abc 00001000"
                                             "0000000000002000 00000def 00000200");
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    EXPECT_EQ(out.out.kind, Kind::kIndirect);
    EXPECT_FALSE(out.out.partial);
    EXPECT_EQ(out.out.length, 0x1200u);
    ASSERT_EQ(out.out.count, 2u);
    EXPECT_EQ(out.out.descriptor(1), (RemoteBuffer{0x2000, 0xdef, 512}));
    EXPECT_EQ(out.out.table, (RemoteBuffer{0x9000, 1, 32}));
}

TEST(Command, with_part_of_its_indirect_list_requires_the_table) {
    Command out;
    std::vector<std::byte> message = command("02 00 01",
                                             "0000000000009000 00000001 00000020 00001200"
                                             "0000000012345000 00000abc 00001000");
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    ASSERT_TRUE(out.in.partial);
    EXPECT_EQ(out.in.count, 1u);
    EXPECT_EQ(out.in.table_count, 2u);

    std::vector<std::byte> table = from_hex(
        "0000000012345000 00000abc 00001000"
        "0000000000002000 00000def 00000200");
    DataBuffer whole = out.in;
    ASSERT_EQ(parse_descriptor_table(table, whole), ParseError::kNone);
    EXPECT_FALSE(whole.partial);
    EXPECT_EQ(whole.descriptor(1), (RemoteBuffer{0x2000, 0xdef, 512}));

    put32(&table[28], 0x201);
    whole = out.in;
    EXPECT_EQ(parse_descriptor_table(table, whole), ParseError::kTotal);
    EXPECT_TRUE(whole.partial) << "a bad table leaves the buffer unchanged";
    EXPECT_EQ(parse_descriptor_table(Bytes(table).first(16), whole), ParseError::kContradiction);
}

TEST(Command, with_immediate_data_is_parsed) {
    std::vector<std::byte> message =
        command("30 00 00", "00000004 00000000000000000000000000000000 cafebabe");
    Command out;
    ASSERT_EQ(parse_command(message, 68, out), ParseError::kNone);
    EXPECT_EQ(out.out.kind, Kind::kImmediate);
    EXPECT_EQ(out.out.length, 4u);
    EXPECT_EQ(out.out.count, 0u);
    EXPECT_EQ(to_hex(out.immediate), "ca fe ba be");
}

TEST(Command, with_immediate_data_that_was_not_negotiated_is_refused) {
    EXPECT_EQ(parse(command("30 00 00", "00000004 00000000000000000000000000000000 cafebabe"), 0),
              ParseError::kFormat);
    EXPECT_EQ(parse(command("03 00 00", "00000004 00000000000000000000000000000000 cafebabe")),
              ParseError::kFormat)
        << "the target cannot send immediate data";
    EXPECT_EQ(parse(command("31 00 00", "00000004 00000000000000000000000000000000 cafebabe")),
              ParseError::kFormat);
}

TEST(Command, with_immediate_data_beyond_the_message_is_refused) {
    EXPECT_EQ(parse(command("30 00 00", "00000005 00000000000000000000000000000000 cafebabe")),
              ParseError::kOutOfBounds);
    EXPECT_EQ(parse(command("30 00 00", "ffffffff 00000000000000000000000000000000 cafebabe")),
              ParseError::kOutOfBounds);
    EXPECT_EQ(parse(command("30 00 00", "00000004")), ParseError::kOutOfBounds) << "ends before the offset";
    EXPECT_EQ(parse(command("30 00 00", "")), ParseError::kOutOfBounds);
    constexpr std::string_view kFourWords = "00000000 00000000 00000000 00000000";
    EXPECT_EQ(parse(command("30 00 00", std::string(kFourWords) + "00000004 cafebabe", "10")),
              ParseError::kNone);
    EXPECT_EQ(parse(command("30 00 00", std::string(kFourWords) + "00000000 00000004 cafebabe", "14")),
              ParseError::kOutOfBounds)
        << "the additional CDB pushes the length word past the data";
}

struct Lie {
    const char* what;
    const char* formats;
    const char* tail;
    ParseError error;
};

class LyingCommand : public testing::TestWithParam<Lie> {};

TEST_P(LyingCommand, is_refused) {
    EXPECT_EQ(parse(command(GetParam().formats, GetParam().tail)), GetParam().error) << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Command, LyingCommand,
    testing::Values(Lie{"format 4", "40 00 00", "", ParseError::kFormat},
                    Lie{"format 15", "0f 00 00", "", ParseError::kFormat},
                    Lie{"no descriptor", "01 00 00", "", ParseError::kOutOfBounds},
                    Lie{"half a descriptor", "01 00 00", "0000000012345000", ParseError::kOutOfBounds},
                    Lie{"second direction missing", "11 00 00", "0000000012345000 00000abc 00001000",
                        ParseError::kOutOfBounds},
                    Lie{"address wraps", "01 00 00", "fffffffffffff001 00000abc 00001000",
                        ParseError::kAddressWraps},
                    Lie{"indirect without header", "02 00 00", "00000000", ParseError::kOutOfBounds},
                    Lie{"more descriptors than bytes", "02 00 02",
                        "0000000000009000 00000001 00000020 00001000 0000000012345000 00000abc 00001000",
                        ParseError::kOutOfBounds},
                    Lie{"table of 17 bytes", "02 00 01",
                        "0000000000009000 00000001 00000011 00001000 0000000012345000 00000abc 00001000",
                        ParseError::kDescriptors},
                    Lie{"more in the message than in the table", "02 00 01",
                        "0000000000009000 00000001 00000000 00001000 0000000012345000 00000abc 00001000",
                        ParseError::kDescriptors},
                    Lie{"table of 2^28 descriptors", "02 00 00",
                        "0000000000009000 00000001 fffffff0 00001000", ParseError::kTooMany},
                    Lie{"table wraps", "02 00 00", "fffffffffffffff0 00000001 00000020 00001000",
                        ParseError::kAddressWraps},
                    Lie{"total without descriptors", "02 00 00",
                        "0000000000009000 00000001 00000000 00001000", ParseError::kTotal},
                    Lie{"total smaller than the sum", "02 00 01",
                        "0000000000009000 00000001 00000010 00000fff 0000000012345000 00000abc 00001000",
                        ParseError::kTotal},
                    Lie{"total larger than the sum", "02 00 01",
                        "0000000000009000 00000001 00000010 00001001 0000000012345000 00000abc 00001000",
                        ParseError::kTotal},
                    Lie{"part of the table is already the total", "02 00 01",
                        "0000000000009000 00000001 00000020 00001000 0000000012345000 00000abc 00001000",
                        ParseError::kTotal},
                    Lie{"sum wraps to the total in 32 bits", "02 00 02",
                        "0000000000009000 00000001 00000020 00000200"
                        "0000000000001000 00000abc ffffff00 0000000000001000 00000abc 00000300",
                        ParseError::kTotal},
                    Lie{"empty descriptor in a list", "02 00 02",
                        "0000000000009000 00000001 00000020 00001000"
                        "0000000012345000 00000abc 00001000 0000000012345000 00000abc 00000000",
                        ParseError::kDescriptors}));

TEST(Command, with_an_invalid_cdb_or_kind_is_refused) {
    EXPECT_EQ(parse(command("00 00 00", "", "04")), ParseError::kOutOfBounds);
    std::vector<std::byte> message = command("00 00 00", "");
    message.pop_back();
    EXPECT_EQ(parse(message), ParseError::kTooShort);
    message = command("00 00 00", "");
    put8(&message[0], WSS_SRP_TSK_MGMT);
    EXPECT_EQ(parse(message), ParseError::kOpcode);
    message = command("00 00 00", "");
    put8(&message[29], 3);
    Command out;
    EXPECT_EQ(parse_command(message, 0, out), ParseError::kReserved) << "task attribute 3";
    EXPECT_EQ(to_hex(std::as_bytes(std::span(&out.tag, 1))), "11 22 33 44 55 66 77 88")
        << "a refusal can name its command";
}

TEST(Command, with_an_empty_descriptor_has_no_data) {
    Command out;
    std::vector<std::byte> message = command("01 00 00", "0000000012345000 00000abc 00000000");
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    EXPECT_EQ(out.in.kind, Kind::kNone);
    EXPECT_EQ(out.in.count, 0u);
}

TEST(Command, to_a_foreign_lun_is_parsed_nevertheless) {
    std::vector<std::byte> message = command("00 00 00", "");
    put64(&message[20], 0xc101000000000000);
    Command out;
    ASSERT_EQ(parse_command(message, 0, out), ParseError::kNone);
    EXPECT_EQ(out.lun, kBadLun);
}

// ---- The initiator's side

TEST(EncodeCommand, gives_a_direct_command_the_bytes_that_linux_sends) {
    Cdb cdb = make_read16(0x1234, 8);
    RemoteBuffer buffer{0x12345000, 0xabc, 4096};
    uint64_t tag;
    std::memcpy(&tag, from_hex("0000000000010007").data(), sizeof(tag));
    std::array<std::byte, 64> out;
    size_t length = encode_command(
        {.tag = tag, .lun = 3, .direction = Direction::kIn, .cdb = cdb, .descriptors = std::span(&buffer, 1)},
        out);
    ASSERT_EQ(length, 64u);
    EXPECT_EQ(to_hex(out),
              spaced("02 00 000000 01 00 00 0000000000010007 00000000 0003000000000000 00 00 00 00"
                     "88000000000000001234000000080000"
                     "0000000012345000 00000abc 00001000"));
}

TEST(EncodeCommand, lets_an_indirect_command_be_parsed_as_it_was_encoded) {
    Cdb cdb = make_write16(0, 8);
    std::vector<RemoteBuffer> buffers = {{0x1000, 1, 512}, {0x5000, 2, 3584}};
    std::array<std::byte, 128> out;
    size_t length = encode_command({.lun = 300,
                                    .direction = Direction::kOut,
                                    .cdb = cdb,
                                    .descriptors = buffers,
                                    .table = {0x7000, 9, 0}},
                                   out);
    ASSERT_EQ(length, 48u + 20 + 32);
    Command back;
    ASSERT_EQ(parse_command(Bytes(out).first(length), 0, back), ParseError::kNone);
    EXPECT_EQ(back.lun, 300u);
    EXPECT_EQ(back.out.length, 4096u);
    EXPECT_EQ(back.out.descriptor(0), buffers[0]);
    EXPECT_EQ(back.out.descriptor(1), buffers[1]);
    EXPECT_EQ(back.out.table, (RemoteBuffer{0x7000, 9, 32}));
}

TEST(EncodeCommand, ends_an_immediate_command_where_the_data_begins) {
    Cdb cdb = make_write16(0, 1);
    std::array<std::byte, 68 + 512> out;
    out.fill(std::byte{0xee});
    size_t length = encode_command({.direction = Direction::kOut, .cdb = cdb, .immediate_length = 512}, out);
    ASSERT_EQ(length, 68u);
    Command back;
    ASSERT_EQ(parse_command(out, 68, back), ParseError::kNone);
    EXPECT_EQ(back.immediate.size(), 512u);
    EXPECT_EQ(back.immediate.data(), out.data() + 68);
    EXPECT_EQ(to_hex(Bytes(out).subspan(52, 16)), spaced("00000000000000000000000000000000")) << "no leak";
}

TEST(EncodeCommand, pads_a_long_cdb_to_words) {
    std::vector<std::byte> cdb = from_hex("7f 00 00 00 00 00 00 18 00 09 00 00 00 00 00 00 01 02 03 04 05");
    std::array<std::byte, 64> out;
    out.fill(std::byte{0xee});
    size_t length = encode_command({.cdb = cdb}, out);
    ASSERT_EQ(length, 56u);
    Command back;
    ASSERT_EQ(parse_command(Bytes(out).first(length), 0, back), ParseError::kNone);
    EXPECT_EQ(to_hex(back.cdb), to_hex(cdb) + " 00 00 00");
}

TEST(EncodeCommand, refuses_inconsistent_commands) {
    Cdb cdb = make_read16(0, 1);
    RemoteBuffer one{0x1000, 1, 512};
    std::vector<RemoteBuffer> two(2, one), many(256, one);
    std::vector<RemoteBuffer> huge = {{0, 1, 0xffffffff}, {0, 1, 1}};
    std::vector<std::byte> room(8192);
    EXPECT_EQ(encode_command({.cdb = cdb, .descriptors = two}, room), 0u) << "data without direction";
    EXPECT_EQ(encode_command({.direction = Direction::kIn, .cdb = cdb}, room), 0u)
        << "direction without data";
    EXPECT_EQ(encode_command({.direction = Direction::kIn, .cdb = cdb, .immediate_length = 1}, room), 0u);
    EXPECT_EQ(encode_command({.direction = Direction::kIn, .cdb = cdb, .descriptors = many}, room), 0u);
    EXPECT_EQ(encode_command({.direction = Direction::kIn, .cdb = cdb, .descriptors = huge}, room), 0u);
    EXPECT_EQ(encode_command({.lun = 1 << 24, .cdb = cdb}, room), 0u);
    EXPECT_EQ(encode_command({.cdb = {}}, room), 0u);
    EXPECT_EQ(encode_command({.cdb = Bytes(room).first(269)}, room), 0u);
    for (size_t size = 0; size < 100; size++)
        EXPECT_EQ(encode_command({.direction = Direction::kIn, .cdb = cdb, .descriptors = two},
                                 MutableBytes(room).first(size)),
                  0u);
    for (size_t size = 0; size < 68; size++)
        EXPECT_EQ(encode_command({.direction = Direction::kOut, .cdb = cdb, .immediate_length = 8},
                                 MutableBytes(room).first(size)),
                  0u);
}

TEST(TaskManagementMessage, has_the_bytes_that_linux_sends) {
    uint64_t tag, task_tag;
    std::memcpy(&tag, from_hex("0000000080000005").data(), 8);
    std::memcpy(&task_tag, from_hex("0000000000010007").data(), 8);
    std::array<std::byte, 48> out;
    ASSERT_EQ(encode_task_management(
                  {.tag = tag, .lun = 3, .function = WSS_SRP_TSK_ABORT_TASK, .task_tag = task_tag}, out),
              48u);
    EXPECT_EQ(to_hex(out), spaced("01 00 000000000000 0000000080000005 00000000 0003000000000000"
                                  "0000 01 00 0000000000010007 0000000000000000"));
    TaskManagement back;
    ASSERT_EQ(parse_task_management(out, back), ParseError::kNone);
    EXPECT_EQ(back.tag, tag);
    EXPECT_EQ(back.task_tag, task_tag);
    EXPECT_EQ(back.lun, 3u);
    EXPECT_EQ(parse_task_management(Bytes(out).first(47), back), ParseError::kTooShort);
}

// ---- LUNs

struct LunCase {
    uint64_t lun;
    const char* bytes;
};

TEST(Lun, is_encoded_with_the_shortest_addressing_method) {
    for (LunCase c : {LunCase{0, "0000000000000000"}, LunCase{255, "00ff000000000000"},
                      LunCase{256, "4100000000000000"}, LunCase{16383, "7fff000000000000"},
                      LunCase{16384, "d200400000000000"}, LunCase{kLunMax, "d2ffffff00000000"}}) {
        std::array<std::byte, 8> out;
        ASSERT_TRUE(encode_lun(c.lun, out.data()));
        EXPECT_EQ(to_hex(out), spaced(c.bytes));
        EXPECT_EQ(decode_lun(out.data()), c.lun);
    }
    std::array<std::byte, 8> out;
    EXPECT_FALSE(encode_lun(kLunMax + 1, out.data()));
    EXPECT_FALSE(encode_lun(kBadLun, out.data()));
}

TEST(Lun, with_a_small_number_in_a_longer_form_is_parsed) {
    EXPECT_EQ(decode_lun(from_hex("4003000000000000").data()), 3u);
    EXPECT_EQ(decode_lun(from_hex("d200000300000000").data()), 3u);
}

TEST(Lun, of_another_kind_is_not_parsed) {
    for (const char* bytes : {"0103000000000000", "0003000100000000", "8003000000000000", "c101000000000000",
                              "d200000300000001", "4003000000000001", "ffffffffffffffff"})
        EXPECT_EQ(decode_lun(from_hex(bytes).data()), kBadLun) << bytes;
}

}  // namespace
}  // namespace wss::wire
