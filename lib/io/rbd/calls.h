// SPDX-License-Identifier: Apache-2.0
// What one queue has in librbd.
//
// A call is librbd's from the moment at which it takes it until it calls back, however long Ceph is silent:
// nothing can take it back. The request that it is made for waits no longer than its limit; then it is given
// up, and the call goes on without it. So nothing that librbd uses may be the request's: what is written
// librbd copies when it takes the call, and what is read goes through memory of the call.
//
// Calls live as long as their client, which lets go of its image only when librbd has called back for all.
//
// The landing is the only thing that threads share: a stack linked through the calls, pushed by
// compare-and-swap and taken whole, and one eventfd that is written only when the reactor is about to sleep.
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

// What librbd has.
struct Load {
    uint64_t requests = 0, bytes = 0;
};

struct Call : ListNode<> {
    Call() = default;
    ~Call();

    Calls* calls = nullptr;       // what it is one of
    size_t index = 0;             // there
    Call* next = nullptr;         // that landed, or is free
    Request* request = nullptr;   // nullptr: given up
    std::byte* memory = nullptr;  // for what is read, kMemory of it
    bool reads = false;
    bool replaced = false;
    bool landed = false;  // and the reactor has taken it
    uint64_t offset = 0, length = 0;
    uint64_t held = 0;  // bytes of memory that it has
    Nanoseconds begun{};
    bool of_clone = false;  // when it began
    Load ahead;             // what librbd had of the image then, with this
    int64_t result = 0;     // librbd's

    static constexpr size_t kMemory = 1 << 20;
};

class Landing {
  public:
    explicit Landing(int event_fd) : event_fd_(event_fd) {}
    ~Landing();
    Landing(const Landing&) = delete;
    Landing& operator=(const Landing&) = delete;

    // librbd's threads. The last thing that a callback does with the call.
    void push(Call& call) noexcept;
    // The reactor's thread; the keeper's when they are orphaned.
    Call* take_all() noexcept;  // in the order of push(), linked by `next`
    bool arm() noexcept;        // false: there is something already
    int event_fd() const noexcept { return event_fd_; }

  private:
    const int event_fd_;  // ours
    std::atomic<Call*> top_{nullptr};
    std::atomic<bool> armed_{false};
    std::atomic<uint32_t> inside_{0};  // callbacks that may still touch this
    // The reactor's own.
    bool reactor_armed_ = false;  // what `armed_` is unless a callback has taken it
    int64_t due_ = 0;             // signals that were not drained; -1: the one of a callback since arm() was
};

class Calls {
  public:
    // In librbd at once, per reactor and volume, …
    static constexpr size_t kDepth = 256;
    // … and beyond them, of those that Ceph has not answered for long. librbd has memory for each.
    static constexpr Load kMore{.requests = 4096, .bytes = 256 << 20};

    // nullptr: no descriptor, memory or address space is left.
    static std::unique_ptr<Calls> make();
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

    // The reactor's thread.
    bool has_free() const noexcept { return free_ != nullptr; }
    Call& take() noexcept;  // one that is free
    void give_back(Call& call) noexcept;
    // This one does not count any more, up to kMore: a free one takes its place.
    void replace(Call& call) noexcept;
    size_t taken() const noexcept { return taken_; }
    Landing& landing() noexcept { return landing_; }
    // Their queue dies. What librbd still has lands for whoever finds them so.
    void orphan() noexcept { orphaned_.store(true); }
    bool is_orphaned() const noexcept { return orphaned_.load(); }

    // Read by anyone; written by the reactor.
    std::atomic<int64_t> oldest{0};     // when the oldest request was submitted that is in librbd; 0: none is
    std::atomic<uint32_t> requests{0};  // submitted and not done
    // In librbd. Those are fewer when librbd has called back, on a thread of its own.
    std::atomic<uint32_t> in_librbd{0};
    std::atomic<uint64_t> bytes_in_librbd{0};
    std::atomic<bool> used{false};  // something was submitted

    Calls* next = nullptr;  // of another queue of the client

  private:
    explicit Calls(int event_fd) : landing_(event_fd) {}
    bool add() noexcept;
    void remove(Call& call) noexcept;

    Landing landing_;
    std::atomic<bool> orphaned_{false};
    std::vector<std::unique_ptr<Call>> all_;
    Call* free_ = nullptr;  // what was used last first, whose memory is there
    size_t taken_ = 0;
    Load more_;  // what was replaced
};

}  // namespace wss::io::rbd
