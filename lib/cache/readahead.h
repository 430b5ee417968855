// SPDX-License-Identifier: Apache-2.0
// Read-ahead: detects sequential readers of a volume and chooses the data to load into the cache before they
// read it.
//
// A read that begins exactly where one of the last few reads ended begins a *stream*. Several streams are
// followed at once (several readers of one volume, or one reader of several files). A read that begins where
// a stream expects it, or at most `gap_max` before or after (requests overtake each other), belongs to that
// stream. A stream has a window that doubles up to `window_max`. When the reader has used half of the
// requested data, the next window follows.
//
// Most reads belong to no stream. To keep their cost low, a stream is forgotten after kPatience reads that do
// not belong to it, so that a random load has no streams to search. If there are too many streams, the new
// one replaces the least recently read.
//
// Thread-safety: belongs to one thread; each volume of a thread has its own. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>

namespace wss::cache {

struct ReadAheadOptions {
    uint32_t window_first = 128 * 1024;  // bytes; 0 turns read-ahead off
    uint32_t window_max = 2 * 1024 * 1024;
    uint32_t gap_max = 128 * 1024;  // maximum distance of a read from its expected start
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
    // Reports a client's read. Returns the range to load now, usually empty, never beyond `volume_bytes`.
    Stretch read(Stretch read, uint64_t volume_bytes);

  private:
    struct Stream {
        uint64_t expected = 0;  // where its next read should begin
        uint64_t ahead = 0;     // requested up to here
        uint32_t window = 0;    // size of the last one
        uint64_t used = 0;      // turn_ of its last read
    };
    static constexpr uint64_t kNowhere = UINT64_MAX;
    static constexpr uint64_t kPatience = 64;  // reads outside a stream before it is forgotten

    Stream* follow(Stretch read);
    Stream* begin(Stretch read);

    const ReadAheadOptions options_;
    std::array<Stream, kStreams> streams_;
    uint32_t followed_ = 0;  // number of entries in use in streams_
    // The ends of the last reads that belong to no stream, and the index of the oldest.
    std::array<uint64_t, kStreams> ends_;
    uint32_t oldest_end_ = 0;
    uint64_t turn_ = 0;
};

}  // namespace wss::cache
