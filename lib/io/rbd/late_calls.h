// SPDX-License-Identifier: Apache-2.0
// LateCalls: the calls of an image whose requests have timed out and which librbd may still carry out.
//
// The initiator of a timed-out change may repeat it, and librbd guarantees no order between calls in flight.
// So a request that touches the same stripe unit waits until librbd has called back: an earlier change
// does not overwrite a later one, and does not appear after a later read. Repeated requests also do not fill
// librbd while Ceph is silent.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "lib/io/rbd/calls.h"

namespace wss::io::rbd {

class LateCalls {
  public:
    // `unit`: bytes of a stripe unit, which begins at a multiple of this. It must be the same in all calls of
    // the functions of one LateCalls.
    void add(Call& call, uint64_t unit) noexcept {
        const StripeUnits units = of(call.offset, call.length, unit);
        std::lock_guard lock(m_);
        (units.first == units.last ? of_one_[units.first % kLists] : of_several_).push_back(call);
        count_.fetch_add(1);
    }
    void remove(Call& call) noexcept {
        std::lock_guard lock(m_);
        call.unlink();
        count_.fetch_sub(1);
        ended_.fetch_add(1);
    }
    // Empties the lists. To be called when librbd no longer has any call of the image.
    void clear() noexcept {
        std::lock_guard lock(m_);
        for (List<Call>& list : of_one_)
            while (list.pop_front() != nullptr) continue;
        while (of_several_.pop_front() != nullptr) continue;
    }
    // True if a late call is in a stripe unit that the range touches. Must be fast: thousands of calls may be
    // late, and reactors call this for each part of a request.
    bool touch(uint64_t offset, uint64_t length, uint64_t unit) noexcept {
        if (count_.load() == 0) return false;
        const StripeUnits range = of(offset, length, unit);
        auto meets = [=](const Call& call) {
            const StripeUnits its = of(call.offset, call.length, unit);
            return range.first <= its.last && its.first <= range.last;
        };
        const uint64_t lists = std::min<uint64_t>(range.last - range.first, kLists - 1) + 1;
        std::lock_guard lock(m_);
        for (uint64_t i = 0; i < lists; ++i)
            if (of_one_[(range.first + i) % kLists].find_if(meets) != nullptr) return true;
        return of_several_.find_if(meets) != nullptr;
    }
    uint64_t count() const noexcept { return count_.load(); }
    // Number of late calls that have ended. When it changes, blocked requests may be tried again.
    uint64_t ended() const noexcept { return ended_.load(); }

  private:
    struct StripeUnits {
        uint64_t first, last;
    };
    static StripeUnits of(uint64_t offset, uint64_t length, uint64_t unit) noexcept {
        return {offset / unit, (offset + length - 1) / unit};
    }

    static constexpr size_t kLists = 1024;
    std::mutex m_;
    // Guarded by m_.
    std::array<List<Call>, kLists> of_one_;  // calls within one stripe unit, hashed by its number
    List<Call> of_several_;
    std::atomic<uint64_t> count_{0};
    std::atomic<uint64_t> ended_{0};
};

}  // namespace wss::io::rbd
