// SPDX-License-Identifier: Apache-2.0
// Known ways to get Read Atomic isolation wrong, each behind a switch of the test build (-DWSS_KV_MUTATIONS).
// Tests turn one on and see the checker catch it; in every other build they are constants that vanish.
#pragma once

#include <atomic>
#include <cstdint>

namespace wss::kv {

enum class Mutation : uint32_t {
    kSkipSecondRound = 1,      // readers believe what round 1 returned
    kCollidingTimestamps = 2,  // clients forget their id
    kNoHybridClock = 4,        // clients use the wall clock alone
    kCommitBeforePayload = 8,  // a version is shown before its bytes are there
    kNoWindow = 16,            // superseded versions go at once
    kTerminationRace = 32,     // a termination answers "abort" and a prepare still passes
    kNoCrc = 64,               // readers believe torn bytes
    kStaleAddress = 128,       // readers believe a reused slot
    kLostWakeUp = 256,         // who falls asleep is not told of what came while he did
    kToldOnce = 512,           // who could not take back that he sleeps does not say it anew
    kLooksOnce = 1024,         // who has written looks for sleepers then, and not when it has arrived
    kBlindOrder = 2048,        // a write is accepted behind what is committed already
    kConditionNotHeld = 4096,  // a condition is checked at the prepare, and may be false at the commit
};

#ifdef WSS_KV_MUTATIONS
inline std::atomic<uint32_t> mutations{0};
inline bool mutated(Mutation which) noexcept {
    return (mutations.load(std::memory_order_relaxed) & static_cast<uint32_t>(which)) != 0;
}
#else
constexpr bool mutated(Mutation) noexcept {
    return false;
}
#endif

}  // namespace wss::kv
