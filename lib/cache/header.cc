// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/header.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "lib/wire/endian.h"

namespace wss::cache {

namespace {

constexpr uint32_t kMagic = 0x5753534c;  // "WSSL"
constexpr uint8_t kVersion = 1;
constexpr size_t kChecked = 56;

uint64_t check_of(const std::byte* bytes) {
    return XXH3_64bits(bytes, kChecked);
}

bool possible(const LineHeader& header) {
    auto geometry =
        header.line_shift < 64 ? LineGeometry::of(uint64_t{1} << header.line_shift) : LineGeometry::of(0);
    if (!geometry) return false;
    // No volume has a line that ends beyond 2^63.
    return header.line <= (uint64_t{1} << 63) >> header.line_shift &&
           geometry->all().contains(header.valid) && header.valid.contains(header.dirty);
}

}  // namespace

void write_header(const LineHeader& header, std::span<std::byte, kHeaderBytes> bytes) {
    std::byte* at = bytes.data();
    wire::put32(at, kMagic);
    wire::put8(at + 4, kVersion);
    wire::put8(at + 5, static_cast<uint8_t>(header.line_shift));
    wire::put16(at + 6, 0);
    wire::put64(at + 8, header.volume);
    wire::put64(at + 16, header.line);
    wire::put64(at + 24, header.generation);
    wire::put64(at + 32, header.incarnation);
    wire::put64(at + 40, header.valid.bits);
    wire::put64(at + 48, header.dirty.bits);
    wire::put64(at + kChecked, check_of(at));
}

void erase_header(std::span<std::byte, kHeaderBytes> bytes) {
    std::memset(bytes.data(), 0, bytes.size());
}

ParsedHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes) {
    const std::byte* at = bytes.data();
    if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
        return {HeaderFault::kEmpty, {}};
    if (wire::get32(at) != kMagic) return {HeaderFault::kMagic, {}};
    if (wire::get64(at + kChecked) != check_of(at)) return {HeaderFault::kCheck, {}};
    if (wire::get8(at + 4) != kVersion) return {HeaderFault::kVersion, {}};
    LineHeader header{.volume = wire::get64(at + 8),
                      .line = wire::get64(at + 16),
                      .generation = wire::get64(at + 24),
                      .incarnation = wire::get64(at + 32),
                      .valid = {wire::get64(at + 40)},
                      .dirty = {wire::get64(at + 48)},
                      .line_shift = wire::get8(at + 5)};
    if (wire::get16(at + 6) != 0 || !possible(header)) return {HeaderFault::kImpossible, {}};
    return {HeaderFault::kNone, header};
}

}  // namespace wss::cache
