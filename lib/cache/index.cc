// SPDX-License-Identifier: Apache-2.0
// Index: lines, their operations, slots and data. Engines and volumes are in index_control.cc.
#include "lib/cache/index.h"

#include <algorithm>

#include "lib/base/assert.h"

namespace wss::cache {

uint32_t Index::shard_of(LineKey key, uint32_t shards) {
    // Groups of 64 lines are long enough for merging and short enough to spread a volume over the shards.
    return shards <= 1 ? 0 : static_cast<uint32_t>(hash({key.volume, key.line >> 6}) % shards);
}

void Index::set_state(Line& line, LineState state) {
    if (line.state_ == state) return;
    WSS_ASSERT(may_follow(line.state_, state), "line.cc lists the permitted transitions");
    line.state_ = state;
}

// --- entries ---

Line* Index::open(LineKey key) {
    if (Line* line = find(key)) return line;
    WSS_ASSERT(key.volume < volumes_.size() && volumes_[key.volume] != nullptr, "add_volume() comes first");
    if (lines_.free() <= (placement_held_ ? reserved_lines_ : 0)) return nullptr;
    return &lines_.add(key);
}

void Index::forget_if_unused(Line& line) {
    if (line.state_ != LineState::kAbsent || line.op_count_ != 0) return;
    line.generation_ = 0;
    lines_.remove(line);
}

// --- operations ---

bool Index::enter(Line& line, LineOp& op) {
    WSS_ASSERT(op.line_ == nullptr, "an operation is on one line at a time");
    WSS_ASSERT(line.op_count_ < UINT16_MAX, "operations are bounded by the requests outstanding");
    op.line_ = &line;
    ++counters_.operations;
    return line.admit(op);
}

bool Index::enter_beside(Line& line, LineOp& op) {
    WSS_ASSERT(op.line_ == nullptr, "an operation is on one line at a time");
    op.sub_blocks = geometry().all();
    if (!line.admit_beside(op)) return false;
    op.line_ = &line;
    ++counters_.operations;
    return true;
}

bool Index::resume(LineOp& op) {
    WSS_ASSERT(op.granted_, "the operation has been granted");
    return op.line_->readmit(op);
}

void Index::leave(LineOp& op, Granted& granted) {
    Line& line = *op.line_;
    line.dismiss(op, granted);
    op.line_ = nullptr;
    --counters_.operations;
    if (line.op_count_ != 0) return;
    if (line.holder_count_ > 1 && line.state_ == LineState::kClean)
        remove_holder(line, 1, Replacement::Reason::kForgotten);
    forget_if_unused(line);
}

// --- holders and slots ---

void Index::add_holder(Line& line, ArenaSlot slot) {
    Engine& engine = engine_of(slot);
    line.holders_[line.holder_count_++] = slot;
    engine.dirty_lines += !line.dirty_.empty();
    if (line.holder_count_ != 1) return;
    line.replacement_node_ = engine.replacement->insert(line.key_, &line);
    ++volume_of(line).lines;
    ++counters_.lines;
}

void Index::remove_holder(Line& line, uint32_t which, Replacement::Reason reason) {
    ArenaSlot slot = line.holders_[which];
    if (which == 0) {
        engine_of(slot).replacement->remove(line.replacement_node_, reason);
        line.replacement_node_ = Replacement::kNone;
    }
    engine_of(slot).slots.give_back(slot.number);
    engine_of(slot).dirty_lines -= !line.dirty_.empty();
    --line.holder_count_;
    line.copying_ = false;
    if (which == 0 && line.holder_count_ > 0) {
        // The second copy has only the dirty sub-blocks.
        line.holders_[0] = line.holders_[1];
        line.valid_ &= line.dirty_;
        line.replacement_node_ = engine_of(line.holders_[0]).replacement->insert(line.key_, &line);
    } else if (line.holder_count_ == 0) {
        --volume_of(line).lines;
        --counters_.lines;
    }
}

void Index::make_absent(Line& line, Replacement::Reason reason) {
    set_dirty(line, {}, {});
    line.valid_ = {};
    line.read_ahead_ = false;
    while (line.holder_count_ > 0) remove_holder(line, line.holder_count_ - 1u, reason);
    set_state(line, LineState::kAbsent);
    forget_if_unused(line);
}

bool Index::evict_for(Engine& engine, Line& for_line) {
    void* owner = engine.replacement->victim([&for_line](void* candidate) {
        Line& line = *static_cast<Line*>(candidate);
        return &line != &for_line && line.idle() && line.state_ == LineState::kClean;
    });
    if (owner == nullptr) return false;
    ++counters_.evictions;
    make_absent(*static_cast<Line*>(owner), Replacement::Reason::kEvicted);
    return true;
}

bool Index::take_slot(EngineIndex index, Line& for_line, ArenaSlot& slot) {
    Engine& engine = engines_[index.value];
    if (engine.slots.full() && !evict_for(engine, for_line)) return false;
    slot = {index, engine.slots.take()};
    return true;
}

Placed Index::place(Line& line, uint32_t copies) {
    WSS_ASSERT(copies >= 1 && copies <= kHoldersMax && !line.idle(), "X1; one or two copies");
    WSS_ASSERT(line.state_ != LineState::kEvicting && line.state_ != LineState::kWiping,
               "it is being erased");
    if (line.holder_count_ >= copies) return Placed::kDone;
    if (placement_held_) return Placed::kNoEngine;
    std::array<ArenaSlot, kHoldersMax> taken;
    uint32_t missing = copies - line.holder_count_, found = 0, candidates = 0;
    const Ranking ranking = placement_.rank(line.key_, kEnginesMax);
    for (uint32_t i = 0; i < ranking.count && found < missing; ++i) {
        if (line.held_by(ranking.engines[i])) continue;
        ++candidates;
        found += take_slot(ranking.engines[i], line, taken[found]);
    }
    if (found < missing) {
        for (uint32_t i = 0; i < found; ++i) engine_of(taken[i]).slots.give_back(taken[i].number);
        ++counters_.no_room;
        return candidates < missing ? Placed::kNoEngine : Placed::kNoRoom;
    }
    if (line.state_ == LineState::kAbsent) set_state(line, LineState::kFilling);
    for (uint32_t i = 0; i < missing; ++i) add_holder(line, taken[i]);
    return Placed::kDone;
}

EngineIndex Index::first_choice(const Line& line) const {
    if (line.holder_count_ > 0) return line.holders_[0].engine;
    return placeable_engines() == 0 ? EngineIndex{} : placement_.best(line.key_);
}

bool Index::place_at(Line& line, ArenaSlot slot, uint64_t generation) {
    if (!has_engine(slot.engine) || line.holder_count_ == kHoldersMax || line.held_by(slot.engine))
        return false;
    if (!engine_of(slot).slots.take(slot.number)) return false;
    if (line.state_ == LineState::kAbsent) set_state(line, LineState::kFilling);
    line.generation_ = std::max(line.generation_, generation);
    add_holder(line, slot);
    return true;
}

void Index::drop_copy(Line& line, EngineIndex engine) {
    if (!line.held_by(engine)) return;
    WSS_ASSERT(!line.copying_, "end_copy() comes first");
    if (line.holder_count_ == 1) return make_absent(line, Replacement::Reason::kForgotten);
    remove_holder(line, line.holders_[0].engine == engine ? 0 : 1, Replacement::Reason::kForgotten);
    settle(line);
}

// --- dirty lines with one copy left ---

void Index::set_single(Line& line, bool single) {
    if (line.single_ == single) return;
    line.single_ = single;
    uint64_t& of_volume = volume_of(line).dirty.single_;
    of_volume = single ? of_volume + 1 : of_volume - 1;
    counters_.single_lines = single ? counters_.single_lines + 1 : counters_.single_lines - 1;
}

void Index::mark_single(Line& line) {
    if (!line.dirty_.empty()) set_single(line, true);
}

Placed Index::begin_copy(Line& line) {
    WSS_ASSERT(!line.dirty_.empty() && line.holder_count_ == 1, "one copy exists, and it has dirty data");
    WSS_ASSERT(!line.clearing_, "a line that is about to be clean needs no second copy");
    const Placed placed = place(line, 2);
    line.copying_ = placed == Placed::kDone;
    return placed;
}

void Index::end_copy(Line& line, ArenaSlot second, bool made) {
    if (!line.copying_ || line.holders_[1] != second) return;
    WSS_ASSERT(!made || !(line.dirty_.empty() || line.clearing_),
               "clearing the copies would miss the new one");
    line.copying_ = false;
    made ? set_single(line, false) : remove_holder(line, 1, Replacement::Reason::kForgotten);
}

void Index::read_ahead(Line& line) {
    line.read_ahead_ = true;
}

void Index::touch(Line& line, SubBlocks touched) {
    if (line.read_ahead_) {
        // The sequential reader has finished the line with its last sub-block.
        const SubBlocks last{uint64_t{1} << (geometry().sub_blocks() - 1)};
        if (touched.overlaps(last)) line.read_ahead_ = false;
        return;
    }
    if (line.holder_count_ != 0) engine_of(line.holders_[0]).replacement->touch(line.replacement_node_);
}

// --- data ---

uint64_t Index::stamp(Line& line) {
    return line.generation_ = ++generation_;
}

// The only place where dirty bits change; it keeps counters and lists consistent. A caller that adds bits
// links the line into the dirty list first.
void Index::set_dirty(Line& line, SubBlocks dirty, SubBlocks destaging) {
    DirtyLines& lines = volume_of(line).dirty;
    bool was = !line.dirty_.empty(), is = !dirty.empty();
    bool was_moving = !line.destaging_.empty(), is_moving = !destaging.empty();
    counters_.dirty_sub_blocks = counters_.dirty_sub_blocks + dirty.count() - line.dirty_.count();
    counters_.dirty_lines = counters_.dirty_lines + is - was;
    lines.count_ = lines.count_ + is - was;
    if (is != was)
        for (ArenaSlot slot : line.holders())
            engine_of(slot).dirty_lines = engine_of(slot).dirty_lines + is - was;
    counters_.destaging_lines = counters_.destaging_lines + is_moving - was_moving;
    if (is_moving && !was_moving) lines.destaging_.push_back(line);
    if (!is_moving) static_cast<ListNode<DestageOrder>&>(line).unlink();
    line.dirty_ = dirty;
    line.destaging_ = destaging;
    if (!is) set_single(line, false);
    if (!is_moving) line.clearing_ = false;
    if (dirty.without(destaging).empty()) static_cast<ListNode<DirtyOrder>&>(line).unlink();
}

// Sets the state that follows from the bitmaps. Must not be called for lines that are being erased.
void Index::settle(Line& line) {
    if (!line.destaging_.empty())
        set_state(line, LineState::kDestaging);
    else if (!line.dirty_.empty())
        set_state(line, LineState::kDirty);
    else
        set_state(line, LineState::kClean);
}

bool Index::filled(Line& line, SubBlocks sub_blocks) {
    if (line.holder_count_ == 0) return false;
    line.valid_ |= sub_blocks;
    settle(line);
    return true;
}

bool Index::written(Line& line, SubBlocks sub_blocks, Nanoseconds now) {
    if (line.holder_count_ == 0) return false;
    WSS_ASSERT(!line.destaging_.overlaps(sub_blocks), "a write waits for the destaging of its sub-blocks");
    line.valid_ |= sub_blocks;
    if (!static_cast<ListNode<DirtyOrder>&>(line).linked() && !sub_blocks.empty()) {
        // Append without a search: no line is newer.
        line.dirty_since_ = now;
        line.dirty_sequence_ = ++dirty_sequence_;
        volume_of(line).dirty.waiting_.push_back(line);
    }
    set_dirty(line, line.dirty_ | sub_blocks, line.destaging_);
    line.seen_.set(line.generation_);
    settle(line);
    return true;
}

void Index::cleaned(Line& line, SubBlocks sub_blocks) {
    if (line.holder_count_ == 0) return;
    set_dirty(line, line.dirty_.without(sub_blocks), line.destaging_.without(sub_blocks));
    settle(line);
}

void Index::invalidate(Line& line, SubBlocks sub_blocks) {
    if (line.holder_count_ == 0) return;
    line.valid_ = line.valid_.without(sub_blocks);
    cleaned(line, sub_blocks);
}

// --- destaging ---

Index::Destage Index::begin_destage(Line& line) {
    WSS_ASSERT(line.state_ == LineState::kDirty, "dirty, and not being destaged already");
    line.destage_sequence_ = line.dirty_sequence_;
    line.destage_since_ = line.dirty_since_;
    line.destage_serial_ = ++destage_serial_;
    set_dirty(line, line.dirty_, line.dirty_);
    settle(line);
    return {line.destaging_, line.destage_serial_};
}

void Index::begin_clear(Line& line, const Destage& destage) {
    if (line.destage_serial_ == destage.serial && !line.destaging_.empty()) line.clearing_ = true;
}

void Index::end_destage(Line& line, const Destage& destage, Destaged result) {
    if (line.destage_serial_ != destage.serial || line.destaging_.empty()) return;
    if (result == Destaged::kStable) {
        set_dirty(line, line.dirty_.without(line.destaging_), {});
    } else {
        // Restore the age: a flush may wait for the line.
        line.dirty_since_ = line.destage_since_;
        line.dirty_sequence_ = line.destage_sequence_;
        volume_of(line).dirty.defer(line);
        set_dirty(line, line.dirty_, {});
    }
    settle(line);
}

// --- erasing ---

void Index::begin_erase(Line& line, LineState how) {
    WSS_ASSERT(how == LineState::kEvicting || how == LineState::kWiping, "an erasure evicts or wipes a line");
    if (line.holder_count_ == 0) return;
    set_dirty(line, {}, {});
    line.valid_ = {};
    set_state(line, how);
}

void Index::erased(Line& line) {
    if (line.state_ != LineState::kEvicting && line.state_ != LineState::kWiping) return;
    make_absent(line, Replacement::Reason::kForgotten);
}

// --- dirty lines ---

DirtyLines& Index::dirty(uint32_t volume) {
    return volume < volumes_.size() && volumes_[volume] != nullptr ? volumes_[volume]->dirty : none_dirty_;
}

uint64_t Index::dirty_lines(uint32_t volume) const {
    return volume < volumes_.size() && volumes_[volume] != nullptr ? volumes_[volume]->dirty.count() : 0;
}

void Index::set_generation_floor(uint64_t generation) {
    generation_floor_ = generation_ = std::max(generation_, generation);
}

}  // namespace wss::cache
