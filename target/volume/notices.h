// SPDX-License-Identifier: Apache-2.0
// Notices: what storage reports to a set of volumes, on threads of its own, as long as the set is there.
//
// A notice may hold the volume that it is of, so that to close a volume does not wait for it. The set does,
// before it goes: by end().
//
// Thread-safety: all methods may be called from any thread; end() must not hold what a notice waits for, nor
// be called by one.
// Lifetime: shared by the set and by what storage calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace wss::volume {

class Notices {
  public:
    // Whether it was followed, else it is repeated. After end() nobody is there to follow it.
    template <typename Notice>
    bool deliver(const Notice& notice) {
        {
            std::lock_guard lock(m_);
            if (ended_) return true;
            ++inside_;
        }
        const bool followed = notice();
        std::lock_guard lock(m_);
        if (--inside_ == 0) left_.notify_all();
        return followed;
    }
    // None begins any more, and none is under way when it returns.
    void end() {
        std::unique_lock lock(m_);
        ended_ = true;
        left_.wait(lock, [this] { return inside_ == 0; });
    }

  private:
    std::mutex m_;
    std::condition_variable left_;
    // Guarded by m_.
    uint64_t inside_ = 0;
    bool ended_ = false;
};

}  // namespace wss::volume
