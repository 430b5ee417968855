// SPDX-License-Identifier: Apache-2.0
// Volume: what a session knows of a logical unit, and what requests it can take.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/initiator/request.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

// A line of the target's list.
struct VolumeName {
    std::string name;  // as the target calls it; of a foreign target "naa.…"
    uint64_t lun = 0;
    uint64_t naa = 0;
};

struct VolumeInfo {
    std::string name;
    uint64_t lun = 0;
    uint64_t naa = 0;   // identifies the volume for all its life
    uint64_t size = 0;  // bytes
    uint32_t block_size = 512;
    uint32_t physical_block = 512;
    uint32_t transfer_max = 0;      // bytes of one command
    uint32_t transfer_optimal = 0;  // bytes; 0: the target does not say
    bool read_only = false;
    bool fua = false;          // the target knows the FUA bit
    bool write_cache = false;  // an acknowledged write is stable only after a flush
    bool rotational = false;
    bool discard = false;
    bool write_zeroes = false;
    uint64_t discard_max = 0;          // bytes of one command
    uint64_t discard_granularity = 0;  // bytes
    uint64_t write_zeroes_max = 0;     // bytes of one command
    uint32_t compare_max = 0;          // bytes of one compare-and-write; 0: not supported
};

// Thread-safety: belongs to its session's thread. Ownership: the session's; valid while it is open.
class Volume {
  public:
    explicit Volume(VolumeInfo info) : info_(std::move(info)) {}

    const VolumeInfo& info() const { return info_; }
    // Deleted, or another volume has its name now. May come back.
    bool gone() const { return gone_; }

    // What is wrong with the request, kOk if nothing.
    Outcome check(const Request& request) const noexcept;
    // Bytes that one command of this operation may stand for, UINT64_MAX for those without a limit.
    uint64_t piece_max(Operation operation) const noexcept;
    // The words of a command for `length` bytes at `offset` (absolute). `length` is what piece_max() allows.
    wire::Cdb make_cdb(const Request& request, uint64_t offset, uint64_t length) const noexcept;

  private:
    friend class Session;
    Outcome check_range(const Request& request) const noexcept;
    Outcome check_support(const Request& request) const noexcept;

    VolumeInfo info_;
    // What a restart of the target's machine may lose: writes that ended and that no flush has covered.
    void note_end(Request& request) noexcept;
    void cache_lost() noexcept;

    bool gone_ = false;
    uint64_t written_ = 0;  // writes that have ended
    uint64_t flushed_ = 0;  // of these, the first so many are stable
    bool lost_ = false;     // the next flush must say so
    uint32_t users_ = 0;
};

}  // namespace wss::initiator
