// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/calls.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace wss::io::rbd {

void Landing::push(Call& call) noexcept {
    inside_.fetch_add(1);
    Call* top = top_.load(std::memory_order_relaxed);
    do {
        call.next = top;
    } while (!top_.compare_exchange_weak(top, &call));
    // From here on the call may be anybody's.
    if (armed_.exchange(false)) {
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(event_fd_, &one, sizeof one);
    }
    inside_.fetch_sub(1);
}

Call* Landing::take_all() noexcept {
    if (top_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Call* stack = top_.exchange(nullptr);
    Call* first = nullptr;
    while (stack != nullptr) {
        Call* next = stack->next;
        stack->next = first;
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

std::unique_ptr<Calls> Calls::make() {
    const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0) return nullptr;
    void* memory = mmap(nullptr, kDepth * Call::kMemory, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        close(event_fd);
        return nullptr;
    }
    return std::unique_ptr<Calls>(new Calls(event_fd, static_cast<std::byte*>(memory)));
}

Calls::Calls(int event_fd, std::byte* memory) : landing_(event_fd), memory_(memory) {
    for (size_t i = kDepth; i > 0; --i) {
        Call& call = all_[i - 1];
        call.calls = this;
        call.memory = memory_ + (i - 1) * Call::kMemory;
        call.next = std::exchange(free_, &call);
    }
}

Calls::~Calls() {
    munmap(memory_, kDepth * Call::kMemory);
}

Call& Calls::take() noexcept {
    ++taken_;
    return *std::exchange(free_, free_->next);
}

void Calls::give_back(Call& call) noexcept {
    --taken_;
    call.request = nullptr;
    call.next = std::exchange(free_, &call);
}

}  // namespace wss::io::rbd
