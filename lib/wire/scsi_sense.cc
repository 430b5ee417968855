// SPDX-License-Identifier: Apache-2.0
// Sense data in fixed (70h) and descriptor (72h) format, encoding and parsing (SPC-4 §4.5).
#include <algorithm>

#include "lib/wire/scsi.h"

namespace wss::wire {
namespace {

constexpr uint8_t kFixedCurrent = 0x70;
constexpr uint8_t kDescriptorCurrent = 0x72;
constexpr uint8_t kResponseCodeMask = 0x7f;
constexpr uint8_t kValidBit = 0x80;
constexpr size_t kHeaderBytes = 8;  // header of either format
constexpr size_t kFixedBytes = 18;
constexpr size_t kFixedFieldPointerAt = 15;
constexpr size_t kFixedFieldPointerBytes = 3;

constexpr uint8_t kInformationType = 0x00;
constexpr size_t kInformationBytes = 12;
constexpr uint8_t kFieldPointerType = 0x02;
constexpr size_t kFieldPointerBytes = 8;

// Sense-key specific bytes: SKSV, C/D, BPV and bit number, then the byte number.
constexpr uint8_t kFieldValidBit = 0x80;
constexpr uint8_t kInCdbBit = 0x40;
constexpr uint8_t kBitValidBit = 0x08;
constexpr uint8_t kBitMask = 0x07;

void put_field_pointer(const FieldPointer& field, std::byte* at) {
    uint8_t flags = kFieldValidBit;
    if (field.in_cdb) flags |= kInCdbBit;
    if (field.bit >= 0) flags = uint8_t(flags | kBitValidBit | (field.bit & kBitMask));
    put8(at, flags);
    put16(at + 1, field.byte);
}

FieldPointer get_field_pointer(const std::byte* at) {
    uint8_t flags = get8(at);
    if (!(flags & kFieldValidBit)) return {};
    FieldPointer field{.valid = true, .in_cdb = (flags & kInCdbBit) != 0, .bit = -1, .byte = get16(at + 1)};
    if (flags & kBitValidBit) field.bit = int8_t(flags & kBitMask);
    return field;
}

size_t encode_fixed(const Sense& sense, std::byte* at) {
    std::fill_n(at, kFixedBytes, std::byte{0});
    bool has_information = sense.has_information && sense.information <= UINT32_MAX;
    put8(at, uint8_t(kFixedCurrent | (has_information ? kValidBit : 0)));
    put8(at + 2, uint8_t(sense.key));
    if (has_information) put32(at + 3, uint32_t(sense.information));
    put8(at + 7, kFixedBytes - kHeaderBytes);
    put16(at + 12, uint16_t(sense.code));
    if (sense.field.valid) put_field_pointer(sense.field, at + kFixedFieldPointerAt);
    return kFixedBytes;
}

size_t encode_descriptors(const Sense& sense, std::byte* at) {
    std::fill_n(at, kSenseMax, std::byte{0});
    put8(at, kDescriptorCurrent);
    put8(at + 1, uint8_t(sense.key));
    put16(at + 2, uint16_t(sense.code));
    size_t length = kHeaderBytes;
    if (sense.has_information) {
        put8(at + length, kInformationType);
        put8(at + length + 1, kInformationBytes - 2);
        put8(at + length + 2, kValidBit);
        put64(at + length + 4, sense.information);
        length += kInformationBytes;
    }
    if (sense.field.valid) {
        put8(at + length, kFieldPointerType);
        put8(at + length + 1, kFieldPointerBytes - 2);
        put_field_pointer(sense.field, at + length + 4);
        length += kFieldPointerBytes;
    }
    put8(at + 7, uint8_t(length - kHeaderBytes));
    return length;
}
static_assert(kSenseMax == kHeaderBytes + kInformationBytes + kFieldPointerBytes, "both descriptors fit");

void parse_fixed(Bytes data, Sense& out) {
    out.key = SenseKey(get8(&data[2]) & 0x0f);
    if (get8(&data[0]) & kValidBit) {
        out.has_information = true;
        out.information = get32(&data[3]);
    }
    if (data.size() >= 14) out.code = AdditionalSense(get16(&data[12]));
    if (data.size() >= kFixedFieldPointerAt + kFixedFieldPointerBytes && out.key == SenseKey::kIllegalRequest)
        out.field = get_field_pointer(&data[kFixedFieldPointerAt]);
}

void parse_descriptor(Bytes descriptor, Sense& out) {
    uint8_t type = get8(&descriptor[0]);
    if (type == kInformationType && descriptor.size() >= kInformationBytes &&
        get8(&descriptor[2]) & kValidBit) {
        out.has_information = true;
        out.information = get64(&descriptor[4]);
    }
    if (type == kFieldPointerType && descriptor.size() >= kFieldPointerBytes &&
        out.key == SenseKey::kIllegalRequest)
        out.field = get_field_pointer(&descriptor[4]);
}

void parse_descriptors(Bytes data, Sense& out) {
    out.key = SenseKey(get8(&data[1]) & 0x0f);
    out.code = AdditionalSense(get16(&data[2]));
    Bytes rest = data.subspan(kHeaderBytes);
    while (rest.size() >= 2) {
        size_t length = 2 + size_t{get8(&rest[1])};
        if (length > rest.size()) break;  // truncated: the descriptors before it are valid
        parse_descriptor(rest.first(length), out);
        rest = rest.subspan(length);
    }
}

}  // namespace

std::string_view to_string(SenseKey key) {
    switch (key) {
        case SenseKey::kNoSense:
            return "no sense";
        case SenseKey::kRecovered:
            return "recovered error";
        case SenseKey::kNotReady:
            return "not ready";
        case SenseKey::kMediumError:
            return "medium error";
        case SenseKey::kHardwareError:
            return "hardware error";
        case SenseKey::kIllegalRequest:
            return "illegal request";
        case SenseKey::kUnitAttention:
            return "unit attention";
        case SenseKey::kDataProtect:
            return "data protect";
        case SenseKey::kBlankCheck:
            return "blank check";
        case SenseKey::kAbortedCommand:
            return "aborted command";
        case SenseKey::kMiscompare:
            return "miscompare";
    }
    return "reserved sense key";
}

size_t encode_sense(const Sense& sense, SenseFormat format, MutableBytes out) {
    if (out.size() < kSenseMax) return 0;
    return format == SenseFormat::kFixed ? encode_fixed(sense, out.data())
                                         : encode_descriptors(sense, out.data());
}

bool parse_sense(Bytes data, Sense& out) {
    if (data.size() < kHeaderBytes) return false;
    out = Sense{};
    size_t length = kHeaderBytes + get8(&data[7]);
    data = data.first(std::min(data.size(), length));
    // 71h and 73h are deferred errors: they belong to an earlier command.
    switch (get8(&data[0]) & kResponseCodeMask) {
        case kFixedCurrent:
        case kFixedCurrent + 1:
            parse_fixed(data, out);
            return true;
        case kDescriptorCurrent:
        case kDescriptorCurrent + 1:
            parse_descriptors(data, out);
            return true;
        default:
            return false;
    }
}

}  // namespace wss::wire
