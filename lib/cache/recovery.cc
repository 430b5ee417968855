// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/recovery.h"

#include <algorithm>

namespace wss::cache {

void Recovery::add_volume(uint64_t wwid, uint32_t volume, uint64_t bytes, bool may_be_dirty) {
    volumes_[wwid] = {volume, bytes, may_be_dirty};
}

void Recovery::add_header(Slot slot, uint64_t incarnation, std::span<const std::byte, kHeaderBytes> bytes) {
    ParsedHeader parsed = parse_header(bytes);
    if (parsed.fault == HeaderFault::kEmpty) return;
    ++report_.headers;
    const LineHeader& header = parsed.header;
    if (parsed.fault != HeaderFault::kNone || header.line_shift != geometry_.shift()) {
        ++report_.refused;
        return erase_.push_back(slot);
    }
    if (header.incarnation != incarnation) {
        ++report_.foreign;
        return erase_.push_back(slot);
    }
    newest_ = std::max(newest_, header.generation);
    auto volume = volumes_.find(header.volume);
    if (volume == volumes_.end() || header.line >= geometry_.lines(volume->second.bytes)) {
        ++report_.unknown_volume;
        return wipe_.push_back(slot);
    }
    if (!volume->second.may_be_dirty) return erase_.push_back(slot);
    found_[{volume->second.volume, header.line}].push_back({slot, header.generation, header.dirty});
}

bool Recovery::better(const Copy& a, const Copy& b) {
    if (a.generation != b.generation) return a.generation > b.generation;
    if (a.dirty.count() != b.dirty.count()) return a.dirty.count() > b.dirty.count();
    // The same for whoever asks.
    return a.slot.engine != b.slot.engine ? a.slot.engine < b.slot.engine : a.slot.number < b.slot.number;
}

void Recovery::restore_line(Index& index, LineKey key, std::vector<Copy>& copies) {
    std::sort(copies.begin(), copies.end(), better);
    report_.older += copies.size() - 1;
    for (size_t i = 1; i < copies.size(); ++i) erase_.push_back(copies[i].slot);
    const Copy& best = copies.front();
    Line* line = best.dirty.empty() ? nullptr : index.open(key);
    if (line == nullptr) return erase_.push_back(best.slot);
    LineOp op;
    op.pieces = index.geometry().all();
    op.access = Access::kExclusive;
    index.enter(*line, op);
    if (index.place_at(*line, best.slot, best.generation)) {
        index.filled(*line, best.dirty);
        index.written(*line, best.dirty, Nanoseconds{});
        index.mark_single(*line);
        ++report_.dirty_lines;
    } else {
        erase_.push_back(best.slot);
    }
    Granted granted;
    index.leave(op, granted);
}

// More than a target stamps in days, should one that recovery does without have all of them.
constexpr uint64_t kUnseenGenerations = uint64_t{1} << 44;

RecoveryReport Recovery::restore(Index& index) {
    index.set_generation_floor(newest_ + kUnseenGenerations);
    for (auto& [key, copies] : found_) restore_line(index, key, copies);
    found_.clear();
    return report_;
}

}  // namespace wss::cache
