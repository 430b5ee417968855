// SPDX-License-Identifier: Apache-2.0
// Worker: one helper thread for the storage calls that the kernel only offers blocking (fallocate,
// BLKDISCARD), so that a reactor never waits for them.
//
// A request travels through two intrusive lists: the worker's and, done, its queue's Inbox. Its scratch
// belongs to the worker meanwhile. How many can wait is bounded by who submits them.
//
// Thread-safety: submit() from any thread; an Inbox is emptied by its queue's thread. Lifetime: an Inbox
// outlives the requests submitted with it; the destructor finishes what is waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/io/backend.h"

namespace wss::io {

class Worker {
  public:
    // Performs a request, returns 0 or an errno. Called on the worker's thread.
    using Run = int (*)(void* context, const Request& request) noexcept;

    // Where finished requests wait for their queue. Each one makes `event_fd` readable.
    class Inbox {
      public:
        explicit Inbox(int event_fd) : event_fd_(event_fd) {}
        bool has_news() const noexcept { return news_.load(std::memory_order_acquire); }
        // Moves what is there to `into`.
        void take(List<Request>& into) noexcept;

      private:
        friend class Worker;
        const int event_fd_;
        std::atomic<bool> news_{false};
        std::mutex m_;
        List<Request> done_;  // guarded by m_
    };

    Worker(Run run, void* context);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void submit(Request& request, Inbox& inbox) noexcept;

  private:
    void loop() noexcept;
    static void deliver(Request& request) noexcept;

    const Run run_;
    void* const context_;
    std::mutex m_;
    std::condition_variable wake_;
    List<Request> waiting_;  // guarded by m_
    bool stopping_ = false;  // guarded by m_
    std::thread thread_;     // last: starts when all else is made
};

}  // namespace wss::io
