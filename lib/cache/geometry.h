// SPDX-License-Identifier: Apache-2.0
// LineGeometry: how a volume is divided into lines, and lines into sub-blocks. A value type; pure arithmetic.
#pragma once

#include <cstdint>

#include "lib/base/status.h"
#include "lib/cache/types.h"

namespace wss::cache {

constexpr uint32_t kLineBytesMin = kSubBlockBytes;
constexpr uint32_t kLineBytesMax = kSubBlockBytes * kSubBlocksMax;
constexpr uint32_t kLineBytesDefault = 64 * 1024;

// A range of bytes within one line.
struct Span {
    uint64_t line = 0;
    uint32_t offset = 0;  // from the start of the line
    uint32_t length = 0;
    bool operator==(const Span&) const = default;
};

class LineGeometry {
  public:
    LineGeometry() = default;  // kLineBytesDefault
    // Fails unless `line_bytes` is a power of two from 4 to 256 KiB.
    static Result<LineGeometry> of(uint64_t line_bytes);

    uint32_t line_bytes() const { return uint32_t{1} << shift_; }
    uint32_t shift() const { return shift_; }
    uint32_t sub_blocks() const { return uint32_t{1} << (shift_ - kSubBlockShift); }
    SubBlocks all() const {
        return {sub_blocks() == kSubBlocksMax ? ~uint64_t{0} : (uint64_t{1} << sub_blocks()) - 1};
    }

    uint64_t line_of(uint64_t offset) const { return offset >> shift_; }
    uint64_t start_of(uint64_t line) const { return line << shift_; }
    // The number of lines of a volume of this size; the last one may be short.
    uint64_t lines(uint64_t volume_bytes) const {
        return (volume_bytes >> shift_) + ((volume_bytes & (line_bytes() - 1)) != 0 ? 1 : 0);
    }
    // The part of [offset, offset + length) in the line in which the range begins; its length is 0 if
    // `length` is.
    Span first_span(uint64_t offset, uint64_t length) const {
        const auto inside = static_cast<uint32_t>(offset & (line_bytes() - 1));
        const uint64_t room = line_bytes() - inside;
        return {line_of(offset), inside, static_cast<uint32_t>(length < room ? length : room)};
    }

    // The sub-blocks of which `span` contains at least one byte.
    SubBlocks touched(Span span) const {
        if (span.length == 0) return {};
        return range(span.offset >> kSubBlockShift, ((span.offset + span.length - 1) >> kSubBlockShift) + 1);
    }
    // The sub-blocks of which `span` contains every byte. A write makes these valid, whatever their state
    // was.
    SubBlocks covered(Span span) const {
        return range((span.offset + kSubBlockBytes - 1) >> kSubBlockShift,
                     (span.offset + span.length) >> kSubBlockShift);
    }

    bool operator==(const LineGeometry&) const = default;

  private:
    explicit LineGeometry(uint32_t shift) : shift_(shift) {}
    // The sub-blocks [first, end).
    static SubBlocks range(uint32_t first, uint32_t end) {
        if (first >= end) return {};
        const uint64_t upto = end == kSubBlocksMax ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
        return {upto & ~((uint64_t{1} << first) - 1)};
    }
    uint32_t shift_ = 16;
};
static_assert(kLineBytesDefault == 1u << 16, "the default shift");

}  // namespace wss::cache
