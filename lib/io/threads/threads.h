// SPDX-License-Identifier: Apache-2.0
// Storage accessed by threads that block in pread and pwrite, in the two ways of Kato et al.:
//   pool   *static*: threads that were started in advance; the reactor passes requests to them
//   spawn  *dynamic*: a new thread for each request, at the cost of a clone(). It exists for comparison.
//
// These backends are for devices that only have blocking calls. aio and uring cost less.
#pragma once

#include <atomic>

#include "lib/io/backend.h"
#include "lib/io/file.h"
#include "lib/io/worker.h"

namespace wss::io {

constexpr uint32_t kPoolThreads = 16;

class ThreadsBackend final : public Backend {
  public:
    enum class Kind : uint8_t { kPool, kSpawn };

    static Result<std::unique_ptr<Backend>> open(Kind kind, uint32_t threads, const std::string& path,
                                                 const OpenOptions& options);
    Limits limits() const noexcept override { return file_->limits(); }
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override { return file_->resize(bytes); }
    std::string describe() const override;

    Kind kind() const { return kind_; }
    File& file() { return *file_; }
    // pool: executes all requests. spawn: those that are neither read nor write, and those for which no
    // thread can be created.
    Worker& worker() { return worker_; }

    // Executes a request. Runs on a thread that may block.
    static int run(void* file, Request& request) noexcept;

  private:
    ThreadsBackend(Kind kind, uint32_t threads, std::unique_ptr<File> file);

    const Kind kind_;
    std::unique_ptr<File> file_;
    Worker worker_;  // stops before the file closes
};

class ThreadsQueue final : public Queue {
  public:
    ThreadsQueue(ThreadsBackend& backend, int event_fd);
    ~ThreadsQueue() override;

    void submit(Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return event_fd_; }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    bool spawn(Request& request) noexcept;

    ThreadsBackend& backend_;
    const int event_fd_;
    size_t in_flight_ = 0;
    uint64_t signals_due_ = 0;  // additions to event_fd_ that have not yet been read
    List<Request> refused_;     // with their errors set
    Worker::Inbox inbox_;
};

}  // namespace wss::io
