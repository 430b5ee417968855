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
// copy, and a reader must not see it come and go.
//
// An engine that recovery does without may have a newer copy, with a write that was under way. Readers see
// the line without it from then on, so such a copy does not count later either (lost.h).
//
// What loses or cannot be (another incarnation, an unknown volume, beyond its end, half written, another line
// size) is for erasure.
//
// Thread-safety: one thread. Control plane: allocates.
#pragma once

#include <cstdint>
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
    uint64_t unknown_volume = 0;  // deleted, or beyond its end
    uint64_t older = 0;           // lost against a newer copy
    uint64_t dirty_lines = 0;     // restored
};

class Recovery {
  public:
    explicit Recovery(const LineGeometry& geometry) : geometry_(geometry) {}

    // Lines of the volume with this WWID are restored under `volume`. If it may not be dirty, what claims to
    // be is of a former one with this WWID: nothing of it counts.
    void add_volume(uint64_t wwid, uint32_t volume, uint64_t bytes, bool may_be_dirty = true);
    // The header of one slot; `incarnation` is what the persistent membership says of the engine.
    void add_header(Slot slot, uint64_t incarnation, std::span<const std::byte, kHeaderBytes> bytes);
    // Puts what was found into the index, whose engines and volumes have been added, and raises its
    // generation floor. Dirty lines are due at once: dirty since the beginning of time.
    RecoveryReport restore(Index& index);
    // After restore(): slots whose header has to be erased before the slot is used again.
    std::span<const Slot> erase() const { return erase_; }
    // Slots of deleted volumes: their contents have to be wiped, too.
    std::span<const Slot> wipe() const { return wipe_; }

  private:
    struct VolumeInfo {
        uint32_t volume = 0;
        uint64_t bytes = 0;
        bool may_be_dirty = true;
    };
    struct Copy {
        Slot slot;
        uint64_t generation = 0;
        Pieces dirty;
    };
    struct KeyHash {
        size_t operator()(const LineKey& key) const { return hash(key); }
    };
    static bool better(const Copy& a, const Copy& b);
    void restore_line(Index& index, LineKey key, std::vector<Copy>& copies);

    const LineGeometry geometry_;
    std::unordered_map<uint64_t, VolumeInfo> volumes_;
    std::unordered_map<LineKey, std::vector<Copy>, KeyHash> found_;
    std::vector<Slot> erase_, wipe_;
    RecoveryReport report_;
    uint64_t newest_ = 0;
};

}  // namespace wss::cache
