// SPDX-License-Identifier: Apache-2.0
// A volume becomes smaller. What engines hold beyond the new end must not come back when the volume grows
// again, neither from an engine nor by a restart, and must not be brought home over what is there then.
//
// Commands that were admitted before hold their lines; those that come to their lines later fail. So each
// line beyond the end is entered, then wiped. Of the line in which the volume ends, headers are made to say
// that the pieces beyond count no more; the rest of a dirty piece that lies on both sides is zeroed.
#include "lib/base/log.h"
#include "lib/cache/header.h"
#include "target/cache/cache.h"
#include "target/cache/destage.h"

namespace wss::se {

using cache::Pieces;
using wire::CacheStatus;

bool Cache::beyond_end(const Work& work) const noexcept {
    return work.offset + work.length > work.volume->open->volume().size();
}

// What a recovery finds is not known before it is over.
void Cache::shrink_volume(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink) {
    look_due(volume);
    auto cut = [this, &volume, shrink = std::move(shrink)] { cut_lines(volume, shrink); };
    waits(volume) ? postpone(after_recovery_, volume, std::move(cut)) : cut();
}

void Cache::cut_lines(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink) {
    const Gate::Holder place = volume.gate.enter();
    if (!place || holds(volume)) return;
    const uint64_t bytes = volume.open->volume().size();
    auto left = std::make_shared<uint64_t>(1);
    auto ended = [this, &volume, shrink, left] {
        if (--*left == 0) lines_cut(volume, shrink);
    };
    for (const cache::LineKey& key : lines_in(volume.number, bytes, UINT64_MAX)) {
        cache::Line* line = index_->find(key);
        if (line == nullptr) continue;
        auto erase = erase_of(*line);
        const uint64_t start = geometry_.start_of(key.line);
        erase->keep = start < bytes ? static_cast<uint32_t>(bytes - start) : 0;
        erase->wwid = volume.open->volume().wwid();
        erase->place = place.share();
        erase->ended = ended;
        ++*left;
        begin_erase(std::move(erase));
    }
    ended();
}

// Of engines that were lost meanwhile it must be stable that they are no members.
void Cache::lines_cut(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink) {
    if (volume.removed()) return;
    const volume::Volume& open = volume.open->volume();
    const cache::Span last = geometry_.first_span(open.size() - 1, 1);
    const Pieces left{geometry_.touched({.line = last.line, .offset = 0, .length = last.offset + 1})};
    if (membership_.lost.cut(open.wwid(), last.line, left)) {
        if (membership_.lost.empty()) membership_.away.clear();
        save_membership();
    }
    note_dirty(volume, volume.may_be_dirty);
    when_saved(volume, [&volume, shrink] {
        if (shrink != nullptr && !volume.removed()) shrink->done();
    });
}

void Cache::trim(Erase& erase) noexcept {
    cache::Line& line = *erase.line;
    const uint32_t keep = erase.keep;
    const cache::Span tail{.line = line.key().line, .offset = keep, .length = geometry_.line_bytes() - keep};
    const Pieces split = geometry_.touched(tail).without(geometry_.covered(tail)) & line.dirty();
    index_->invalidate(line, geometry_.touched(tail).without(split));
    const uint64_t generation = index_->stamp(line);
    erase.outstanding = 1;
    uint32_t which = 0;
    for (const cache::Slot& slot : line.holders()) {
        EngineLink& engine = *link(slot.engine);
        Transfer& transfer = erase.transfers[which];
        transfer.move = {};
        transfer.move.slot = slot.number;
        cache::LineHeader header{.volume = erase.wwid,
                                 .line = line.key().line,
                                 .generation = generation,
                                 .incarnation = engine.identity().incarnation,
                                 .valid = which == 0 ? line.valid() : line.dirty(),
                                 .dirty = line.dirty(),
                                 .line_shift = geometry_.shift()};
        // The second copy holds nothing if the line is clean.
        if (which == 0 || !line.dirty().empty()) cache::write_header(header, transfer.move.header);
        transfer.kind = split.empty() ? Transfer::Kind::kHeader : Transfer::Kind::kMove;
        if (!split.empty()) {
            transfer.move.to_peer = false;
            transfer.move.atomic = transfer.move.has_header = true;
            transfer.move.offset = keep;
            transfer.move.length = (split.first() + 1) * cache::kPieceBytes - keep;
            transfer.move.remote =
                destage_regions_->remote(engine.identity().net, zeroes_, transfer.move.length);
        }
        transfer.done = trim_done;
        transfer.context = &erase;
        erase.engines[which] = slot.engine;
        erase.incarnations[which] = engine.identity().incarnation;
        ++which;
        ++erase.outstanding;
        engine.submit(transfer);
    }
    if (--erase.outstanding == 0) erase_over(erase);
}

void Cache::trim_done(Transfer& transfer, CacheStatus status) noexcept {
    Erase& erase = *static_cast<Erase*>(transfer.context);
    const auto which = static_cast<size_t>(&transfer - erase.transfers.data());
    // With our own memory that is the engine's fault alone: its copy must not count.
    if (EngineLink* failed = erase.cache->link(erase.engines[which]);
        failed != nullptr && status != CacheStatus::kOk &&
        failed->identity().incarnation == erase.incarnations[which])
        failed->close(Status(Code::kIo, "the engine failed to cut a line"));
    if (--erase.outstanding == 0) erase.cache->erase_over(erase);
}

}  // namespace wss::se
