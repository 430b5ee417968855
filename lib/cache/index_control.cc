// SPDX-License-Identifier: Apache-2.0
// The control plane of the index: adds and removes volumes and engines, and reserves memory for them.
#include <algorithm>

#include "lib/base/assert.h"
#include "lib/cache/index.h"

namespace wss::cache {

Index::Index(const IndexOptions& options) : geometry_(options.geometry) {
    lines_.allow(options.transient_lines);
}

Index::~Index() {
    // The owners of operations have left. Lists link only objects of this index.
    WSS_ASSERT(counters_.operations == 0, "every operation leaves before the index is destroyed");
    for (auto& volume : volumes_) volume.reset();
}

void Index::add_volume(uint32_t volume) {
    if (volume >= volumes_.size()) volumes_.resize(volume + 1);
    if (volumes_[volume] == nullptr) volumes_[volume] = std::make_unique<Volume>();
}

Status Index::remove_volume(uint32_t volume) {
    if (volume >= volumes_.size() || volumes_[volume] == nullptr) return Status::ok();
    if (volumes_[volume]->lines != 0)
        return failure(Code::kBusy, "volume number {} still has {} lines in the cache", volume,
                       volumes_[volume]->lines);
    volumes_[volume].reset();
    return Status::ok();
}

Status Index::add_engine(EngineIndex index, const EngineOptions& options) {
    if (!index.exists())
        return failure(Code::kExhausted, "engine number {} is beyond {}", index.value, kEnginesMax);
    Engine& engine = engines_[index.value];
    if (engine.joined) return failure(Code::kExists, "engine number {} has already joined", index.value);
    engine.options = options;
    engine.replacement = std::make_unique<Replacement>(options.slots);
    engine.slots = SlotPool(options.first_slot, options.slots);
    engine.joined = true;
    if (options.slots != 0) placement_.add(index, options.identity, options.weight);
    // At most one line per slot needs an entry. Entries reserved for a lost engine are reused.
    capacity_lines_ += options.slots;
    if (capacity_lines_ > reserved_lines_) {
        lines_.allow(lines_.capacity() + capacity_lines_ - reserved_lines_);
        reserved_lines_ = capacity_lines_;
    }
    return Status::ok();
}

void Index::drain_engine(EngineIndex engine) {
    placement_.remove(engine);
}

Loss Index::lose_engine(EngineIndex index) {
    Loss loss;
    if (!has_engine(index)) return loss;
    placement_.remove(index);
    loss.generation = generation_;
    for_each([this, index, &loss](Line& line) {
        if (!line.held_by(index)) return;
        ++loss.lines;
        const bool first = line.holders_[0].engine == index;
        const bool last = line.copying_ ? first : line.holder_count_ == 1;
        const bool dirty = !line.dirty_.empty();
        loss.dirty_lines += dirty && last;
        loss.second_copies += dirty && !last && !line.copying_;
        const uint64_t generation = line.seen_.generation();
        const uint64_t passed_over = generation <= generation_floor_ ? generation_floor_ : 0;
        if (dirty && last)
            loss.lost.push_back({line.key_, line.dirty_, generation, {passed_over, line.seen_.end()}});
        if (last && line.holder_count_ == 1) return make_absent(line, Replacement::Reason::kForgotten);
        // The copying operation still writes to the other holder, so that holder keeps its slot. It has no
        // data.
        if (last) set_dirty(line, {}, {});
        bool being_erased = line.state_ == LineState::kEvicting || line.state_ == LineState::kWiping;
        bool filling = line.state_ == LineState::kFilling;
        remove_holder(line, first ? 0 : 1, Replacement::Reason::kForgotten);
        if (!being_erased && !filling) settle(line);
        mark_single(line);
    });
    Engine& engine = engines_[index.value];
    capacity_lines_ -= engine.options.slots;
    engine = Engine();
    return loss;
}

bool Index::has_engine(EngineIndex engine) const {
    return engine.exists() && engines_[engine.value].joined;
}

uint32_t Index::slots(EngineIndex engine) const {
    return has_engine(engine) ? engines_[engine.value].options.slots : 0;
}

uint32_t Index::used_slots(EngineIndex engine) const {
    return has_engine(engine) ? engines_[engine.value].slots.used() : 0;
}

uint64_t Index::dirty_lines_on(EngineIndex engine) const {
    return has_engine(engine) ? engines_[engine.value].dirty_lines : 0;
}

bool Index::consistent() {
    IndexCounters counted;
    std::array<uint64_t, kEnginesMax> used{}, primaries{}, dirty{};
    bool good = true;
    for_each([&](Line& line) {
        bool placed = line.holder_count_ != 0;
        counted.lines += placed;
        counted.dirty_lines += !line.dirty_.empty();
        counted.dirty_sub_blocks += line.dirty_.count();
        counted.destaging_lines += !line.destaging_.empty();
        counted.single_lines += line.single_;
        counted.operations += line.op_count_;
        good = good && placed == (line.state_ != LineState::kAbsent) && line.valid_.contains(line.dirty_) &&
               line.dirty_.contains(line.destaging_) && (!line.single_ || !line.dirty_.empty()) &&
               (!line.copying_ || line.holder_count_ == 2) && geometry_.all().contains(line.valid_) &&
               static_cast<ListNode<DirtyOrder>&>(line).linked() ==
                   !line.dirty_.without(line.destaging_).empty() &&
               static_cast<ListNode<DestageOrder>&>(line).linked() == !line.destaging_.empty() &&
               find(line.key_) == &line;
        for (ArenaSlot slot : line.holders()) {
            const Engine& engine = engines_[slot.engine.value];
            good = good && engine.joined && engine.slots.is_taken(slot.number);
            ++used[slot.engine.value];
            dirty[slot.engine.value] += !line.dirty_.empty();
        }
        if (placed) ++primaries[line.holders_[0].engine.value];
    });
    for (uint8_t i = 0; i < kEnginesMax; ++i) {
        if (!engines_[i].joined) continue;
        good = good && used[i] == used_slots({i}) && dirty[i] == dirty_lines_on({i}) &&
               primaries[i] == engines_[i].replacement->resident() && engines_[i].replacement->consistent();
    }
    return good && counted.lines == counters_.lines && counted.dirty_lines == counters_.dirty_lines &&
           counted.dirty_sub_blocks == counters_.dirty_sub_blocks &&
           counted.destaging_lines == counters_.destaging_lines &&
           counted.single_lines == counters_.single_lines && counted.operations == counters_.operations;
}

}  // namespace wss::cache
