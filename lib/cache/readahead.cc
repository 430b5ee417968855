// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/readahead.h"

#include <algorithm>

namespace wss::cache {

Stretch ReadAhead::read(Stretch read, uint64_t volume_bytes) {
    if (options_.window_first == 0 || read.length == 0) return {};
    ++turn_;
    // One pass, as every read comes by here, and most belong to no stream.
    Stream* found = nullptr;
    Stream* oldest = streams_.data();
    for (Stream& stream : streams_) {
        // A stream seen once has no direction yet: only its exact continuation counts.
        const uint64_t reach = stream.window == 0 ? 0 : options_.gap_max;
        // Behind `expected` by more wraps around.
        if (read.offset + reach - stream.expected <= 2 * reach) {
            found = &stream;
            break;
        }
        if (stream.used < oldest->used) oldest = &stream;
    }
    uint64_t end = read.offset + read.length;
    if (found == nullptr) {
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
