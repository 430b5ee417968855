// SPDX-License-Identifier: Apache-2.0
// SCSI block commands as bytes: names of codes (SPC-4, SBC-3), builders of commands and parsers of answers
// for an initiator, sense data in both directions. target/scsi/scsi.h interprets commands for a target.
//
// Parsers read untrusted bytes. They return false if the bytes are not valid. `out` must then not be used.
// Answers may be truncated (an allocation length was too short): a missing field is an error only where the
// caller needs it.
//
// Thread-safety: pure functions over their arguments. No allocation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/wire/endian.h"
#include "lib/wire/scsi_codes.h"

namespace wss::wire {

// ---- Commands --------------------------------------------------------------------------------------------

// 16 bytes. Bytes after the end of the command are zero, as in wire::CommandRequest::cdb.
using Cdb = std::array<std::byte, 16>;

Cdb make_test_unit_ready();
Cdb make_inquiry(uint16_t allocation);
Cdb make_inquiry_page(uint8_t page, uint16_t allocation);
Cdb make_read_capacity16(uint32_t allocation);
Cdb make_report_luns(uint32_t allocation);
Cdb make_mode_sense10(uint8_t page, uint16_t allocation);
Cdb make_read16(uint64_t lba, uint32_t blocks, bool fua = false);
Cdb make_write16(uint64_t lba, uint32_t blocks, bool fua = false);
Cdb make_synchronize_cache16(uint64_t lba = 0, uint32_t blocks = 0);  // 0 blocks: to the end
// Data-out is one block, the pattern. `unmap` lets the target deallocate when the pattern is zero.
Cdb make_write_same16(uint64_t lba, uint32_t blocks, bool unmap);
// No data-out: writes zeroes (NDOB).
Cdb make_write_zeroes16(uint64_t lba, uint32_t blocks, bool unmap);
// Data-out is `blocks` to compare, then `blocks` to write.
Cdb make_compare_and_write(uint64_t lba, uint8_t blocks, bool fua = false);
Cdb make_unmap(uint16_t parameter_list_length);

struct BlockRange {
    uint64_t lba = 0;
    uint32_t blocks = 0;
    bool operator==(const BlockRange&) const = default;
};
inline constexpr size_t kUnmapHeaderBytes = 8;
inline constexpr size_t kUnmapDescriptorBytes = 16;
constexpr size_t unmap_list_bytes(size_t ranges) {
    return kUnmapHeaderBytes + ranges * kUnmapDescriptorBytes;
}
// Returns unmap_list_bytes(ranges.size()), or 0 when `out` is too small.
size_t encode_unmap_list(std::span<const BlockRange> ranges, MutableBytes out);

// ---- Sense data ------------------------------------------------------------------------------------------

// The byte (and bit) of the command or parameter list that is at fault.
struct FieldPointer {
    bool valid = false;
    bool in_cdb = true;  // false: in the data-out parameter list
    int8_t bit = -1;     // most significant bit of the field; -1: the whole byte
    uint16_t byte = 0;
    bool operator==(const FieldPointer&) const = default;
};

struct Sense {
    SenseKey key = SenseKey::kNoSense;
    AdditionalSense code = {};  // ASC << 8 | ASCQ
    bool has_information = false;
    uint64_t information = 0;  // the failing LBA, or the offset of a miscompare
    FieldPointer field;
    bool operator==(const Sense&) const = default;
};

enum class SenseFormat : uint8_t { kFixed, kDescriptor };
inline constexpr size_t kSenseMax = 28;  // descriptor format with information and field pointer

// The fixed format has 32 bits for the information. A larger value is left out. Returns the length, or 0 if
// `out` is shorter than kSenseMax.
size_t encode_sense(const Sense& sense, SenseFormat format, MutableBytes out);
bool parse_sense(Bytes data, Sense& out);

// ---- Answers ---------------------------------------------------------------------------------------------

struct StandardInquiry {
    bool present = false;  // false: no logical unit here, by peripheral qualifier and type
    uint8_t device_type = 0;
    uint8_t version = 0;
    std::array<char, 9> vendor{};  // zero-terminated, printable, without trailing blanks
    std::array<char, 17> product{};
    std::array<char, 5> revision{};
};
bool parse_standard_inquiry(Bytes data, StandardInquiry& out);

// VPD 00: the supported pages.
class VpdPages {
  public:
    bool has(uint8_t page) const { return bits_[page / 64] >> page % 64 & 1; }
    void add(uint8_t page) { bits_[page / 64] |= uint64_t{1} << page % 64; }

  private:
    std::array<uint64_t, 4> bits_{};
};
bool parse_vpd_pages(Bytes data, VpdPages& out);

// VPD 83. The views point into the page.
struct Identification {
    bool has_naa = false;
    uint64_t naa = 0;         // all 64 bits, type nibble included; the first half of a 128-bit NAA
    std::string_view vendor;  // T10 vendor designator: first 8 bytes, without trailing blanks
    std::string_view name;    // the rest of that designator: the volume's name if vendor is "WSS"
};
bool parse_identification(Bytes data, Identification& out);

struct Capacity {
    uint64_t blocks = 0;
    uint32_t block_size = 0;      // bytes; a power of two from 512 to 64 KiB, else the parser fails
    uint32_t physical_block = 0;  // bytes
    bool provisioning = false;    // LBPME: see VPD B2
    bool unmapped_reads_zero = false;
};
bool parse_capacity16(Bytes data, Capacity& out);

// VPD B0. 0 means that the target reports no limit, unless a member says otherwise.
struct BlockLimits {
    bool zero_length_write_same_refused = false;
    uint8_t compare_and_write_max = 0;  // blocks; 0: not supported
    uint16_t optimal_granularity = 0;
    uint32_t transfer_max = 0;
    uint32_t transfer_optimal = 0;
    uint32_t unmap_blocks_max = 0;  // 0: UNMAP is not supported
    uint32_t unmap_ranges_max = 0;
    uint32_t unmap_granularity = 0;
    bool has_unmap_alignment = false;
    uint32_t unmap_alignment = 0;
    uint64_t write_same_max = 0;
};
bool parse_block_limits(Bytes data, BlockLimits& out);

struct BlockCharacteristics {
    uint16_t rotation_rate = 0;  // 1: does not rotate
    bool rotational() const { return rotation_rate > 1; }
};
bool parse_block_characteristics(Bytes data, BlockCharacteristics& out);

struct Provisioning {
    bool unmap = false;         // UNMAP works
    bool write_same = false;    // WRITE SAME (16) with UNMAP works
    bool write_same10 = false;  // WRITE SAME (10) with UNMAP works
    bool reads_zero = false;
};
bool parse_provisioning(Bytes data, Provisioning& out);

struct ModeInfo {
    bool write_protected = false;
    bool dpo_fua = false;
    bool has_caching = false;  // page 08 was present
    bool write_cache = false;  // WCE: a flush is needed
};
// Parses the data of MODE SENSE (10) with any pages. Page 08 may be among them.
bool parse_mode_sense10(Bytes data, ModeInfo& out);

// REPORT LUNS.
struct LunList {
    uint32_t count = 0;     // entries in the data
    bool complete = false;  // false: repeat with a larger allocation (needed_bytes)
    uint32_t needed_bytes = 0;
    const std::byte* raw = nullptr;
    uint64_t lun(uint32_t index) const;  // may be kBadLun
};
bool parse_report_luns(Bytes data, LunList& out);

}  // namespace wss::wire
