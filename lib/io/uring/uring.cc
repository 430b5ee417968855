// SPDX-License-Identifier: Apache-2.0
#include "lib/io/uring/uring.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/io/request.h"
#include "lib/io/threads/threads.h"

namespace wss::io {

namespace {

constexpr unsigned kDepth = 128;  // requests in the kernel at once, per reactor and volume
constexpr uint64_t kTransferMax = 1 << 30;
// A request that the kernel returns (EAGAIN, EINTR) more often than this fails with EIO.
constexpr uint8_t kRetriesMax = 64;

struct RequestState {
    uint64_t progress = 0;
    uint8_t retries = 0;
};
static_assert(sizeof(RequestState) <= sizeof(Request::scratch), "a request has room for its progress");

RequestState& state_of(Request& request) noexcept {
    return *std::launder(reinterpret_cast<RequestState*>(request.scratch));
}

}  // namespace

UringBackend::UringBackend(std::unique_ptr<File> file)
    : file_(std::move(file)), worker_(ThreadsBackend::run, file_.get()) {}

Result<std::unique_ptr<Backend>> UringBackend::open(const std::string& path, const OpenOptions& options) {
    auto file = File::open(path, options);
    if (!file) return file.status();
    return std::unique_ptr<Backend>(new UringBackend(std::move(*file)));
}

Result<std::unique_ptr<Queue>> UringBackend::open_queue(reactor::Reactor&) {
    auto ring = std::make_unique<io_uring>();
    if (int result = io_uring_queue_init(kDepth, ring.get(), 0); result < 0)
        return Status::from_errno(
            -result, fmt::format("{}: cannot create an io_uring (kernel.io_uring_disabled, seccomp and "
                                 "RLIMIT_MEMLOCK can forbid it; aio:PATH does not need it)",
                                 describe()));
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int result = event_fd < 0 ? -errno : io_uring_register_eventfd(ring.get(), event_fd);
    if (result < 0) {
        io_uring_queue_exit(ring.get());
        if (event_fd >= 0) close(event_fd);
        return Status::from_errno(-result,
                                  fmt::format("{}: cannot create or register an eventfd", describe()));
    }
    return std::unique_ptr<Queue>(std::make_unique<UringQueue>(*this, std::move(ring), event_fd));
}

UringQueue::UringQueue(UringBackend& backend, std::unique_ptr<io_uring> ring, int event_fd)
    : backend_(backend), ring_(std::move(ring)), event_fd_(event_fd), inbox_(event_fd) {}

UringQueue::~UringQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    io_uring_queue_exit(ring_.get());
    close(event_fd_);
}

void UringQueue::submit(Request& request) noexcept {
    new (request.scratch) RequestState{};
    request.error = 0;
    ++in_flight_;
    waiting_.push_back(request);
    ++waiting_count_;
}

size_t UringQueue::poll() noexcept {
    if (in_flight_ == 0) return 0;
    size_t events = start_waiting();
    events += reap();
    return events + take_from_worker();
}

bool UringQueue::arm() noexcept {
    // Always drain: a signal may come late, and completions posted together may share one, so that the
    // expected signals cannot be counted as in aio.
    uint64_t count;
    [[maybe_unused]] ssize_t drained = read(event_fd_, &count, sizeof count);
    // This check must follow the draining: completions after that make the descriptor readable again.
    if (io_uring_cq_ready(ring_.get()) > 0 || inbox_.has_news() || unsubmitted_) return false;
    // If requests wait while the kernel has none, nothing would wake the reactor.
    return waiting_count_ == 0 || in_kernel_ > 0;
}

bool UringQueue::goes_to_kernel(const Request& request) noexcept {
    if (request.op == Op::kFlush) return backend_.file().direct();
    if (request.op != Op::kRead && request.op != Op::kWrite) return false;
    return reinterpret_cast<uintptr_t>(request.data) % backend_.file().memory_align() == 0;
}

size_t UringQueue::start_waiting() noexcept {
    size_t events = 0;
    File& file = backend_.file();
    // Starts only the requests that wait now. Those that done() submits are for the next turn.
    for (size_t left = waiting_count_; left > 0 && in_kernel_ < kDepth; --left) {
        Request& request = *waiting_.front();
        io_uring_sqe* entry = nullptr;
        int error = refusal(request, file.size(), file.logical_block(), file.read_only());
        bool nothing = error != 0 || (request.op != Op::kFlush && request.length == 0);
        if (!nothing && goes_to_kernel(request) && (entry = io_uring_get_sqe(ring_.get())) == nullptr) break;
        waiting_.pop_front();
        --waiting_count_;
        ++events;
        if (nothing)
            end(request, error);
        else if (entry != nullptr)
            prepare(*entry, request);
        else
            backend_.worker().submit(request, inbox_);
    }
    // After a failure (EAGAIN, EBUSY) the entries stay in the ring, and the next turn tries again.
    if (unsubmitted_ && io_uring_submit(ring_.get()) >= 0) unsubmitted_ = io_uring_sq_ready(ring_.get()) > 0;
    return events;
}

void UringQueue::prepare(io_uring_sqe& entry, Request& request) noexcept {
    const RequestState& state = state_of(request);
    File& file = backend_.file();
    auto length = static_cast<unsigned>(std::min(request.length - state.progress, kTransferMax));
    uint64_t offset = request.offset + state.progress;
    if (request.op == Op::kFlush)
        io_uring_prep_fsync(&entry, file.fd(), IORING_FSYNC_DATASYNC);
    else if (request.op == Op::kRead)
        io_uring_prep_read(&entry, file.fd(), request.data + state.progress, length, offset);
    else
        io_uring_prep_write(&entry, file.fd(), request.data + state.progress, length, offset);
    if (request.op == Op::kWrite && request.fua) entry.rw_flags = RWF_DSYNC;
    io_uring_sqe_set_data(&entry, &request);
    ++in_kernel_;
    unsubmitted_ = true;
}

size_t UringQueue::reap() noexcept {
    size_t events = 0;
    // Takes only the completions that are in the ring now. Requests that done() submits are for the next
    // turn.
    for (unsigned ready = io_uring_cq_ready(ring_.get()); ready > 0; --ready, ++events) {
        io_uring_cqe* entry = nullptr;
        if (io_uring_peek_cqe(ring_.get(), &entry) != 0 || entry == nullptr) break;
        Request& request = *static_cast<Request*>(io_uring_cqe_get_data(entry));
        int result = entry->res;
        io_uring_cqe_seen(ring_.get(), entry);
        --in_kernel_;
        complete(request, result);
    }
    return events;
}

void UringQueue::complete(Request& request, int result) noexcept {
    RequestState& state = state_of(request);
    if (result == -EAGAIN || result == -EINTR) {
        if (++state.retries > kRetriesMax) return end(request, EIO);
    } else if (result < 0) {
        return end(request, volume_errno(-result));
    } else if (request.op == Op::kFlush) {
        return end(request, 0);
    } else {
        // O_DIRECT can continue only at block boundaries. If there is no progress, the file was truncated or
        // the medium is full.
        uint64_t block = backend_.file().logical_block();
        uint64_t whole = static_cast<uint64_t>(result) / block * block;
        state.progress += whole;
        if (state.progress == request.length) return end(request, 0);
        if (whole == 0) return end(request, request.op == Op::kRead ? EIO : ENOSPC);
    }
    waiting_.push_back(request);
    ++waiting_count_;
}

size_t UringQueue::take_from_worker() noexcept {
    if (!inbox_.has_news()) return 0;
    List<Request> done;
    inbox_.take(done);
    return finish_all(done, in_flight_);
}

void UringQueue::end(Request& request, int error) noexcept {
    --in_flight_;
    finish(request, error, request.op == Op::kFlush ? 0 : state_of(request).progress);
}

}  // namespace wss::io
