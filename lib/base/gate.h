// SPDX-License-Identifier: Apache-2.0
// Gate: the lifetime of an object that can be removed while work refers to it.
//
// Whoever refers to the object holds its gate: a request, a timer, a posted task, a captured reference. The
// owner closes the gate when the object is to go, and frees it when the gate reports that the last holder has
// left. After close() nobody enters. A holder may still let in what belongs to its own work
// (Holder::share()), so that a step that was begun can be finished.
//
//   open ─close()─▶ closing ─the last holder leaves─▶ drained: `done` is called, once
//
// Thread-safety: none; a gate and its holders belong to one thread.
// Lifetime: the destructor asserts that nobody is inside. `done` may destroy the gate.
// Allocation: none to enter, to share and to leave; close() keeps `done`.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lib/base/assert.h"

namespace wss {

class Gate {
  public:
    // One place inside; empty when the gate was closed, or after a move.
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
        // One place more, also when the gate is closed. Requires that this one is not empty.
        Holder share() const noexcept {
            WSS_ASSERT(gate_ != nullptr, "only a holder can let others in");
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
    ~Gate() { WSS_ASSERT(count_ == 0, "everybody has left a gate before it dies"); }

    [[nodiscard]] Holder enter() noexcept {
        if (closed_) return {};
        ++count_;
        return Holder(this);
    }
    // `done` is called when nobody is inside: now, or from the release of the last holder.
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
        // Not a member any more when it runs: it may destroy the gate.
        if (auto done = std::exchange(done_, nullptr)) done();
    }

    uint64_t count_ = 0;
    bool closed_ = false;
    std::function<void()> done_;
};

}  // namespace wss
