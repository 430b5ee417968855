// SPDX-License-Identifier: Apache-2.0
// Worker: helper threads for storage calls that block (fallocate, BLKDISCARD; in lib/io/threads all calls),
// so that a reactor never waits for them. One thread or a pool, started in advance.
//
// A request passes through two intrusive lists: the worker's and, when done, the Inbox of its queue.
// Meanwhile its scratch memory belongs to the worker. The worker does not limit the number of waiting
// requests.
//
// Thread-safety: submit() may be called from any thread. Only the thread of its queue empties an Inbox.
// Lifetime: an Inbox must outlive the requests that are submitted with it. The destructor of Worker executes
// the waiting requests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/io/backend.h"

namespace wss::io {

class Worker {
  public:
    // Executes a request and returns 0 or an errno. May set done_bytes to the progress before an error. Runs
    // on one of the worker's threads, or on the thread that calls perform().
    using Run = int (*)(void* context, Request& request) noexcept;
    static constexpr uint32_t kThreadsMax = 1024;

    // Completed requests that wait for their queue. Each one makes `event_fd` readable.
    class Inbox {
      public:
        explicit Inbox(int event_fd) : event_fd_(event_fd) {}
        bool has_news() const noexcept { return news_.load(std::memory_order_acquire); }
        // Moves the completed requests to `into`.
        void take(List<Request>& into) noexcept;

      private:
        friend class Worker;
        const int event_fd_;
        std::atomic<bool> news_{false};
        std::mutex m_;
        List<Request> done_;  // guarded by m_
    };

    // Starts fewer threads than requested if the system allows no more. Throws std::system_error if it cannot
    // start even one; open_backend() catches it.
    Worker(Run run, void* context, uint32_t threads = 1);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void submit(Request& request, Inbox& inbox) noexcept;
    size_t threads() const { return threads_.size(); }

    // Executes one request on the calling thread and delivers it to `inbox`.
    static void perform(Run run, void* context, Request& request, Inbox& inbox) noexcept;

  private:
    void loop() noexcept;
    static void deliver(Request& request, Inbox& inbox) noexcept;

    const Run run_;
    void* const context_;
    std::mutex m_;
    std::condition_variable wake_;
    List<Request> waiting_;             // guarded by m_
    bool stopping_ = false;             // guarded by m_
    std::vector<std::thread> threads_;  // last: started when everything else is constructed
};

}  // namespace wss::io
