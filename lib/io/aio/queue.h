// SPDX-License-Identifier: Apache-2.0
// The queue of one reactor in an aio backend, with a kernel context of its own.
//
// The states of a request, by the list it is in:
//   waiting_    submitted, or to be continued after a short transfer; poll() passes as many as possible to
//               the kernel in one io_submit()
//   (kernel)    in no list; returns through the completion ring, which is read without a system call
//   (worker)    a blocking operation; returns through inbox_
#pragma once

#include <vector>

#include "lib/io/aio/aio.h"

// Types of libaio, declared here so that its header is not included.
struct io_context;
struct iocb;

namespace wss::io {

class AioQueue final : public Queue {
  public:
    static Result<std::unique_ptr<Queue>> open(AioBackend& backend);
    ~AioQueue() override;

    void submit(Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return event_fd_; }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    enum class Prepared : uint8_t { kToKernel, kElsewhere, kNoBuffer };

    AioQueue(AioBackend& backend, io_context* context, uint32_t depth, int event_fd);

    size_t start_waiting() noexcept;
    Prepared prepare(Request& request) noexcept;
    Prepared prepare_transfer(Request& request) noexcept;
    void to_worker(Request& request) noexcept;
    size_t hand_over(iocb** batch, size_t count) noexcept;
    size_t reap() noexcept;
    size_t take_from_worker() noexcept;
    void complete(Request& request, int64_t result) noexcept;
    void complete_transfer(Request& request, int64_t result) noexcept;
    void retry(Request& request, int error) noexcept;
    void wait_again(Request& request) noexcept;
    void end(Request& request, int error) noexcept;
    bool ring_has_news() const noexcept;
    void watch_promptness() noexcept;

    bool needs_bounce(const std::byte* data) const noexcept;
    std::byte* take_bounce() noexcept;
    void give_bounce(Request& request) noexcept;

    // Immutable.
    AioBackend& backend_;
    io_context* const context_;
    const uint32_t depth_;  // of the kernel context
    const int event_fd_;    // readable after completions of the kernel and the worker
    // Owned by the reactor's thread.
    List<Request> waiting_;
    size_t waiting_count_ = 0;
    size_t in_kernel_ = 0;
    size_t in_flight_ = 0;
    uint64_t signals_due_ = 0;            // additions to event_fd_ that have not yet been read
    size_t silent_ = 0;                   // those of in_kernel_ whose completion adds nothing to event_fd_
    uint32_t prompt_streak_ = 0;          // io_submit() calls in a row that returned with all requests done
    std::byte* bounce_memory_ = nullptr;  // mapped when first needed
    std::vector<std::byte*> bounce_free_;
    Worker::Inbox inbox_;
};

}  // namespace wss::io
