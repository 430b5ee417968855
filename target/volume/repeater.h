// SPDX-License-Identifier: Apache-2.0
// Repeater: attempts something each second until it succeeds.
//
// Its thread is made with it, so that nothing can keep begin() from working: it is called when something has
// failed already, often for want of resources.
//
// Thread-safety: any thread. An attempt may begin() another one, and may take locks that who calls begin()
// holds.
// Lifetime: the destructor waits for the attempt that is under way.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace wss::volume {

class Repeater {
  public:
    // `attempt` returns whether it succeeded.
    explicit Repeater(std::function<bool()> attempt);
    // What is being attempted already goes on.
    void begin() noexcept;
    // Nothing is attempted any more.
    void end() { thread_ = {}; }

  private:
    void run(const std::stop_token& stop);

    const std::function<bool()> attempt_;
    std::mutex m_;
    std::condition_variable_any changed_;
    bool wanted_ = false;  // since the last attempt began; guarded by m_
    std::jthread thread_;
};

}  // namespace wss::volume
