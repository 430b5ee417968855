// SPDX-License-Identifier: Apache-2.0
// Notices: reports of storage backends to a VolumeSet, such as size changes. They arrive on threads of the
// storage. After end() they no longer use the set, which can then be destroyed.
//
// A notice may hold a reference to its volume, so closing a volume does not wait for notices. The set does:
// it calls end() before it is destroyed.
//
// Thread-safety: all methods may be called from any thread. The caller of end() must hold nothing that a
// notice waits for. A notice must not call end().
// Lifetime: shared by the set and by the callbacks that storage holds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace wss::volume {

class Notices {
  public:
    // Returns whether the notice was handled. Otherwise storage repeats it. After end() notices are dropped
    // and count as handled.
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
    // No notice begins after this call, and none is running when it returns.
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
