// SPDX-License-Identifier: Apache-2.0
// ReceiveBudget: the receive memory of all channels of a target.
//
// Each credit costs a receive buffer of one IU in registered memory, whether the initiator uses it or not. A
// channel is granted the credits that fit in a sixty-fourth of the remaining part of kReceiveBytes. With the
// default credits and the driver's IU length, a hundred channels get all credits that they request. Later
// ones get fewer, but at least kCreditsFloor. At kReceiveBytesMax there is no room for another channel.
//
// The credits of a channel that must authenticate are part of what it proves, so they are set before its
// proof. Its memory is taken after the proof. So peers that prove nothing take nothing of the budget. Logins
// at the same time may get the same part of it. They may take half of kReceiveBytesMax. The other half is for
// channels with at most kCreditsFloor credits.
//
// Thread-safety: belongs to the session table's reactor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "target/block/limits.h"
#include "target/block/login.h"

namespace wss::block {

class ReceiveBudget {
  public:
    // Whether a channel with these terms fits, with its credits lowered to the floor.
    bool has_room(ChannelTerms terms) const noexcept {
        terms.credits = std::min(terms.credits, kCreditsFloor);
        return granted_ + channel_bytes(terms) <= kReceiveBytesMax;
    }
    // Lowers the credits of `terms` to the budget of a new channel.
    void lower(ChannelTerms& terms) const noexcept {
        const uint64_t left = kReceiveBytes > granted_ ? kReceiveBytes - granted_ : 0;
        const uint64_t slots = left / kChannelPart / slot_bytes(terms);
        const uint32_t floor = std::min(terms.credits, kCreditsFloor);
        const uint64_t credits = slots > kSpareReceives ? slots - kSpareReceives : 0;
        terms.credits = static_cast<uint32_t>(std::clamp<uint64_t>(credits, floor, terms.credits));
    }
    // Counts the memory of a channel. Returns false if the lowered terms no longer fit, because other
    // channels have taken the memory since. A new login then gets fewer credits.
    [[nodiscard]] bool take(const ChannelTerms& terms) noexcept {
        const uint64_t limit = terms.credits > kCreditsFloor ? kReceiveBytesMax / 2 : kReceiveBytesMax;
        if (granted_ + channel_bytes(terms) > limit) return false;
        count(terms);
        return true;
    }
    // Counts the memory of a channel that is served in any case.
    void count(const ChannelTerms& terms) noexcept { granted_ += channel_bytes(terms); }
    // `terms`: the terms whose memory was counted.
    void give_back(const ChannelTerms& terms) noexcept { granted_ -= channel_bytes(terms); }
    uint64_t granted() const noexcept { return granted_; }

  private:
    static constexpr uint64_t kChannelPart = 64;
    static uint64_t channel_bytes(const ChannelTerms& terms) noexcept {
        return slot_bytes(terms) * receive_slots(terms);
    }

    uint64_t granted_ = 0;
};

}  // namespace wss::block
