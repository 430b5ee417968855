// SPDX-License-Identifier: Apache-2.0
// Known ways to break Read Atomic isolation, each behind a switch of the test build (-DWSS_KV_MUTATIONS).
// Tests enable one and verify that the checker reports it. In every other build mutated() is a constant, and
// the code disappears.
#pragma once

#include <atomic>
#include <cstdint>

namespace wss::kv {

enum class Mutation : uint32_t {
    kSkipSecondRound = 1,      // readers deliver the result of round 1
    kCollidingTimestamps = 2,  // clients issue timestamps with the same id
    kNoHybridClock = 4,        // clients use the wall clock alone
    kCommitBeforePayload = 8,  // a version becomes visible before its bytes are written
    kNoWindow = 16,            // superseded versions are collected at once
    kTerminationRace = 32,     // an inquiry returns "aborted" and a later prepare succeeds
    kNoCrc = 64,               // readers accept torn records
    kStaleAddress = 128,       // readers accept a reused slot
    kLostWakeUp = 256,         // messages that arrive while a ring reader falls asleep do not wake it
    kToldOnce = 512,           // a stale asleep word is not written again
    kLooksOnce = 1024,         // writers check for sleepers at the post, not at its completion
    kBlindOrder = 2048,        // a write below the latest committed version is accepted
    kConditionNotHeld = 4096,  // conditions hold at the prepare, perhaps not at the commit
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
