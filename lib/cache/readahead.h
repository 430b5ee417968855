// SPDX-License-Identifier: Apache-2.0
// Read-ahead: finds sequential readers of a volume and says what to bring into the cache before they ask.
//
// A read that begins exactly where one of the last few ended begins a *stream*. A few streams are followed at
// once (several readers of one volume, one reader of several files): a read that begins where one of them is
// expected, or a little later (requests overtake each other), belongs to it. A stream has a window that
// doubles up to `window_max`; when the reader has used half of what was asked for, the next window follows.
//
// Most reads belong to no stream, and each comes by here: where all are scattered there is no stream to look
// at, since one that many reads have passed by is forgotten. One too many takes the place of the one that was
// read longest ago.
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

    explicit ReadAhead(const ReadAheadOptions& options) : options_(options) { ends_.fill(kNowhere); }
    // A client reads: what to bring in now; empty mostly. Never beyond `volume_bytes`.
    Stretch read(Stretch read, uint64_t volume_bytes);

  private:
    struct Stream {
        uint64_t expected = 0;  // where its next read should begin
        uint64_t ahead = 0;     // asked for up to here
        uint32_t window = 0;    // of the last time
        uint64_t used = 0;      // turn_ of its last read
    };
    static constexpr uint64_t kNowhere = UINT64_MAX;
    static constexpr uint64_t kPatience = 64;  // reads that pass by a stream before it is forgotten

    Stream* follow(Stretch read);
    Stream* begin(Stretch read);

    const ReadAheadOptions options_;
    std::array<Stream, kStreams> streams_;
    uint32_t followed_ = 0;  // of streams_
    // Where the last reads ended that belong to no stream, and which of these is the oldest.
    std::array<uint64_t, kStreams> ends_;
    uint32_t oldest_end_ = 0;
    uint64_t turn_ = 0;
};

}  // namespace wss::cache
