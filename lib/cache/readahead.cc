// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/readahead.h"

#include <algorithm>

namespace wss::cache {

// The stream of the read. It may be a new one that begins with this read.
ReadAhead::Stream* ReadAhead::follow(Stretch read) {
    for (uint32_t i = 0; i < followed_;) {
        Stream& stream = streams_[i];
        // For a read further behind `expected`, the subtraction wraps around.
        const uint64_t reach = options_.gap_max;
        if (read.offset + reach - stream.expected <= 2 * reach) return &stream;
        if (turn_ - stream.used > kPatience)
            stream = streams_[--followed_];
        else
            ++i;
    }
    for (uint64_t& end : ends_)
        if (end == read.offset) {
            end = kNowhere;
            return begin(read);
        }
    return nullptr;
}

ReadAhead::Stream* ReadAhead::begin(Stretch read) {
    Stream* stream = std::min_element(streams_.begin(), streams_.end(),
                                      [](const Stream& a, const Stream& b) { return a.used < b.used; });
    if (followed_ < kStreams) stream = &streams_[followed_++];
    *stream = {.expected = read.offset, .ahead = read.offset};
    return stream;
}

Stretch ReadAhead::read(Stretch read, uint64_t volume_bytes) {
    if (options_.window_first == 0 || read.length == 0) return {};
    ++turn_;
    const uint64_t end = read.offset + read.length;
    Stream* found = follow(read);
    if (found == nullptr) {
        ends_[oldest_end_] = end;
        oldest_end_ = (oldest_end_ + 1) % kStreams;
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
