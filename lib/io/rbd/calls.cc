// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/calls.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

namespace wss::io::rbd {

void CompletionStack::push(Call& call) noexcept {
    inside_.fetch_add(1);
    Call* top = top_.load(std::memory_order_relaxed);
    do {
        call.next = top;
    } while (!top_.compare_exchange_weak(top, &call));
    // From here on another thread may own the call.
    if (armed_.exchange(false)) {
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(event_fd_, &one, sizeof one);
    }
    inside_.fetch_sub(1);
}

Call* CompletionStack::take_all() noexcept {
    if (top_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Call* stack = top_.exchange(nullptr);
    Call* first = nullptr;
    while (stack != nullptr) {
        Call* next = stack->next;
        stack->next = first;
        stack->completed = true;
        first = stack;
        stack = next;
    }
    return first;
}

// A callback that finds the stack armed adds one to the descriptor's count, some time later. `due_` counts
// the signals that are not drained yet. So an idle volume costs no system call, and a late signal does not
// keep its reactor from sleeping.
bool CompletionStack::arm() noexcept {
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

// Waits for callbacks that have pushed their call but are still inside push(), for a few instructions.
CompletionStack::~CompletionStack() {
    while (inside_.load() != 0) sched_yield();
    close(event_fd_);
}

Call::~Call() {
    if (memory != nullptr) munmap(memory, kMemory);
}

std::unique_ptr<Calls> Calls::make() {
    const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0) return nullptr;
    std::unique_ptr<Calls> calls(new Calls(event_fd));
    for (size_t i = 0; i < kDepth; ++i)
        if (!calls->add()) return nullptr;
    return calls;
}

// Pages of the memory that no read has touched take no space.
bool Calls::add() noexcept {
    try {
        auto call = std::make_unique<Call>();
        void* memory = mmap(nullptr, Call::kMemory, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        (void)madvise(memory, Call::kMemory, MADV_NOHUGEPAGE);
        call->memory = static_cast<std::byte*>(memory);
        call->calls = this;
        call->index = all_.size();
        all_.push_back(std::move(call));
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
        return false;
    }
    all_.back()->next = std::exchange(free_, all_.back().get());
    return true;
}

void Calls::remove(Call& call) noexcept {
    const size_t index = call.index;
    std::swap(all_[index], all_.back());
    all_[index]->index = index;
    all_.pop_back();
}

Call& Calls::take() noexcept {
    ++taken_;
    return *std::exchange(free_, free_->next);
}

void Calls::replace(Call& call) noexcept {
    if (call.replaced || more_.requests >= kMore.requests || more_.bytes + call.held > kMore.bytes || !add())
        return;
    call.replaced = true;
    ++more_.requests;
    more_.bytes += call.held;
}

void Calls::give_back(Call& call) noexcept {
    --taken_;
    if (call.replaced) {
        --more_.requests;
        more_.bytes -= call.held;
        return remove(call);
    }
    call.request = nullptr;
    call.completed = false;
    call.next = std::exchange(free_, &call);
}

}  // namespace wss::io::rbd
