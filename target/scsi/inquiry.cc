// SPDX-License-Identifier: Apache-2.0
// INQUIRY: standard data (SPC-4 §6.6) and the vital product data pages 00, 80, 83, B0, B1, B2.
#include <algorithm>
#include <iterator>

#include "target/scsi/commands.h"

namespace wss::scsi {
namespace {

constexpr std::string_view kVendor = "WSS";
constexpr std::string_view kProduct = "Volume";
constexpr std::string_view kRevision = "1";
constexpr uint8_t kVersionSpc4 = 6;
constexpr uint8_t kNoUnit = 0x7f;  // peripheral qualifier 3, type 1Fh: no unit is supported at this LUN
constexpr uint8_t kDirectAccess = 0x00;

uint8_t peripheral(const Device& device) {
    return device.present ? kDirectAccess : kNoUnit;
}

void standard(const Call& call) {
    constexpr uint8_t kLength = 74;  // up to the end of the eight version descriptors
    Answer& out = call.answer;
    out.u8(peripheral(call.device));
    out.u8(0);
    out.u8(kVersionSpc4);
    out.u8(0x12);  // HISUP: hierarchical LUN addressing; response data format 2
    out.u8(kLength - 5);
    out.u8(0);
    out.u8(0);
    out.u8(0x02);  // CMDQUE
    out.ascii(kVendor, 8);
    out.ascii(kProduct, 16);
    out.ascii(kRevision, 4);
    out.zeroes(22);
    // Version descriptors of SAM-5, SPC-4, SBC-3 and SRP, without a revision.
    for (uint16_t standard : {0x00a0, 0x0460, 0x04c0, 0x0940}) out.u16(standard);
    out.zeroes(kLength - out.total());
}

void serial_number(const Call& call) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (int shift = 60; shift >= 0; shift -= 4)
        call.answer.u8(uint8_t(kDigits[(call.device.wwid & kWwidMask) >> shift & 0xf]));
}

void designator(Answer& out, uint8_t code_set, uint8_t association, uint8_t type, size_t length) {
    constexpr uint8_t kProtocolSrp = 4;
    out.u8(uint8_t((association ? kProtocolSrp << 4 : 0) | code_set));
    out.u8(uint8_t((association ? 0x80 : 0) | association << 4 | type));  // PIV, set for ports
    out.u8(0);
    out.u8(uint8_t(length));
}

void identification(const Call& call) {
    constexpr uint8_t kBinary = 1, kAscii = 2, kUtf8 = 3;
    constexpr uint8_t kUnit = 0, kPort = 1;
    constexpr uint8_t kVendorType = 1, kNaaType = 3, kRelativePortType = 4;
    constexpr size_t kVendorBytes = 8;
    constexpr size_t kIdentityBytes = 17;
    constexpr size_t kNameMax = 255 - kVendorBytes - kIdentityBytes;
    constexpr uint64_t kNaaLocallyAssigned = 3;
    Answer& out = call.answer;
    const Device& device = call.device;

    designator(out, kBinary, kUnit, kNaaType, 8);
    const uint64_t naa = kNaaLocallyAssigned << 60 | (device.wwid & kWwidMask);
    out.u64(naa);

    std::string_view name = device.name.substr(0, kNameMax);
    bool is_ascii = std::ranges::all_of(name, [](char c) { return uint8_t(c) < 0x80; });
    designator(out, is_ascii ? kAscii : kUtf8, kUnit, kVendorType,
               kVendorBytes + name.size() + kIdentityBytes);
    out.ascii(kVendor, kVendorBytes);
    out.ascii(name, name.size());
    // Stock initiators may prefer this designator to the first, so it must be unique even among volumes of
    // the same name.
    out.u8(':');
    for (int shift = 60; shift >= 0; shift -= 4) out.u8(uint8_t("0123456789abcdef"[naa >> shift & 0xf]));

    designator(out, kBinary, kPort, kRelativePortType, 4);
    out.u16(0);
    out.u16(device.relative_port);
}

void block_limits(const Call& call) {
    constexpr size_t kBodyBytes = 0x3c;
    constexpr uint8_t kWriteSameNonZero = 0x01;
    Answer& out = call.answer;
    const Device& device = call.device;
    size_t start = out.total();
    out.u8(kWriteSameNonZero);
    out.u8(device.max_compare_blocks);
    uint32_t granularity = std::max(device.physical_block, device.block_size) / device.block_size;
    out.u16(uint16_t(std::min<uint32_t>(granularity, UINT16_MAX)));
    out.u32(transfer_limit(device));
    out.u32(std::min(device.optimal_transfer_blocks, transfer_limit(device)));
    out.u32(0);  // PREFETCH: not supported
    const bool discard = promises_discard(device);
    out.u32(discard ? device.max_unmap_blocks : 0);
    out.u32(discard ? kMaxUnmapRanges : 0);
    out.u32(discard ? device.unmap_granularity_blocks : 0);
    out.u32(0);  // unmap granularity alignment: not valid
    out.u64(device.max_write_same_blocks);
    out.zeroes(kBodyBytes - (out.total() - start));
}

void block_characteristics(const Call& call) {
    constexpr uint16_t kNonRotating = 1;
    constexpr uint16_t kNotReported = 0;
    call.answer.u16(call.device.rotational ? kNotReported : kNonRotating);
    call.answer.zeroes(0x3c - 2);
}

void provisioning(const Call& call) {
    constexpr uint8_t kUnmapAndWriteSame = 0xe0;  // LBPU, LBPWS, LBPWS10
    constexpr uint8_t kReadsZero = 0x04;
    constexpr uint8_t kThin = 2;
    const Device& device = call.device;
    const bool discard = promises_discard(device);
    uint8_t flags = discard ? kUnmapAndWriteSame : 0;
    if (discard && device.unmapped_reads_zero) flags |= kReadsZero;
    call.answer.u8(0);  // no thresholds
    call.answer.u8(flags);
    call.answer.u8(discard ? kThin : 0);
    call.answer.u8(0);
}

void supported_pages(const Call& call);

struct VpdRow {
    uint8_t page;
    void (*body)(const Call& call);
};
constexpr VpdRow kPages[] = {
    {wire::kVpdSupportedPages, supported_pages},
    {wire::kVpdSerialNumber, serial_number},
    {wire::kVpdIdentification, identification},
    {wire::kVpdBlockLimits, block_limits},
    {wire::kVpdBlockCharacteristics, block_characteristics},
    {wire::kVpdProvisioning, provisioning},
};

void supported_pages(const Call& call) {
    size_t count = call.device.present ? std::size(kPages) : 1;
    for (const VpdRow& row : std::span(kPages).first(count)) call.answer.u8(row.page);
}

}  // namespace

Action inquiry(const Call& call) {
    constexpr size_t kLengthAt = 2;
    constexpr size_t kHeaderBytes = 4;
    uint8_t page = call.u8(2);
    call.answer.limit(call.u16(3));
    if (!call.bit(1, 0)) {
        if (page != 0) return fail(sense::invalid_field(2));
        standard(call);
        return respond(call.answer);
    }
    auto row = std::ranges::find(kPages, page, &VpdRow::page);
    if (row == std::end(kPages)) return fail(sense::invalid_field(2));
    if (!call.device.present && page != wire::kVpdSupportedPages) return fail(sense::invalid_field(2));
    call.answer.u8(peripheral(call.device));
    call.answer.u8(page);
    call.answer.u16(0);
    row->body(call);
    call.answer.patch16(kLengthAt, uint16_t(call.answer.total() - kHeaderBytes));
    return respond(call.answer);
}

}  // namespace wss::scsi
