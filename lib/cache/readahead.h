// SPDX-License-Identifier: Apache-2.0
// Read-ahead: finds sequential readers of a volume and says what to bring into the cache before they ask.
//
// A few streams are followed at once (several readers of one volume, one reader of several files). A read
// that begins where one of them is expected, or a little later (requests overtake each other), belongs to it.
// From the second such read on, the stream has a window that doubles up to `window_max`; when the reader has
// used half of what was asked for, the next window follows. The least recently used stream gives way to a new
// one.
//
// Thread-safety: belongs to one thread, one for each volume of it. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>

namespace wss::cache {

struct ReadAheadOptions {
    uint32_t window_first = 128 * 1024;  // bytes; 0 turns read-ahead off
    uint32_t window_max = 2 * 1024 * 1024;
    uint32_t gap_max = 128 * 1024;  // how far a read may be ahead or behind and still belong
};

struct Stretch {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool operator==(const Stretch&) const = default;
};

class ReadAhead {
  public:
    static constexpr uint32_t kStreams = 8;

    explicit ReadAhead(const ReadAheadOptions& options) : options_(options) {}
    // A client reads: what to bring in now; empty mostly. Never beyond `volume_bytes`.
    Stretch read(Stretch read, uint64_t volume_bytes);

  private:
    struct Stream {
        uint64_t expected = UINT64_MAX;  // where its next read should begin; nowhere while it is free
        uint64_t ahead = 0;              // asked for up to here
        uint32_t window = 0;             // of the last time; 0: seen once only
        uint64_t used = 0;               // turn_ of its last read; 0: free
    };

    const ReadAheadOptions options_;
    std::array<Stream, kStreams> streams_;
    uint64_t turn_ = 0;
};

}  // namespace wss::cache
