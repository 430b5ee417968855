// SPDX-License-Identifier: Apache-2.0
// The registered buffers of a connection's messages. SendBuffers are used in turn. ReceiveBuffers are posted
// again when they have been read.
//
// Thread-safety: none. A posted buffer belongs to the fabric until its completion.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::fabric {

// A send completion costs as much as a message, so only one in kSignalEvery sends is signalled. Its
// completion covers all sends before it.
template <uint32_t kBytes, uint32_t kCount, uint32_t kSignalEvery>
class SendBuffers {
  public:
    static_assert(2 * kSignalEvery <= kCount, "buffers become free before they run out");

    Status open(Fabric& fabric) {
        auto memory = fabric.allocate(size_t{kCount} * kBytes, Access::kLocal);
        if (!memory) return memory.status();
        memory_ = std::move(*memory);
        return Status::ok();
    }
    bool has_room() const noexcept { return posted_ - done_ < kCount; }
    std::byte* next() const noexcept { return memory_->bytes().data() + posted_ % kCount * kBytes; }
    // Takes the next buffer for a post of `length` bytes.
    Segment post(uint32_t length) noexcept {
        Segment segment{.address = next(), .length = length, .lkey = memory_->lkey()};
        ++posted_;
        return segment;
    }
    uint64_t posted() const noexcept { return posted_; }
    // True if the last posted buffer is signalled.
    bool is_signalled() const noexcept { return posted_ % kSignalEvery == 0; }
    void done(uint64_t posted) noexcept { done_ = posted; }  // that buffer and all before it are complete

  private:
    std::unique_ptr<Region> memory_;
    uint64_t posted_ = 0, done_ = 0;
};

template <uint32_t kBytes, uint32_t kCount>
class ReceiveBuffers {
  public:
    Status open(Fabric& fabric) {
        auto memory = fabric.allocate(size_t{kCount} * kBytes, Access::kLocal);
        if (!memory) return memory.status();
        memory_ = std::move(*memory);
        for (uint32_t i = 0; i < kCount; ++i) free_.push_back(i);
        segments_.resize(kCount);
        receives_.reserve(kCount);
        return Status::ok();
    }
    bool are_all_free() const noexcept { return free_.size() == kCount; }
    const std::byte* buffer(uint32_t index) const noexcept {
        return memory_->bytes().data() + size_t{index} * kBytes;
    }
    void give_back(uint32_t index) noexcept { free_.push_back(index); }
    // Takes at most `count` free buffers to be posted. cookie_of(index) is the cookie of each.
    template <typename CookieOf>
    std::span<const Receive> take(uint32_t count, CookieOf&& cookie_of) noexcept {
        receives_.clear();
        for (; count > 0 && !free_.empty(); --count) {
            const uint32_t index = free_.back();
            free_.pop_back();
            segments_[index] = {.address = memory_->bytes().data() + size_t{index} * kBytes,
                                .length = kBytes,
                                .lkey = memory_->lkey()};
            receives_.push_back({.cookie = cookie_of(index), .segments = {&segments_[index], 1}});
        }
        return receives_;
    }

  private:
    std::unique_ptr<Region> memory_;
    std::vector<Receive> receives_;
    std::vector<Segment> segments_;
    std::vector<uint32_t> free_;
};

}  // namespace wss::fabric
