// SPDX-License-Identifier: Apache-2.0
// Gate: lifetime of an object that can be removed while users refer to it.
//
// Each user of the object (a request, a timer, a posted task, a captured reference) has a Holder of its gate.
// The owner closes the gate to remove the object, and frees the object when the gate reports that the last
// holder has left. After close() there are no new holders, except by Holder::share(): a holder may create
// further holders for its own operation, so that an operation that has begun can be finished.
//
//   open ─close()─▶ closing ─the last holder leaves─▶ drained: `done` is called, once
//
// Thread-safety: none. A gate and its holders belong to one thread.
// Lifetime: the destructor asserts that there are no holders. `done` may destroy the gate.
// Allocation: enter(), share() and leaving allocate nothing. close() stores `done`, which may allocate.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lib/base/assert.h"

namespace wss {

class Gate {
  public:
    // One use of the object. It is empty if the gate was closed, or after a move.
    class Holder {
      public:
        Holder() = default;
        Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
        Holder& operator=(Holder&& other) noexcept {
            Holder old(std::move(*this));
            gate_ = std::exchange(other.gate_, nullptr);
            return *this;
        }
        ~Holder() { release(); }

        explicit operator bool() const noexcept { return gate_ != nullptr; }
        void release() noexcept {
            if (Gate* gate = std::exchange(gate_, nullptr)) gate->leave();
        }
        // Returns another holder, even when the gate is closed. REQUIRES that this one is not empty.
        Holder share() const noexcept {
            WSS_ASSERT(gate_ != nullptr, "share() has a holder that is not empty");
            ++gate_->count_;
            return Holder(gate_);
        }

      private:
        friend class Gate;
        explicit Holder(Gate* gate) noexcept : gate_(gate) {}
        Gate* gate_ = nullptr;
    };

    Gate() = default;
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    ~Gate() { WSS_ASSERT(count_ == 0, "a gate has no holder when it is destroyed"); }

    [[nodiscard]] Holder enter() noexcept {
        if (closed_) return {};
        ++count_;
        return Holder(this);
    }
    // Calls `done` when there are no holders: at once, or when the last one is released.
    void close(std::function<void()> done) {
        WSS_ASSERT(!closed_, "a gate is closed once");
        closed_ = true;
        if (count_ == 0) return done();
        done_ = std::move(done);
    }

    bool closed() const noexcept { return closed_; }
    uint64_t count() const noexcept { return count_; }

  private:
    void leave() noexcept {
        if (--count_ > 0 || !closed_) return;
        // `done` is moved out of the member first, because it may destroy the gate.
        if (auto done = std::exchange(done_, nullptr)) done();
    }

    uint64_t count_ = 0;
    bool closed_ = false;
    std::function<void()> done_;
};

}  // namespace wss
