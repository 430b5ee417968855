// SPDX-License-Identifier: Apache-2.0
// Volume: a session's information about a logical unit, and checks of requests for it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/initiator/request.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

// An entry of the target's list.
struct VolumeName {
    std::string name;  // given by the target; "naa.…" or "lun-…" if another vendor's
    uint64_t lun = 0;
    uint64_t naa = 0;
};

struct VolumeInfo {
    std::string name;
    uint64_t lun = 0;
    uint64_t naa = 0;   // identifies the volume for life
    uint64_t size = 0;  // bytes
    uint32_t block_size = 512;
    uint32_t physical_block = 512;
    uint32_t transfer_max = 0;      // bytes of one command
    uint32_t transfer_optimal = 0;  // bytes; 0: not reported
    bool read_only = false;
    bool fua = false;          // the target supports the FUA bit
    bool write_cache = false;  // a completed write is stable only after a flush
    bool rotational = false;
    bool discard = false;
    bool write_zeroes = false;
    uint64_t discard_max = 0;          // bytes of one command
    uint64_t discard_granularity = 0;  // bytes
    uint64_t write_zeroes_max = 0;     // bytes of one command
    uint32_t compare_max = 0;          // bytes of one compare-and-write; 0: not supported
};

// Thread-safety: belongs to its session's thread. Ownership: the session owns it and may free it after
// Session::close_volume().
class Volume {
  public:
    explicit Volume(VolumeInfo info) : info_(std::move(info)) {}

    const VolumeInfo& info() const { return info_; }
    // True when the volume was deleted, or another volume has its name. The volume may return.
    bool gone() const { return gone_; }

    // Returns what is wrong with the request, or kOk.
    Outcome check(const Request& request) const noexcept;
    // Bytes that one command of this operation may cover; UINT64_MAX for operations without a limit.
    uint64_t command_max(Operation operation) const noexcept;
    // The CDB of a command for `length` bytes at `offset` (absolute). REQUIRES `length` within command_max().
    wire::Cdb make_cdb(const Request& request, uint64_t offset, uint64_t length) const noexcept;

  private:
    friend class Session;
    Outcome check_range(const Request& request) const noexcept;
    Outcome check_support(const Request& request) const noexcept;

    VolumeInfo info_;
    // Tracks the changes that a restart of the target's machine may lose: those that succeeded without FUA
    // and that no flush has covered.
    void note_end(Request& request) noexcept;
    void cache_lost() noexcept;

    bool gone_ = false;
    uint64_t written_ = 0;  // number of changes that succeeded without FUA
    uint64_t flushed_ = 0;  // how many of these, oldest first, are stable
    bool lost_ = false;     // the next flush must report the loss
    uint32_t users_ = 0;
};

}  // namespace wss::initiator
