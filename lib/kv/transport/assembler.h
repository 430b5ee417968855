// SPDX-License-Identifier: Apache-2.0
// Assembler: splits the received bytes into messages. A message that is contiguous in a frame is returned in
// place; only one that spans frames is copied.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <vector>

#include "lib/wire/kv.h"

namespace wss::kv {

class Assembler {
  public:
    // Takes the next message from the front of `bytes`; it is valid until release(). Returns an empty message
    // if all of `bytes` is consumed and more is needed, or if is_malformed(). A message of more than `max`
    // bytes is malformed.
    wire::Bytes next(wire::Bytes& bytes, size_t max) {
        if (!partial_.empty()) return continue_partial(bytes, max);
        const uint32_t length = length_of(bytes, max);
        if (length != 0 && length <= bytes.size()) {
            const wire::Bytes message = bytes.first(length);
            bytes = bytes.subspan(length);
            return message;
        }
        malformed_ = length == 0 && bytes.size() >= wire::kKvHeaderBytes;
        partial_.assign(bytes.begin(), bytes.end());
        length_ = length;
        bytes = {};
        return {};
    }
    // Call it when the message returned by next() has been handled.
    void release() {
        if (!is_whole_) return;
        is_whole_ = false;
        length_ = 0;
        partial_.clear();
        if (partial_.capacity() > kShrinkAbove) partial_.shrink_to_fit();
    }
    bool is_malformed() const { return malformed_; }

  private:
    static constexpr size_t kShrinkAbove = size_t{1} << 20;

    static uint32_t length_of(wire::Bytes header, size_t max) {
        const uint32_t length = wire::message_length(header);
        return length <= max ? length : 0;
    }
    wire::Bytes continue_partial(wire::Bytes& bytes, size_t max) {
        for (;;) {
            const size_t wanted = length_ != 0 ? length_ : wire::kKvHeaderBytes;
            const size_t count = std::min(bytes.size(), wanted - partial_.size());
            partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
            bytes = bytes.subspan(count);
            if (partial_.size() < wanted) return {};
            if (length_ != 0) break;
            length_ = length_of(partial_, max);
            malformed_ = length_ == 0;
            if (malformed_) return {};
        }
        is_whole_ = true;
        return partial_;
    }

    std::vector<std::byte> partial_;  // the part received of a message that spans frames
    size_t length_ = 0;               // length of that message; 0: not yet known
    bool is_whole_ = false, malformed_ = false;
};

}  // namespace wss::kv
