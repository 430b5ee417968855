// SPDX-License-Identifier: Apache-2.0
// Invariants SC1 and SC2 of target/scsi/scsi.h with random CDBs and devices.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "target/scsi/commands.h"
#include "tests/unit/scsi/unit.h"

namespace wss::scsi {
namespace {

Device draw_device() {
    Device device{.name = "data"};
    device.present = *rc::gen::weightedElement<bool>({{9, true}, {1, false}});
    device.block_size = *rc::gen::element<uint32_t>(512, 4096, 65536);
    device.blocks = *rc::gen::element<uint64_t>(0, 8, 0x200000, uint64_t{1} << 32, UINT64_MAX / 65536);
    device.max_transfer_blocks = *rc::gen::element<uint32_t>(0, 8, 2048, UINT32_MAX);
    device.max_write_same_blocks = *rc::gen::element<uint64_t>(0, 1, UINT32_MAX);
    device.max_compare_blocks = *rc::gen::element<uint8_t>(0, 8, 255);
    device.read_only = *rc::gen::weightedElement<bool>({{3, false}, {1, true}});
    device.discard = *rc::gen::weightedElement<bool>({{3, true}, {1, false}});
    return device;
}

// Writes block number and count into the fields of a command of this length, often with values near the
// limits.
void put_extent(std::array<std::byte, 16>& cdb, const Row& row, const Device& device) {
    auto last = uint64_t(device.blocks - 1);
    auto lba =
        *rc::gen::weightedElement<uint64_t>({{4, 0}, {2, 1}, {2, last}, {1, device.blocks}, {1, UINT64_MAX}});
    auto blocks =
        *rc::gen::weightedElement<uint32_t>({{4, 1}, {4, 8}, {1, 0}, {2, 24}, {1, 2049}, {1, UINT32_MAX}});
    if (row.length == 16) wire::put64(&cdb[2], lba);
    if (row.length == 10 || row.length == 12) wire::put32(&cdb[2], uint32_t(lba));
    if (row.length == 6) wire::put8(&cdb[4], uint8_t(blocks));
    if (row.length == 10) wire::put16(&cdb[7], uint16_t(blocks));
    if (row.length == 12) wire::put32(&cdb[6], blocks);
    if (row.length == 16) wire::put32(&cdb[10], blocks);
}

// Returns a CDB of an existing command with permitted bits. One in ten has a random byte.
std::array<std::byte, 16> draw_cdb(const Device& device) {
    const Row& row = command_rows()[*rc::gen::inRange<size_t>(0, command_rows().size())];
    std::array<std::byte, 16> cdb{};
    if (*rc::gen::arbitrary<bool>())
        put_extent(cdb, row, device);
    else
        for (std::byte& b : cdb) b = std::byte(*rc::gen::arbitrary<uint8_t>());
    cdb[1] = std::byte(*rc::gen::arbitrary<uint8_t>());
    for (size_t i = 0; i < cdb.size(); i++) cdb[i] &= std::byte(row.usage[i]);
    cdb[0] = std::byte{row.opcode};
    if (row.service_action != kNoServiceAction) cdb[1] = std::byte(row.service_action);
    if (*rc::gen::weightedElement<bool>({{9, false}, {1, true}}))
        cdb[*rc::gen::inRange<size_t>(0, 16)] = std::byte(*rc::gen::arbitrary<uint8_t>());
    return cdb;
}

void check_inside(const Action& action, const Device& device) {
    RC_ASSERT(device.present);
    RC_ASSERT(action.lba <= device.blocks);
    RC_ASSERT(action.blocks <= device.blocks - action.lba);
    bool moves = action.kind == Kind::kRead || action.kind == Kind::kWrite || action.kind == Kind::kVerify ||
                 action.kind == Kind::kCompareAndWrite;
    if (moves) RC_ASSERT(action.blocks <= UINT32_MAX / device.block_size);
    if (action.kind == Kind::kRead) RC_ASSERT(action.data_in_length == action.blocks * device.block_size);
    if (action.kind == Kind::kWrite) RC_ASSERT(action.data_out_length == action.blocks * device.block_size);
    if (action.kind == Kind::kCompareAndWrite)
        RC_ASSERT(action.data_out_length == 2 * action.blocks * device.block_size);
    bool writes = action.kind == Kind::kWrite || action.kind == Kind::kCompareAndWrite ||
                  action.kind == Kind::kWriteSame || action.kind == Kind::kUnmap;
    RC_ASSERT(!(writes && device.read_only));
}

void check_one_command(std::map<Kind, unsigned>& seen) {
    Device device = draw_device();
    std::array<std::byte, 16> cdb = draw_cdb(device);
    std::vector<uint64_t> luns(*rc::gen::inRange<size_t>(0, 100));
    size_t room = *rc::gen::element<size_t>(0, 1, 7, 36, 255, kAnswerMax);
    constexpr std::byte kUntouched{0xee};
    std::vector<std::byte> buffer(room + 16, kUntouched);
    Action action = interpret(cdb, device, luns, nullptr, wire::MutableBytes(buffer).first(room));
    seen[action.kind]++;
    size_t written = action.kind == Kind::kRespond ? action.data_in_length : 0;
    RC_ASSERT(written <= room);
    for (std::byte b : wire::Bytes(buffer).subspan(written)) RC_ASSERT(b == kUntouched);
    if (action.kind == Kind::kFail) {
        RC_ASSERT(action.status == wire::kCheckCondition);
        RC_ASSERT(action.sense.key != wire::SenseKey::kNoSense);
        RC_ASSERT(action.data_in_length == 0u && action.data_out_length == 0u);
    } else if (action.kind != Kind::kRespond) {
        check_inside(action, device);
    }
}

TEST(AnyCommand, has_its_action_inside_the_device_and_its_answer_inside_the_buffer) {
    constexpr int kCommandsPerCase = 100;
    std::map<Kind, unsigned> seen;
    EXPECT_TRUE(rc::check([&seen] {
        for (int i = 0; i < kCommandsPerCase; i++) check_one_command(seen);
    }));
    for (Kind kind : {Kind::kRespond, Kind::kFail, Kind::kRead, Kind::kWrite, Kind::kFlush, Kind::kUnmap,
                      Kind::kWriteSame, Kind::kVerify, Kind::kCompareAndWrite})
        EXPECT_GT(seen[kind], 0u) << "the generator must reach every kind; missing: " << int(kind);
}

TEST(UnmapList, of_any_bytes_stays_inside_list_and_device) {
    unsigned accepted = 0;
    EXPECT_TRUE(rc::check([&accepted] {
        Device device = example_device();
        std::vector<wire::BlockRange> ranges(*rc::gen::inRange<size_t>(0, 8));
        for (wire::BlockRange& range : ranges) {
            range.lba = *rc::gen::inRange<uint64_t>(0, device.blocks + 2);
            range.blocks = *rc::gen::inRange<uint32_t>(0, 64);
        }
        std::vector<std::byte> list(wire::unmap_list_bytes(ranges.size()));
        wire::encode_unmap_list(ranges, list);
        if (*rc::gen::weightedElement<bool>({{2, false}, {1, true}}))
            list[*rc::gen::inRange<size_t>(0, list.size())] = std::byte(*rc::gen::arbitrary<uint8_t>());
        UnmapList out;
        wire::Sense sense;
        if (!parse_unmap_list(list, device, out, sense)) {
            RC_ASSERT(sense.key == wire::SenseKey::kIllegalRequest);
            return;
        }
        accepted++;
        RC_ASSERT(wire::unmap_list_bytes(out.count()) <= list.size());
        for (uint32_t i = 0; i < out.count(); i++) {
            wire::BlockRange range = out.range(i);
            RC_ASSERT(range.blocks == 0 || range.lba + range.blocks <= device.blocks);
        }
    }));
    EXPECT_GT(accepted, 10u);
}

}  // namespace
}  // namespace wss::scsi
