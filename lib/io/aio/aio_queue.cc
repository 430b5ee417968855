// SPDX-License-Identifier: Apache-2.0
#include <libaio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/io/aio/queue.h"
#include "lib/io/request.h"

namespace wss::io {

namespace {

// Requests in the kernel at once, per reactor and volume. fs.aio-max-nr limits the sum over the system (65536
// by default), so that 128 requests per queue allow 512 queues.
constexpr uint32_t kDepth = 128;
constexpr uint32_t kDepthMin = 16;
// Maximum number of requests per io_submit() call. More calls follow in the same turn.
constexpr size_t kBatch = 64;
// The kernel moves at most 2 GiB - 4 KiB in one request.
constexpr uint64_t kTransferMax = 1 << 30;
// Buffers for unaligned data. Larger transfers pass through one buffer in parts.
constexpr size_t kBounceBytes = 256 << 10;
constexpr size_t kBounceCount = 8;
// A request that the kernel returns (EAGAIN, EINTR) more often than this fails with EIO.
constexpr uint8_t kRetriesMax = 64;
// A RAM disk has moved the data when io_submit() returns. After this many such calls in a row, completions no
// longer signal the eventfd, which saves its cost. The first call that returns before its requests are done
// turns the signals on again.
constexpr uint32_t kPromptStreak = 32;

struct RequestState {
    iocb control;
    uint64_t progress = 0;
    std::byte* bounce = nullptr;
    uint8_t retries = 0;
};
static_assert(sizeof(RequestState) <= sizeof(Request::scratch) && alignof(RequestState) <= 16,
              "a request carries its iocb");

RequestState& state_of(Request& request) noexcept {
    return *std::launder(reinterpret_cast<RequestState*>(request.scratch));
}

// The completion ring, which the kernel maps at the address that io_setup() returns (linux: fs/aio.c, struct
// aio_ring). Reading it directly saves a system call per turn.
struct Ring {
    uint32_t id;
    uint32_t count;
    uint32_t head;  // advanced by this queue
    uint32_t tail;  // advanced by the kernel
    uint32_t magic;
    uint32_t compatible_features;
    uint32_t incompatible_features;
    uint32_t header_bytes;
    io_event events[];
};
constexpr uint32_t kRingMagic = 0xa10a10a1;
static_assert(sizeof(Ring) == 32, "the header of the kernel's ring");

Ring& ring_of(io_context* context) noexcept {
    return *reinterpret_cast<Ring*>(context);
}

bool is_silent(const iocb& control) noexcept {
    return (control.u.c.flags & (1u << 0)) == 0;  // IOCB_FLAG_RESFD
}

bool readable(const Ring& ring) noexcept {
    return ring.magic == kRingMagic && ring.incompatible_features == 0 && ring.header_bytes == sizeof(Ring);
}

}  // namespace

Result<std::unique_ptr<Queue>> AioQueue::open(AioBackend& backend) {
    io_context* context = nullptr;
    uint32_t depth = kDepth;
    int result = -EAGAIN;
    for (; depth >= kDepthMin; depth /= 2) {
        result = io_setup(static_cast<int>(depth), &context);
        if (result != -EAGAIN) break;
    }
    if (result == -EAGAIN)
        return failure(Code::kExhausted,
                       "{}: too many asynchronous I/O queues on this machine; raise fs.aio-max-nr (sysctl)",
                       backend.describe());
    if (result < 0)
        return Status::from_errno(
            -result,
            fmt::format("{}: cannot create an asynchronous I/O queue (io_setup)", backend.describe()));
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0) {
        int error = errno;
        io_destroy(context);
        return Status::from_errno(error, fmt::format("{}: cannot create an eventfd", backend.describe()));
    }
    return std::unique_ptr<Queue>(new AioQueue(backend, context, depth, event_fd));
}

AioQueue::AioQueue(AioBackend& backend, io_context* context, uint32_t depth, int event_fd)
    : backend_(backend), context_(context), depth_(depth), event_fd_(event_fd), inbox_(event_fd) {}

AioQueue::~AioQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    io_destroy(context_);
    close(event_fd_);
    if (bounce_memory_ != nullptr) munmap(bounce_memory_, kBounceBytes * kBounceCount);
}

void AioQueue::submit(Request& request) noexcept {
    new (request.scratch) RequestState{};
    ++in_flight_;
    wait_again(request);
}

void AioQueue::wait_again(Request& request) noexcept {
    waiting_.push_back(request);
    ++waiting_count_;
}

size_t AioQueue::poll() noexcept {
    if (in_flight_ == 0) return 0;
    size_t events = start_waiting();
    events += reap();
    events += take_from_worker();
    return events;
}

bool AioQueue::arm() noexcept {
    // Nothing would wake the reactor when requests without a signal complete. The device is prompt, so they
    // complete soon.
    if (silent_ > 0) return false;
    // Each operation adds one to the eventfd's count, some time after its completion becomes visible. An idle
    // volume must not cost a system call, and a late signal must not keep its reactor from sleeping.
    uint64_t count = 0;
    if (signals_due_ > 0 && read(event_fd_, &count, sizeof count) == sizeof count) signals_due_ -= count;
    // This check must follow the draining: completions after that make the descriptor readable again.
    if (ring_has_news() || inbox_.has_news()) return false;
    // If requests wait while the kernel has none, nothing would wake the reactor.
    return waiting_count_ == 0 || in_kernel_ > 0;
}

// --- to the kernel ---

size_t AioQueue::start_waiting() noexcept {
    size_t events = 0;
    // Starts only the requests that wait now. Those that done() submits are for the next turn.
    size_t left = waiting_count_;
    bool blocked = false;
    while (left > 0 && !blocked) {
        iocb* batch[kBatch];
        size_t count = 0;
        while (left > 0 && count < kBatch && in_kernel_ + count < depth_) {
            Request& request = *waiting_.pop_front();
            --waiting_count_;
            --left;
            Prepared prepared = prepare(request);
            if (prepared == Prepared::kToKernel) batch[count++] = &state_of(request).control;
            if (prepared == Prepared::kElsewhere) ++events;
            if (prepared == Prepared::kNoBuffer) {
                waiting_.push_front(request);
                ++waiting_count_;
                blocked = true;
                break;
            }
        }
        if (count == 0) break;
        size_t taken = hand_over(batch, count);
        events += taken;
        blocked |= taken < count;
    }
    return events;
}

AioQueue::Prepared AioQueue::prepare(Request& request) noexcept {
    File& file = backend_.file();
    int error = refusal(request, file.size(), file.logical_block(), file.read_only());
    bool transfer = request.op == Op::kRead || request.op == Op::kWrite;
    if (error != 0 || (request.op != Op::kFlush && request.length == 0)) {
        end(request, error);
        return Prepared::kElsewhere;
    }
    if (transfer) return prepare_transfer(request);
    if (request.op == Op::kFlush && backend_.async_flush()) {
        iocb& control = state_of(request).control;
        io_prep_fdsync(&control, file.fd());
        io_set_eventfd(&control, event_fd_);
        control.data = &request;
        return Prepared::kToKernel;
    }
    to_worker(request);
    return Prepared::kElsewhere;
}

AioQueue::Prepared AioQueue::prepare_transfer(Request& request) noexcept {
    RequestState& state = state_of(request);
    uint64_t length = std::min(request.length - state.progress, kTransferMax);
    std::byte* data = request.data + state.progress;
    if (needs_bounce(data)) {
        state.bounce = take_bounce();
        if (state.bounce == nullptr) return Prepared::kNoBuffer;
        length = std::min<uint64_t>(length, kBounceBytes);
        if (request.op == Op::kWrite) std::memcpy(state.bounce, data, length);
        data = state.bounce;
    }
    int fd = backend_.file().fd();
    auto offset = static_cast<long long>(request.offset + state.progress);
    if (request.op == Op::kRead)
        io_prep_pread(&state.control, fd, data, length, offset);
    else
        io_prep_pwrite(&state.control, fd, data, length, offset);
    if (request.op == Op::kWrite && request.fua) state.control.aio_rw_flags = RWF_DSYNC;
    if (prompt_streak_ < kPromptStreak) io_set_eventfd(&state.control, event_fd_);
    state.control.data = &request;
    return Prepared::kToKernel;
}

void AioQueue::to_worker(Request& request) noexcept {
    ++signals_due_;
    backend_.worker().submit(request, inbox_);
}

// Returns the number of requests that need no resubmission. The others wait again, in the same order.
size_t AioQueue::hand_over(iocb** batch, size_t count) noexcept {
    size_t handed = 0;
    while (handed < count) {
        int result = io_submit(context_, static_cast<long>(count - handed), batch + handed);
        if (result > 0) {
            in_kernel_ += static_cast<size_t>(result);
            for (int i = 0; i < result; ++i) is_silent(*batch[handed++]) ? ++silent_ : ++signals_due_;
            watch_promptness();
            continue;
        }
        if (result == 0 || result == -EAGAIN || result == -EINTR) break;
        // Any other error concerns only the first of the remaining requests. The next call passes the others.
        ++in_kernel_;
        if (is_silent(*batch[handed])) ++silent_;
        complete(*static_cast<Request*>(batch[handed]->data), result);
        ++handed;
    }
    for (size_t i = count; i > handed; --i) {
        Request& request = *static_cast<Request*>(batch[i - 1]->data);
        give_bounce(request);
        waiting_.push_front(request);
        ++waiting_count_;
    }
    return handed;
}

// --- from the kernel ---

bool AioQueue::ring_has_news() const noexcept {
    const Ring& ring = ring_of(context_);
    return ring.head != __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE);
}

void AioQueue::watch_promptness() noexcept {
    const Ring& ring = ring_of(context_);
    uint32_t news = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) - ring.head;
    if (static_cast<int32_t>(news) < 0) news += ring.count;  // the indexes wrap at count
    bool prompt = readable(ring) && news >= in_kernel_;
    prompt_streak_ = prompt ? std::min(prompt_streak_ + 1, kPromptStreak) : 0;
}

size_t AioQueue::reap() noexcept {
    if (in_kernel_ == 0) return 0;
    Ring& ring = ring_of(context_);
    size_t events = 0;
    if (!readable(ring)) {
        io_event some[kBatch];
        timespec now{0, 0};
        int count = io_getevents(context_, 0, kBatch, some, &now);
        for (int i = 0; i < count; ++i, ++events)
            complete(*static_cast<Request*>(some[i].data), static_cast<int64_t>(some[i].res));
        return events;
    }
    // Pairs with the kernel's write barrier between storing the event and the tail.
    uint32_t tail = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE);
    uint32_t head = ring.head;
    while (head != tail) {
        io_event event = ring.events[head];
        head = head + 1 == ring.count ? 0 : head + 1;
        // Pairs with the kernel's read of the head when it looks for space: the event has been copied.
        __atomic_store_n(&ring.head, head, __ATOMIC_RELEASE);
        complete(*static_cast<Request*>(event.data), static_cast<int64_t>(event.res));
        ++events;
    }
    return events;
}

size_t AioQueue::take_from_worker() noexcept {
    if (!inbox_.has_news()) return 0;
    List<Request> done;
    inbox_.take(done);
    return finish_all(done, in_flight_);
}

void AioQueue::complete(Request& request, int64_t result) noexcept {
    --in_kernel_;
    if (is_silent(state_of(request).control)) --silent_;
    if (request.op == Op::kFlush && result == -EINVAL) {
        backend_.no_async_flush();
        to_worker(request);
    } else if (result == -EAGAIN || result == -EINTR) {
        retry(request, EIO);
    } else if (result < 0) {
        end(request, volume_errno(static_cast<int>(-result)));
    } else if (request.op == Op::kFlush) {
        end(request, 0);
    } else {
        complete_transfer(request, result);
    }
}

void AioQueue::complete_transfer(Request& request, int64_t result) noexcept {
    RequestState& state = state_of(request);
    auto moved = static_cast<uint64_t>(result);
    if (request.op == Op::kRead && state.bounce != nullptr)
        std::memcpy(request.data + state.progress, state.bounce, moved);
    give_bounce(request);
    state.progress += moved;
    if (state.progress == request.length) return end(request, 0);
    // A short transfer. O_DIRECT can continue only at block boundaries.
    uint64_t ragged = state.progress % backend_.file().logical_block();
    state.progress -= ragged;
    // If there is no progress, the file was truncated or the medium is full.
    if (moved <= ragged) return end(request, request.op == Op::kRead ? EIO : ENOSPC);
    wait_again(request);
}

void AioQueue::retry(Request& request, int error) noexcept {
    RequestState& state = state_of(request);
    give_bounce(request);
    if (++state.retries > kRetriesMax) return end(request, error);
    wait_again(request);
}

void AioQueue::end(Request& request, int error) noexcept {
    give_bounce(request);
    --in_flight_;
    finish(request, error, request.op == Op::kFlush ? 0 : state_of(request).progress);
}

// --- unaligned data ---

bool AioQueue::needs_bounce(const std::byte* data) const noexcept {
    return reinterpret_cast<uintptr_t>(data) % backend_.file().memory_align() != 0;
}

std::byte* AioQueue::take_bounce() noexcept {
    if (bounce_memory_ == nullptr) {
        void* memory = mmap(nullptr, kBounceBytes * kBounceCount, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        bounce_memory_ = static_cast<std::byte*>(memory);
        for (size_t i = 0; i < kBounceCount; ++i) bounce_free_.push_back(bounce_memory_ + i * kBounceBytes);
    }
    if (bounce_free_.empty()) return nullptr;
    std::byte* bounce = bounce_free_.back();
    bounce_free_.pop_back();
    return bounce;
}

void AioQueue::give_bounce(Request& request) noexcept {
    RequestState& state = state_of(request);
    if (state.bounce == nullptr) return;
    bounce_free_.push_back(state.bounce);
    state.bounce = nullptr;
}

}  // namespace wss::io
