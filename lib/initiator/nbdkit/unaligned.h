// SPDX-License-Identifier: Apache-2.0
// Byte ranges on a volume of blocks. NBD clients may access any byte; a volume accepts whole blocks.
// Unaligned writes are read-modify-write.
//
// Such a change must not interleave with another change or a plain write of the same block. So changes hold
// the lock `gate` exclusively, and plain writes share it. The lock does not cover other clients of the
// target: hosts that share a volume must use its block size, which the plug-in declares.
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <shared_mutex>

#include "lib/initiator/wss.h"

namespace wss::initiator {

// Errors are those of wss.h: 0 or a negative errno.
class ByteVolume {
  public:
    ByteVolume(wss_volume* volume, std::shared_mutex& gate) : volume_(volume), gate_(gate) {
        wss_get_info(volume, &info_);
    }
    const wss_info& info() const { return info_; }

    int read(char* buffer, uint32_t length, uint64_t offset);
    int write(const char* buffer, uint32_t length, uint64_t offset, bool fua);
    int zero(uint32_t length, uint64_t offset, bool may_unmap, bool fua);
    int discard(uint32_t length, uint64_t offset, bool fua);

  private:
    bool aligned(uint32_t length, uint64_t offset) const {
        return (offset | length) % info_.block_size == 0;  // block sizes are powers of two
    }
    // `buffer` nullptr: zeroes. REQUIRES `gate` held exclusively.
    int change(const char* buffer, uint32_t length, uint64_t offset, bool fua);

    wss_volume* const volume_;
    std::shared_mutex& gate_;
    wss_info info_{};
};

}  // namespace wss::initiator
