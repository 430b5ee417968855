// SPDX-License-Identifier: Apache-2.0
// Fuzzes CDBs on many kinds of devices: invariants SC1 and SC2 of target/scsi/scsi.h must hold. Also fuzzes
// UNMAP lists, the responses that an initiator parses, and persistent reservations, which must stay
// consistent.
//
// Input: eight bytes choose the device and the sizes, then 16 bytes of CDB, then data.
#include <algorithm>
#include <array>
#include <vector>

#include "lib/wire/srp.h"
#include "target/scsi/persistent_reservations.h"
#include "target/scsi/scsi.h"
#include "tests/fuzz/require.h"

namespace wss::scsi {
namespace {

constexpr size_t kChoices = 8;
constexpr size_t kCdbBytes = 16;

Device choose_device(const uint8_t* choice) {
    Device device{.name = "data", .wwid = 42};
    device.present = choice[0] % 16 != 0;
    device.read_only = choice[0] & 0x10;
    device.discard = choice[0] & 0x20;
    device.volatile_cache = choice[0] & 0x40;
    device.block_size = 512u << choice[1] % 8;
    constexpr uint64_t kBlocks[] = {
        0, 1, 8, 0x200000, uint64_t{1} << 32, (uint64_t{1} << 32) + 1, UINT64_MAX >> 16};
    device.blocks = kBlocks[choice[2] % std::size(kBlocks)];
    constexpr uint32_t kTransfers[] = {0, 1, 2048, UINT32_MAX};
    device.max_transfer_blocks = kTransfers[choice[3] % std::size(kTransfers)];
    device.max_unmap_blocks = choice[3] & 0x80 ? 64 : UINT32_MAX;
    device.max_compare_blocks = choice[4];
    device.physical_block = 512u << choice[5] % 8;
    return device;
}

void check_action(const Action& action, const Device& device, wire::Bytes cdb) {
    using Kind = Action::Kind;
    if (action.kind == Kind::kFail) {
        FUZZ_REQUIRE(action.status == wire::kCheckCondition && action.sense.key != wire::SenseKey::kNoSense);
        return;
    }
    FUZZ_REQUIRE(action.status == wire::kGood);
    if (action.kind == Kind::kRespond) return;
    FUZZ_REQUIRE(device.present && !cdb.empty());
    FUZZ_REQUIRE(action.lba <= device.blocks && action.blocks <= device.blocks - action.lba);
    uint64_t bytes = action.blocks * device.block_size;
    if (action.kind == Kind::kRead) FUZZ_REQUIRE(action.data_in_length == bytes);
    if (action.kind == Kind::kWrite) FUZZ_REQUIRE(action.data_out_length == bytes && !device.read_only);
    if (action.kind == Kind::kCompareAndWrite) FUZZ_REQUIRE(action.data_out_length == 2 * bytes);
    if (action.kind == Kind::kUnmap)
        FUZZ_REQUIRE(device.discard && action.data_out_length >= wire::kUnmapHeaderBytes);
    if (action.kind == Kind::kWriteSame)
        FUZZ_REQUIRE(action.data_out_length == (action.no_data_out ? 0 : device.block_size));
}

void fuzz_unmap(wire::Bytes list, const Device& device) {
    UnmapList ranges;
    wire::Sense sense;
    if (!parse_unmap_list(list, device, ranges, sense)) {
        FUZZ_REQUIRE(sense.key == wire::SenseKey::kIllegalRequest);
        return;
    }
    FUZZ_REQUIRE(ranges.count() <= kMaxUnmapRanges);
    for (uint32_t i = 0; i < ranges.count(); i++) {
        wire::BlockRange range = ranges.range(i);
        FUZZ_REQUIRE(range.blocks == 0 ||
                     (range.lba < device.blocks && range.blocks <= device.blocks - range.lba));
    }
}

// Executes commands of four initiators one after the other. Each takes three bytes for command and initiator,
// and 24 bytes of parameter list.
void fuzz_reservations(wire::Bytes data, Device device) {
    constexpr size_t kOrderBytes = 3, kListBytes = 24;
    device.reservations_persist = true;
    volume::Reservations now;
    for (; data.size() >= kOrderBytes + kListBytes; data = data.subspan(kOrderBytes + kListBytes)) {
        std::array<std::byte, 16> cdb{std::byte{wire::kPersistentReserveOut}, data[0], data[1]};
        wire::put32(&cdb[5], kListBytes);
        if (interpret(cdb, device, {}, nullptr, {}).kind != Action::Kind::kReserveOut) continue;
        volume::Registrant who;
        who.port[0] = std::to_integer<uint8_t>(data[2]) % 4;
        ReserveOrder order;
        wire::Sense sense;
        if (!parse_reserve_out(cdb, data.subspan(kOrderBytes, kListBytes), device, order, sense)) continue;
        ReserveResult result = carry_out(order, who, now);
        FUZZ_REQUIRE(!result.next || result.status == wire::kGood);
        if (result.next) now = std::move(*result.next);
        const bool one_holds = now.type != volume::ReservationType::kNone && !volume::is_for_all(now.type);
        size_t holders = 0;
        for (const auto& each : now.registrations) holders += each.is_holder;
        FUZZ_REQUIRE(holders == (one_holds ? 1 : 0));
        FUZZ_REQUIRE(now.type == volume::ReservationType::kNone ||
                     (volume::is_reservation_type(uint8_t(now.type)) && !now.registrations.empty()));
    }
}

void fuzz_sense(wire::Bytes data) {
    wire::Sense sense;
    if (!wire::parse_sense(data, sense)) return;
    std::array<std::byte, wire::kSenseMax> copy;
    size_t length = wire::encode_sense(sense, wire::SenseFormat::kDescriptor, copy);
    wire::Sense again;
    FUZZ_REQUIRE(length > 0 && wire::parse_sense(wire::Bytes(copy).first(length), again));
    FUZZ_REQUIRE(again == sense);
}

void fuzz_answers(wire::Bytes data) {
    wire::StandardInquiry inquiry;
    wire::VpdPages pages;
    wire::BlockLimits limits;
    wire::BlockCharacteristics characteristics;
    wire::Provisioning provisioning;
    wire::ModeInfo mode;
    (void)wire::parse_standard_inquiry(data, inquiry);
    (void)wire::parse_vpd_pages(data, pages);
    (void)wire::parse_block_limits(data, limits);
    (void)wire::parse_block_characteristics(data, characteristics);
    (void)wire::parse_provisioning(data, provisioning);
    (void)wire::parse_mode_sense10(data, mode);
    wire::Identification identification;
    if (wire::parse_identification(data, identification)) {
        FUZZ_REQUIRE(identification.vendor.size() <= 8 && identification.name.size() <= 247);
    }
    wire::Capacity capacity;
    if (wire::parse_capacity16(data, capacity)) {
        FUZZ_REQUIRE(capacity.blocks > 0 && capacity.blocks <= INT64_MAX / capacity.block_size);
    }
    wire::LunList luns;
    if (wire::parse_report_luns(data, luns))
        for (uint32_t i = 0; i < luns.count; i++) {
            uint64_t lun = luns.lun(i);
            FUZZ_REQUIRE(lun <= wire::kLunMax || lun == wire::kBadLun);
        }
}

}  // namespace
}  // namespace wss::scsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace wss::scsi;
    if (size < kChoices) return 0;
    Device device = choose_device(data);
    size_t cdb_length =
        std::min<size_t>(size - kChoices, data[6] % 8 == 0 ? data[7] % (kCdbBytes + 1) : kCdbBytes);
    // Copies, so that ASan detects each access beyond their ends.
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    std::vector<std::byte> cdb(bytes + kChoices, bytes + kChoices + cdb_length);
    std::vector<std::byte> rest(bytes + kChoices + cdb_length, bytes + size);
    std::vector<std::byte> data_in(data[6] & 0x80 ? kAnswerMax : data[7]);
    std::array<uint64_t, 3> luns = {0, 1, 300};
    UnitAttentions attentions;
    if (data[6] & 0x40) attentions.add(Attention::kCapacityChanged);

    Action action = interpret(cdb, device, luns, &attentions, data_in);
    check_action(action, device, cdb);
    if (action.kind == Action::Kind::kRespond) {
        FUZZ_REQUIRE(action.data_in_length <= data_in.size());
        fuzz_answers(wss::wire::Bytes(data_in).first(action.data_in_length));
    }
    fuzz_unmap(rest, device);
    fuzz_reservations(rest, device);
    fuzz_sense(rest);
    fuzz_answers(rest);
    return 0;
}
