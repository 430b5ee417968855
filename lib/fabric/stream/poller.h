// SPDX-License-Identifier: Apache-2.0
// EventPoller: common base of the pollers of tcp and shm. It has one epoll descriptor for everything of this
// thread (so that a reactor can sleep on it), a timerfd in it for deadlines, and the list of connections that
// are active this turn.
//
// The kernel gets tokens of objects, never pointers, because a handler may destroy any object while events
// that name it are still unprocessed.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/list.h"
#include "lib/fabric/fabric.h"

namespace wss::fabric::stream {

class Engine;
class EventPoller;

// An object with descriptors or a deadline. Its destructor unregisters it from its poller.
class Watched {
  public:
    Watched() = default;
    virtual ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    virtual void on_ready(uint32_t epoll_events) noexcept = 0;
    virtual void on_deadline() noexcept {}

  private:
    friend class EventPoller;
    EventPoller* poller_ = nullptr;
    uint64_t token_ = 0;
    Nanoseconds deadline_ = kNever;
};

struct ActiveTag;

class EventPoller : public Poller {
  public:
    ~EventPoller() override;

    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return epoll_.get(); }

    // Edge-triggered: on_ready() reports what has become possible since the descriptor was last exhausted.
    Status watch(Watched& object, int fd, uint32_t epoll_events);
    void forget(Watched& object) noexcept;  // closing the descriptor ends its watch
    void set_deadline(Watched& object, Nanoseconds deadline) noexcept;
    Nanoseconds now() noexcept { return clock_.now(); }

    void activate(Engine& engine) noexcept;
    void count_connection(int change) noexcept { connections_ += change; }

    // Scratch memory of the current turn. A user must not rely on its contents across a call of another user.
    std::span<std::byte> staging() { return staging_; }
    void push(const Completion& completion) noexcept { completions_[completions_used_++] = completion; }
    bool completions_low() const { return completions_used_ + 4 > completions_.size(); }
    // Delivers the pushed completions and returns their number.
    size_t deliver(Connection& connection, ConnectionHandler& handler) noexcept;

  protected:
    EventPoller() = default;
    Status start();
    // Hook of shm, which examines its rings before the active connections get their turn.
    virtual void look_around() noexcept {}
    // While connections are active, epoll is polled only every few turns.
    virtual bool kernel_may_have_news() noexcept { return active_.empty() || ++turns_ % kTurnsPerLook == 0; }
    bool has_active() { return !active_.empty(); }

  private:
    struct Entry {
        Watched* object = nullptr;
        uint32_t generation = 1;
    };
    static constexpr size_t kStagingBytes = 256u << 10;
    static constexpr size_t kCompletionsPerCall = 128;
    static constexpr uint32_t kTurnsPerLook = 4;

    void enrol(Watched& object);
    Watched* find(uint64_t token) noexcept;
    size_t take_events() noexcept;
    size_t expire() noexcept;
    void arm_timer(Nanoseconds deadline) noexcept;

    SystemClock clock_;
    Descriptor epoll_;
    Descriptor timer_;
    Nanoseconds timer_deadline_ = kNever;
    std::vector<Entry> entries_;
    std::vector<uint32_t> free_entries_;
    List<Engine, ActiveTag> active_;
    int connections_ = 0;
    std::vector<std::byte> staging_;
    std::array<Completion, kCompletionsPerCall> completions_;
    size_t completions_used_ = 0;
    uint32_t turns_ = 0;
    bool drained_ = false;  // the previous poll took all events of the kernel
};

}  // namespace wss::fabric::stream
