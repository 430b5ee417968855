// SPDX-License-Identifier: Apache-2.0
// Every bound that the cache sets to its peers, with its reason. A count or a size in a peer's record is
// compared with one of these before anything is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace wss::se {

// One command, whose works have room for its lines.
constexpr uint32_t kCommandBytesMax = 1024 * 1024;

// What the index needs for a line of an engine: the line, its node in the replacement with its share of the
// ghosts and the frequency sketch, its slot, its bucket. Measured: 255 bytes at 16 million lines.
constexpr uint64_t kIndexBytesPerLine = 272;
// Lines of all engines together: 4 TiB in lines of 64 KiB, 17 GiB of index. A machine with little memory has
// a lower limit (lines_max_here()).
constexpr uint64_t kLinesMax = uint64_t{64} << 20;
// The index takes at most this share of the machine's memory.
constexpr uint64_t kIndexMemoryShare = 2;  // a half

// Grants that an engine has not confirmed. A reactor's completion queue has room for some dozens of channels,
// each with one grant, and few are granted anew meanwhile.
constexpr size_t kGrantsMax = 4096;
// Where one engine listens.
constexpr size_t kAddressesMax = 16;
// Connections that authenticate as engines. Each holds a link's memory. One more evicts another
// (lib/fabric/stranger_places.h); so many may be closing after their eviction.
constexpr size_t kEnginesPendingMax = 16;
constexpr size_t kEnginesEvictedMax = 16;
// … and how long one may take for its proof.
constexpr Nanoseconds kEngineProofMax = from_s(4);
// Volumes of one real storage.
constexpr size_t kStorageVolumesMax = 1024;

// kLinesMax, or what this machine's memory allows.
uint64_t lines_max_here();

}  // namespace wss::se
