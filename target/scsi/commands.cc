// SPDX-License-Identifier: Apache-2.0
// The rows, sorted by opcode, and interpret(). interpret() finds the row of a CDB, makes the checks that all
// commands share, and calls the handler.
#include "target/scsi/commands.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>

namespace wss::scsi {
namespace {

using namespace wire;

// The control byte. NACA is refused: no usage map contains it, because NormACA is 0. The other bits are
// reserved or obsolete.
constexpr uint8_t kControl = 0x00;
constexpr uint8_t kDpoFua = 0x18;
constexpr uint8_t kAll = 0xff;

// clang-format off
constexpr Row kRows[] = {
    // opcode, service action, length, traits, handler, usage of bytes 0 …
    {kTestUnitReady, kNoServiceAction, 6, kNeedsMedium, test_unit_ready, {kTestUnitReady, 0, 0, 0, 0, kControl}},
    {kRequestSense, kNoServiceAction, 6, kWithoutUnit | kPastAttention, request_sense,
     {kRequestSense, 0x01, 0, 0, kAll, kControl}},
    {kRead6, kNoServiceAction, 6, kNeedsMedium | kReads, read, {kRead6, 0x1f, kAll, kAll, kAll, kControl}},
    {kWrite6, kNoServiceAction, 6, kNeedsMedium | kWrites, write, {kWrite6, 0x1f, kAll, kAll, kAll, kControl}},
    {kInquiry, kNoServiceAction, 6, kWithoutUnit | kPastAttention, inquiry,
     {kInquiry, 0x01, kAll, kAll, kAll, kControl}},
    {kModeSense6, kNoServiceAction, 6, kReads, mode_sense6, {kModeSense6, 0x08, kAll, kAll, kAll, kControl}},
    {kStartStopUnit, kNoServiceAction, 6, kNeedsMedium | kWrites, start_stop_unit,
     {kStartStopUnit, 0x01, 0, 0, 0x05, kControl}},
    {kReadCapacity10, kNoServiceAction, 10, kNeedsMedium, read_capacity10, {kReadCapacity10}},
    {kRead10, kNoServiceAction, 10, kNeedsMedium | kReads, read,
     {kRead10, kDpoFua, kAll, kAll, kAll, kAll, 0, kAll, kAll, kControl}},
    {kWrite10, kNoServiceAction, 10, kNeedsMedium | kWrites, write,
     {kWrite10, kDpoFua, kAll, kAll, kAll, kAll, 0, kAll, kAll, kControl}},
    {kVerify10, kNoServiceAction, 10, kNeedsMedium | kReads, verify,
     {kVerify10, 0x16, kAll, kAll, kAll, kAll, 0, kAll, kAll, kControl}},
    {kSynchronizeCache10, kNoServiceAction, 10, kNeedsMedium | kWrites, synchronize_cache,
     {kSynchronizeCache10, 0x02, kAll, kAll, kAll, kAll, 0, kAll, kAll, kControl}},
    {kWriteSame10, kNoServiceAction, 10, kNeedsMedium | kWrites, write_same,
     {kWriteSame10, 0x08, kAll, kAll, kAll, kAll, 0, kAll, kAll, kControl}},
    {kUnmap, kNoServiceAction, 10, kNeedsMedium | kNeedsDiscard | kWrites, unmap,
     {kUnmap, 0, 0, 0, 0, 0, 0, kAll, kAll, kControl}},
    {kModeSense10, kNoServiceAction, 10, kReads, mode_sense10,
     {kModeSense10, 0x18, kAll, kAll, 0, 0, 0, kAll, kAll, kControl}},
    {kPersistentReserveIn, kReadKeys, 10, 0, read_keys,
     {kPersistentReserveIn, kReadKeys, 0, 0, 0, 0, 0, kAll, kAll, kControl}},
    {kPersistentReserveIn, kReadReservation, 10, 0, read_reservation,
     {kPersistentReserveIn, kReadReservation, 0, 0, 0, 0, 0, kAll, kAll, kControl}},
    {kPersistentReserveIn, kReportReservationCapabilities, 10, 0, report_reservation_capabilities,
     {kPersistentReserveIn, kReportReservationCapabilities, 0, 0, 0, 0, 0, kAll, kAll, kControl}},
    {kPersistentReserveIn, kReadFullStatus, 10, 0, read_full_status,
     {kPersistentReserveIn, kReadFullStatus, 0, 0, 0, 0, 0, kAll, kAll, kControl}},
    {kPersistentReserveOut, kRegister, 10, 0, reserve_out,
     {kPersistentReserveOut, kRegister, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kReserve, 10, 0, reserve_out,
     {kPersistentReserveOut, kReserve, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kRelease, 10, 0, reserve_out,
     {kPersistentReserveOut, kRelease, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kClear, 10, 0, reserve_out,
     {kPersistentReserveOut, kClear, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kPreempt, 10, 0, reserve_out,
     {kPersistentReserveOut, kPreempt, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kPreemptAndAbort, 10, 0, reserve_out,
     {kPersistentReserveOut, kPreemptAndAbort, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kPersistentReserveOut, kRegisterAndIgnore, 10, 0, reserve_out,
     {kPersistentReserveOut, kRegisterAndIgnore, kAll, 0, 0, kAll, kAll, kAll, kAll, kControl}},
    {kRead16, kNoServiceAction, 16, kNeedsMedium | kReads, read,
     {kRead16, kDpoFua, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kCompareAndWrite, kNoServiceAction, 16, kNeedsMedium | kWrites, compare_and_write,
     {kCompareAndWrite, kDpoFua, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, 0, 0, kAll, 0, kControl}},
    {kWrite16, kNoServiceAction, 16, kNeedsMedium | kWrites, write,
     {kWrite16, kDpoFua, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kVerify16, kNoServiceAction, 16, kNeedsMedium | kReads, verify,
     {kVerify16, 0x16, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kSynchronizeCache16, kNoServiceAction, 16, kNeedsMedium | kWrites, synchronize_cache,
     {kSynchronizeCache16, 0x02, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kWriteSame16, kNoServiceAction, 16, kNeedsMedium | kWrites, write_same,
     {kWriteSame16, 0x09, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kServiceActionIn16, kSaReadCapacity16, 16, kNeedsMedium, read_capacity16,
     {kServiceActionIn16, kSaReadCapacity16, 0, 0, 0, 0, 0, 0, 0, 0, kAll, kAll, kAll, kAll, 0, kControl}},
    {kReportLuns, kNoServiceAction, 12, kWithoutUnit | kPastAttention, report_luns,
     {kReportLuns, 0, kAll, 0, 0, 0, kAll, kAll, kAll, kAll, 0, kControl}},
    {kMaintenanceIn, kSaReportSupportedOpcodes, 12, kReads, report_supported_opcodes,
     {kMaintenanceIn, kSaReportSupportedOpcodes, 0x87, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kRead12, kNoServiceAction, 12, kNeedsMedium | kReads, read,
     {kRead12, kDpoFua, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kWrite12, kNoServiceAction, 12, kNeedsMedium | kWrites, write,
     {kWrite12, kDpoFua, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
    {kVerify12, kNoServiceAction, 12, kNeedsMedium | kReads, verify,
     {kVerify12, 0x16, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll, 0, kControl}},
};
// clang-format on

constexpr uint8_t kServiceActionMask = 0x1f;
constexpr uint8_t kNoRow = 0xff;
static_assert(std::size(kRows) < kNoRow, "a row's index fits in a byte");

// Opcode → index of its first row, so that the datapath does not search.
constexpr auto make_index() {
    std::array<uint8_t, 256> index{};
    index.fill(kNoRow);
    for (size_t i = std::size(kRows); i-- > 0;) index[kRows[i].opcode] = uint8_t(i);
    return index;
}
constexpr std::array<uint8_t, 256> kIndex = make_index();

constexpr bool rows_are_sorted() {
    for (size_t i = 1; i < std::size(kRows); i++)
        if (kRows[i - 1].opcode > kRows[i].opcode) return false;
    return true;
}
static_assert(rows_are_sorted(), "the rows of one opcode must be neighbours");

// Returns an error for the first bit that the row does not allow, if there is one.
std::optional<Sense> check_reserved(const Row& row, const std::array<std::byte, 16>& cdb) {
    // Fast path: two comparisons check all sixteen bytes of a correct command.
    std::array<uint64_t, 2> is, may;
    std::memcpy(is.data(), cdb.data(), sizeof is);
    std::memcpy(may.data(), row.usage.data(), sizeof may);
    if (((is[0] & ~may[0]) | (is[1] & ~may[1])) == 0) return std::nullopt;
    for (uint16_t i = 1; i < row.length; i++) {
        uint8_t wrong = uint8_t(get8(&cdb[i]) & ~row.usage[i]);
        if (wrong) return sense::invalid_field(i, int8_t(std::bit_width(wrong) - 1));
    }
    return std::nullopt;
}

// Whether the command conflicts with a reservation. A conflict takes precedence over all other errors and
// over a unit attention, which stays pending (SAM-5, 5.3.3).
bool conflicts(const Row& row, const Call& call) {
    if (call.standing.restriction == Restriction::kNone || !call.device.present) return false;
    constexpr uint8_t kStart = 0x01;
    if (row.opcode == kStartStopUnit && call.u8(4) & kStart) return false;
    if (row.traits & kReads) return call.standing.restriction == Restriction::kNoAccess;
    return row.traits & kWrites;
}

std::optional<Sense> check(const Row* row, const Call& call) {
    const Device& device = call.device;
    uint8_t traits = row ? row->traits : 0;
    if (!device.present && !(traits & kWithoutUnit)) return sense::lun_not_supported();
    if (call.attentions && !call.attentions->empty() && !(traits & kPastAttention))
        return call.attentions->take();
    if (!row && first_row(call.u8(0))) return sense::invalid_field(1, 4);  // unknown service action
    if (!row || !is_supported(*row, device)) return sense::invalid_opcode();
    if (auto wrong = check_reserved(*row, call.cdb)) return wrong;
    if (row->traits & kNeedsMedium && device.blocks == 0) return sense::not_ready();
    return std::nullopt;
}

}  // namespace

std::span<const Row> command_rows() {
    return kRows;
}

const Row* first_row(uint8_t opcode) {
    return kIndex[opcode] == kNoRow ? nullptr : &kRows[kIndex[opcode]];
}

const Row* find_row(uint8_t opcode, uint8_t service_action) {
    for (size_t i = kIndex[opcode]; i < std::size(kRows) && kRows[i].opcode == opcode; i++) {
        const Row& row = kRows[i];
        if (row.service_action == kNoServiceAction || row.service_action == service_action) return &row;
    }
    return nullptr;
}

Action interpret(Bytes bytes, const Device& device, std::span<const uint64_t> luns,
                 UnitAttentions* attentions, MutableBytes data_in, const Standing& standing) {
    if (bytes.empty()) return fail(sense::invalid_opcode());
    std::array<std::byte, 16> cdb{};
    std::memcpy(cdb.data(), bytes.data(), std::min(bytes.size(), cdb.size()));
    const Row* row = find_row(get8(&cdb[0]), get8(&cdb[1]) & kServiceActionMask);
    if (row && bytes.size() < row->length) return fail(sense::invalid_opcode());
    Answer answer(data_in);
    Call call{cdb, device, luns, attentions, answer, standing};
    if (row && conflicts(*row, call)) return reservation_conflict();
    if (auto wrong = check(row, call)) return fail(*wrong);
    return row->handler(call);
}

}  // namespace wss::scsi
