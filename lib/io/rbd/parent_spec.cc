// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/parent_spec.h"

#include "lib/io/rbd/encoding.h"

namespace wss::io {

std::optional<ParentSpec> parse_parent(std::span<const char> answer) {
    Decoder all(answer);
    Decoder spec(all.structure());
    ParentSpec parent;
    parent.pool = static_cast<int64_t>(spec.number(8));
    parent.pool_namespace = spec.text();
    parent.image = spec.text();
    parent.snapshot = spec.number(8);
    if (all.failed() || spec.failed()) return std::nullopt;
    return parent;
}

// The reply is a flag that shows whether an overlap exists, then its bytes.
std::optional<bool> parse_overlap(std::span<const char> answer) {
    Decoder all(answer);
    const bool any = all.number(1) != 0 && all.number(8) != 0;
    if (all.failed()) return std::nullopt;
    return any;
}

}  // namespace wss::io
