// SPDX-License-Identifier: Apache-2.0
// Commands with an extent of blocks: READ, WRITE, VERIFY, SYNCHRONIZE CACHE, WRITE SAME, COMPARE AND WRITE,
// and UNMAP with its list. Ensures invariant SC1.
#include <algorithm>
#include <optional>

#include "target/scsi/commands.h"

namespace wss::scsi {
namespace {

using wire::Sense;
using Kind = Action::Kind;

// The extent of a CDB, before it is checked.
struct Extent {
    uint64_t lba = 0;
    uint64_t blocks = 0;
    uint16_t blocks_at = 0;  // byte of the length field, for sense data
};

// The group code (top bits of the opcode) determines the length of the CDB and the offsets of its fields.
Extent extent_of(const Call& call) {
    switch (call.u8(0) >> 5) {
        case 0: {
            constexpr uint32_t kLbaMask = 0x1fffff;
            constexpr uint32_t kBlocksOfZero = 256;
            uint32_t blocks = call.u8(4);
            return {wire::get24(&call.cdb[1]) & kLbaMask, blocks ? blocks : kBlocksOfZero, 4};
        }
        case 1:
        case 2:
            return {call.u32(2), call.u16(7), 7};
        case 4:
            return {call.u64(2), call.u32(10), 10};
        default:
            return {call.u32(2), call.u32(6), 6};  // group 5
    }
}

// Even an extent of no blocks must begin inside the device.
std::optional<Sense> check_range(const Device& device, const Extent& extent) {
    if (extent.lba >= device.blocks) return sense::lba_out_of_range(extent.lba);
    if (extent.blocks > device.blocks - extent.lba) return sense::lba_out_of_range(device.blocks);
    return std::nullopt;
}

std::optional<Sense> check(const Device& device, const Extent& extent, uint64_t blocks_max) {
    if (extent.blocks > blocks_max) return sense::invalid_field(extent.blocks_at);
    return check_range(device, extent);
}

Action act(Kind kind, const Extent& extent) {
    return Action{.kind = kind, .status = wire::kGood, .lba = extent.lba, .blocks = extent.blocks};
}

uint64_t write_same_limit(const Device& device) {
    return device.max_write_same_blocks ? device.max_write_same_blocks : UINT64_MAX;
}

bool has_fua(const Call& call) {
    return call.u8(0) >> 5 != 0 && call.bit(1, 3);
}

}  // namespace

Action read(const Call& call) {
    Extent extent = extent_of(call);
    if (auto wrong = check(call.device, extent, transfer_limit(call.device))) return fail(*wrong);
    if (extent.blocks == 0) return respond(call.answer);
    Action action = act(Kind::kRead, extent);
    action.fua = has_fua(call);
    action.data_in_length = uint32_t(extent.blocks * call.device.block_size);
    return action;
}

Action write(const Call& call) {
    Extent extent = extent_of(call);
    if (auto wrong = check(call.device, extent, transfer_limit(call.device))) return fail(*wrong);
    if (call.device.read_only) return fail(sense::write_protected());
    if (extent.blocks == 0) return respond(call.answer);
    Action action = act(Kind::kWrite, extent);
    action.fua = has_fua(call);
    action.data_out_length = uint32_t(extent.blocks * call.device.block_size);
    return action;
}

Action verify(const Call& call) {
    enum ByteCheck : uint8_t { kMediumOnly = 0, kCompare = 1 };
    uint8_t byte_check = call.u8(1) >> 1 & 0x03;
    if (byte_check > kCompare) return fail(sense::invalid_field(1, 2));
    Extent extent = extent_of(call);
    if (auto wrong = check(call.device, extent, transfer_limit(call.device))) return fail(*wrong);
    if (extent.blocks == 0) return respond(call.answer);
    Action action = act(Kind::kVerify, extent);
    if (byte_check == kCompare) action.data_out_length = uint32_t(extent.blocks * call.device.block_size);
    return action;
}

Action synchronize_cache(const Call& call) {
    Extent extent = extent_of(call);
    if (auto wrong = check_range(call.device, extent)) return fail(*wrong);
    if (extent.blocks == 0) extent.blocks = call.device.blocks - extent.lba;
    return act(Kind::kFlush, extent);
}

Action write_same(const Call& call) {
    Extent extent = extent_of(call);
    bool wants_unmap = call.bit(1, 3);
    bool no_data_out = call.bit(1, 0);
    if (wants_unmap && !call.device.discard) return fail(sense::invalid_field(1, 3));
    // Zero would mean "to the end of the device". Zero is refused, as VPD page B0 announces (WSNZ), so that a
    // mistake does not erase the device.
    if (extent.blocks == 0) return fail(sense::invalid_field(extent.blocks_at));
    if (auto wrong = check(call.device, extent, write_same_limit(call.device))) return fail(*wrong);
    if (call.device.read_only) return fail(sense::write_protected());
    Action action = act(Kind::kWriteSame, extent);
    action.unmap = wants_unmap;
    action.no_data_out = no_data_out;
    action.data_out_length = no_data_out ? 0 : call.device.block_size;
    return action;
}

Action compare_and_write(const Call& call) {
    constexpr uint16_t kBlocksAt = 13;
    Extent extent{call.u64(2), call.u8(kBlocksAt), kBlocksAt};
    if (auto wrong = check(call.device, extent, call.device.max_compare_blocks)) return fail(*wrong);
    if (call.device.read_only) return fail(sense::write_protected());
    if (extent.blocks == 0) return respond(call.answer);
    Action action = act(Kind::kCompareAndWrite, extent);
    action.fua = has_fua(call);
    action.data_out_length = uint32_t(2 * extent.blocks * call.device.block_size);
    return action;
}

Action unmap(const Call& call) {
    constexpr uint16_t kLengthAt = 7;
    uint16_t length = call.u16(kLengthAt);
    if (call.device.read_only) return fail(sense::write_protected());
    if (length == 0) return respond(call.answer);
    if (length < wire::kUnmapHeaderBytes) return fail(sense::list_length_error());
    if (length > wire::unmap_list_bytes(kMaxUnmapRanges)) return fail(sense::invalid_field(kLengthAt));
    return Action{.kind = Kind::kUnmap, .status = wire::kGood, .data_out_length = length};
}

wire::BlockRange UnmapList::range(uint32_t index) const {
    const std::byte* at = raw_ + size_t{index} * wire::kUnmapDescriptorBytes;
    return {wire::get64(at), wire::get32(at + 8)};
}

bool parse_unmap_list(Bytes list, const Device& device, UnmapList& out, Sense& sense) {
    constexpr size_t kDescriptorsLengthAt = 2;
    // The list's length field counts the header without that field's own two bytes.
    constexpr size_t kHeaderCounted = wire::kUnmapHeaderBytes - 2;
    auto refuse = [&sense](const Sense& why) {
        sense = why;
        return false;
    };
    if (list.size() < wire::kUnmapHeaderBytes) return refuse(sense::list_length_error());
    size_t data_length = wire::get16(&list[0]);
    size_t descriptors_length = wire::get16(&list[kDescriptorsLengthAt]);
    if (data_length < kHeaderCounted + descriptors_length) return refuse(sense::invalid_list_field(0));
    if (descriptors_length > list.size() - wire::kUnmapHeaderBytes)
        return refuse(sense::invalid_list_field(kDescriptorsLengthAt));
    // An incomplete last descriptor is ignored (SBC-3 §5.28.2).
    UnmapList parsed;
    parsed.count_ = uint32_t(descriptors_length / wire::kUnmapDescriptorBytes);
    parsed.raw_ = list.data() + wire::kUnmapHeaderBytes;
    if (parsed.count_ > kMaxUnmapRanges) return refuse(sense::invalid_list_field(kDescriptorsLengthAt));
    uint64_t total = 0;
    for (uint32_t i = 0; i < parsed.count_; i++) {
        wire::BlockRange range = parsed.range(i);
        if (range.blocks == 0) continue;
        if (auto wrong = check_range(device, {range.lba, range.blocks})) return refuse(*wrong);
        total += range.blocks;
        if (total > device.max_unmap_blocks)
            return refuse(sense::invalid_list_field(uint16_t(wire::unmap_list_bytes(i) + 8)));
    }
    out = parsed;
    return true;
}

}  // namespace wss::scsi
