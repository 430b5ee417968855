// SPDX-License-Identifier: Apache-2.0
// The changes of an image whose requests were given up, and that librbd may still carry out.
//
// Who made them has been told that they failed, and may do them once more. librbd does not promise an order
// for what it has at the same time. So whatever overlaps one of them waits until librbd has called back: a
// later change is not undone by an earlier one, and a reader does not see the earlier one come late.
//
// Thread-safety: all of it may be called from any thread.
#pragma once

#include <atomic>
#include <mutex>

#include "lib/io/rbd/calls.h"

namespace wss::io::rbd {

class LateChanges {
  public:
    void add(Call& call) noexcept {
        std::lock_guard lock(m_);
        calls_.push_back(call);
        count_.fetch_add(1);
    }
    void remove(Call& call) noexcept {
        std::lock_guard lock(m_);
        if (!call.linked()) return;
        call.unlink();
        count_.fetch_sub(1);
        ended_.fetch_add(1);
    }
    // librbd has none of the image's calls any more.
    void clear() noexcept {
        std::lock_guard lock(m_);
        while (calls_.pop_front() != nullptr) continue;
    }
    bool overlap(uint64_t offset, uint64_t length) noexcept {
        if (count_.load() == 0) return false;
        std::lock_guard lock(m_);
        return calls_.find_if([=](const Call& call) {
            return offset < call.offset + call.length && call.offset < offset + length;
        }) != nullptr;
    }
    // How many are over: another number than before, and what has waited may go on.
    uint64_t ended() const noexcept { return ended_.load(); }

  private:
    std::mutex m_;
    List<Call> calls_;  // guarded by m_
    std::atomic<uint32_t> count_{0};
    std::atomic<uint64_t> ended_{0};
};

}  // namespace wss::io::rbd
