// SPDX-License-Identifier: Apache-2.0
// Index: the map of the cache. Which line is where, what of it is valid and dirty, who is at work on it, and
// which line makes room. It knows volumes, engines and lines; it moves no byte. Whoever moves bytes tells it
// so.
//
// Life of a line, in the calls of this class:
//   read that misses   open, enter(shared) … storage answers the client … leave; then open, enter(exclusive),
//   place,
//                      fill the copy, filled(), leave
//   read that hits     find, enter(shared), touch … the primary answers the client … leave
//   write-back         open, enter(exclusive), place(2), stamp … both holders have the data … written(),
//   leave destaging          enter(shared, the dirty pieces), begin_destage … storage has them, the holders
//   have cleared
//                      their dirty bits (H3) … end_destage, leave
//   eviction           place() takes the slots of the line that should go first: clean and idle
//
// The second copy of a line holds its dirty pieces and nothing else: reads are the primary's. It is given up
// when the line is clean and its last operation leaves. If it is lost before, another one is made:
//   enter_beside, begin_copy … the new holder has the dirty pieces … end_copy, leave
//
// Rules
//   X1  Only an operation that has entered a line may place it or report what became of its data, and only of
//       the pieces that it names; filled(), written() and invalidate() need exclusive access.
//   X2  A pointer to a Line is valid while an operation is on it, or until the next call that could evict it:
//       place(), lose_engine(), leave() of its last operation.
//   X3  Memory is made in blocks, as lines and slots are first used: no call takes longer because the cache
//       is larger, but for those that are said to walk the index.
//
// Thread-safety: an Index and all in it belong to one thread. A target with several reactors gives each its
// own lines (shard_of()) and its own stretch of every engine's slots.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/cache/dirty_lines.h"
#include "lib/cache/geometry.h"
#include "lib/cache/line.h"
#include "lib/cache/line_table.h"
#include "lib/cache/lost.h"
#include "lib/cache/placement.h"
#include "lib/cache/replacement.h"
#include "lib/cache/slot_pool.h"
#include "lib/cache/types.h"

namespace wss::cache {

struct IndexOptions {
    LineGeometry geometry;
    // Lines without slots that operations are on: a miss, a write around the cache. At least the operations
    // that can be outstanding.
    uint32_t transient_lines = 4096;
};

struct EngineOptions {
    uint64_t identity = 0;  // for life: the same at each return
    uint64_t weight = 1;    // for placement: its memory, in a unit common to all
    uint32_t first_slot = 0;
    uint32_t slots = 0;  // [first_slot, first_slot + slots) are this index's
};

// What an engine's end cost.
struct LostLine {
    LineKey key;
    Pieces pieces;            // that were dirty
    uint64_t generation = 0;  // of the newest change of them that a reader may have seen
    LossBounds bounds;
};
struct Loss {
    uint64_t lines = 0;          // that had a copy there
    uint64_t dirty_lines = 0;    // whose last copy it was, with data that were nowhere else
    uint64_t second_copies = 0;  // dirty lines that have one copy left: destage them at once
    std::vector<LostLine> lost;  // the dirty_lines, one by one
    uint64_t generation = 0;     // no copy of any line has a newer one
};

struct IndexCounters {
    uint64_t lines = 0;  // with slots
    uint64_t dirty_lines = 0;
    uint64_t dirty_pieces = 0;
    uint64_t destaging_lines = 0;
    uint64_t single_lines = 0;  // mark_single()
    uint64_t operations = 0;    // entered and not left
    uint64_t evictions = 0;     // since the start, as below
    uint64_t no_room = 0;
};

enum class Placed : uint8_t {
    kDone,      // it has as many holders as asked for
    kNoRoom,    // every candidate to go is in use or dirty: destage, or do without the cache
    kNoEngine,  // fewer engines than copies wanted
};

class Index {
  public:
    explicit Index(const IndexOptions& options);
    ~Index();
    Index(const Index&) = delete;
    Index& operator=(const Index&) = delete;

    const LineGeometry& geometry() const { return geometry_; }
    // Which of `shards` indexes a line belongs to: adjacent lines stay together, so that they can be merged.
    static uint32_t shard_of(LineKey key, uint32_t shards);

    // --- volumes and engines: control plane, may allocate
    void add_volume(uint32_t volume);
    // Requires that it has no lines (wipe them first).
    Status remove_volume(uint32_t volume);
    Status add_engine(EngineIndex engine, const EngineOptions& options);
    // Gets no new lines; those that it has stay until they are moved or evicted.
    void drain_engine(EngineIndex engine);
    // Its memory is gone, or may not be used any more. Operations on its lines stay entered; their owners
    // will hear from the fabric. A line that had its last copy there is absent from now on.
    Loss lose_engine(EngineIndex engine);
    // While it is not known yet which slots hold something (recovery.h): no line gets slots, and of the
    // entries those for lines with slots are left alone.
    void hold_placement(bool held) { placement_held_ = held; }
    bool has_engine(EngineIndex engine) const;
    uint32_t placeable_engines() const { return placement_held_ ? 0 : placement_.count(); }
    uint32_t used_slots(EngineIndex engine) const;
    uint32_t slots(EngineIndex engine) const;

    // --- lines
    Line* find(LineKey key) const { return lines_.find(key); }
    // Makes an absent entry if there is none; nullptr when all transient lines are in use, which is a limit
    // and not an error: the caller waits or refuses.
    Line* open(LineKey key);
    // True if the operation may go on now; else it is among the Granted of some later leave().
    bool enter(Line& line, LineOp& op);
    // Shared, of all pieces: at once, ahead of those that wait. False if one that has the line is at work on
    // its copies (L3), or another one is beside it.
    bool enter_beside(Line& line, LineOp& op);
    // L3. True if the operation may go on now; else it is among the Granted of some later leave(), which
    // takes as long as engines do.
    bool resume(LineOp& op);
    // May end the line: an absent one without operations is forgotten.
    void leave(LineOp& op, Granted& granted);
    // Lines are at places, which they keep: walks go from place to place, some each turn.
    uint64_t places() const { return lines_.places(); }
    // The lines at [first, first + count); `visit(Line&)` may not open or place lines.
    template <typename Visit>
    void for_each(uint64_t first, uint64_t count, Visit&& visit);
    // All. Walks the whole index: control plane only.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for_each(0, places(), visit);
    }

    // --- room
    // Gives the line slots in `copies` engines, keeping those that it has. Evicts clean idle lines. All or
    // nothing.
    Placed place(Line& line, uint32_t copies);
    // A place of its own for a line found after a restart (recovery.h), in a copy of this generation; false
    // if the slot is not free.
    bool place_at(Line& line, Slot slot, uint64_t generation = 0);
    // Where place(line, 1) puts it, or has; another one if that has no room.
    EngineIndex first_choice(const Line& line) const;
    // Gives one copy up: its slot is free at once (H3: it must not claim dirty data any more).
    void drop_copy(Line& line, EngineIndex engine);

    // --- dirty lines with one copy left
    // Of two copies of the dirty pieces one is left, or may be: said of the line until they are in real
    // storage or copied. Without effect on a clean line.
    void mark_single(Line& line);
    // A second holder for a dirty line that has one: it has nothing yet, and does not count if the first is
    // lost meanwhile; what is dirty is lost then. Of an operation that has entered beside others: end_copy()
    // follows before it leaves.
    Placed begin_copy(Line& line);
    // Of the copy in this slot. `made`: it has all that is dirty now. Without effect if a holder was lost
    // meanwhile.
    void end_copy(Line& line, Slot second, bool made);

    // These pieces were read or written by a client: what replacement goes by. Of a line that was brought
    // ahead of a sequential reader its whole passage counts as the bringing did: not as a use.
    void touch(Line& line, Pieces touched);
    void brought_ahead(Line& line);

    // --- what became of its data
    // The number for the next change of the line, to be sent to its holders with the data.
    uint64_t stamp(Line& line);
    // Both: false, and nothing changes, if the line has lost its last holder meanwhile.
    bool filled(Line& line, Pieces pieces);
    bool written(Line& line, Pieces pieces, Nanoseconds now);
    // The pieces count no longer, dirty or not: they were discarded, or a copy of them failed. A line of
    // which nothing is valid keeps its slots until it is evicted.
    void invalidate(Line& line, Pieces pieces);
    // The dirty pieces are in real storage by another way (written through) and the holders know (H3).
    void cleaned(Line& line, Pieces pieces);

    // --- destaging; the operation that holds the line is shared and names at least dirty()
    struct Destage {
        Pieces pieces;  // what has to be written to real storage: dirty() as it is now
        uint64_t serial = 0;
    };
    enum class Destaged : uint8_t { kStable, kFailed };
    // Requires kDirty.
    Destage begin_destage(Line& line);
    // Real storage has the pieces: the copies that there are now clear their dirty bits, and no other is
    // made.
    void begin_clear(Line& line, const Destage& destage);
    // After a failure the pieces are dirty as before, and the line is deferred (dirty_lines.h). Without
    // effect if the line has lost its last holder meanwhile.
    void end_destage(Line& line, const Destage& destage, Destaged result);

    // --- erasing every copy, for a policy change, a discard or a volume that is gone. The operation names
    // all pieces, exclusively. Nothing of the line counts any more; its slots are free after erased().
    void begin_erase(Line& line, LineState how);  // kEvicting or kWiping
    void erased(Line& line);

    // --- dirty lines of a volume, oldest first
    // What a flush waits for: everything written() before now is not dirty any more when
    // dirty(volume).flushed(mark).
    uint64_t flush_mark() const { return dirty_sequence_; }
    // None of a volume that it does not know. Valid until remove_volume().
    DirtyLines& dirty(uint32_t volume);
    uint64_t dirty_lines(uint32_t volume) const;
    uint64_t dirty_lines_on(EngineIndex engine) const;

    // Generations begin here: above all that recovery has seen, and that copies which it has not seen may
    // have. It has passed over those of them that are newer than what it restores.
    void set_generation_floor(uint64_t generation);
    const IndexCounters& counters() const { return counters_; }
    uint64_t capacity_lines() const { return capacity_lines_; }
    // For tests: every count is what counting gives, every slot has one owner.
    bool consistent();

  private:
    struct Engine {
        EngineOptions options;
        std::unique_ptr<Replacement> replacement;  // of the lines whose primary it is
        SlotPool slots;
        uint64_t dirty_lines = 0;  // that it holds
        bool joined = false;
    };
    struct Volume {
        DirtyLines dirty;
        uint64_t lines = 0;  // with slots
    };

    void set_state(Line& line, LineState state);
    void forget_if_unused(Line& line);
    bool take_slot(EngineIndex index, Line& for_line, Slot& slot);
    bool evict_for(Engine& engine, Line& for_line);
    void add_holder(Line& line, Slot slot);
    void remove_holder(Line& line, uint32_t which, Replacement::Reason reason);
    void make_absent(Line& line, Replacement::Reason reason);
    void set_dirty(Line& line, Pieces dirty, Pieces destaging);
    void set_single(Line& line, bool single);
    void settle(Line& line);
    Volume& volume_of(const Line& line) { return *volumes_[line.key_.volume]; }
    Engine& engine_of(Slot slot) { return engines_[slot.engine.value]; }

    const LineGeometry geometry_;
    LineTable lines_;
    uint64_t reserved_lines_ = 0;  // of these, for lines with slots
    std::array<Engine, kEnginesMax> engines_;
    Placement placement_;
    bool placement_held_ = false;
    std::vector<std::unique_ptr<Volume>> volumes_;
    DirtyLines none_dirty_;  // of volumes that it does not know
    uint64_t dirty_sequence_ = 0;
    uint64_t destage_serial_ = 0;
    uint64_t generation_ = 0;
    uint64_t generation_floor_ = 0;
    uint64_t capacity_lines_ = 0;
    IndexCounters counters_;
};

template <typename Visit>
void Index::for_each(uint64_t first, uint64_t count, Visit&& visit) {
    lines_.visit(first, count, [&visit](Line& line) {
        if (line.state_ != LineState::kAbsent || line.op_count_ != 0) visit(line);
    });
}

}  // namespace wss::cache
