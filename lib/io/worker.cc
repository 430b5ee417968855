// SPDX-License-Identifier: Apache-2.0
#include "lib/io/worker.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "lib/base/log.h"

namespace wss::io {

namespace {

// Contents of a request's scratch memory while the worker has it.
struct RequestState {
    Worker::Inbox* inbox;
};
static_assert(sizeof(RequestState) <= sizeof(Request::scratch), "the worker's part of a request fits");

// Signals are for the main thread: a helper created before the main thread blocked them must not receive
// them.
void block_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

void Worker::Inbox::take(List<Request>& into) noexcept {
    std::lock_guard lock(m_);
    news_.store(false, std::memory_order_relaxed);
    into.splice_back(done_);
}

Worker::Worker(Run run, void* context, uint32_t threads) : run_(run), context_(context) {
    threads_.reserve(std::clamp<uint32_t>(threads, 1, kThreadsMax));
    threads_.emplace_back([this] { loop(); });
    while (threads_.size() < threads_.capacity()) {
        try {
            threads_.emplace_back([this] { loop(); });
        } catch (const std::system_error& error) {
            log::warning("continuing with {} of {} storage threads: {}", threads_.size(), threads,
                         error.what());
            break;
        }
    }
}

Worker::~Worker() {
    {
        std::lock_guard lock(m_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Worker::submit(Request& request, Inbox& inbox) noexcept {
    new (request.scratch) RequestState{&inbox};
    {
        std::lock_guard lock(m_);
        waiting_.push_back(request);
    }
    wake_.notify_one();
}

void Worker::deliver(Request& request, Inbox& inbox) noexcept {
    // All steps are under the lock: once the queue can receive the request, the request and the inbox may be
    // destroyed at any time.
    std::lock_guard lock(inbox.m_);
    inbox.done_.push_back(request);
    inbox.news_.store(true, std::memory_order_release);
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(inbox.event_fd_, &one, sizeof one);  // full: it is already awake
}

void Worker::perform(Run run, void* context, Request& request, Inbox& inbox) noexcept {
    request.done_bytes = 0;
    request.error = run(context, request);
    if (request.error == 0) request.done_bytes = request.length;
    deliver(request, inbox);
}

void Worker::loop() noexcept {
    block_signals();
    std::unique_lock lock(m_);
    for (;;) {
        wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        Request* request = waiting_.pop_front();
        if (request == nullptr) return;  // stopping, and no request is left
        lock.unlock();
        perform(run_, context_, *request,
                *std::launder(reinterpret_cast<RequestState*>(request->scratch))->inbox);
        lock.lock();
    }
}

}  // namespace wss::io
