// SPDX-License-Identifier: Apache-2.0
// The calls of an image whose requests were given up, and that librbd may still carry out.
//
// Who made a change has been told that it failed, and may make it once more. librbd does not promise an order
// for what it has at the same time. So what touches the same part of an object waits until librbd has called
// back: a later change is not undone by an earlier one, and a reader does not see the earlier one come late.
// And what is repeated while Ceph is silent does not fill librbd.
//
// Thread-safety: all of it may be called from any thread.
#pragma once

#include <atomic>
#include <mutex>

#include "lib/io/rbd/calls.h"

namespace wss::io::rbd {

class LateCalls {
  public:
    void add(Call& call) noexcept {
        std::lock_guard lock(m_);
        calls_.push_back(call);
        count_.fetch_add(1);
    }
    void remove(Call& call) noexcept {
        std::lock_guard lock(m_);
        call.unlink();
        count_.fetch_sub(1);
        ended_.fetch_add(1);
    }
    // librbd has none of the image's calls any more.
    void clear() noexcept {
        std::lock_guard lock(m_);
        while (calls_.pop_front() != nullptr) continue;
    }
    // Whether one of them is in a piece of so many bytes, at a multiple of that, that the range touches.
    bool touch(uint64_t offset, uint64_t length, uint64_t piece) noexcept {
        if (count_.load() == 0) return false;
        const uint64_t first = offset / piece, last = (offset + length - 1) / piece;
        std::lock_guard lock(m_);
        return calls_.find_if([=](const Call& call) {
            return first <= (call.offset + call.length - 1) / piece && call.offset / piece <= last;
        }) != nullptr;
    }
    uint64_t count() const noexcept { return count_.load(); }
    // How many are over: another number than before, and what has waited may go on.
    uint64_t ended() const noexcept { return ended_.load(); }

  private:
    std::mutex m_;
    List<Call> calls_;  // guarded by m_
    std::atomic<uint64_t> count_{0};
    std::atomic<uint64_t> ended_{0};
};

}  // namespace wss::io::rbd
