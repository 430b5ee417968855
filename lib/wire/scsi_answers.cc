// SPDX-License-Identifier: Apache-2.0
// Parsers of a target's answers, for an initiator. Untrusted bytes, possibly truncated.
#include <algorithm>
#include <bit>

#include "lib/wire/scsi.h"
#include "lib/wire/srp.h"

namespace wss::wire {
namespace {

constexpr size_t kVpdHeaderBytes = 4;
constexpr uint32_t kBlockSizeMin = 512;
constexpr uint32_t kBlockSizeMax = 65536;
// A longer list (128 Ki units) is not plausible.
constexpr uint32_t kLunListMax = 1 << 20;

// A VPD page, cut to the bytes received. Fields beyond the end read as zero: older targets have shorter
// pages, and zero means "not reported" in all these fields.
class Page {
  public:
    static bool open(Bytes data, uint8_t code, Page& out) {
        if (data.size() < kVpdHeaderBytes || get8(&data[1]) != code) return false;
        out.data_ = data.first(std::min(data.size(), kVpdHeaderBytes + get16(&data[2])));
        return true;
    }
    Bytes body() const { return data_.subspan(kVpdHeaderBytes); }
    uint8_t u8(size_t at) const { return at + 1 <= data_.size() ? get8(&data_[at]) : 0; }
    uint16_t u16(size_t at) const { return at + 2 <= data_.size() ? get16(&data_[at]) : 0; }
    uint32_t u32(size_t at) const { return at + 4 <= data_.size() ? get32(&data_[at]) : 0; }
    uint64_t u64(size_t at) const { return at + 8 <= data_.size() ? get64(&data_[at]) : 0; }

  private:
    Bytes data_;
};

std::string_view trimmed(Bytes text) {
    std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
    size_t end = view.find_last_not_of(std::string_view(" \0", 2));
    return view.substr(0, end == std::string_view::npos ? 0 : end + 1);
}

// ASCII of fixed width, blank-padded, as in INQUIRY data.
template <size_t N>
void copy_ascii(Bytes data, size_t at, std::array<char, N>& out) {
    out.fill('\0');
    if (at + N - 1 > data.size()) return;
    std::string_view text = trimmed(data.subspan(at, N - 1));
    std::ranges::transform(text, out.begin(), [](char c) { return c >= 0x20 && c < 0x7f ? c : '?'; });
}

// One designator of VPD 83, `body` without its 4 bytes of header.
void parse_designator(uint8_t code_set, uint8_t association, uint8_t type, Bytes body, Identification& out) {
    constexpr uint8_t kVendorType = 1;
    constexpr uint8_t kNaaType = 3;
    constexpr uint8_t kBinary = 1;
    constexpr size_t kVendorBytes = 8;
    if (association != 0) return;  // identifies the port or the device, not the logical unit
    if (type == kNaaType && code_set == kBinary && body.size() >= 8 && !out.has_naa) {
        out.has_naa = true;
        out.naa = get64(body.data());
    }
    if (type == kVendorType && code_set != kBinary && body.size() >= kVendorBytes && out.vendor.empty()) {
        out.vendor = trimmed(body.first(kVendorBytes));
        out.name = trimmed(body.subspan(kVendorBytes));
    }
}

void parse_mode_page(Bytes page, ModeInfo& out) {
    if ((get8(&page[0]) & 0x7f) != kModeCaching || page.size() < 3) return;
    out.has_caching = true;
    out.write_cache = get8(&page[2]) & 0x04;
}

// Returns the total length (header and declared length) of the mode page at the start of `rest`, or 0 if it
// is not a page.
size_t mode_page_length(Bytes rest) {
    constexpr uint8_t kSubPageBit = 0x40;
    if (rest.size() < 2) return 0;
    if (!(get8(&rest[0]) & kSubPageBit)) return 2 + size_t{get8(&rest[1])};
    return rest.size() < 4 ? 0 : 4 + size_t{get16(&rest[2])};
}

}  // namespace

bool parse_standard_inquiry(Bytes data, StandardInquiry& out) {
    constexpr size_t kBytesMin = 5;
    if (data.size() < kBytesMin) return false;
    uint8_t qualifier = get8(&data[0]) >> 5;
    out.device_type = get8(&data[0]) & 0x1f;
    out.present = qualifier == 0 && out.device_type != 0x1f;
    out.version = get8(&data[2]);
    data = data.first(std::min(data.size(), kBytesMin + get8(&data[4])));
    copy_ascii(data, 8, out.vendor);
    copy_ascii(data, 16, out.product);
    copy_ascii(data, 32, out.revision);
    return true;
}

bool parse_vpd_pages(Bytes data, VpdPages& out) {
    Page page;
    if (!Page::open(data, kVpdSupportedPages, page)) return false;
    out = VpdPages{};
    for (std::byte code : page.body()) out.add(std::to_integer<uint8_t>(code));
    return true;
}

bool parse_identification(Bytes data, Identification& out) {
    Page page;
    if (!Page::open(data, kVpdIdentification, page)) return false;
    out = Identification{};
    Bytes rest = page.body();
    while (rest.size() >= 4) {
        size_t length = 4 + size_t{get8(&rest[3])};
        if (length > rest.size()) break;  // truncated: the designators before it are valid
        uint8_t flags = get8(&rest[1]);
        parse_designator(get8(&rest[0]) & 0x0f, flags >> 4 & 0x03, flags & 0x0f, rest.subspan(4, length - 4),
                         out);
        rest = rest.subspan(length);
    }
    return true;
}

bool parse_capacity16(Bytes data, Capacity& out) {
    if (data.size() < 16) return false;
    uint64_t last = get64(&data[0]);
    out.block_size = get32(&data[8]);
    if (!std::has_single_bit(out.block_size)) return false;
    if (out.block_size < kBlockSizeMin || out.block_size > kBlockSizeMax) return false;
    if (last >= uint64_t{INT64_MAX} / out.block_size) return false;
    out.blocks = last + 1;
    out.physical_block = out.block_size << (get8(&data[13]) & 0x0f);
    out.provisioning = get8(&data[14]) & 0x80;
    out.unmapped_reads_zero = get8(&data[14]) & 0x40;
    return true;
}

bool parse_block_limits(Bytes data, BlockLimits& out) {
    Page page;
    if (!Page::open(data, kVpdBlockLimits, page)) return false;
    out.zero_length_write_same_refused = page.u8(4) & 0x01;
    out.compare_and_write_max = page.u8(5);
    out.optimal_granularity = page.u16(6);
    out.transfer_max = page.u32(8);
    out.transfer_optimal = page.u32(12);
    out.unmap_blocks_max = page.u32(20);
    out.unmap_ranges_max = page.u32(24);
    out.unmap_granularity = page.u32(28);
    out.has_unmap_alignment = page.u32(32) >> 31;
    out.unmap_alignment = page.u32(32) & 0x7fffffff;
    out.write_same_max = page.u64(36);
    return true;
}

bool parse_block_characteristics(Bytes data, BlockCharacteristics& out) {
    Page page;
    if (!Page::open(data, kVpdBlockCharacteristics, page)) return false;
    out.rotation_rate = page.u16(4);
    return true;
}

bool parse_provisioning(Bytes data, Provisioning& out) {
    Page page;
    if (!Page::open(data, kVpdProvisioning, page)) return false;
    uint8_t flags = page.u8(5);
    out.unmap = flags & 0x80;
    out.write_same = flags & 0x40;
    out.write_same10 = flags & 0x20;
    out.reads_zero = flags & 0x1c;  // three bits in SBC-4, the lowest of them in SBC-3
    return true;
}

bool parse_mode_sense10(Bytes data, ModeInfo& out) {
    constexpr size_t kHeaderBytes = 8;
    if (data.size() < kHeaderBytes) return false;
    out = ModeInfo{};
    data = data.first(std::min(data.size(), size_t{2} + get16(&data[0])));
    if (data.size() < kHeaderBytes) return false;
    out.write_protected = get8(&data[3]) & 0x80;
    out.dpo_fua = get8(&data[3]) & 0x10;
    size_t descriptors = get16(&data[6]);
    if (descriptors > data.size() - kHeaderBytes) return false;
    Bytes rest = data.subspan(kHeaderBytes + descriptors);
    for (size_t length = mode_page_length(rest); length > 0; length = mode_page_length(rest)) {
        size_t there = std::min(length, rest.size());
        parse_mode_page(rest.first(there), out);
        rest = rest.subspan(there);
    }
    return true;
}

uint64_t LunList::lun(uint32_t index) const {
    return decode_lun(raw + size_t{index} * 8);
}

bool parse_report_luns(Bytes data, LunList& out) {
    constexpr size_t kHeaderBytes = 8;
    if (data.size() < kHeaderBytes) return false;
    uint32_t list = get32(&data[0]);
    if (list % 8 != 0 || list > kLunListMax) return false;
    size_t there = std::min(size_t{list}, data.size() - kHeaderBytes);
    out.count = uint32_t(there / 8);
    out.complete = there == list;
    out.needed_bytes = uint32_t(kHeaderBytes) + list;
    out.raw = data.data() + kHeaderBytes;
    return true;
}

}  // namespace wss::wire
