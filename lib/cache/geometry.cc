// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/geometry.h"

#include <bit>

namespace wss::cache {

Result<LineGeometry> LineGeometry::of(uint64_t line_bytes) {
    if (!std::has_single_bit(line_bytes) || line_bytes < kLineBytesMin || line_bytes > kLineBytesMax)
        return failure(Code::kInvalid, "a cache line of {} bytes: it must be a power of two from {} to {}",
                       line_bytes, kLineBytesMin, kLineBytesMax);
    return LineGeometry(static_cast<uint32_t>(std::countr_zero(line_bytes)));
}

}  // namespace wss::cache
