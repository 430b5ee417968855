// SPDX-License-Identifier: Apache-2.0
// The calls of librbd that one queue has in flight.
//
// librbd owns a call from its start until the callback, however long Ceph is silent: a call cannot be
// cancelled. But the request of the call has a time limit (queue.h). When that expires, the request fails,
// and the call continues without it. So librbd must not use memory of the request: it copies written data
// when the call starts, and read data goes through a buffer of the call.
//
// Calls live as long as their client, which closes its image only after librbd has called back for all calls.
//
// Threads share only the completions and a few atomic counters. The completions are a stack that is linked
// through the calls. A callback pushes its call by compare-and-swap, and the reactor takes the whole stack.
// One eventfd wakes the reactor. It is written only when the reactor is about to sleep.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/status.h"
#include "lib/io/backend.h"

namespace wss::io::rbd {

class Calls;

// Calls in flight in librbd.
struct Load {
    uint64_t requests = 0, bytes = 0;
};

struct Call : ListNode<> {
    Call() = default;
    ~Call();

    Calls* calls = nullptr;       // the owner
    size_t index = 0;             // in the owner's array
    Call* next = nullptr;         // in the list of completed or of free calls
    Request* request = nullptr;   // nullptr: given up
    std::byte* memory = nullptr;  // kMemory bytes for read data
    bool reads = false;
    bool replaced = false;
    bool completed = false;  // librbd has called back, and the reactor has taken the call from the stack
    uint64_t offset = 0, length = 0;
    uint64_t held = 0;  // bytes of data that the call and librbd hold
    Nanoseconds begun{};
    bool of_clone = false;  // the image was a clone when the call began
    Load ahead;             // all calls of the image in librbd at that time, including this one
    int64_t result = 0;     // of librbd

    static constexpr size_t kMemory = 1 << 20;
};

class CompletionStack {
  public:
    explicit CompletionStack(int event_fd) : event_fd_(event_fd) {}
    ~CompletionStack();
    CompletionStack(const CompletionStack&) = delete;
    CompletionStack& operator=(const CompletionStack&) = delete;

    // Called by librbd's threads. A callback must not use the call afterwards.
    void push(Call& call) noexcept;
    // Called by the reactor's thread, or by the keeper's thread when the calls are orphaned.
    Call* take_all() noexcept;  // in the order of push(), linked by `next`
    bool arm() noexcept;        // false: a call has already completed
    int event_fd() const noexcept { return event_fd_; }

  private:
    const int event_fd_;  // owned
    std::atomic<Call*> top_{nullptr};
    std::atomic<bool> armed_{false};
    std::atomic<uint32_t> inside_{0};  // callbacks that may still touch this
    // Used only by the reactor.
    bool reactor_armed_ = false;  // value of `armed_` unless a callback has cleared it
    int64_t due_ = 0;             // signals not yet drained; -1: one was drained before it was counted
};

class Calls {
  public:
    // Calls in librbd at once, per reactor and volume.
    static constexpr size_t kDepth = 256;
    // Further calls that Ceph has not answered for a long time. The limit exists because librbd holds memory
    // for each.
    static constexpr Load kMore{.requests = 4096, .bytes = 256 << 20};

    // Returns nullptr if no descriptor, memory or address space is left, and sets errno.
    static std::unique_ptr<Calls> make();
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

    // For the reactor's thread.
    bool has_free() const noexcept { return free_ != nullptr; }
    Call& take() noexcept;  // requires has_free()
    void give_back(Call& call) noexcept;
    // Adds a free call in place of a slow one, which no longer counts against kDepth. Does nothing when kMore
    // is reached or memory runs out.
    void replace(Call& call) noexcept;
    size_t taken() const noexcept { return taken_; }
    CompletionStack& completions() noexcept { return completions_; }
    // Called when the queue of these calls is destroyed. The keeper then takes the calls that complete.
    void orphan() noexcept { orphaned_.store(true); }
    bool is_orphaned() const noexcept { return orphaned_.load(); }

    // Written by the reactor, read by any thread.
    std::atomic<int64_t> oldest{0};     // since when the oldest request in librbd waits; 0: there is none
    std::atomic<uint32_t> requests{0};  // submitted and not done
    // Calls in librbd. The reactor adds to them, librbd's threads subtract in the callback.
    std::atomic<uint32_t> in_librbd{0};
    std::atomic<uint64_t> bytes_in_librbd{0};

    Calls* next = nullptr;  // the calls of another queue of the client

  private:
    explicit Calls(int event_fd) : completions_(event_fd) {}
    bool add() noexcept;
    void remove(Call& call) noexcept;

    CompletionStack completions_;
    std::atomic<bool> orphaned_{false};
    std::vector<std::unique_ptr<Call>> all_;
    Call* free_ = nullptr;  // the most recently used first: its memory is allocated
    size_t taken_ = 0;
    Load more_;  // replaced calls
};

}  // namespace wss::io::rbd
