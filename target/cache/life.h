// SPDX-License-Identifier: Apache-2.0
// Life: how far the end of the cache has come.
//
//   kServing ─▶ kEndingWaits ─▶ kStopping ─▶ kLeaving ─▶ kStopped      states may be skipped, none comes back
//
//   kEndingWaits  the target ends: whatever waits for recovery or for engines ends with BUSY
//   kStopping     dirty lines are being written to real storage, no engine joins
//   kLeaving      that is over; the links to the engines are being closed
//   kStopped      the cache may be destroyed
//
// The façade sets the state; the other owners read it.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <cstdint>

#include "lib/base/assert.h"

namespace wss::se {

class Life {
  public:
    enum class State : uint8_t { kServing, kEndingWaits, kStopping, kLeaving, kStopped };

    void advance(State next) noexcept {
        WSS_ASSERT(next > state_, "the states of the cache's life only grow");
        state_ = next;
    }
    State state() const noexcept { return state_; }
    bool waits_are_over() const noexcept { return state_ >= State::kEndingWaits; }
    bool stopping() const noexcept { return state_ >= State::kStopping; }
    bool leaving() const noexcept { return state_ >= State::kLeaving; }

  private:
    State state_ = State::kServing;
};

}  // namespace wss::se
