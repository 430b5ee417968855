// SPDX-License-Identifier: Apache-2.0
// Failed proofs, by source and name: a peer that keeps failing is suspended for a time that doubles.
//
// While a pair of source and name is suspended, its proofs are refused unseen, right ones too: otherwise the
// answer would show which guess was right. Other names from that source and that name from other sources are
// not affected.
//
// Thread-safety: all methods; a lock per login attempt, none per command.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "lib/base/clock.h"

namespace wss::block {

// So many failures in a row cost nothing: an operator who mistypes is not punished.
constexpr uint32_t kAuthFailuresFree = 5;
constexpr Nanoseconds kSuspensionFirst = from_s(1);
constexpr Nanoseconds kSuspensionMax = from_s(60);
// A pair without a failure for so long is forgotten; so is the one that failed longest ago, when there are
// too many.
constexpr Nanoseconds kFailureMemory = from_s(600);
constexpr size_t kFailuresRemembered = 1024;

class AuthFailures {
  public:
    // How much longer the pair is suspended; 0: its proof may be checked.
    Nanoseconds suspended(const std::string& source, const std::string& name, Nanoseconds now) const;
    struct Outcome {
        uint32_t failures = 0;  // in a row
        Nanoseconds suspended;  // 0: not
    };
    Outcome failed(const std::string& source, const std::string& name, Nanoseconds now);
    void proven(const std::string& source, const std::string& name);
    size_t remembered() const;

  private:
    struct Entry {
        uint32_t failures = 0;
        Nanoseconds last;
        Nanoseconds until;
    };
    using Pair = std::pair<std::string, std::string>;
    void make_room(Nanoseconds now);  // REQUIRES m_

    mutable std::mutex m_;
    std::map<Pair, Entry> entries_;  // guarded by m_
};

}  // namespace wss::block
