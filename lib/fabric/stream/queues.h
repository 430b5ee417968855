// SPDX-License-Identifier: Apache-2.0
// The two queues of a connection, of fixed size: posted requests and posted receives. All memory is allocated
// when the connection is created (F7). Positions count from the beginning. They wrap around at 2^32, which is
// harmless because no two live ones are further apart than kDepthMax.
//
// Thread-safety: none. They belong to the connection's thread.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::fabric::stream {

// What an incomplete request waits for.
enum class Wait : uint8_t {
    kAcknowledge,  // the peer's count reaches its number
    kData,         // a READ: all its bytes and kReadEnd
    kNothing,      // done (shm: this side did it itself)
};

struct SendEntry {
    uint64_t cookie = 0;
    RemoteAddress remote;
    uint32_t length = 0;  // bytes of all segments
    uint32_t immediate = 0;
    uint32_t number = 0;    // its number among the requests on the wire
    uint32_t received = 0;  // READ: bytes received
    Op op = Op::kSend;
    Wait wait = Wait::kAcknowledge;
    bool signalled = false;
    bool inlined = false;
    uint8_t segment_count = 0;
};

// posted() ≥ built() ≥ completed(): entries before built() are on the wire or done.
class SendQueue {
  public:
    SendQueue(uint32_t depth, uint32_t segments, uint32_t inline_bytes);

    uint32_t room() const { return depth_ - (posted_ - completed_); }
    uint32_t depth() const { return depth_; }
    uint32_t segments_max() const { return segments_; }
    // Copies an inlined payload. REQUIRES room() > 0 and a request within the limits.
    void push(const WorkRequest& request, uint32_t length) noexcept;

    uint32_t posted() const { return posted_; }
    uint32_t built() const { return built_; }
    uint32_t completed() const { return completed_; }
    bool has_unbuilt() const { return built_ != posted_; }
    void advance_built() { ++built_; }
    void advance_completed() { ++completed_; }
    // Used when the connection closes: treats all remaining entries as put on the wire.
    void build_all() { built_ = posted_; }

    SendEntry& at(uint32_t position) { return entries_[position & mask_]; }
    std::span<const Segment> segments(uint32_t position) const {
        uint32_t slot = position & mask_;
        return {&storage_[size_t{slot} * segments_], entries_[slot].segment_count};
    }

  private:
    const uint32_t depth_;
    const uint32_t mask_;
    const uint32_t segments_;
    const uint32_t inline_bytes_;
    std::vector<SendEntry> entries_;
    std::vector<Segment> storage_;
    std::vector<std::byte> inline_storage_;
    uint32_t posted_ = 0;
    uint32_t built_ = 0;
    uint32_t completed_ = 0;
};

struct ReceiveEntry {
    uint64_t cookie = 0;
    uint32_t capacity = 0;  // bytes of all segments
    uint8_t segment_count = 0;
};

class ReceiveQueue {
  public:
    ReceiveQueue(uint32_t depth, uint32_t segments);

    uint32_t room() const { return depth_ - (posted_ - consumed_); }
    uint32_t depth() const { return depth_; }
    uint32_t segments_max() const { return segments_; }
    bool empty() const { return posted_ == consumed_; }
    uint32_t posted() const { return posted_; }
    void push(const Receive& receive, uint32_t capacity) noexcept;
    // The oldest receive. REQUIRES !empty().
    const ReceiveEntry& front() const { return entries_[consumed_ & mask_]; }
    std::span<const Segment> front_segments() const {
        return {&storage_[size_t{consumed_ & mask_} * segments_], front().segment_count};
    }
    void pop() { ++consumed_; }

  private:
    const uint32_t depth_;
    const uint32_t mask_;
    const uint32_t segments_;
    std::vector<ReceiveEntry> entries_;
    std::vector<Segment> storage_;
    uint32_t posted_ = 0;
    uint32_t consumed_ = 0;
};

// Fills `out` with the part of `segments` that starts at `offset`, at most `length` bytes. Returns the number
// of iovecs.
size_t gather(std::span<const Segment> segments, uint64_t offset, uint64_t length,
              std::span<iovec> out) noexcept;
// Copies `bytes` into `segments`, starting at `offset`. REQUIRES that they fit.
void scatter(std::span<const Segment> segments, uint64_t offset, std::span<const std::byte> bytes) noexcept;
uint64_t bytes_of(std::span<const Segment> segments) noexcept;

}  // namespace wss::fabric::stream
