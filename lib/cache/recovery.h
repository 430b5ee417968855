// SPDX-License-Identifier: Apache-2.0
// Recovery: a storage engine that starts again finds its dirty lines by the headers that the engines kept.
//
// Each engine that joins shows its headers; when all that the persistent membership names have come, or the
// wait for them has ended, the map is rebuilt. For each line the copy of the newest generation wins, wholly:
// at equal generations the one that claims more dirty pieces. Bitmaps of two copies are never mixed: each
// acknowledged write is in every copy (header.h, H2), so any one of them is right, but a write that was under
// way may be in one only.
//
// Clean pieces do not count after a restart: a write that was under way may have reached storage and not the
// copy, and a reader must not see it come and go. But a clean copy of a newer generation beats a dirty one:
// storage has a write that the dirty one missed, and a reader may have seen it.
//
// An engine that recovery does without may have a newer copy, with a write that was under way. Readers see
// the line without it from then on, so such a copy does not count later either (lost.h).
//
// Dirty copies that lose, and what cannot be (another incarnation, half written, another line size), are for
// erasure. Copies of volumes that are unknown, and beyond a volume's end, are for wiping. Clean copies need
// no erasure: they are older than whatever is written from now on, and one that has beaten a dirty copy must
// do so again if this is interrupted.
//
// An engine has millions of clean lines. Those that were filled and never written beat nothing, and are
// dropped on arrival. Others take kCleanBytes each until they are compared, and then looked through for those
// to be wiped, some each turn.
//
// Thread-safety: one thread. Control plane: allocates.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/cache/header.h"
#include "lib/cache/index.h"

namespace wss::cache {

struct RecoveryReport {
    uint64_t headers = 0;         // that were not empty
    uint64_t refused = 0;         // damaged or impossible, or of another line size
    uint64_t foreign = 0;         // of an old incarnation
    uint64_t unknown_volume = 0;  // dirty copies of one that is deleted, or beyond its end
    uint64_t older = 0;           // dirty copies that lost against a newer one
    uint64_t dirty_lines = 0;     // restored
};

class Recovery {
  public:
    // `is_known`: the volume with this WWID is there, or is awaited. What is in the cache of others is wiped.
    Recovery(const LineGeometry& geometry, std::function<bool(uint64_t wwid)> is_known)
        : geometry_(geometry), is_known_(std::move(is_known)) {}

    // ---- While engines come
    // The header of one slot; `incarnation` is what the persistent membership says of the engine.
    void add_header(Slot slot, uint64_t incarnation, std::span<const std::byte, kHeaderBytes> bytes);
    // The engine is lost, with all that it has shown.
    void forget(EngineIndex engine);
    // Compares so many clean copies with the dirty ones that have come.
    void compare(size_t count);
    bool compared() const;

    // ---- Once
    // Lines of the volume with this WWID are restored under `volume`. If it may not be dirty, what claims to
    // be is of a former one with this WWID: nothing of it counts.
    void add_volume(uint64_t wwid, uint32_t volume, uint64_t bytes, bool may_be_dirty = true);
    // Requires that all are compared. Puts what was found into the index, whose engines and volumes have been
    // added, and raises its generation floor. Dirty lines are due at once: dirty since the beginning of time.
    RecoveryReport restore(Index& index);

    // ---- After restore()
    // A slot that has to be erased before it is used again, or whose contents have to be wiped.
    struct Loser {
        Slot slot;
        bool wipe = false;
    };
    // The next one, each once. Empty: no more, or none among so many copies, which it counts down.
    std::optional<Loser> next_loser(size_t& looks);
    bool any_left() const { return !losers_.empty() || !clean_.empty(); }

  private:
    struct VolumeInfo {
        uint32_t volume = 0;
        uint64_t bytes = 0;
        bool may_be_dirty = true;
    };
    struct Key {
        uint64_t wwid = 0;
        uint64_t line = 0;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        size_t operator()(const Key& key) const { return mix(key.line + mix(key.wwid)); }
    };
    struct Copy {
        Slot slot;
        uint64_t generation = 0;
        Pieces dirty;
    };
    struct Found {
        std::vector<Copy> copies;       // dirty ones
        uint64_t clean_generation = 0;  // of the newest clean one that was compared
    };
    struct Clean {
        uint64_t line = 0;
        uint64_t generation = 0;
        uint32_t volume = 0;  // in wwids_
        uint32_t slot = 0;
    };
    static constexpr size_t kCleanBytes = 24;
    static_assert(sizeof(Clean) == kCleanBytes, "an engine may have millions of them");
    // Of one engine; the first `compared` of them are.
    struct CleanCopies {
        std::deque<Clean> copies;
        size_t compared = 0;
    };
    struct Wwid {
        uint64_t wwid = 0;
        bool is_known = false;
    };

    static bool better(const Copy& a, const Copy& b);
    uint32_t number_of(uint64_t wwid);
    void add_dirty(Slot slot, const LineHeader& header);
    void add_clean(Slot slot, const LineHeader& header);
    void compare_anew();
    bool is_gone(uint64_t wwid, uint64_t line) const;
    void restore_line(Index& index, const Key& key, Found& found);
    bool restore_copy(Index& index, LineKey key, const Copy& copy);

    const LineGeometry geometry_;
    const std::function<bool(uint64_t wwid)> is_known_;
    std::unordered_map<uint64_t, VolumeInfo> volumes_;
    std::unordered_map<Key, Found, KeyHash> found_;
    std::vector<Wwid> wwids_;                         // of clean copies
    std::unordered_map<uint64_t, uint32_t> numbers_;  // in wwids_
    std::map<EngineIndex, CleanCopies> clean_;
    std::deque<Loser> losers_;
    RecoveryReport report_;
    uint64_t newest_ = 0;
};

}  // namespace wss::cache
