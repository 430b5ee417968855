// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/line.h"

#include <array>

namespace wss::cache {

namespace {

constexpr uint8_t bit(LineState state) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(state));
}

// Row: the state; bits: those that may follow it.
constexpr std::array<uint8_t, 7> kNext = {
    // absent: takes slots, for data of either kind, or is restored after a restart
    bit(LineState::kFilling),
    // filling: the first data are there, or they did not come, or all holders are lost
    bit(LineState::kClean) | bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kEvicting) |
        bit(LineState::kWiping),
    // clean: an evicted clean line needs no erasure (header.h, H3)
    bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kEvicting) | bit(LineState::kWiping),
    // dirty: becomes clean without destaging only when it is discarded or written through
    bit(LineState::kDestaging) | bit(LineState::kClean) | bit(LineState::kAbsent) | bit(LineState::kWiping) |
        bit(LineState::kEvicting),
    // destaging: ends well, or with pieces still (or again) dirty, or its last holder is lost
    bit(LineState::kClean) | bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kWiping),
    // evicting, wiping: the erasure is confirmed, or the holders are lost
    bit(LineState::kAbsent) | bit(LineState::kWiping),
    bit(LineState::kAbsent),
};

}  // namespace

std::string_view to_string(LineState state) {
    switch (state) {
        case LineState::kAbsent:
            return "absent";
        case LineState::kFilling:
            return "filling";
        case LineState::kClean:
            return "clean";
        case LineState::kDirty:
            return "dirty";
        case LineState::kDestaging:
            return "destaging";
        case LineState::kEvicting:
            return "evicting";
        case LineState::kWiping:
            return "wiping";
    }
    return "?";
}

bool may_follow(LineState from, LineState to) {
    return (kNext[static_cast<size_t>(from)] & bit(to)) != 0;
}

}  // namespace wss::cache
