// SPDX-License-Identifier: Apache-2.0
// The limits that the cache sets for its peers, with their reasons. A count or size in a peer's record is
// compared with one of these before memory is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace wss::cache {

// Maximum length of one command. Each command object has room for its lines.
constexpr uint32_t kCommandBytesMax = 1024 * 1024;

// Memory that the index needs per line of an engine: the line; its node in the replacement policy, with its
// share of the ghosts and the frequency sketch; its arena slot; its bucket. Measured: 255 bytes at 16 million
// lines.
constexpr uint64_t kIndexBytesPerLine = 272;
// Maximum number of lines of all engines together: 4 TiB in lines of 64 KiB, or 17 GiB of index. A machine
// with little memory has a lower limit (lines_max_here()).
constexpr uint64_t kLinesMax = uint64_t{64} << 20;
// Divisor: the index takes at most this part of the machine's memory.
constexpr uint64_t kIndexMemoryShare = 2;  // one half

// Maximum number of grants that an engine has not confirmed. An engine that joins gets one for each channel
// (at most block::kChannelsMax) and each RS. Few more are granted in the meantime.
constexpr size_t kGrantsUnconfirmedMax = 8192;
// Maximum number of addresses on which one engine listens.
constexpr size_t kAddressesMax = 16;
// Maximum number of connections pending authentication as engines. Each holds the memory of a link. One more
// connection evicts another (lib/fabric/pending_places.h). The second limit is for evicted connections that
// are still closing.
constexpr size_t kEnginesPendingMax = 256;
constexpr size_t kEnginesEvictedMax = 256;
// Time within which an engine must authenticate.
constexpr Nanoseconds kEngineProofMax = from_s(4);
// Maximum number of volumes of one real storage.
constexpr size_t kStorageVolumesMax = 1024;

// The smaller of kLinesMax and the number of lines for which this machine's memory has room.
uint64_t lines_max_here();

}  // namespace wss::cache
