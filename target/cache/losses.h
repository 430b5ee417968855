// SPDX-License-Identifier: Apache-2.0
// Losses: dirty lines whose copies are all in engines that are away (lib/cache/lost.h). Commands that need
// lost data are rejected or wait, and a flush of the volume fails.
//
// An engine that is away may be merely disconnected, with its contents intact. When it returns in the same
// incarnation, its copies that missed no write are written to real storage (Destager::salvage()). Until then
// it is not a member: no line is placed there, and it is not announced to clients. Then its link is closed,
// and it joins again, empty.
//
// It owns the list of departed engines and the state of the waits. The lost lines are part of the membership,
// which it changes. It calls the members and the volumes' LostWaiters.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <map>
#include <optional>

#include "lib/reactor/reactor.h"
#include "target/cache/cache_command.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/life.h"
#include "target/cache/members.h"

namespace wss::cache {

class Losses {
  public:
    Losses(Members& members, CachedVolumes& volumes, const LineGeometry& geometry, Nanoseconds grace,
           const Life& life, reactor::Reactor& reactor, Turn& turn)
        : members_(members),
          volumes_(volumes),
          geometry_(geometry),
          grace_(grace),
          life_(life),
          reactor_(reactor),
          turn_(turn) {}

    // ---- Lost data
    bool none() const noexcept { return members_.now().lost.empty(); }
    bool has(const CachedVolume& volume, uint64_t line, SubBlocks sub_blocks) const noexcept {
        return members_.now().lost.of(volume.wwid, line).overlaps(sub_blocks);
    }
    void note(const EngineLink& engine, const Loss& loss);
    // Incremented when lines are lost.
    uint64_t noted() const noexcept { return noted_; }
    // Records an engine that is away. Its copies may be as new as the present ones, and may be the only
    // copies if those are lost.
    void remember(uint64_t identity, uint32_t incarnation);
    // The engine has returned its lost lines and joins again. Until it has joined, it still has its other
    // contents.
    void gave_back(const EngineLink& engine);
    // More data was lost in the meantime: the engine must join again and send all its headers.
    void ask_again(const EngineLink& engine);
    // The engine has joined again and has erased its contents: forgets what remember() recorded.
    void joined(uint64_t identity) { departed_.erase(identity); }
    // No line is dirty now: forgets what remember() recorded of all engines.
    void none_dirty() noexcept { departed_.clear(); }
    // The outcome of a command that needs lost data; see CacheOutcome::Kind::kAwait.
    std::optional<CacheOutcome> refusal(const CacheCommand& command) noexcept;
    uint64_t lost_bytes(const volume::Volume& volume) const;
    Nanoseconds lost_for(const CachedVolume& volume) const;

    // ---- Waiting for lost data
    bool awaits(const CachedVolume& volume) const noexcept;
    // Whether a command on this range (length 0: on the whole volume) would end with kAwait or EAGAIN. Such a
    // command waits with the volume's LostWaiters, without resources of the cache. It starts again when this
    // returns false: its data is back, was given up, or has been away for too long.
    bool awaits(const CachedVolume& volume, uint64_t offset, uint64_t length, bool is_write) const;
    // Called at each tick, and when all waits have ended.
    void tick() noexcept;
    void look_due(CachedVolume& volume) noexcept;
    void turn() noexcept {
        if (looking_) look();
    }
    uint64_t checks() const noexcept { return checks_; }

    // ---- Data that is known again
    // Returns true if some of the sub-blocks were lost and stable storage may still record this.
    bool known_again(uint64_t wwid, uint64_t line, SubBlocks sub_blocks);
    void written_anew(const CachedVolume& volume, uint64_t line, SubBlocks sub_blocks);
    void destaged(const CachedVolume& volume, uint64_t line, SubBlocks sub_blocks);
    void forget(uint64_t wwid);
    // Like forget(), but the caller must call save(), together with other changes to the volume.
    bool drop(uint64_t wwid);
    // Records that the volume now ends after `bytes` bytes of line `last`.
    void cut(uint64_t wwid, uint64_t last, uint32_t bytes);
    void give_up(CachedVolume& volume);

    // ---- Flushes
    bool fails_flushes(const CachedVolume& volume, Asker asker) const noexcept;
    // A flush has reported the loss to the client.
    void told(CachedVolume& volume) noexcept;

  private:
    void look() noexcept;
    bool in_time(const CachedVolume& volume, Nanoseconds lost) const noexcept;
    void clear_away_if_none();

    Members& members_;
    CachedVolumes& volumes_;
    const LineGeometry geometry_;
    const Nanoseconds grace_;
    const Life& life_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    // Engines that were lost while dirty lines had one other copy, and engines without which a recovery
    // continued. Their copies may be as new as any that were created since.
    Members::Engines departed_;
    uint64_t noted_ = 0;
    uint64_t looked_at_ = 0;  // LostSubBlocks::known_again() when waiting commands were checked last
    uint64_t checks_ = 0;
    Nanoseconds looked_until_{};  // waits for losses up to this time have ended
    bool looking_ = false;        // some waiting commands are still to be checked
};

}  // namespace wss::cache
