// SPDX-License-Identifier: Apache-2.0
// uring: files and block devices through io_uring, with O_DIRECT if the file system supports it.
//
// Reads, writes and flushes go through one ring per reactor and volume, with one io_uring_enter() per turn. A
// helper thread of the backend executes discard, write zeroes, transfers with unaligned buffers, and flushes
// of buffered files.
#pragma once

#include "lib/io/backend.h"
#include "lib/io/file.h"
#include "lib/io/worker.h"

// Types of liburing, declared here so that its header is not included.
struct io_uring;
struct io_uring_sqe;

namespace wss::io {

class UringBackend final : public Backend {
  public:
    static Result<std::unique_ptr<Backend>> open(const std::string& path, const OpenOptions& options);

    Limits limits() const noexcept override { return file_->limits(); }
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override { return file_->resize(bytes); }
    std::string describe() const override { return "uring:" + file_->path(); }

    File& file() { return *file_; }
    Worker& worker() { return worker_; }

  private:
    explicit UringBackend(std::unique_ptr<File> file);

    std::unique_ptr<File> file_;
    Worker worker_;  // stops before the file closes
};

// States of a request: waiting_ → (kernel) or (worker) → done(). A rejected request completes in the next
// poll().
class UringQueue final : public Queue {
  public:
    UringQueue(UringBackend& backend, std::unique_ptr<io_uring> ring, int event_fd);
    ~UringQueue() override;

    void submit(Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return event_fd_; }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    size_t start_waiting() noexcept;
    bool goes_to_kernel(const Request& request) noexcept;
    void prepare(io_uring_sqe& entry, Request& request) noexcept;
    size_t reap() noexcept;
    size_t take_from_worker() noexcept;
    void complete(Request& request, int result) noexcept;
    void end(Request& request, int error) noexcept;

    UringBackend& backend_;
    const std::unique_ptr<io_uring> ring_;
    const int event_fd_;
    List<Request> waiting_;
    size_t waiting_count_ = 0;
    size_t in_kernel_ = 0;
    size_t in_flight_ = 0;
    bool unsubmitted_ = false;  // the ring has entries that the kernel has not accepted
    Worker::Inbox inbox_;
};

}  // namespace wss::io
