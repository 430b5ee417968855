// SPDX-License-Identifier: Apache-2.0
// Index: the map of the cache. It records where each line is, which of its sub-blocks are valid and dirty,
// and the operations on it, and it chooses the lines to evict. It manages volumes, engines and lines. It
// moves no data: its caller does that and reports the result.
//
// Life of a line, in the calls of this class:
//   read that misses  open, enter(exclusive), rest … storage has read the data … resume, place, fill the copy
//                     and answer the client, filled(), leave
//   read that hits    find, enter(shared), touch … the primary answers the client … leave
//   write-back        open, enter(exclusive), place(2), stamp … both holders have the data … written(), leave
//   destaging         enter(shared, the dirty sub-blocks), begin_destage … storage has them, begin_clear,
//                     the holders have cleared their dirty bits (H3) … end_destage, leave
//   eviction          place() takes the slots of the first line to evict that is clean and idle
//
// The second copy of a line contains its dirty sub-blocks and nothing else: only the primary serves reads.
// The copy is dropped when the line is clean and its last operation leaves. If it is lost earlier, a new one
// is created:
//   enter_beside, begin_copy … the new holder has the dirty sub-blocks … end_copy, leave
//
// Rules
//  X1  Only an operation that has entered a line may place it or report changes to its data, and only to the
//      sub-blocks that it names. filled(), written() and invalidate() need exclusive access. There is one
//      exception: invalidate() needs no operation for sub-blocks that are not dirty if the line is clean,
//      dirty or destaging.
//  X2  A pointer to a Line is valid while an operation is on the line, or until the next call that could
//      evict it: place(), lose_engine(), leave() of its last operation.
//  X3  Memory is allocated in blocks, as lines and slots are first used. No call takes longer with a larger
//      cache, except those documented to walk the index.
//
// Thread-safety: an Index and everything in it belong to one thread. A target has one Index, on its first
// reactor. Several indexes could share the engines: each would own the lines of a shard (shard_of())
// and a range of every engine's slots.
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
    // Entries for lines without slots that have operations: misses and writes around the cache. Must be at
    // least the maximum number of outstanding operations.
    uint32_t transient_lines = 4096;
};

struct EngineOptions {
    uint64_t identity = 0;  // permanent: the same each time the engine returns
    uint64_t weight = 1;    // used for placement: its memory, in a unit common to all engines
    uint32_t first_slot = 0;
    uint32_t slots = 0;  // this index owns [first_slot, first_slot + slots)
};

// The result of losing an engine.
struct LostLine {
    LineKey key;
    SubBlocks sub_blocks;     // the dirty ones
    uint64_t generation = 0;  // that of the newest change that a reader may have seen
    LossBounds bounds;
};
struct Loss {
    uint64_t lines = 0;          // lines with a copy in the engine
    uint64_t dirty_lines = 0;    // dirty lines among them whose last copy was there
    uint64_t second_copies = 0;  // dirty lines that have one copy left: destage them at once
    std::vector<LostLine> lost;  // one entry for each of dirty_lines
    uint64_t generation = 0;     // no copy of any line has a newer one
};

struct IndexCounters {
    uint64_t lines = 0;  // lines with slots
    uint64_t dirty_lines = 0;
    uint64_t dirty_sub_blocks = 0;
    uint64_t destaging_lines = 0;
    uint64_t single_lines = 0;  // mark_single()
    uint64_t operations = 0;    // entered and not left
    uint64_t evictions = 0;     // evictions since the start
    uint64_t no_room = 0;       // calls of place() since the start that found too few slots
};

enum class Placed : uint8_t {
    kDone,      // the line has at least the requested number of holders
    kNoRoom,    // every candidate for eviction is in use or dirty: destage, or bypass the cache
    kNoEngine,  // fewer engines than requested copies, or hold_placement() is in effect
};

class Index {
  public:
    explicit Index(const IndexOptions& options);
    ~Index();
    Index(const Index&) = delete;
    Index& operator=(const Index&) = delete;

    const LineGeometry& geometry() const { return geometry_; }
    // Returns which of the `shards` shards owns a line. Groups of adjacent lines are in one shard, so that
    // their destaging can be merged.
    static uint32_t shard_of(LineKey key, uint32_t shards);

    // --- volumes and engines: control plane, may allocate
    void add_volume(uint32_t volume);
    // Requires that the volume has no lines (wipe them first).
    Status remove_volume(uint32_t volume);
    Status add_engine(EngineIndex engine, const EngineOptions& options);
    // The engine receives no new lines. Its lines stay until they are moved or evicted.
    void drain_engine(EngineIndex engine);
    // The engine's memory is gone or may no longer be used. Operations on its lines stay entered; the fabric
    // reports failures to their owners. A line whose last copy was there becomes absent. If that copy was
    // being copied (begin_copy()), the line keeps the slot of the second holder, without valid data. Walks
    // the whole index.
    Loss lose_engine(EngineIndex engine);
    // While held, no line is placed, because the slots in use are not yet known (recovery.h), and open() does
    // not use the entries that are reserved for lines with slots.
    void hold_placement(bool held) { placement_held_ = held; }
    bool has_engine(EngineIndex engine) const;
    uint32_t placeable_engines() const { return placement_held_ ? 0 : placement_.count(); }
    uint32_t used_slots(EngineIndex engine) const;
    uint32_t slots(EngineIndex engine) const;

    // --- lines
    Line* find(LineKey key) const { return lines_.find(key); }
    // Returns the line's entry, adding an absent one if needed. nullptr if no entry is free, or, while
    // placement is held, no transient one. This is a limit, not an error: the caller waits or rejects the
    // command.
    Line* open(LineKey key);
    // True if the operation may run now. Otherwise a later leave() returns it among Granted.
    bool enter(Line& line, LineOp& op);
    // Enters shared, on all sub-blocks, at once and ahead of the waiting operations. False if an exclusive
    // operation is granted and not resting (L3), if the line is clearing(), or if another operation has
    // already entered with enter_beside().
    bool enter_beside(Line& line, LineOp& op);
    // Ends a rest (L3). True if the operation may run now. Otherwise a later leave() returns it among
    // Granted, when the copying operation has ended. That operation waits only for engines.
    bool resume(LineOp& op);
    // May remove the entry: an absent line without operations is forgotten.
    void leave(LineOp& op, Granted& granted);
    // Each line has a position, which it keeps. Incremental walks visit some positions in each turn.
    uint64_t places() const { return lines_.places(); }
    // The lines at [first, first + count). `visit(Line&)` may not open or place lines.
    template <typename Visit>
    void for_each(uint64_t first, uint64_t count, Visit&& visit);
    // All lines. Walks the whole index: control plane only.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for_each(0, places(), visit);
    }

    // --- room
    // Gives the line slots in `copies` engines; it keeps those that it has. Evicts clean idle lines if
    // needed. All or nothing.
    Placed place(Line& line, uint32_t copies);
    // Gives a line that was found after a restart (recovery.h) the slot of its copy, which has this
    // generation. False if the slot is taken or its engine is not joined, or if the line has a copy in that
    // engine or kHoldersMax holders.
    bool place_at(Line& line, ArenaSlot slot, uint64_t generation = 0);
    // The primary of the line. If it has none: the first engine that place(line, 1) tries, or no engine.
    EngineIndex first_choice(const Line& line) const;
    // Drops one copy. Its slot is free at once, so its header must no longer have dirty bits (H3).
    void drop_copy(Line& line, EngineIndex engine);

    // --- dirty lines with one copy left
    // Records that only one of the two copies of the dirty sub-blocks is certain to exist, until these are in
    // real storage or copied. No effect on a clean line.
    void mark_single(Line& line);
    // Adds a second holder to a dirty line that has one. It has no data yet, so it is not a copy: if the
    // first holder is lost now, the dirty data is lost. Only an operation that has entered with
    // enter_beside() may call this. It must call end_copy() before it leaves.
    Placed begin_copy(Line& line);
    // Ends the copy in this slot. `made` means that it has all data that is dirty now. No effect if a holder
    // has been lost since begin_copy().
    void end_copy(Line& line, ArenaSlot second, bool made);

    // A client read or wrote these sub-blocks; this feeds the replacement policy. A sequential reader's pass
    // over a line for which read_ahead() was called does not count as a use.
    void touch(Line& line, SubBlocks touched);
    // Read-ahead has loaded the line.
    void read_ahead(Line& line);

    // --- changes to its data
    // The generation of the next change of the line, to be sent to its holders with the data.
    uint64_t stamp(Line& line);
    // filled() and written() return false and have no effect if the line has lost its last holder.
    bool filled(Line& line, SubBlocks sub_blocks);
    bool written(Line& line, SubBlocks sub_blocks, Nanoseconds now);
    // The sub-blocks are no longer valid or dirty: they were discarded, or a copy of them failed. A line
    // without valid sub-blocks keeps its slots until it is evicted.
    void invalidate(Line& line, SubBlocks sub_blocks);
    // The sub-blocks are no longer dirty, although no destaging has ended: the holders have cleared their
    // dirty bits (H3).
    void cleaned(Line& line, SubBlocks sub_blocks);

    // --- destaging; the operation is shared and names at least dirty()
    struct Destage {
        SubBlocks sub_blocks;  // what to write to real storage: dirty() at the time of the call
        uint64_t serial = 0;
    };
    enum class Destaged : uint8_t { kStable, kFailed };
    // Requires kDirty.
    Destage begin_destage(Line& line);
    // Real storage has the sub-blocks. The existing copies clear their dirty bits next, and no new copy may
    // be created.
    void begin_clear(Line& line, const Destage& destage);
    // After a failure the sub-blocks are dirty as before, and the line is deferred (dirty_lines.h). No effect
    // if the line has lost its last holder.
    void end_destage(Line& line, const Destage& destage, Destaged result);

    // --- erasing every copy, because the volume is removed or reopened, or the line is beyond the volume's
    // end. The operation is exclusive and names all sub-blocks. No part of the line is valid after
    // begin_erase(). Its slots are free after erased().
    void begin_erase(Line& line, LineState how);  // kEvicting or kWiping
    void erased(Line& line);

    // --- dirty lines of a volume, oldest first
    // For flushes: when dirty(volume).flushed(mark) is true, nothing that was written() before flush_mark()
    // returned the mark is still dirty.
    uint64_t flush_mark() const { return dirty_sequence_; }
    // An empty list for an unknown volume. Valid until remove_volume().
    DirtyLines& dirty(uint32_t volume);
    uint64_t dirty_lines(uint32_t volume) const;
    uint64_t dirty_lines_on(EngineIndex engine) const;

    // stamp() returns only generations above `generation`, which exceeds every generation that recovery has
    // seen and every one that unseen copies may have. Unseen copies that are newer than the restored one are
    // not valid (lost.h).
    void set_generation_floor(uint64_t generation);
    const IndexCounters& counters() const { return counters_; }
    uint64_t capacity_lines() const { return capacity_lines_; }
    // For tests: true if every counter matches a recount and every slot has one owner.
    bool consistent();

  private:
    struct Engine {
        EngineOptions options;
        std::unique_ptr<Replacement> replacement;  // policy for the lines of which this engine is the primary
        SlotPool slots;
        uint64_t dirty_lines = 0;  // lines with a copy in it
        bool joined = false;
    };
    struct Volume {
        DirtyLines dirty;
        uint64_t lines = 0;  // lines with slots
    };

    void set_state(Line& line, LineState state);
    void forget_if_unused(Line& line);
    bool take_slot(EngineIndex index, Line& for_line, ArenaSlot& slot);
    bool evict_for(Engine& engine, Line& for_line);
    void add_holder(Line& line, ArenaSlot slot);
    void remove_holder(Line& line, uint32_t which, Replacement::Reason reason);
    void make_absent(Line& line, Replacement::Reason reason);
    void set_dirty(Line& line, SubBlocks dirty, SubBlocks destaging);
    void set_single(Line& line, bool single);
    void settle(Line& line);
    Volume& volume_of(const Line& line) { return *volumes_[line.key_.volume]; }
    Engine& engine_of(ArenaSlot slot) { return engines_[slot.engine.value]; }

    const LineGeometry geometry_;
    LineTable lines_;
    uint64_t reserved_lines_ = 0;  // the part of lines_ that is reserved for lines with slots
    std::array<Engine, kEnginesMax> engines_;
    Placement placement_;
    bool placement_held_ = false;
    std::vector<std::unique_ptr<Volume>> volumes_;
    DirtyLines none_dirty_;  // the list of an unknown volume
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
