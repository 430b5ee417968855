// SPDX-License-Identifier: Apache-2.0
// OneSidedReads: the one-sided reads that a session has in flight, and their receive memory.
//
// A job may give up while its read is in flight. The fabric still writes to the chunk, which is returned when
// the read completes.
//
// Thread-safety: none; belongs to the session.
#pragma once

#include <utility>
#include <vector>

#include "lib/kv/client/read_buffers.h"
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
        Job* job = nullptr;  // nullptr: the job has given up
        uint32_t index = 0;
    };

    ReadBuffers& buffers() { return buffers_; }
    // Begins a one-sided read into a chunk, which belongs to the session until end(). Returns false if that
    // is not possible now. `cookie` can be passed to abandon().
    bool begin(Link& link, Job& job, const Read& read, uint32_t& cookie) noexcept;
    // Reads `length` bytes synchronously, if the fabric can; the next call overwrites them. Returns nullptr
    // if that is not possible now.
    const std::byte* now(Link& link, fabric::RemoteAddress from, uint32_t length) noexcept;
    // The job is not notified of the completion, which returns the chunk.
    void abandon(uint32_t cookie) noexcept { readings_[cookie].job = nullptr; }
    Ended end(uint64_t cookie) noexcept;

  private:
    struct Reading {
        Job* job = nullptr;
        uint32_t index = 0;
        uint32_t chunk = ReadBuffers::kNone;  // kNone: not in use
    };
    ReadBuffers buffers_;
    std::vector<Reading> readings_;  // indexed by cookie
    std::vector<uint32_t> free_;
};

}  // namespace wss::kv
