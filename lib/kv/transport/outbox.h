// SPDX-License-Identifier: Apache-2.0
// Outbox: messages that are encoded and not yet posted. While it is empty, a send frame can be lent to it.
// The next message is then encoded directly in that frame, if it fits.
//
// Thread-safety: none.
#pragma once

#include <cstring>

#include "lib/wire/kv.h"

namespace wss::kv {

class Outbox {
  public:
    wire::KvBuffer& buffer() { return out_; }
    bool empty() const { return out_.empty(); }
    bool is_lent() const { return out_.is_lent(); }
    void lend(std::span<std::byte> frame) { out_.lend(frame); }
    void leave_lent() { out_.leave_lent(); }

    const std::byte* front() const { return out_.data() + at_; }
    size_t backlog() const { return out_.size() - at_; }
    size_t held() const { return out_.size(); }  // at most twice the backlog and a frame
    void posted(size_t bytes) { at_ += bytes; }
    // Under constant load the outbox never becomes empty, so this also removes posted bytes while others are
    // queued.
    void drop_posted() noexcept {
        if (at_ == out_.size()) {
            out_.clear(kShrinkAbove);
            at_ = 0;
        } else if (at_ > backlog() && !out_.is_lent()) {
            std::memmove(out_.data(), out_.data() + at_, backlog());
            out_.resize(backlog());
            at_ = 0;
        }
    }

  private:
    static constexpr size_t kShrinkAbove = size_t{1} << 20;

    wire::KvBuffer out_;
    size_t at_ = 0;  // [at_, end) is not yet posted
};

}  // namespace wss::kv
