// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/queue.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/io/request.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr size_t kDepth = 256;  // in librbd at once, per reactor and volume
// One call of librbd; longer ones are cut. Each object of the range becomes an operation at once.
constexpr uint64_t kTransferMax = 1 << 30;
constexpr uint64_t kZeroMax = 256 << 20;
constexpr uint64_t kObjectsMax = 64;

struct Slot {
    Request* next = nullptr;
    Landing* landing = nullptr;
    int64_t since = 0;  // when it was submitted
    int64_t begun = 0;  // when librbd got it, or the part of it that it has
    int64_t result = 0;
    uint64_t progress = 0;
    uint64_t chunk = 0;  // what librbd has at the moment
};
static_assert(sizeof(Slot) <= sizeof(Request::scratch), "a request carries its way through librbd");

Slot& slot_of(Request& request) noexcept {
    return *std::launder(reinterpret_cast<Slot*>(request.scratch));
}
const Slot& slot_of(const Request& request) noexcept {
    return *std::launder(reinterpret_cast<const Slot*>(request.scratch));
}

// How much of `left` bytes at `offset` librbd gets at once. It ends with an object, so that what follows is
// not a part of it.
uint64_t chunk_of(uint64_t offset, uint64_t left, uint64_t most, uint64_t object) noexcept {
    most = std::min(most, kObjectsMax * object);
    return left <= most ? left : most - (offset + most) % object;
}

// The part of one object is zeroes: the object may be missing.
bool has_hole(const std::byte* data, uint64_t offset, uint64_t length, uint64_t piece) noexcept {
    for (uint64_t at = 0; at < length;) {
        const uint64_t bytes = std::min(length - at, piece - (offset + at) % piece);
        const std::byte* part = data + at;
        if (part[0] == std::byte{} && std::memcmp(part, part + 1, bytes - 1) == 0) return true;
        at += bytes;
    }
    return false;
}

// On a thread of librbd.
void landed(rbd_completion_t completion, void* argument) {
    Request& request = *static_cast<Request*>(argument);
    Slot& slot = slot_of(request);
    slot.result = rbd_aio_get_return_value(completion);
    rbd_aio_release(completion);
    slot.landing->push(request);
}

}  // namespace

// --- the landing ---

Request*& Landing::next_of(Request& request) noexcept {
    return slot_of(request).next;
}

void Landing::push(Request& request) noexcept {
    inside_.fetch_add(1);
    Request* top = top_.load(std::memory_order_relaxed);
    do {
        next_of(request) = top;
    } while (!top_.compare_exchange_weak(top, &request));
    // From here on the request may be anybody's.
    if (armed_.exchange(false)) {
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(event_fd_, &one, sizeof one);
    }
    inside_.fetch_sub(1);
}

Request* Landing::take_all() noexcept {
    if (top_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Request* stack = top_.exchange(nullptr);
    Request* first = nullptr;
    while (stack != nullptr) {
        Request* next = next_of(*stack);
        next_of(*stack) = first;
        first = stack;
        stack = next;
    }
    return first;
}

// Each time that a callback finds this armed it adds one to the descriptor's count, some time later: `due_`
// is what is not drained yet. An idle volume must not cost a system call, nor a late signal keep its reactor
// from sleeping.
bool Landing::arm() noexcept {
    const bool was_armed = std::exchange(reactor_armed_, true);
    if (!armed_.exchange(true) && was_armed) ++due_;
    uint64_t count = 0;
    if (due_ > 0 && read(event_fd_, &count, sizeof count) == sizeof count)
        due_ -= static_cast<int64_t>(count);
    if (top_.load() == nullptr) return true;
    reactor_armed_ = false;
    if (!armed_.exchange(false)) ++due_;
    return false;
}

// A callback may be between its push and its return, a few instructions.
Landing::~Landing() {
    while (inside_.load() != 0) sched_yield();
    close(event_fd_);
}

// --- the queue ---

RbdQueue::RbdQueue(std::shared_ptr<Client> client, reactor::Reactor& reactor, int event_fd)
    : client_(std::move(client)),
      reactor_(reactor),
      event_fd_(event_fd),
      progress_(client_->add_queue()),
      landing_(event_fd) {}

RbdQueue::~RbdQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue dies only when its requests are done");
}

void RbdQueue::submit(Request& request) noexcept {
    new (request.scratch) Slot{.landing = &landing_, .since = reactor_.clock().now().count};
    waiting_.push_back(request);
    ++waiting_count_;
    ++in_flight_;
}

size_t RbdQueue::poll() noexcept {
    if (in_flight_ == 0) return 0;
    const size_t events = start_waiting() + reap() + confirm();
    if (events > 0) note_progress();
    return events;
}

bool RbdQueue::arm() noexcept {
    // What waits while Ceph has none of ours would have nobody to wake us, nor has what is doubted.
    return doubted_.front() == nullptr && landing_.arm() && (waiting_count_ == 0 || in_ceph_count_ > 0);
}

void RbdQueue::note_progress() noexcept {
    Request* oldest = in_ceph_.front();
    progress_.oldest.store(oldest == nullptr ? 0 : slot_of(*oldest).since, std::memory_order_relaxed);
    progress_.begun.store(oldest == nullptr ? 0 : slot_of(*oldest).begun, std::memory_order_release);
    progress_.requests.store(static_cast<uint32_t>(in_flight_), std::memory_order_relaxed);
}

size_t RbdQueue::start_waiting() noexcept {
    size_t events = 0;
    // Only what waits now: done() may submit more, which is the next turn's work.
    for (size_t left = waiting_count_; left > 0 && in_ceph_count_ < kDepth; --left, ++events) {
        Request& request = *waiting_.pop_front();
        --waiting_count_;
        const int error =
            client_->lost() ? EIO : refusal(request, client_->size(), kBlock, client_->read_only());
        if (error != 0 || (request.op != Op::kFlush && request.length == 0))
            end(request, error);
        else
            start(request);
    }
    return events;
}

void RbdQueue::start(Request& request) noexcept {
    slot_of(request).begun = reactor_.clock().now().count;
    in_ceph_.push_back(request);
    ++in_ceph_count_;
    const int result = pass_on(request);
    if (result >= 0) return;
    // librbd has not taken it, and will not call back.
    slot_of(request).result = result;
    complete(request);
}

// To librbd. From here on the request is its, until it lands.
int RbdQueue::pass_on(Request& request) noexcept {
    Slot& slot = slot_of(request);
    rbd_completion_t completion = nullptr;
    if (int result = rbd_aio_create_completion(&request, landed, &completion); result < 0) return result;
    const bool moves = request.op == Op::kRead || request.op == Op::kWrite;
    const uint64_t offset = request.offset + slot.progress;
    char* data = reinterpret_cast<char*>(request.data) + slot.progress;
    slot.chunk = chunk_of(offset, request.length - slot.progress, moves ? kTransferMax : kZeroMax,
                          client_->object_bytes());
    rbd_image_t image = client_->image();
    int result = 0;
    if (request.op == Op::kFlush)
        result = rbd_aio_flush(image, completion);
    else if (request.op == Op::kRead)
        result = rbd_aio_read(image, offset, slot.chunk, data, completion);
    else if (request.op == Op::kWrite)
        result = rbd_aio_write(image, offset, slot.chunk, data, completion);
    else
        // Also to discard: librbd's own discard may skip what is no whole object, and discarded blocks of a
        // volume read as zeroes. This one frees whole objects and zeroes the rest.
        result = rbd_aio_write_zeroes(image, offset, slot.chunk, completion, 0, 0);
    if (result < 0) rbd_aio_release(completion);
    return result;
}

// The header is marked within milliseconds, unless Ceph is silent still.
size_t RbdQueue::confirm() noexcept {
    size_t events = 0;
    while (Request* request = doubted_.front()) {
        const bool doubted = client_->doubts_map() && !client_->lost();
        const Nanoseconds waits = reactor_.clock().now() - Nanoseconds{slot_of(*request).begun};
        if (doubted && waits < from_s(client_->options().osd_timeout)) break;
        request->unlink();
        doubted ? end(*request, ETIMEDOUT) : go_on(*request);
        ++events;
    }
    return events;
}

size_t RbdQueue::reap() noexcept {
    size_t events = 0;
    Request* request = landing_.take_all();
    if (request != nullptr) client_->look_at_map(reactor_.clock().now());
    for (; request != nullptr; ++events) {
        Request* next = Landing::next_of(*request);
        complete(*request);
        request = next;
    }
    return events;
}

// librbd takes an object that is not there for zeroes, also when its pool is deleted. The client's map of the
// cluster shows that before librbd sees it.
bool RbdQueue::may_be_deleted(const Request& request) const noexcept {
    const Slot& slot = slot_of(request);
    const auto length = static_cast<uint64_t>(slot.result);
    return has_hole(request.data + slot.progress, request.offset + slot.progress, length,
                    client_->piece_bytes()) &&
           !(client_->pools_exist() && client_->parents_exist());
}

void RbdQueue::complete(Request& request) noexcept {
    Slot& slot = slot_of(request);
    request.unlink();
    --in_ceph_count_;
    if (request.op != Op::kFlush)
        client_->note_answer(request.op == Op::kRead, static_cast<int>(-std::min<int64_t>(slot.result, 0)));
    if (slot.result < 0) {
        const int error = static_cast<int>(-slot.result);
        if (error == ESHUTDOWN) client_->lose(Loss::kBlocklisted);
        return end(request, error == EDQUOT || error == ENOSPC ? ENOSPC
                            : error == ETIMEDOUT               ? ETIMEDOUT
                                                               : EIO);
    }
    if (request.op == Op::kRead && may_be_deleted(request)) {
        // The keeper looks whether they are its parents still.
        if (client_->pools_exist()) return end(request, EIO);
        client_->lose(Loss::kDeleted);
    }
    if (request.op == Op::kRead || !client_->doubts_map()) return go_on(request);
    slot.begun = reactor_.clock().now().count;
    doubted_.push_back(request);
}

// What librbd has done, and this client has confirmed.
void RbdQueue::go_on(Request& request) noexcept {
    Slot& slot = slot_of(request);
    // What was read after the image was lost may be old.
    if (client_->lost()) return end(request, EIO);
    if (request.op == Op::kFlush) return end(request, 0);
    if (request.op == Op::kRead && static_cast<uint64_t>(slot.result) < slot.chunk) {
        slot.progress += static_cast<uint64_t>(slot.result) / kBlock * kBlock;
        return end(request, EIO);  // the image became smaller
    }
    slot.progress += slot.chunk;
    slot.progress == request.length ? end(request, 0) : start(request);
}

void RbdQueue::end(Request& request, int error) noexcept {
    --in_flight_;
    finish(request, error, request.op == Op::kFlush ? 0 : slot_of(request).progress);
}

}  // namespace wss::io::rbd
