// SPDX-License-Identifier: Apache-2.0
// Repeater: repeats an attempt each second until it succeeds.
//
// The constructor creates the thread, so that begin() cannot fail: it is called after a failure, often one
// for lack of resources.
//
// Thread-safety: any thread. An attempt may call begin(), and may take locks that callers of begin() hold.
// Lifetime: the destructor waits for an attempt in progress.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace wss::volume {

class Repeater {
  public:
    // `attempt` returns whether it succeeded. Without a thread, nothing is attempted.
    explicit Repeater(std::function<bool()> attempt, bool with_thread = true);
    // Requests an attempt. If one is in progress, another one follows it.
    void begin() noexcept;
    // Stops the attempts and joins the thread.
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
