// SPDX-License-Identifier: Apache-2.0
#include "target/cache/writes.h"

#include <algorithm>

#include "target/cache/remote.h"

namespace wss::se {

using cache::Pieces;
using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

static cache::WriteFacts facts_of(const Work& work, const LineWork& line, uint32_t engines) {
    return {.settings = work.volume->for_writes(),
            .fua = work.fua,
            .touched = line.touched,
            .covered = line.covered,
            .valid = line.line->valid(),
            .dirty = line.line->dirty(),
            .holders = static_cast<uint32_t>(line.line->holders().size()),
            .engines = engines};
}

// True if a holder wants to leave. It may leave when it has no dirty lines, so none of its lines may become
// dirty.
bool Writes::engine_leaves(const LineWork& line) const noexcept {
    for (const cache::Slot& slot : line.line->holders())
        if (engines_.link(slot.engine)->leaving()) return true;
    return false;
}

void Writes::plan_line(Work& work, LineWork& line) noexcept {
    const uint32_t engines = index_.placeable_engines();
    cache::WriteFacts facts = facts_of(work, line, engines);
    const bool past = work.by_storage || engine_leaves(line);
    line.write = past ? cache::without_room(facts) : cache::plan_write(facts);
    if (!line.write.storage && line.write.copies > facts.holders) {
        if (index_.place(*line.line, line.write.copies) != cache::Placed::kDone) {
            ++work.volume->counters.no_room;
            line.write = cache::without_room(facts_of(work, line, engines));
        }
    }
    // A sub-block that is written in part and is not valid: the path through storage needs no read first.
    if (!line.write.fetch.empty()) line.write = cache::without_room(facts_of(work, line, engines));
    // Makes a line that was placed here but is not used evictable.
    if (line.line->state() == cache::LineState::kFilling) index_.filled(*line.line, {});
}

// True if the write may have changed dirty sub-blocks in only one of two copies.
bool Writes::may_differ(const LineWork& line) noexcept {
    return line.line->holders().size() > 1 && line.filling.overlaps(line.line->dirty());
}

void Writes::run(Work& work) noexcept {
    if (refuse_lost(work)) return;
    bool storage = false, direct = true;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        line.transfers_used = 0;
        plan_line(work, line);
        storage = storage || line.write.storage;
        for (const cache::Slot& slot : line.line->holders())
            direct = direct && commands_.attached(work, slot);
        if (!line.line->holders().empty()) index_.touch(*line.line, line.touched);
    }
    const bool through_us = storage && !commands_.reaches_storage(work);
    if ((through_us || !direct || work.attempts > 0) && work.buffer == nullptr) {
        Commands::rest(work);
        return work.owner->need_buffer(work);
    }
    start(work);
}

void Writes::start(Work& work) noexcept {
    if (!commands_.resume(work, [](Work& resumed) noexcept { resumed.path.writes->start(resumed); })) return;
    // Plans again: lines, or the storage, may have changed during the wait for the buffer.
    if (refuse_lost(work)) return;
    work.by_storage = work.by_storage || work.volume->suspended;
    bool storage = false, fua = false;
    const bool from_client = work.buffer == nullptr;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        line.transfers_used = 0;
        plan_line(work, line);
        storage = storage || line.write.storage;
        fua = fua || line.write.storage_fua;
    }
    if (storage && from_client && !commands_.reaches_storage(work)) {
        Commands::rest(work);
        return work.owner->need_buffer(work);
    }
    work.phase = Work::Phase::kWrite;
    work.storing = storage;
    ++work.outstanding;
    if (from_client) {
        ++work.volume->counters.out_of_band_writes;
        work.volume->counters.out_of_band_write_bytes += work.length;
    }
    for (uint32_t i = 0; i < work.line_count; ++i) update_copies(work, work.lines[i], from_client);
    if (storage && from_client) {
        store_from_client(work, fua);
    } else if (storage) {
        work.io.fua = fua;
        commands_.start_storage(work, io::Op::kWrite, storage_done);
    }
    one_over(work);
}

void Writes::update_copies(Work& work, LineWork& line, bool from_client) noexcept {
    if (!line.write.invalidate.empty()) index_.invalidate(*line.line, line.write.invalidate);
    line.filling = {};
    if (line.write.update.empty() || line.line->holders().empty()) return;
    // Sub-blocks between two updated ones are covered by the write: they become valid as well.
    const uint32_t first = line.write.update.first();
    const uint32_t last = 63 - static_cast<uint32_t>(std::countl_zero(line.write.update.bits));
    const uint64_t through_last = last == 63 ? ~uint64_t{0} : (uint64_t{1} << (last + 1)) - 1;
    const Pieces hull{through_last & ~((uint64_t{1} << first) - 1)};
    const uint32_t begin = std::max(first * cache::kPieceBytes, line.span.offset);
    const uint32_t end = std::min((last + 1) * cache::kPieceBytes, line.span.offset + line.span.length);
    uint32_t line_begins = 0;
    for (uint32_t i = 0; &work.lines[i] != &line; ++i) line_begins += work.lines[i].span.length;
    const uint32_t in_buffer = line_begins + (begin - line.span.offset);
    line.filling = hull;
    line.generation = index_.stamp(*line.line);
    const Pieces dirty = line.line->dirty() | line.write.dirty_after;
    const Pieces valid = line.line->valid() | hull | line.write.dirty_after;
    uint32_t which = 0;
    for (const cache::Slot& slot : line.line->holders()) {
        EngineLink& engine = *engines_.link(slot.engine);
        Transfer& transfer = commands_.next_transfer(work, line, slot, transfer_done);
        transfer.move.to_peer = false;
        transfer.move.atomic = true;
        transfer.move.has_header = true;
        transfer.move.header = commands_.header_bytes(line, slot, *work.volume, which++ == 0 ? valid : dirty,
                                                      dirty, line.generation);
        transfer.move.offset = begin;
        transfer.move.length = end - begin;
        if (from_client) {
            transfer.move.handle = work.client->engines[slot.engine.value].handle;
            transfer.move.remote = {work.remote.address + in_buffer, work.remote.rkey, end - begin};
        } else {
            transfer.move.remote =
                work.regions->remote(engine.identity().net, work.buffer + in_buffer, end - begin);
        }
        engine.submit(transfer);
    }
}

// Lets the lines rest when only storage is outstanding, which may take hours.
void Writes::one_over(Work& work) noexcept {
    if (--work.outstanding == 0) return part_over(work);
    if (work.storing && work.outstanding == 1) Commands::rest(work);
}

void Writes::part_over(Work& work) noexcept {
    if (!commands_.resume(work, [](Work& resumed) noexcept { resumed.path.writes->part_over(resumed); }))
        return;
    if (work.phase == Work::Phase::kRepair) return repaired(work);
    // Real storage failed: give up, even if an engine failed too.
    if (work.ending.kind != Ending::Kind::kGood) return give_up(work, work.ending);
    if (!work.transfer_failed) {
        for (uint32_t i = 0; i < work.line_count; ++i)
            if (!work.lines[i].filling.empty() && !commands_.still_there(work.lines[i]))
                work.transfer_failed = true;
    }
    if (!work.transfer_failed) return settle(work);
    work.transfer_failed = false;
    work.by_storage = true;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        // Copies that missed the write differ: clean sub-blocks become invalid, dirty ones are written again.
        index_.invalidate(*line.line, line.filling.without(line.line->dirty()));
    }
    if (++work.attempts <= 4) return run(work);
    ++work.volume->counters.busy;
    give_up(work, {.kind = Ending::Kind::kBusy});
}

// A write that failed may have reached none, some or all copies, and their headers may claim that its
// sub-blocks are dirty: after a restart they would become valid and undo later writes. So headers are written
// that match the index. Sub-blocks that were clean become invalid. Those that were dirty stay valid: they are
// the only copies of data acknowledged before, and may contain this write, which may have happened.
//
// Two copies of dirty sub-blocks may now differ, and the visible one would change if the first were lost. So
// the second is dropped, and the line is destaged at once. Before the header of the second is erased, it must
// be on stable storage that the next start needs every engine.
//
// From then on the line shows the write or not, consistently. An engine that was lost before may have the
// other version: as soon as a remaining copy has its new header, older copies no longer count (lost.h).
void Writes::give_up(Work& work, const Ending& ending) noexcept {
    work.ending = ending;
    work.phase = Work::Phase::kRepair;
    if (!commands_.resume(work, [](Work& resumed) noexcept {
            resumed.path.writes->give_up(resumed, Ending(resumed.ending));
        }))
        return;
    bool differ = false;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        if (!may_differ(work.lines[i])) continue;
        differ = true;
        index_.mark_single(*work.lines[i].line);
    }
    if (!differ) return repair(work);
    if (!members_.now().degraded) {
        members_.edit().degraded = true;
        members_.save();
    }
    single_.note();
    Commands::rest(work);
    members_.when_saved(*work.volume, [this, &work] { repair(work); });
}

void Writes::repair(Work& work) noexcept {
    if (!commands_.resume(work, [](Work& resumed) noexcept { resumed.path.writes->repair(resumed); })) return;
    ++work.outstanding;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        if (line.filling.empty() || line.line->holders().empty()) continue;
        const Pieces dirty = line.line->dirty();
        index_.invalidate(*line.line, line.filling.without(dirty));
        line.generation = index_.stamp(*line.line);
        line.transfers_used = 0;
        // A second copy that was made since (mirror.h) equals the first.
        line.one_copy = line.line->single() && may_differ(line);
        uint32_t which = 0;
        for (const cache::Slot& slot : line.line->holders()) {
            Transfer& transfer = commands_.next_transfer(work, line, slot, transfer_done);
            transfer.kind = Transfer::Kind::kHeader;
            const bool first = which++ == 0;
            // Without a header in the move the slot's header is erased.
            if (first || !line.one_copy)
                transfer.move.header = commands_.header_bytes(
                    line, slot, *work.volume, first ? line.line->valid() : dirty, dirty, line.generation);
            engines_.link(slot.engine)->submit(transfer);
        }
    }
    if (--work.outstanding == 0) part_over(work);
}

void Writes::repaired(Work& work) noexcept {
    bool again = false;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        const bool one_copy = std::exchange(line.one_copy, false);
        if (line.line->holders().empty()) continue;
        // The first holder was lost meanwhile: the second is left, and its header must match the index.
        if (one_copy && line.line->holders()[0] != line.slots[0]) {
            again = true;
            continue;
        }
        if (line.filling.overlaps(line.line->dirty())) line.line->seen().set(line.generation);
        if (one_copy && line.line->holders().size() > 1) index_.drop_copy(*line.line, line.slots[1].engine);
    }
    again ? repair(work) : commands_.end(work, work.ending);
}

void Writes::settle(Work& work) noexcept {
    const Nanoseconds now = reactor_.now();
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        losses_.written_anew(*work.volume, line.span.line, line.covered);
        if (line.filling.empty()) continue;
        if (!line.write.dirty_after.empty()) index_.written(*line.line, line.write.dirty_after, now);
        const Pieces clean = line.filling.without(line.write.dirty_after);
        if (work.changes == nodes_.changes())
            index_.filled(*line.line, clean);
        else
            index_.invalidate(*line.line, clean.without(line.line->dirty()));
    }
    if (members_.delays(*work.volume)) {  // SE2
        Commands::rest(work);
        unacknowledged_.push_back(work);
        return;
    }
    commands_.end(work, {});
}

void Writes::store_from_client(Work& work, bool fua) noexcept {
    ++work.volume->counters.direct_writes;
    work.volume->counters.storage_write_bytes += work.length;
    Transfer& transfer = commands_.remote_io(work, Op::kWrite, stored);
    transfer.storage.fua = fua;
    work.volume->remote->storage()->submit(transfer);
}

// An RS that is lost may still read the client's memory. The client closes its link to the RS before it
// reuses the memory, and sends the command again. By RS1 the RS does not write data to the disk that it read
// after that.
void Writes::stored(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    if (transfer.error != 0 && work.volume->remote->answers_for_it(work.remote_engine))
        work.ending = {.kind = Ending::Kind::kStorageFailed,
                       .error = transfer.error,
                       .io_op = io::Op::kWrite,
                       .offset = work.offset};
    else if (status != CacheStatus::kOk || transfer.error != 0)
        work.ending = {.kind = Ending::Kind::kDoAgain, .engine = work.remote_engine.value};
    else
        work.volume->remote->note_write();
    work.storing = false;
    work.path.writes->one_over(work);
}

bool Writes::refuse_lost(Work& work) noexcept {
    if (losses_.none()) return false;
    const std::optional<Ending> ending = losses_.refusal(work);
    if (!ending) return false;
    work.may_have_changed() ? give_up(work, *ending) : commands_.end(work, *ending);
    return true;
}

void Writes::storage_done(io::Request& io) noexcept {
    Work& work = *static_cast<Work*>(io.context);
    Commands::note_error(work, io);
    work.storing = false;
    work.path.writes->one_over(work);
}

void Writes::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    Writes& writes = *work.path.writes;
    if (status != CacheStatus::kOk) writes.commands_.note_failed(work, transfer);
    writes.one_over(work);
}

void Writes::membership_saved() noexcept {
    List<Work> ready;
    ready.splice_back(unacknowledged_);
    while (Work* work = ready.pop_front()) commands_.end(*work, {});
}

void Writes::wait_no_more(const CachedVolume& volume) noexcept {
    List<Work> others, refused;
    while (Work* work = unacknowledged_.pop_front())
        (work->volume == &volume ? refused : others).push_back(*work);
    unacknowledged_.splice_back(others);
    while (Work* work = refused.pop_front())
        commands_.end(*work, {.kind = Ending::Kind::kStorageFailed,
                              .error = ENXIO,
                              .io_op = io::Op::kWrite,
                              .offset = work->offset});
}

}  // namespace wss::se
