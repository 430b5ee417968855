// SPDX-License-Identifier: Apache-2.0
// Outbox: the frames of one turn, laid out for one gathering write. Headers are stored here. The payload
// stays in its place (the user's segments, a region) until its last byte is written.
//
// Thread-safety: none.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/fabric/stream/frame.h"
#include "lib/fabric/stream/queues.h"
#include "lib/fabric/stream/region_table.h"

namespace wss::fabric::stream {

constexpr uint32_t kSegmentsMax = 16;

class Outbox {
  public:
    bool empty() const { return first_ == vecs_used_; }
    bool has_room() const { return frames_used_ < kFramesMax && vecs_used_ + 1 + kSegmentsMax <= kVecsMax; }
    // Data of READs uses at most half of the frames. The others are for our own requests.
    bool has_room_for_region() const { return has_room() && parts_used_ < kRegionPartsMax; }

    // `number_after` is the number of our requests on the wire once this frame is written. REQUIRES
    // has_room().
    void add(const Frame& frame, uint32_t number_after, std::span<const Segment> payload = {}) noexcept;
    // Adds a part of READ number `number`. `data` points to the memory of `where`. REQUIRES
    // has_room_for_region().
    void add_region(const Frame& frame, uint32_t number_after, RemoteAddress where, std::byte* data,
                    uint32_t number, uint64_t revocations) noexcept;

    std::span<const iovec> pending() const { return {&vecs_[first_], vecs_used_ - first_}; }
    // `bytes` of pending() have been written.
    void advance(size_t bytes) noexcept;
    // Number of requests whose frames are written completely.
    uint32_t sent_number() const { return sent_number_; }

    bool has_region_parts() const { return parts_used_ > 0; }
    // The caller must hold the table's guard. A region may have been revoked since its part was added. Drops
    // the first such part and everything after it. A frame that is partly written is completed with zeros,
    // because its length is announced. No kReadEnd follows it. Returns the number of the READ to which the
    // part belongs, or nullopt if no region was revoked.
    std::optional<uint32_t> drop_revoked(const RegionTable& table) noexcept;

  private:
    static constexpr size_t kFramesMax = 64;
    static constexpr size_t kVecsMax = 256;
    static constexpr size_t kRegionPartsMax = kFramesMax / 2;
    struct FrameEnd {
        uint64_t bytes;  // bytes of this outbox up to the end of the frame
        uint32_t number_after;
    };
    struct RegionPart {
        RemoteAddress where;
        uint32_t length;
        uint32_t number;
        uint32_t vec;
        uint32_t frame;
    };

    void reset() noexcept;
    void truncate(const RegionPart& part) noexcept;
    void begin_frame(const Frame& frame, uint32_t number_after) noexcept;

    std::array<std::array<std::byte, kFrameBytes>, kFramesMax> headers_;
    std::array<iovec, kVecsMax> vecs_;
    std::array<FrameEnd, kFramesMax> ends_;
    std::array<RegionPart, kRegionPartsMax> parts_;
    size_t frames_used_ = 0;
    size_t frames_sent_ = 0;
    size_t vecs_used_ = 0;
    size_t first_ = 0;  // first vec with unsent bytes
    size_t parts_used_ = 0;
    uint64_t bytes_added_ = 0;
    uint64_t bytes_sent_ = 0;
    uint32_t sent_number_ = 0;
    uint64_t revocations_seen_ = 0;  // RegionTable::revocations() when the parts were looked up
};

}  // namespace wss::fabric::stream
