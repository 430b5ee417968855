// SPDX-License-Identifier: Apache-2.0
// Failed proofs, by source and name. A peer that keeps failing is suspended for a time that doubles.
//
// While a pair of source and name is suspended, its proofs are refused without a check. Otherwise the answer
// would show which guess was correct. Other names from that source, and that name from other sources, are not
// affected.
//
// For each source, kFailedNames names are remembered. The failures of its other names count together, as if
// they were one more name. So failures of many names neither end nor avoid a suspension, and they do not
// affect other sources.
//
// Thread-safety: all methods may be called from any thread. They lock once per login attempt, never per
// command.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "lib/base/clock.h"

namespace wss::block {

// Failures in a row that cause no suspension, because an operator may mistype.
constexpr uint32_t kAuthFailuresFree = 5;
constexpr Nanoseconds kSuspensionFirst = from_s(1);
constexpr Nanoseconds kSuspensionMax = from_s(60);
// A name without a failure for this long is forgotten. A source is forgotten when its last failure is this
// old. If there are too many sources, the one whose last failure is oldest is forgotten; suspended ones come
// last.
constexpr Nanoseconds kFailureMemory = from_s(600);
constexpr size_t kFailedNames = 16;
constexpr size_t kFailedSources = 1024;

class AuthFailures {
  public:
    // The remaining suspension of the pair, or 0 if its proof may be checked.
    Nanoseconds suspended(const std::string& source, const std::string& name, Nanoseconds now) const;
    struct Outcome {
        uint32_t failures = 0;  // in a row
        Nanoseconds suspended;  // 0: not suspended
    };
    Outcome failed(const std::string& source, const std::string& name, Nanoseconds now);
    void proven(const std::string& source, const std::string& name);
    size_t remembered() const;  // number of names, over all sources

  private:
    struct Entry {
        uint32_t failures = 0;
        Nanoseconds last;
        Nanoseconds until;
    };
    struct Source {
        std::map<std::string, Entry> names;
        Entry others;
        Nanoseconds last, until;  // the latest of all its names
    };
    static Entry& entry_for(Source& source, const std::string& name, Nanoseconds now);
    void make_room(Nanoseconds now);  // REQUIRES m_

    mutable std::mutex m_;
    std::map<std::string, Source> sources_;  // guarded by m_
};

// Logs an audit event in a form that programs can search: one line per failure, up to the limit of the
// source.
void audit_failure(const std::string& source, const std::string& peer, const std::string& name,
                   const std::string& what);

}  // namespace wss::block
