// SPDX-License-Identifier: Apache-2.0
// KvBuffer: a growing byte buffer. It uses its own memory, or memory that is lent to it for the next message.
// Such a message is encoded directly in the memory from which it is sent. The memory is not zeroed.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace wss::wire {

class KvBuffer {
  public:
    std::byte* data() { return at_; }
    const std::byte* data() const { return at_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::byte* begin() { return at_; }
    std::byte* end() { return at_ + size_; }
    const std::byte* begin() const { return at_; }
    const std::byte* end() const { return at_ + size_; }

    // New bytes are not initialised.
    void resize(size_t size) {
        if (size > capacity_) grow(size);
        size_ = size;
    }
    void append(std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        const size_t before = size_;
        resize(before + bytes.size());
        std::memcpy(at_ + before, bytes.data(), bytes.size());
    }
    // Makes the buffer empty and returns to its own memory. Frees that memory if it is larger than `keep`
    // bytes.
    void clear(size_t keep = SIZE_MAX) {
        if (own_bytes_ > keep) {
            own_.reset();
            own_bytes_ = 0;
        }
        size_ = 0;
        use_own();
    }
    // REQUIRES empty(). The buffer uses `memory` until clear() is called or `memory` becomes too small. In
    // the latter case the bytes move to the buffer's own memory.
    void lend(std::span<std::byte> memory) {
        at_ = memory.data();
        capacity_ = memory.size();
        lent_ = true;
    }
    bool is_lent() const { return lent_; }
    // Moves the bytes from lent memory to the buffer's own memory.
    void leave_lent() {
        if (lent_) grow(size_);
    }

  private:
    void use_own() {
        at_ = own_.get();
        capacity_ = own_bytes_;
        lent_ = false;
    }
    void grow(size_t wanted) {
        const std::byte* from = at_;
        std::unique_ptr<std::byte[]> old;
        if (!lent_ || wanted > own_bytes_) {
            old = std::move(own_);
            own_bytes_ = std::max(wanted, 2 * own_bytes_);
            own_.reset(new std::byte[own_bytes_]);
        }
        use_own();
        if (size_ > 0) std::memcpy(at_, from, size_);
    }

    std::unique_ptr<std::byte[]> own_;
    size_t own_bytes_ = 0;
    std::byte* at_ = nullptr;
    size_t capacity_ = 0, size_ = 0;
    bool lent_ = false;
};

}  // namespace wss::wire
