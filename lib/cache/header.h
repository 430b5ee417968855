// SPDX-License-Identifier: Apache-2.0
// LineHeader: what an engine stores for each slot, so that a storage engine can find its dirty lines after a
// restart (recovery.h).
//
// 64 bytes, big-endian, in the engine's memory. Only the engine writes it, as the SE commands:
//
//   0  magic "WSSL"        4  version 1      5  line shift (12 … 18)   6  flags, 0   7  reserved, 0
//   8  volume (WWID)      16  line number
//  24  generation         32  incarnation of the engine's membership
//  40  valid sub-blocks   48  dirty sub-blocks
//  56  check: XXH3-64 of bytes 0 … 55
//
// Rules
//  H1  An engine writes the header after the bytes that it describes are in the slot. While a fill overwrites
//      a slot that held another line, the header is still that of the other line. It has no dirty bits (H3),
//      and clean sub-blocks are not valid after a restart (recovery.h).
//  H2  Before a write is acknowledged, every copy that missed it is erased and the erasure is confirmed, or
//      stable storage records that the membership of that copy's engine has ended. So every copy with a valid
//      header and a current incarnation contains every acknowledged write of its line.
//  H3  Before a line counts as clean, its dirty bits are cleared at every holder, with confirmation. So the
//      header of an evicted line never has dirty bits.
//
// The bytes come from another machine's memory: parse_header() rejects everything that is not a whole header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/cache/geometry.h"
#include "lib/cache/types.h"

namespace wss::cache {

constexpr size_t kHeaderBytes = 64;

struct LineHeader {
    uint64_t volume = 0;  // WWID: unlike LineKey::volume, never reused for another volume
    uint64_t line = 0;
    uint64_t generation = 0;   // that of the newest write in the slot; grows with each write
    uint64_t incarnation = 0;  // the engine's, assigned when it joins; older ones are invalid
    SubBlocks valid;
    SubBlocks dirty;
    uint32_t line_shift = 16;
    bool operator==(const LineHeader&) const = default;
};

void write_header(const LineHeader& header, std::span<std::byte, kHeaderBytes> bytes);
void erase_header(std::span<std::byte, kHeaderBytes> bytes);

enum class HeaderFault : uint8_t {
    kNone,
    kEmpty,      // erased: all zero
    kMagic,      // not a header
    kVersion,    // another version
    kCheck,      // half written or damaged
    kImpossible  // whole, but with invalid values
};
struct ParsedHeader {
    HeaderFault fault = HeaderFault::kNone;
    LineHeader header;  // valid only if `fault` is kNone
};
ParsedHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace wss::cache
