// SPDX-License-Identifier: Apache-2.0
// Losses: dirty lines whose engines are away, every one that had a copy. lib/cache/lost.h says what that
// means. What is lost is refused, or waited for, and a flush fails for it.
//
// Such an engine may be a link away, with all it holds. When it comes back in the same incarnation its copies
// that missed nothing are written to real storage (Destager::salvage()). It is no member meanwhile: nothing
// is put there, no client is notified of it. Then its link is closed, and it joins anew, with nothing.
//
// It owns the list of engines that departed and the state of the waits. What is lost is a part of the
// membership, which it changes. It calls the members and the volumes' LostWaiters.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <map>
#include <optional>

#include "lib/reactor/reactor.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/life.h"
#include "target/cache/members.h"
#include "target/cache/work.h"

namespace wss::se {

class Losses {
  public:
    Losses(Members& members, CachedVolumes& volumes, const cache::LineGeometry& geometry, Nanoseconds grace,
           const Life& life, reactor::Reactor& reactor, Turn& turn)
        : members_(members),
          volumes_(volumes),
          geometry_(geometry),
          grace_(grace),
          life_(life),
          reactor_(reactor),
          turn_(turn) {}

    // ---- What is lost
    bool none() const noexcept { return members_.now().lost.empty(); }
    bool has(const CachedVolume& volume, uint64_t line, cache::Pieces pieces) const noexcept {
        return members_.now().lost.of(volume.wwid, line).overlaps(pieces);
    }
    void note(const EngineLink& engine, const cache::Loss& loss);
    // Grows whenever something is lost.
    uint64_t noted() const noexcept { return noted_; }
    // This engine is not here. Its copies may be as new as those that are: they count if these are lost.
    void remember(uint64_t identity, uint32_t incarnation);
    // It has given back what it had of what was lost, and joins anew: until then it has the rest.
    void gave_back(const EngineLink& engine);
    // More was lost meanwhile: it is to come back with all that it has.
    void ask_again(const EngineLink& engine);
    // An engine that joins has erased what it held; … nothing is dirty any more.
    void joined(uint64_t identity) { departed_.erase(identity); }
    void none_dirty() noexcept { departed_.clear(); }
    // How the command ends, if what it needs is lost: see Ending::Kind::kAwait.
    std::optional<Ending> refusal(const Work& work) noexcept;
    uint64_t lost_bytes(const volume::Volume& volume) const;
    Nanoseconds lost_for(const CachedVolume& volume) const;

    // ---- Waiting for it
    bool awaits(const CachedVolume& volume) const noexcept;
    // A command on this range (without length: on all of the volume) ended with kAwait, or EAGAIN. True: so
    // it would now. It waits with the volume's LostWaiters, holding nothing of ours, and is begun anew when
    // this is false: what it asks for is back, or given up, or has been away for too long.
    bool awaits(const CachedVolume& volume, uint64_t offset, uint64_t length, bool is_write) const;
    // At each tick, and when all waits are over.
    void tick() noexcept;
    void look_due(CachedVolume& volume) noexcept;
    void turn() noexcept {
        if (looking_) look();
    }
    uint64_t checks() const noexcept { return checks_; }

    // ---- It is known again
    // True: what is on stable storage still says that they are lost.
    bool known_again(uint64_t wwid, uint64_t line, cache::Pieces pieces);
    void written_anew(const CachedVolume& volume, uint64_t line, cache::Pieces pieces);
    void brought_home(const CachedVolume& volume, uint64_t line, cache::Pieces pieces);
    void forget(uint64_t wwid);
    // As forget(), and save() follows: together with what else is to be known of the volume.
    bool drop(uint64_t wwid);
    // The volume ends now after so many bytes of line `last`.
    void cut(uint64_t wwid, uint64_t last, uint32_t bytes);
    void give_up(CachedVolume& volume);

    // ---- Flushes
    bool fails_flushes(const CachedVolume& volume, Asker asker) const noexcept;
    // A flush fails for it.
    void told(CachedVolume& volume) noexcept;

  private:
    void look() noexcept;
    bool in_time(const CachedVolume& volume, Nanoseconds lost) const noexcept;
    void clear_away_if_none();

    Members& members_;
    CachedVolumes& volumes_;
    const cache::LineGeometry geometry_;
    const Nanoseconds grace_;
    const Life& life_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    // Engines that were lost while dirty lines had one other copy, or that a recovery did without: theirs may
    // be as new as any that was made since.
    Members::Engines departed_;
    uint64_t noted_ = 0;
    uint64_t looked_at_ = 0;  // LostPieces::known_again() when commands that wait were checked last
    uint64_t checks_ = 0;
    Nanoseconds looked_until_{};  // … and what was lost by then was over
    bool looking_ = false;        // some are still to be checked
};

}  // namespace wss::se
