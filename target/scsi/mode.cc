// SPDX-License-Identifier: Apache-2.0
// MODE SENSE: pages 08 (caching), 0A (control), 1C (informational exceptions). Mode parameters cannot be
// changed: there is no MODE SELECT, all changeable masks are zero, and saved values are not supported.
#include <algorithm>
#include <iterator>
#include <optional>

#include "target/scsi/commands.h"

namespace wss::scsi {
namespace {

constexpr uint8_t kAllSubpages = 0xff;

enum PageControl : uint8_t { kCurrent = 0, kChangeable = 1, kDefault = 2, kSaved = 3 };

using PageBytes = std::array<uint8_t, 18>;  // without the two header bytes of the page

void caching(const Device& device, PageBytes& page) {
    constexpr uint8_t kWriteCacheEnable = 0x04;
    if (device.volatile_cache) page[0] |= kWriteCacheEnable;
}

void control(const Device& device, PageBytes& page) {
    constexpr uint8_t kDescriptorSense = 0x04;
    constexpr uint8_t kTaskSetPerNexus = 0x20;    // TST = 001b
    constexpr uint8_t kTaskAbortedStatus = 0x40;  // TAS
    constexpr uint8_t kUnrestrictedReordering = 0x10;
    constexpr uint16_t kBusyTimeoutUnlimited = 0xffff;
    if (sense_format(device) == wire::SenseFormat::kDescriptor) page[0] |= kDescriptorSense;
    page[0] |= kTaskSetPerNexus;
    page[1] = kUnrestrictedReordering;
    page[3] = kTaskAbortedStatus;
    page[6] = kBusyTimeoutUnlimited >> 8;
    page[7] = kBusyTimeoutUnlimited & 0xff;
}

void exceptions(const Device&, PageBytes& page) {
    constexpr uint8_t kDisabled = 0x08;  // DEXCPT: no failure prediction
    page[0] = kDisabled;
}

struct ModeRow {
    uint8_t page;
    uint8_t length;
    void (*fill)(const Device& device, PageBytes& page);
};
constexpr ModeRow kPages[] = {
    {wire::kModeCaching, 0x12, caching},
    {wire::kModeControl, 0x0a, control},
    {wire::kModeExceptions, 0x0a, exceptions},
};

void put_page(const ModeRow& row, PageControl wanted, const Call& call) {
    PageBytes body{};
    if (wanted != kChangeable) row.fill(call.device, body);
    call.answer.u8(row.page);
    call.answer.u8(row.length);
    call.answer.bytes(std::as_bytes(std::span(body).first(row.length)));
}

uint8_t device_specific(const Device& device) {
    constexpr uint8_t kWriteProtect = 0x80;
    constexpr uint8_t kDpoFua = 0x10;
    return uint8_t((device.read_only ? kWriteProtect : 0) | kDpoFua);
}

void put_short_descriptor(const Call& call) {
    call.answer.u32(uint32_t(std::min<uint64_t>(call.device.blocks, UINT32_MAX)));
    call.answer.u32(call.device.block_size);  // 24 bits; the reserved byte before them is zero
}

void put_long_descriptor(const Call& call) {
    call.answer.u64(call.device.blocks);
    call.answer.u32(0);
    call.answer.u32(call.device.block_size);
}

// Checks page code, subpage and page control, which both MODE SENSE commands have in bytes 2 and 3.
std::optional<wire::Sense> check_page(const Call& call) {
    uint8_t page = call.u8(2) & 0x3f;
    uint8_t subpage = call.u8(3);
    bool all = page == wire::kModeAll;
    bool known = all || std::ranges::find(kPages, page, &ModeRow::page) != std::end(kPages);
    if (!known) return sense::invalid_field(2, 5);
    if (subpage != 0 && !(all && subpage == kAllSubpages)) return sense::invalid_field(3);
    if (call.u8(2) >> 6 == kSaved) return sense::saving_not_supported();
    return std::nullopt;
}

void put_pages(const Call& call) {
    uint8_t page = call.u8(2) & 0x3f;
    for (const ModeRow& row : kPages)
        if (page == wire::kModeAll || page == row.page) put_page(row, PageControl(call.u8(2) >> 6), call);
}

}  // namespace

Action mode_sense6(const Call& call) {
    constexpr uint8_t kDescriptorBytes = 8;
    if (auto wrong = check_page(call)) return fail(*wrong);
    bool with_descriptor = !call.bit(1, 3);
    call.answer.limit(call.u8(4));
    call.answer.u8(0);
    call.answer.u8(0);
    call.answer.u8(device_specific(call.device));
    call.answer.u8(with_descriptor ? kDescriptorBytes : 0);
    if (with_descriptor) put_short_descriptor(call);
    put_pages(call);
    call.answer.patch8(0, uint8_t(call.answer.total() - 1));
    return respond(call.answer);
}

Action mode_sense10(const Call& call) {
    constexpr uint16_t kShortBytes = 8;
    constexpr uint16_t kLongBytes = 16;
    if (auto wrong = check_page(call)) return fail(*wrong);
    bool with_descriptor = !call.bit(1, 3);
    bool long_lba = call.bit(1, 4) && with_descriptor;
    call.answer.limit(call.u16(7));
    call.answer.u16(0);
    call.answer.u8(0);
    call.answer.u8(device_specific(call.device));
    call.answer.u8(long_lba ? 1 : 0);
    call.answer.u8(0);
    call.answer.u16(!with_descriptor ? 0 : long_lba ? kLongBytes : kShortBytes);
    if (with_descriptor) long_lba ? put_long_descriptor(call) : put_short_descriptor(call);
    put_pages(call);
    call.answer.patch16(0, uint16_t(call.answer.total() - 2));
    return respond(call.answer);
}

}  // namespace wss::scsi
