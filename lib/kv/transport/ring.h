// SPDX-License-Identifier: Apache-2.0
// Ring: frames are RDMA-written into the peer's memory, which the peer polls (GET+/PUT+). The format is
// HydraDB's, made safe for devices that do not guarantee the order of bytes.
//
//   memory of each side:  consumed (8, written by the peer: how far it has read from its ring) | asleep (8,
//                         written by the peer: it waits for a wake-up) | 48 zero | data (a power of two
//                         bytes)
//   frame in the data:    length (4) | sequence (4) | checksum of sequence and body (8) | body, padded to 8 |
//                         sequence (8)
//
// RDMA does not guarantee that the bytes of a WRITE become visible in order, nor does a CPU that copies (soft
// RoCE, a peer of the shm fabric). So a frame validates itself: both sequence words must have the expected
// value, and the checksum must match. Otherwise the frame has not arrived. Until it has, only its length is
// used, and only if it is within the ring. A frame never wraps: a header with length kRingSkip means that the
// next frame begins at the front.
//
// Sleep. A reader that is about to sleep sends kAsleep with its read position. A writer that has written
// more, or writes later, sends one wake-up (kWakeUp). So each sleep costs SENDs, but messages cost none. If
// this CPU can write the peer's memory itself (Connection::move_now), a word there replaces kAsleep, and the
// wake-up is the only SEND.
//
// Announced. A side whose device does not guarantee the order of bytes (ibv_query_qp_data_in_order) does not
// poll: each WRITE of a frame carries an immediate value. Its completion means that the frame has arrived as
// a whole, and it wakes a sleeping reader. The frame still validates itself. Each side chooses for the
// direction in which it reads.
//
// Thread-safety: none; belongs to its channel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/wire/kv.h"

namespace wss::kv {

constexpr uint32_t kRingBytes = 1u << 18;
constexpr uint32_t kRingPrefix = 64;
constexpr uint32_t kRingFrameExtra = 24;
constexpr uint32_t kRingSkip = UINT32_MAX;
// Limit of one frame's body, written by one post. Several fit in the ring, so that writer and reader overlap.
constexpr uint32_t kRingBodyMax = kRingBytes / 8;

enum class RingSignal : uint8_t { kAsleep = 1, kWakeUp = 2 };

class Ring {
  public:
    bool offer(fabric::Fabric& fabric, bool by_announcement);  // allocates; false: no memory
    bool is_announced() const { return memory_ != nullptr && ours_announced_; }
    wire::KvRing ours(size_t device) const;  // the ring as a peer that is connected through `device` needs it
    // `seed` is a secret of the client (its nonce), so that no value can imitate a frame. Returns false if
    // `theirs` is not a usable ring.
    bool begin(const wire::KvRing& theirs, uint64_t seed);
    bool active() const { return active_; }

    // --- writing
    // A work request; post them in order.
    struct Post {
        fabric::Segment segment;
        fabric::RemoteAddress remote;
        std::optional<uint32_t> announce{};  // immediate value of the write
    };
    static constexpr uint32_t kCreditOnly = 0;  // otherwise the immediate value is a frame's sequence
    bool announces() const { return theirs_.announced; }
    bool room(uint32_t body) const noexcept;
    // REQUIRES room(body.size()). At most two posts: a skip mark and the frame. Returns their number.
    uint32_t put(wire::Bytes body, Post posts[2]) noexcept;
    uint64_t written() const { return written_; }
    // Staging memory up to this position is free again.
    void posted_done(uint64_t position) { staged_done_ = position; }

    // --- reading
    // The body of the next frame if all of it has arrived; empty: not yet. Valid until consumed().
    wire::Bytes peek() noexcept;
    void consumed() noexcept;  // the frame of the last peek()
    // Reports the read position: a Post of 8 bytes into the peer's prefix. Returns false if no report is
    // needed now.
    bool credit(Post& post, bool force) noexcept;
    uint64_t read_position() const { return read_; }
    bool claims_nonsense() const { return nonsense_; }

    // --- sleep
    uint32_t heard = 0;      // frames announced by the peer and not yet taken
    bool announced = false;  // kAsleep was sent and no wake-up has arrived
    bool peer_asleep = false;
    bool wake_up_owed = false;     // the peer needs a wake-up that could not be sent
    bool announced_sleep = false;  // the asleep word in the peer's prefix is set
    Post asleep_word(bool asleep) noexcept;
    bool peer_says_asleep() const noexcept;
    void forget_peer_says() noexcept;  // call it when a wake-up was sent

  private:
    uint64_t peer_consumed() const noexcept;
    std::byte* staging(uint64_t position) noexcept;

    bool ours_announced_ = false;
    std::unique_ptr<fabric::Region> memory_;   // the peer writes here
    std::unique_ptr<fabric::Region> staging_;  // source of the writes: mirrors the peer's data
    wire::KvRing theirs_;
    uint64_t seed_ = 0;
    bool active_ = false;
    bool nonsense_ = false;
    uint64_t written_ = 0;      // bytes put, skips included
    uint64_t staged_done_ = 0;  // bytes whose posts have completed
    uint64_t read_ = 0;
    uint64_t credited_ = 0;                  // the last read_ reported to the peer
    uint32_t next_put_ = 1, next_take_ = 1;  // sequences
    uint32_t taken_bytes_ = 0;               // size of the frame returned by peek()
    std::vector<std::byte> copy_;  // the frame's body, copied out of the peer's reach before the check
};

}  // namespace wss::kv
