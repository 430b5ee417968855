// SPDX-License-Identifier: Apache-2.0
// Life: the stages of the cache's shutdown.
//
//   kServing ─▶ kEndingWaits ─▶ kStopping ─▶ kLeaving ─▶ kStopped      each is entered at most once
//
//   kEndingWaits  the target stops: commands that wait for recovery or for engines end with BUSY
//   kStopping     dirty lines are being destaged, no engine joins
//   kLeaving      destaging has ended; the links to the engines are being closed. Commands that are still
//                 unanswered, because storage is slow, end with BUSY
//   kStopped      the cache may be destroyed
//
// VolumeControl (kEndingWaits) and Shutdown set the state. The other owners read it.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <cstdint>

#include "lib/base/assert.h"

namespace wss::cache {

class Life {
  public:
    enum class State : uint8_t { kServing, kEndingWaits, kStopping, kLeaving, kStopped };

    void advance(State next) noexcept {
        WSS_ASSERT(next > state_, "the states of the cache only advance");
        state_ = next;
    }
    State state() const noexcept { return state_; }
    bool waits_are_over() const noexcept { return state_ >= State::kEndingWaits; }
    bool stopping() const noexcept { return state_ >= State::kStopping; }
    bool leaving() const noexcept { return state_ >= State::kLeaving; }

  private:
    State state_ = State::kServing;
};

}  // namespace wss::cache
