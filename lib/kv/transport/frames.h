// SPDX-License-Identifier: Apache-2.0
// The registered memory of a channel's frames: SendFrames, used in turn, and ReceiveFrames, posted again when
// they have been read.
//
// Thread-safety: none. A posted frame belongs to the fabric until its completion.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::kv {

constexpr uint32_t kFrameBytes = 16 * 1024;
constexpr uint32_t kSendFrames = 16;
constexpr uint32_t kReceiveFrames = 16;
constexpr uint32_t kSignalEvery = 8;
static_assert(2 * kSignalEvery <= kSendFrames, "send frames come back before they run out");

class SendFrames {
  public:
    Status open(fabric::Fabric& fabric) {
        auto memory = fabric.allocate(size_t{kSendFrames} * kFrameBytes, fabric::Access::kLocal);
        if (!memory) return memory.status();
        memory_ = std::move(*memory);
        return Status::ok();
    }
    bool has_room() const noexcept { return posted_ - done_ < kSendFrames; }
    std::byte* next() noexcept { return memory_->bytes().data() + posted_ % kSendFrames * kFrameBytes; }
    // Takes the next frame for a post of `length` bytes.
    fabric::Segment post(uint32_t length) noexcept {
        fabric::Segment segment{.address = next(), .length = length, .lkey = memory_->lkey()};
        ++posted_;
        return segment;
    }
    uint64_t posted() const noexcept { return posted_; }
    bool is_signalled() const noexcept { return posted_ % kSignalEvery == 0; }  // the last posted frame
    void done(uint64_t posted) noexcept { done_ = posted; }  // that frame and all before it

  private:
    std::unique_ptr<fabric::Region> memory_;
    uint64_t posted_ = 0, done_ = 0;
};

class ReceiveFrames {
  public:
    Status open(fabric::Fabric& fabric) {
        auto memory = fabric.allocate(size_t{kReceiveFrames} * kFrameBytes, fabric::Access::kLocal);
        if (!memory) return memory.status();
        memory_ = std::move(*memory);
        for (uint32_t i = 0; i < kReceiveFrames; ++i) free_.push_back(i);
        segments_.resize(kReceiveFrames);
        receives_.reserve(kReceiveFrames);
        return Status::ok();
    }
    bool are_all_free() const noexcept { return free_.size() == kReceiveFrames; }
    const std::byte* frame(uint32_t index) const noexcept {
        return memory_->bytes().data() + size_t{index} * kFrameBytes;
    }
    void give_back(uint32_t index) noexcept { free_.push_back(index); }
    // Takes at most `count` free frames to be posted; their cookies are `tag` | index.
    std::span<const fabric::Receive> take(uint32_t count, uint64_t tag) noexcept {
        receives_.clear();
        for (; count > 0 && !free_.empty(); --count) {
            const uint32_t index = free_.back();
            free_.pop_back();
            segments_[index] = {.address = memory_->bytes().data() + size_t{index} * kFrameBytes,
                                .length = kFrameBytes,
                                .lkey = memory_->lkey()};
            receives_.push_back({.cookie = tag | index, .segments = {&segments_[index], 1}});
        }
        return receives_;
    }

  private:
    std::unique_ptr<fabric::Region> memory_;
    std::vector<fabric::Receive> receives_;
    std::vector<fabric::Segment> segments_;
    std::vector<uint32_t> free_;
};

}  // namespace wss::kv
