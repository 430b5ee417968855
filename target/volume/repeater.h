// SPDX-License-Identifier: Apache-2.0
// Repeater: attempts something each second, on a thread of its own, until it succeeds.
//
// Thread-safety: any thread. An attempt may begin() another one, and may take locks that who calls begin()
// holds. It allocates.
// Lifetime: the destructor waits for the attempt that is under way.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace wss::volume {

class Repeater {
  public:
    // `attempt` returns whether it succeeded. What is being attempted already goes on.
    void begin(std::function<bool()> attempt);
    // Nobody calls begin() any more.
    void end() { thread_ = {}; }

  private:
    void run(const std::stop_token& stop, const std::function<bool()>& attempt);

    std::mutex m_;
    // Guarded by m_.
    bool running_ = false;
    bool wanted_ = false;  // since the last attempt began
    std::jthread thread_;
};

}  // namespace wss::volume
