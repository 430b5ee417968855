// SPDX-License-Identifier: Apache-2.0
// Commands about the target and the state of a unit: REPORT LUNS, REPORT SUPPORTED OPERATION CODES, REQUEST
// SENSE, TEST UNIT READY, START STOP UNIT, READ CAPACITY.
#include <algorithm>
#include <bit>

#include "lib/wire/srp.h"
#include "target/scsi/commands.h"

namespace wss::scsi {

using wire::Sense;

Action report_luns(const Call& call) {
    constexpr uint8_t kWellKnownOnly = 1;
    constexpr uint8_t kSelectMax = 2;
    uint8_t select = call.u8(2);
    if (select > kSelectMax) return fail(sense::invalid_field(2));
    std::span<const uint64_t> luns = call.luns;
    if (select == kWellKnownOnly) luns = {};  // the target has no well-known LUNs
    call.answer.limit(call.u32(6));
    call.answer.u32(uint32_t(luns.size() * 8));
    call.answer.u32(0);
    for (uint64_t lun : luns) {
        std::array<std::byte, 8> encoded{};
        wire::encode_lun(lun, encoded.data());
        call.answer.bytes(encoded);
    }
    if (call.attentions) call.attentions->remove(Attention::kLunsChanged);
    return respond(call.answer);
}

namespace {

constexpr uint8_t kTimeoutsBit = 0x80;  // RCTD

// The timeouts descriptor: length, then ten bytes; zero means that no timeout is specified.
void put_timeouts(Answer& out) {
    out.u16(0x0a);
    out.zeroes(10);
}

void put_all_commands(const Call& call, bool timeouts) {
    constexpr uint8_t kHasServiceAction = 0x01;
    constexpr uint8_t kHasTimeouts = 0x02;
    Answer& out = call.answer;
    out.u32(0);
    for (const Row& row : command_rows()) {
        if (!is_supported(row, call.device)) continue;
        bool has_action = row.service_action != kNoServiceAction;
        out.u8(row.opcode);
        out.u8(0);
        out.u16(has_action ? uint16_t(row.service_action) : 0);
        out.u8(0);
        out.u8(uint8_t((has_action ? kHasServiceAction : 0) | (timeouts ? kHasTimeouts : 0)));
        out.u16(row.length);
        if (timeouts) put_timeouts(out);
    }
    out.patch32(0, uint32_t(out.total() - 4));
}

void put_one_command(const Call& call, const Row* row, bool timeouts) {
    constexpr uint8_t kNotSupported = 1;
    constexpr uint8_t kSupported = 3;
    Answer& out = call.answer;
    bool supported = row && is_supported(*row, call.device);
    timeouts = timeouts && supported;
    out.u8(0);
    out.u8(uint8_t((timeouts ? kTimeoutsBit : 0) | (supported ? kSupported : kNotSupported)));
    out.u16(supported ? row->length : 0);
    if (!supported) return;
    out.bytes(std::as_bytes(std::span(row->usage).first(row->length)));
    if (timeouts) put_timeouts(out);
}

}  // namespace

Action report_supported_opcodes(const Call& call) {
    enum Option : uint8_t { kAllCommands = 0, kOpcodeOnly = 1, kWithAction = 2, kEither = 3 };
    uint8_t option = call.u8(2) & 0x07;
    bool timeouts = call.u8(2) & kTimeoutsBit;
    uint8_t opcode = call.u8(3);
    uint16_t action = call.u16(4);
    if (option > kEither) return fail(sense::invalid_field(2, 2));
    call.answer.limit(call.u32(6));
    if (option == kAllCommands) {
        put_all_commands(call, timeouts);
        return respond(call.answer);
    }
    const Row* first = first_row(opcode);
    bool has_actions = first && first->service_action != kNoServiceAction;
    if (option == kOpcodeOnly && has_actions) return fail(sense::invalid_field(2, 2));
    if (option == kWithAction && first && !has_actions) return fail(sense::invalid_field(2, 2));
    const Row* row = action <= 0x1f ? find_row(opcode, uint8_t(action)) : nullptr;
    if (option == kOpcodeOnly) row = first;
    if (option == kEither && row && !has_actions && action != 0) row = nullptr;
    put_one_command(call, row, timeouts);
    return respond(call.answer);
}

Action request_sense(const Call& call) {
    Sense sense;
    if (!call.device.present)
        sense = sense::lun_not_supported();
    else if (call.attentions && !call.attentions->empty())
        sense = call.attentions->take();
    std::array<std::byte, wire::kSenseMax> data;
    auto format = call.bit(1, 0) ? wire::SenseFormat::kDescriptor : wire::SenseFormat::kFixed;
    size_t length = wire::encode_sense(sense, format, data);
    call.answer.limit(call.u8(4));
    call.answer.bytes(wire::Bytes(data).first(length));
    return respond(call.answer);
}

Action test_unit_ready(const Call& call) {
    return respond(call.answer);
}

// STOP only flushes. Initiators send it before power-off to make their data stable, and one initiator must
// not stop a volume for all.
Action start_stop_unit(const Call& call) {
    bool start = call.bit(4, 0);
    bool no_flush = call.bit(4, 2);
    if (start || no_flush) return respond(call.answer);
    return Action{
        .kind = Action::Kind::kFlush, .status = wire::kGood, .lba = 0, .blocks = call.device.blocks};
}

Action read_capacity10(const Call& call) {
    uint64_t last = call.device.blocks - 1;
    call.answer.u32(uint32_t(std::min<uint64_t>(last, UINT32_MAX)));  // all ones: use READ CAPACITY (16)
    call.answer.u32(call.device.block_size);
    return respond(call.answer);
}

Action read_capacity16(const Call& call) {
    constexpr size_t kLength = 32;
    constexpr uint8_t kProvisioned = 0x80;  // LBPME
    constexpr uint8_t kReadsZero = 0x40;    // LBPRZ
    const Device& device = call.device;
    uint32_t ratio = std::max(device.physical_block, device.block_size) / device.block_size;
    const bool discard = promises_discard(device);
    uint8_t flags = discard ? kProvisioned : 0;
    if (discard && device.unmapped_reads_zero) flags |= kReadsZero;
    Answer& out = call.answer;
    out.limit(call.u32(10));
    out.u64(device.blocks - 1);
    out.u32(device.block_size);
    out.u8(0);
    out.u8(uint8_t(std::bit_width(ratio) - 1));  // logical blocks per physical block, as an exponent
    out.u8(flags);
    out.u8(0);  // alignment: LBA 0 is aligned
    out.zeroes(kLength - out.total());
    return respond(out);
}

}  // namespace wss::scsi
