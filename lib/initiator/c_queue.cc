// SPDX-License-Identifier: Apache-2.0
// The C API: asynchronous requests. A queue allocates its requests at creation. Each cycles through: free, in
// flight, completed, free.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "lib/initiator/c_api.h"

using namespace wss::initiator;

namespace {

struct QueuedRequest : ClientRequest {
    wss_queue* queue = nullptr;
    void* user = nullptr;
    iovec single{};
    QueuedRequest* link = nullptr;  // links it in `free`, or in the list that begins at `over_first`
};

}  // namespace

struct wss_queue {
    wss_queue(wss_client* client, uint32_t depth) : owner(client), requests(depth) {
        for (QueuedRequest& request : requests) {
            request.queue = this;
            request.link = free;
            free = &request;
        }
    }

    wss_client* const owner;
    std::vector<QueuedRequest> requests;
    int fd = -1;
    std::mutex m;
    std::condition_variable changed;
    // Guarded by m.
    QueuedRequest* free = nullptr;
    QueuedRequest* over_first = nullptr;
    QueuedRequest* over_last = nullptr;
    uint32_t under_way = 0;
    bool signalled = false;  // fd is readable
};

namespace {

// Called on the client's thread. Works under the lock, as the queue may be destroyed once nothing is in
// flight.
void request_over(ClientRequest& over) noexcept {
    QueuedRequest& request = static_cast<QueuedRequest&>(over);
    wss_queue& queue = *request.queue;
    std::lock_guard lock(queue.m);
    request.link = nullptr;
    if (queue.over_last != nullptr)
        queue.over_last->link = &request;
    else
        queue.over_first = &request;
    queue.over_last = &request;
    --queue.under_way;
    if (!queue.signalled) {
        uint64_t one = 1;
        queue.signalled = write(queue.fd, &one, sizeof one) == sizeof one;
    }
    queue.changed.notify_all();
}

bool translate(enum wss_operation from, Operation& to) {
    switch (from) {
        case WSS_OP_READ:
            to = Operation::kRead;
            return true;
        case WSS_OP_WRITE:
            to = Operation::kWrite;
            return true;
        case WSS_OP_FLUSH:
            to = Operation::kFlush;
            return true;
        case WSS_OP_DISCARD:
            to = Operation::kDiscard;
            return true;
        case WSS_OP_WRITE_ZEROES:
            to = Operation::kWriteZeroes;
            return true;
    }
    return false;
}

void fill(QueuedRequest& request, const wss_io& io) {
    request.volume = &io.volume->volume->volume();
    request.offset = io.offset;
    request.length = io.length;
    request.fua = (io.flags & WSS_FUA) != 0;
    request.may_unmap = (io.flags & WSS_NO_UNMAP) == 0;
    request.timeout = wss::from_ms(io.timeout_ms);
    request.user = io.user;
    request.single = {io.buffer, static_cast<size_t>(io.length)};
    request.buffers = io.buffer != nullptr ? std::span<const iovec>(&request.single, 1)
                                           : std::span<const iovec>(io.iov, io.iov_count);
    request.complete = request_over;
    request.done = [](wss::initiator::Request& over, void*) noexcept {
        request_over(static_cast<QueuedRequest&>(over));
    };
}

// REQUIRES queue.m held.
uint32_t fetch(wss_queue& queue, wss_completion* completions, uint32_t max) {
    uint32_t count = 0;
    while (count < max && queue.over_first != nullptr) {
        QueuedRequest& request = *queue.over_first;
        queue.over_first = request.link;
        if (queue.over_first == nullptr) queue.over_last = nullptr;
        completions[count++] = {request.user, -to_errno(request.outcome), to_string(request.outcome).data()};
        request.link = queue.free;
        queue.free = &request;
    }
    if (queue.over_first == nullptr && queue.signalled) {
        uint64_t value;
        [[maybe_unused]] ssize_t drained = read(queue.fd, &value, sizeof value);
        queue.signalled = false;
    }
    return count;
}

}  // namespace

extern "C" {

int wss_queue_create(wss_client* client, uint32_t depth, wss_queue** queue) {
    constexpr uint32_t kDepthMax = 65536;
    if (depth == 0 || depth > kDepthMax)
        return c_fail(EINVAL, fmt::format("a queue's depth must be from 1 to {}, not {}", kDepthMax, depth));
    auto created = std::make_unique<wss_queue>(client, depth);
    created->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (created->fd < 0)
        return c_fail(wss::Status::from_errno(errno, "cannot create the queue's descriptor"));
    *queue = created.release();
    return 0;
}

void wss_queue_destroy(wss_queue* queue) {
    if (queue == nullptr) return;
    {
        // Bounded: every request has a deadline.
        std::unique_lock lock(queue->m);
        queue->changed.wait(lock, [queue] { return queue->under_way == 0; });
    }
    close(queue->fd);
    delete queue;
}

int wss_submit(wss_queue* queue, const wss_io* io) {
    Operation operation;
    if (!translate(io->operation, operation)) return c_fail(EINVAL, "wss_submit: unknown operation");
    QueuedRequest* request;
    {
        std::lock_guard lock(queue->m);
        request = queue->free;
        if (request == nullptr) return c_fail(EAGAIN, "the queue is full: fetch completions first");
        queue->free = request->link;
        ++queue->under_way;
    }
    request->operation = operation;
    fill(*request, *io);
    queue->owner->client->submit(*request);
    return 0;
}

int wss_poll(wss_queue* queue, wss_completion* completions, uint32_t max) {
    std::lock_guard lock(queue->m);
    return static_cast<int>(fetch(*queue, completions, std::min<uint32_t>(max, INT32_MAX)));
}

int wss_wait(wss_queue* queue, wss_completion* completions, uint32_t max, uint32_t timeout_ms) {
    std::unique_lock lock(queue->m);
    queue->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                            [queue] { return queue->over_first != nullptr; });
    return static_cast<int>(fetch(*queue, completions, std::min<uint32_t>(max, INT32_MAX)));
}

int wss_queue_fd(wss_queue* queue) {
    return queue->fd;
}

}  // extern "C"
