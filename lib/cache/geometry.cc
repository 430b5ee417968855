// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/geometry.h"

#include <algorithm>
#include <bit>

namespace wss::cache {

// Pieces [first, end).
static Pieces range(uint32_t first, uint32_t end) {
    if (first >= end) return {};
    uint64_t upto = end == kPiecesMax ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
    return {upto & ~((uint64_t{1} << first) - 1)};
}

Result<LineGeometry> LineGeometry::of(uint64_t line_bytes) {
    if (!std::has_single_bit(line_bytes) || line_bytes < kLineBytesMin || line_bytes > kLineBytesMax)
        return failure(Code::kInvalid, "a cache line of {} bytes: it must be a power of two from {} to {}",
                       line_bytes, kLineBytesMin, kLineBytesMax);
    return LineGeometry(static_cast<uint32_t>(std::countr_zero(line_bytes)));
}

Span LineGeometry::first_span(uint64_t offset, uint64_t length) const {
    uint32_t inside = static_cast<uint32_t>(offset & (line_bytes() - 1));
    uint64_t room = line_bytes() - inside;
    return {line_of(offset), inside, static_cast<uint32_t>(std::min(length, room))};
}

Pieces LineGeometry::touched(Span span) const {
    if (span.length == 0) return {};
    return range(span.offset >> kPieceShift, ((span.offset + span.length - 1) >> kPieceShift) + 1);
}

Pieces LineGeometry::covered(Span span) const {
    return range((span.offset + kPieceBytes - 1) >> kPieceShift, (span.offset + span.length) >> kPieceShift);
}

}  // namespace wss::cache
