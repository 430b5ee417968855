// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/recovery.h"

#include <algorithm>

#include "lib/base/assert.h"

namespace wss::cache {

// The generation of a line that was filled and never written. No dirty copy has an older one.
constexpr uint64_t kFillGeneration = 1;

// ---- While engines join ----------------------------------------------------------------------------------

void Recovery::add_header(ArenaSlot slot, uint64_t incarnation,
                          std::span<const std::byte, kHeaderBytes> bytes) {
    ParsedHeader parsed = parse_header(bytes);
    if (parsed.fault == HeaderFault::kEmpty) return;
    ++report_.headers;
    const LineHeader& header = parsed.header;
    const bool refused = parsed.fault != HeaderFault::kNone || header.line_shift != geometry_.shift();
    const bool foreign = !refused && header.incarnation != incarnation;
    report_.refused += refused;
    report_.foreign += foreign;
    if (refused || foreign) return losers_.push_back({.slot = slot});
    newest_ = std::max(newest_, header.generation);
    header.dirty.empty() ? add_clean(slot, header) : add_dirty(slot, header);
}

// Compares again after the first dirty copy of a line: clean copies of the line may have been compared
// before, without effect.
void Recovery::add_dirty(ArenaSlot slot, const LineHeader& header) {
    auto [found, added] = found_.try_emplace({header.volume, header.line});
    found->second.copies.push_back({slot, header.generation, header.dirty});
    if (added) compare_anew();
}

void Recovery::add_clean(ArenaSlot slot, const LineHeader& header) {
    const uint32_t volume = number_of(header.volume);
    if (wwids_[volume].is_known && header.generation <= kFillGeneration) return;
    clean_[slot.engine].copies.push_back({header.line, header.generation, volume, slot.number});
}

uint32_t Recovery::number_of(uint64_t wwid) {
    auto [number, added] = numbers_.try_emplace(wwid, static_cast<uint32_t>(wwids_.size()));
    if (added) wwids_.push_back({wwid, is_known_(wwid)});
    return number->second;
}

void Recovery::compare_anew() {
    for (auto& [engine, clean] : clean_) clean.compared = 0;
}

void Recovery::forget(EngineIndex engine) {
    const auto is_there = [engine](const auto& copy) { return copy.slot.engine == engine; };
    std::erase_if(losers_, is_there);
    clean_.erase(engine);
    compare_anew();
    for (auto& [key, found] : found_) {
        std::erase_if(found.copies, is_there);
        found.clean_generation = 0;
    }
}

void Recovery::compare(size_t count) {
    for (auto& [engine, clean] : clean_)
        for (; count > 0 && clean.compared < clean.copies.size(); --count) {
            const Clean& copy = clean.copies[clean.compared++];
            auto found = found_.find({wwids_[copy.volume].wwid, copy.line});
            if (found == found_.end()) continue;
            uint64_t& newest = found->second.clean_generation;
            newest = std::max(newest, copy.generation);
        }
}

bool Recovery::compared() const {
    return std::all_of(clean_.begin(), clean_.end(), [](const auto& engine) {
        return engine.second.compared == engine.second.copies.size();
    });
}

// ---- When all engines have joined ------------------------------------------------------------------------

void Recovery::add_volume(uint64_t wwid, uint32_t volume, uint64_t bytes, bool may_be_dirty) {
    volumes_[wwid] = {volume, bytes, may_be_dirty};
}

// True if the volume is deleted or ends before the line.
bool Recovery::is_gone(uint64_t wwid, uint64_t line) const {
    auto volume = volumes_.find(wwid);
    return volume == volumes_.end() || line >= geometry_.lines(volume->second.bytes);
}

bool Recovery::better(const Copy& a, const Copy& b) {
    if (a.generation != b.generation) return a.generation > b.generation;
    if (a.dirty.count() != b.dirty.count()) return a.dirty.count() > b.dirty.count();
    // A total order, so that every recovery chooses the same copy.
    return a.slot.engine != b.slot.engine ? a.slot.engine < b.slot.engine : a.slot.number < b.slot.number;
}

void Recovery::restore_line(Index& index, const Key& key, Found& found) {
    std::vector<Copy>& copies = found.copies;
    if (copies.empty()) return;  // its engines were lost
    const bool gone = is_gone(key.wwid, key.line);
    bool restored = false;
    if (gone) {
        report_.unknown_volume += copies.size();
    } else if (const VolumeInfo& volume = volumes_.at(key.wwid); volume.may_be_dirty) {
        std::sort(copies.begin(), copies.end(), better);
        const bool beaten = found.clean_generation > copies.front().generation;
        report_.older += copies.size() - !beaten;
        restored = !beaten && restore_copy(index, {volume.volume, key.line}, copies.front());
    }
    for (size_t i = restored; i < copies.size(); ++i) losers_.push_back({copies[i].slot, gone});
}

bool Recovery::restore_copy(Index& index, LineKey key, const Copy& copy) {
    Line* line = index.open(key);
    if (line == nullptr) return false;
    LineOp op;
    op.sub_blocks = index.geometry().all();
    op.access = Access::kExclusive;
    index.enter(*line, op);
    const bool placed = index.place_at(*line, copy.slot, copy.generation);
    if (placed) {
        index.filled(*line, copy.dirty);
        index.written(*line, copy.dirty, Nanoseconds{});
        index.mark_single(*line);
        ++report_.dirty_lines;
    }
    Granted granted;
    index.leave(op, granted);
    return placed;
}

// An engine that is absent from the recovery may have seen generations that this recovery has not. This is
// more generations than a target assigns in days.
constexpr uint64_t kUnseenGenerations = uint64_t{1} << 44;

RecoveryReport Recovery::restore(Index& index) {
    WSS_ASSERT(compared(), "a newer clean copy may supersede the restored data");
    index.set_generation_floor(newest_ + kUnseenGenerations);
    for (auto& [key, found] : found_) restore_line(index, key, found);
    found_.clear();
    return report_;
}

// ---- After restore() -------------------------------------------------------------------------------------

std::optional<Recovery::Loser> Recovery::next_loser(size_t& looks) {
    if (!losers_.empty()) {
        const Loser loser = losers_.front();
        losers_.pop_front();
        return loser;
    }
    while (!clean_.empty() && looks > 0) {
        auto& [engine, clean] = *clean_.begin();
        if (clean.copies.empty()) {
            clean_.erase(clean_.begin());
            continue;
        }
        --looks;
        const Clean copy = clean.copies.front();
        clean.copies.pop_front();
        if (is_gone(wwids_[copy.volume].wwid, copy.line)) return Loser{{engine, copy.slot}, true};
    }
    return std::nullopt;
}

}  // namespace wss::cache
