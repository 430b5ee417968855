// SPDX-License-Identifier: Apache-2.0
// Recovery: after a restart, a storage engine finds its dirty lines by the headers that the engines kept.
//
// Each engine that joins sends its headers. When all engines of the persistent membership have joined, or the
// wait for them has ended, the map is rebuilt. For each line one copy wins as a whole: the one with the
// newest generation, or at equal generations the one with more dirty sub-blocks. Bitmaps of two copies are
// never combined. Each acknowledged write is in every copy (header.h, H2), so any of them is correct, but a
// write in flight may be in only one copy.
//
// Clean sub-blocks are not valid after a restart: a write in flight may have reached storage but not the
// copy, and a reader must not see it appear and disappear. But a clean copy of a newer generation supersedes
// a dirty one: storage has a write that the dirty copy missed, and a reader may have seen it.
//
// An engine that is absent from the recovery may have a newer copy, with a write that was in flight. Readers
// see the line without that write from then on, so the copy is not valid later either (lost.h).
//
// Dirty copies that lose are erased, and so are unusable headers (of another incarnation, half written, of
// another line size). Copies of unknown volumes, and copies beyond a volume's end, are wiped. Clean copies
// need no erasure: they are older than everything that is written later. A clean copy that has superseded a
// dirty one must stay, because it must do so again if the recovery is interrupted.
//
// An engine has millions of clean lines. Those of known volumes that were filled and never written supersede
// nothing. They are dropped on arrival and are not wiped. Each of the others takes kCleanBytes until
// next_loser() has examined it. next_loser() searches them for copies to wipe, some in each turn.
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
    uint64_t headers = 0;         // headers that are not empty
    uint64_t refused = 0;         // damaged or invalid, or of another line size
    uint64_t foreign = 0;         // headers of an old incarnation
    uint64_t unknown_volume = 0;  // dirty copies of a deleted volume or beyond a volume's end
    uint64_t older = 0;           // dirty copies that lost to another copy of their line
    uint64_t dirty_lines = 0;     // restored
};

class Recovery {
  public:
    // `is_known` returns true if the volume with this WWID exists or is expected. Cached data of other
    // volumes is wiped.
    Recovery(const LineGeometry& geometry, std::function<bool(uint64_t wwid)> is_known)
        : geometry_(geometry), is_known_(std::move(is_known)) {}

    // ---- While engines join
    // Adds the header of one slot. `incarnation` is the engine's, from the persistent membership.
    void add_header(ArenaSlot slot, uint64_t incarnation, std::span<const std::byte, kHeaderBytes> bytes);
    // The engine is lost: removes all its headers.
    void forget(EngineIndex engine);
    // Compares up to `count` clean copies with the dirty ones that have arrived.
    void compare(size_t count);
    bool compared() const;

    // ---- When all engines have joined
    // The lines of the volume with this WWID are restored under the number `volume`. If the volume cannot be
    // dirty, its dirty copies belong to an earlier volume of the same WWID and are erased.
    void add_volume(uint64_t wwid, uint32_t volume, uint64_t bytes, bool may_be_dirty = true);
    // Requires compared(). Adds the winning copies to the index, whose engines and volumes have been added,
    // and raises its generation floor. The restored lines are due for destaging at once: they are dirty since
    // time 0.
    RecoveryReport restore(Index& index);

    // ---- After restore()
    // A slot that must be erased before it is used again, or whose contents must be wiped.
    struct Loser {
        ArenaSlot slot;
        bool wipe = false;
    };
    // Returns each loser once. Examines at most `looks` clean copies and counts `looks` down. Empty if there
    // are no more, or none among those examined.
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
        ArenaSlot slot;
        uint64_t generation = 0;
        SubBlocks dirty;
    };
    struct Found {
        std::vector<Copy> copies;       // dirty ones
        uint64_t clean_generation = 0;  // that of the newest clean copy that was compared
    };
    struct Clean {
        uint64_t line = 0;
        uint64_t generation = 0;
        uint32_t volume = 0;  // index into wwids_
        uint32_t slot = 0;
    };
    static constexpr size_t kCleanBytes = 24;
    static_assert(sizeof(Clean) == kCleanBytes, "an engine may have millions of them");
    // The clean copies of one engine. The first `compared` of them have been compared.
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
    void add_dirty(ArenaSlot slot, const LineHeader& header);
    void add_clean(ArenaSlot slot, const LineHeader& header);
    void compare_anew();
    bool is_gone(uint64_t wwid, uint64_t line) const;
    void restore_line(Index& index, const Key& key, Found& found);
    bool restore_copy(Index& index, LineKey key, const Copy& copy);

    const LineGeometry geometry_;
    const std::function<bool(uint64_t wwid)> is_known_;
    std::unordered_map<uint64_t, VolumeInfo> volumes_;
    std::unordered_map<Key, Found, KeyHash> found_;
    std::vector<Wwid> wwids_;                         // WWIDs of the clean copies' volumes
    std::unordered_map<uint64_t, uint32_t> numbers_;  // indexes into wwids_
    std::map<EngineIndex, CleanCopies> clean_;
    std::deque<Loser> losers_;
    RecoveryReport report_;
    uint64_t newest_ = 0;
};

}  // namespace wss::cache
