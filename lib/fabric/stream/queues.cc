// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/queues.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace wss::fabric::stream {

SendQueue::SendQueue(uint32_t depth, uint32_t segments, uint32_t inline_bytes)
    : depth_(depth),
      mask_(std::bit_ceil(depth) - 1),
      segments_(segments),
      inline_bytes_(inline_bytes),
      entries_(mask_ + 1),
      storage_(size_t{mask_ + 1} * segments),
      inline_storage_(size_t{mask_ + 1} * inline_bytes) {}

void SendQueue::push(const WorkRequest& request, uint32_t length) noexcept {
    uint32_t slot = posted_++ & mask_;
    Segment* segments = &storage_[size_t{slot} * segments_];
    SendEntry& entry = entries_[slot];
    entry = SendEntry{.cookie = request.cookie,
                      .remote = request.remote,
                      .length = length,
                      .immediate = request.immediate,
                      .op = request.op,
                      .signalled = request.signalled,
                      .inlined = request.inlined,
                      .segment_count = static_cast<uint8_t>(request.segments.size())};
    if (!request.inlined) {
        std::copy(request.segments.begin(), request.segments.end(), segments);
        return;
    }
    std::byte* copy = inline_storage_.data() + size_t{slot} * inline_bytes_;
    segments[0] = Segment{.address = copy, .length = length, .lkey = 0};
    entry.segment_count = 1;
    for (const Segment& segment : request.segments) {
        if (segment.length == 0) continue;
        std::memcpy(copy, segment.address, segment.length);
        copy += segment.length;
    }
}

ReceiveQueue::ReceiveQueue(uint32_t depth, uint32_t segments)
    : depth_(depth),
      mask_(std::bit_ceil(depth) - 1),
      segments_(segments),
      entries_(mask_ + 1),
      storage_(size_t{mask_ + 1} * segments) {}

void ReceiveQueue::push(const Receive& receive, uint32_t capacity) noexcept {
    uint32_t slot = posted_++ & mask_;
    entries_[slot] = ReceiveEntry{.cookie = receive.cookie,
                                  .capacity = capacity,
                                  .segment_count = static_cast<uint8_t>(receive.segments.size())};
    std::copy(receive.segments.begin(), receive.segments.end(), &storage_[size_t{slot} * segments_]);
}

size_t gather(std::span<const Segment> segments, uint64_t offset, uint64_t length,
              std::span<iovec> out) noexcept {
    size_t count = 0;
    for (const Segment& segment : segments) {
        if (length == 0 || count == out.size()) break;
        if (offset >= segment.length) {
            offset -= segment.length;
            continue;
        }
        uint64_t take = std::min<uint64_t>(segment.length - offset, length);
        out[count++] = iovec{.iov_base = segment.address + offset, .iov_len = take};
        length -= take;
        offset = 0;
    }
    return count;
}

void scatter(std::span<const Segment> segments, uint64_t offset, std::span<const std::byte> bytes) noexcept {
    for (const Segment& segment : segments) {
        if (bytes.empty()) return;
        if (offset >= segment.length) {
            offset -= segment.length;
            continue;
        }
        size_t take = std::min<size_t>(segment.length - offset, bytes.size());
        std::memcpy(segment.address + offset, bytes.data(), take);
        bytes = bytes.subspan(take);
        offset = 0;
    }
}

uint64_t bytes_of(std::span<const Segment> segments) noexcept {
    uint64_t sum = 0;
    for (const Segment& segment : segments) sum += segment.length;
    return sum;
}

}  // namespace wss::fabric::stream
