// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/readahead.h"

#include <algorithm>

namespace wss::cache {

bool ReadAhead::belongs(const Stream& stream, uint64_t offset) const {
    uint64_t distance = offset > stream.expected ? offset - stream.expected : stream.expected - offset;
    // A stream seen once has no direction yet: only its exact continuation counts.
    return stream.used != 0 && distance <= (stream.window == 0 ? 0 : options_.gap_max);
}

Stretch ReadAhead::read(Stretch read, uint64_t volume_bytes) {
    if (options_.window_first == 0 || read.length == 0) return {};
    ++turn_;
    auto found = std::find_if(streams_.begin(), streams_.end(),
                              [&](const Stream& stream) { return belongs(stream, read.offset); });
    uint64_t end = read.offset + read.length;
    if (found == streams_.end()) {
        auto oldest = std::min_element(streams_.begin(), streams_.end(),
                                       [](const Stream& a, const Stream& b) { return a.used < b.used; });
        *oldest = {.expected = end, .ahead = end, .window = 0, .used = turn_};
        return {};
    }
    Stream& stream = *found;
    stream.used = turn_;
    stream.expected = std::max(stream.expected, end);
    stream.ahead = std::max(stream.ahead, stream.expected);
    if (stream.ahead - stream.expected > stream.window / 2) return {};
    stream.window =
        stream.window == 0
            ? options_.window_first
            : static_cast<uint32_t>(std::min<uint64_t>(uint64_t{stream.window} * 2, options_.window_max));
    uint64_t until = std::min(stream.expected + stream.window, volume_bytes);
    if (until <= stream.ahead) return {};
    Stretch wanted{stream.ahead, until - stream.ahead};
    stream.ahead = until;
    return wanted;
}

}  // namespace wss::cache
