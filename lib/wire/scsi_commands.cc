// SPDX-License-Identifier: Apache-2.0
// CDBs as an initiator builds them, and the parameter list of UNMAP.
#include "lib/wire/scsi.h"

namespace wss::wire {
namespace {

constexpr uint8_t kFuaBit = 0x08;
constexpr uint8_t kWriteSameUnmapBit = 0x08;
constexpr uint8_t kWriteSameNoDataBit = 0x01;

Cdb make(Opcode opcode, uint8_t byte1 = 0) {
    Cdb cdb{};
    put8(&cdb[0], opcode);
    put8(&cdb[1], byte1);
    return cdb;
}

// Builds a 16-byte command that addresses a run of blocks. All such commands have the same layout.
Cdb make_extent16(Opcode opcode, uint8_t byte1, uint64_t lba, uint32_t blocks) {
    Cdb cdb = make(opcode, byte1);
    put64(&cdb[2], lba);
    put32(&cdb[10], blocks);
    return cdb;
}

}  // namespace

Cdb make_test_unit_ready() {
    return make(kTestUnitReady);
}

Cdb make_inquiry(uint16_t allocation) {
    Cdb cdb = make(kInquiry);
    put16(&cdb[3], allocation);
    return cdb;
}

Cdb make_inquiry_page(uint8_t page, uint16_t allocation) {
    Cdb cdb = make(kInquiry, 1);
    put8(&cdb[2], page);
    put16(&cdb[3], allocation);
    return cdb;
}

Cdb make_read_capacity16(uint32_t allocation) {
    Cdb cdb = make(kServiceActionIn16, kSaReadCapacity16);
    put32(&cdb[10], allocation);
    return cdb;
}

Cdb make_report_luns(uint32_t allocation) {
    Cdb cdb = make(kReportLuns);
    put32(&cdb[6], allocation);
    return cdb;
}

Cdb make_mode_sense10(uint8_t page, uint16_t allocation) {
    Cdb cdb = make(kModeSense10, 0x08);  // DBD: no block descriptor
    put8(&cdb[2], page);
    put16(&cdb[7], allocation);
    return cdb;
}

Cdb make_read16(uint64_t lba, uint32_t blocks, bool fua) {
    return make_extent16(kRead16, fua ? kFuaBit : 0, lba, blocks);
}

Cdb make_write16(uint64_t lba, uint32_t blocks, bool fua) {
    return make_extent16(kWrite16, fua ? kFuaBit : 0, lba, blocks);
}

Cdb make_synchronize_cache16(uint64_t lba, uint32_t blocks) {
    return make_extent16(kSynchronizeCache16, 0, lba, blocks);
}

Cdb make_write_same16(uint64_t lba, uint32_t blocks, bool unmap) {
    return make_extent16(kWriteSame16, unmap ? kWriteSameUnmapBit : 0, lba, blocks);
}

Cdb make_write_zeroes16(uint64_t lba, uint32_t blocks, bool unmap) {
    uint8_t flags = uint8_t(kWriteSameNoDataBit | (unmap ? kWriteSameUnmapBit : 0));
    return make_extent16(kWriteSame16, flags, lba, blocks);
}

Cdb make_compare_and_write(uint64_t lba, uint8_t blocks, bool fua) {
    Cdb cdb = make(kCompareAndWrite, fua ? kFuaBit : 0);
    put64(&cdb[2], lba);
    put8(&cdb[13], blocks);
    return cdb;
}

Cdb make_unmap(uint16_t parameter_list_length) {
    Cdb cdb = make(kUnmap);
    put16(&cdb[7], parameter_list_length);
    return cdb;
}

size_t encode_unmap_list(std::span<const BlockRange> ranges, MutableBytes out) {
    size_t length = unmap_list_bytes(ranges.size());
    if (length > out.size() || length > UINT16_MAX) return 0;
    std::byte* at = out.data();
    put16(at, uint16_t(length - 2));  // counts the bytes after this field
    put16(at + 2, uint16_t(length - kUnmapHeaderBytes));
    put32(at + 4, 0);
    at += kUnmapHeaderBytes;
    for (const BlockRange& range : ranges) {
        put64(at, range.lba);
        put32(at + 8, range.blocks);
        put32(at + 12, 0);
        at += kUnmapDescriptorBytes;
    }
    return length;
}

}  // namespace wss::wire
