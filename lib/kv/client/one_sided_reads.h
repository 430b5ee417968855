// SPDX-License-Identifier: Apache-2.0
// OneSidedReads: a session's one-sided reads that are under way, and the memory in which they arrive.
//
// A job may give up while its read is under way: the fabric still writes to the chunk, which goes back when
// it has.
//
// Thread-safety: none; belongs to the session.
#pragma once

#include <utility>
#include <vector>

#include "lib/kv/client/landing.h"
#include "lib/kv/transport/link.h"

namespace wss::kv {

class Job;

class OneSidedReads {
  public:
    struct Read {
        fabric::RemoteAddress from;
        uint32_t length = 0;
        uint32_t chunk = 0;
        uint32_t index = 0;  // the job's
    };
    struct Ended {
        Job* job = nullptr;  // nullptr: it has given up
        uint32_t index = 0;
    };

    Landing& landing() { return landing_; }
    // Begins a one-sided read into a chunk, which is the session's until end(). False: not now. `cookie` is
    // good for abandon().
    bool begin(Link& link, Job& job, const Read& read, uint32_t& cookie) noexcept;
    // Reads at once, where the fabric can: `length` bytes, which the next call overwrites. nullptr: not now.
    const std::byte* now(Link& link, fabric::RemoteAddress from, uint32_t length) noexcept;
    // Nobody is told of its end, and the chunk goes back by itself.
    void abandon(uint32_t cookie) noexcept { readings_[cookie].job = nullptr; }
    Ended end(uint64_t cookie) noexcept;

  private:
    struct Reading {
        Job* job = nullptr;
        uint32_t index = 0;
        uint32_t chunk = Landing::kNone;  // kNone: not in use
    };
    Landing landing_;
    std::vector<Reading> readings_;  // by cookie
    std::vector<uint32_t> free_;
};

}  // namespace wss::kv
