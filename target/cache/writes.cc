// SPDX-License-Identifier: Apache-2.0
#include "target/cache/writes.h"

#include <algorithm>

#include "target/cache/remote.h"

namespace wss::cache {

using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

static WriteFacts facts_of(const CacheCommand& command, const LinePart& line, uint32_t engines) {
    return {.settings = command.volume->for_writes(),
            .fua = command.fua,
            .touched = line.touched,
            .covered = line.covered,
            .valid = line.line->valid(),
            .dirty = line.line->dirty(),
            .holders = static_cast<uint32_t>(line.line->holders().size()),
            .engines = engines};
}

// True if a holder has requested to leave. It may leave when it has no dirty lines, so none of its lines may
// become dirty again.
bool Writes::engine_leaves(const LinePart& line) const noexcept {
    for (const ArenaSlot& slot : line.line->holders())
        if (engines_.link(slot.engine)->leaving()) return true;
    return false;
}

void Writes::plan_line(CacheCommand& command, LinePart& line) noexcept {
    const uint32_t engines = index_.placeable_engines();
    WriteFacts facts = facts_of(command, line, engines);
    const bool past = command.by_storage || engine_leaves(line);
    line.write = past ? without_room(facts) : plan_write(facts);
    if (!line.write.storage && line.write.copies > facts.holders) {
        if (index_.place(*line.line, line.write.copies) != Placed::kDone) {
            ++command.volume->counters.no_room;
            line.write = without_room(facts_of(command, line, engines));
        }
    }
    // A sub-block is written in part and is not valid. The path through storage needs no read first.
    if (!line.write.fetch.empty()) line.write = without_room(facts_of(command, line, engines));
    // Makes a line that was placed here but is not used evictable.
    if (line.line->state() == LineState::kFilling) index_.filled(*line.line, {});
}

// True if the write may have changed dirty sub-blocks in only one of the two copies.
bool Writes::may_differ(const LinePart& line) noexcept {
    return line.line->holders().size() > 1 && line.filling.overlaps(line.line->dirty());
}

void Writes::run(CacheCommand& command) noexcept {
    if (refuse_lost(command)) return;
    bool storage = false, direct = true;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        line.transfers_used = 0;
        plan_line(command, line);
        storage = storage || line.write.storage;
        for (const ArenaSlot& slot : line.line->holders())
            direct = direct && commands_.attached(command, slot);
        if (!line.line->holders().empty()) index_.touch(*line.line, line.touched);
    }
    const bool through_target = storage && !commands_.reaches_storage(command);
    if ((through_target || !direct || command.attempts > 0) && command.buffer == nullptr) {
        Commands::rest(command);
        return command.owner->need_buffer(command);
    }
    start(command);
}

void Writes::start(CacheCommand& command) noexcept {
    if (!commands_.resume(command,
                          [](CacheCommand& resumed) noexcept { resumed.path.writes->start(resumed); }))
        return;
    // Plans again, because lines or the storage may have changed during the wait for the buffer.
    if (refuse_lost(command)) return;
    command.by_storage = command.by_storage || command.volume->suspended;
    bool storage = false, fua = false;
    const bool from_client = command.buffer == nullptr;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        line.transfers_used = 0;
        plan_line(command, line);
        storage = storage || line.write.storage;
        fua = fua || line.write.storage_fua;
    }
    if (storage && from_client && !commands_.reaches_storage(command)) {
        Commands::rest(command);
        return command.owner->need_buffer(command);
    }
    command.phase = CacheCommand::Phase::kWrite;
    command.storing = storage;
    ++command.outstanding;
    if (from_client) {
        ++command.volume->counters.out_of_band_writes;
        command.volume->counters.out_of_band_write_bytes += command.length;
    }
    for (uint32_t i = 0; i < command.line_count; ++i) update_copies(command, command.lines[i], from_client);
    if (storage && from_client) {
        store_from_client(command, fua);
    } else if (storage) {
        command.io.fua = fua;
        commands_.start_storage(command, io::Op::kWrite, storage_done);
    }
    one_over(command);
}

void Writes::update_copies(CacheCommand& command, LinePart& line, bool from_client) noexcept {
    if (!line.write.invalidate.empty()) index_.invalidate(*line.line, line.write.invalidate);
    line.filling = {};
    if (line.write.update.empty() || line.line->holders().empty()) return;
    // Sub-blocks between two updated ones are covered by the write: they become valid as well.
    const uint32_t first = line.write.update.first();
    const uint32_t last = 63 - static_cast<uint32_t>(std::countl_zero(line.write.update.bits));
    const uint64_t through_last = last == 63 ? ~uint64_t{0} : (uint64_t{1} << (last + 1)) - 1;
    const SubBlocks hull{through_last & ~((uint64_t{1} << first) - 1)};
    const uint32_t begin = std::max(first * kSubBlockBytes, line.span.offset);
    const uint32_t end = std::min((last + 1) * kSubBlockBytes, line.span.offset + line.span.length);
    uint32_t line_begins = 0;
    for (uint32_t i = 0; &command.lines[i] != &line; ++i) line_begins += command.lines[i].span.length;
    const uint32_t in_buffer = line_begins + (begin - line.span.offset);
    line.filling = hull;
    line.generation = index_.stamp(*line.line);
    const SubBlocks dirty = line.line->dirty() | line.write.dirty_after;
    const SubBlocks valid = line.line->valid() | hull | line.write.dirty_after;
    uint32_t which = 0;
    for (const ArenaSlot& slot : line.line->holders()) {
        EngineLink& engine = *engines_.link(slot.engine);
        Transfer& transfer = commands_.next_transfer(command, line, slot, transfer_done);
        transfer.move.to_peer = false;
        transfer.move.atomic = true;
        transfer.move.has_header = true;
        transfer.move.header = commands_.header_bytes(line, slot, *command.volume,
                                                      which++ == 0 ? valid : dirty, dirty, line.generation);
        transfer.move.offset = begin;
        transfer.move.length = end - begin;
        if (from_client) {
            transfer.move.handle = command.client->engines[slot.engine.value].handle;
            transfer.move.remote = {command.remote.address + in_buffer, command.remote.rkey, end - begin};
        } else {
            transfer.move.remote =
                command.regions->remote(engine.identity().via, command.buffer + in_buffer, end - begin);
        }
        engine.submit(transfer);
    }
}

// Lets the lines rest when only storage operations are outstanding, because these may take hours.
void Writes::one_over(CacheCommand& command) noexcept {
    if (--command.outstanding == 0) return part_over(command);
    if (command.storing && command.outstanding == 1) Commands::rest(command);
}

void Writes::part_over(CacheCommand& command) noexcept {
    if (!commands_.resume(command,
                          [](CacheCommand& resumed) noexcept { resumed.path.writes->part_over(resumed); }))
        return;
    if (command.phase == CacheCommand::Phase::kRepair) return repaired(command);
    // Real storage failed: give the write up, even if an engine failed too.
    if (command.outcome.kind != CacheOutcome::Kind::kGood) return give_up(command, command.outcome);
    if (!command.transfer_failed) {
        for (uint32_t i = 0; i < command.line_count; ++i)
            if (!command.lines[i].filling.empty() && !commands_.still_there(command.lines[i]))
                command.transfer_failed = true;
    }
    if (!command.transfer_failed) return settle(command);
    command.transfer_failed = false;
    command.by_storage = true;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        // Copies that missed the write differ: clean sub-blocks become invalid, dirty ones are written again.
        index_.invalidate(*line.line, line.filling.without(line.line->dirty()));
    }
    if (++command.attempts <= 4) return run(command);
    ++command.volume->counters.busy;
    give_up(command, {.kind = CacheOutcome::Kind::kBusy});
}

// A write that failed may have reached none, some or all copies, and their headers may claim that its
// sub-blocks are dirty: after a restart they would become valid and undo later writes. So headers that match
// the index are written. Sub-blocks that were clean become invalid. Those that were dirty stay valid, because
// they are the only copies of data that was acknowledged earlier. They may contain this write.
//
// The two copies of dirty sub-blocks may now differ, and the visible data would change if the first copy were
// lost. So the second copy is dropped, and the line is destaged at once. Before the header of the second copy
// is erased, stable storage must record that the next start needs every engine.
//
// From then on, reads of the line consistently return the data with the write, or the data without it. An
// engine that was lost earlier may have the other version. As soon as a remaining copy has its new header,
// older copies are no longer valid (lost.h).
void Writes::give_up(CacheCommand& command, const CacheOutcome& outcome) noexcept {
    command.outcome = outcome;
    command.phase = CacheCommand::Phase::kRepair;
    if (!commands_.resume(command, [](CacheCommand& resumed) noexcept {
            resumed.path.writes->give_up(resumed, CacheOutcome(resumed.outcome));
        }))
        return;
    bool differ = false;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        if (!may_differ(command.lines[i])) continue;
        differ = true;
        index_.mark_single(*command.lines[i].line);
    }
    if (!differ) return repair(command);
    if (!members_.now().degraded) {
        members_.edit().degraded = true;
        members_.save();
    }
    single_.note();
    Commands::rest(command);
    members_.when_saved(*command.volume, [this, &command] { repair(command); });
}

void Writes::repair(CacheCommand& command) noexcept {
    if (!commands_.resume(command,
                          [](CacheCommand& resumed) noexcept { resumed.path.writes->repair(resumed); }))
        return;
    ++command.outstanding;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        if (line.filling.empty() || line.line->holders().empty()) continue;
        const SubBlocks dirty = line.line->dirty();
        index_.invalidate(*line.line, line.filling.without(dirty));
        line.generation = index_.stamp(*line.line);
        line.transfers_used = 0;
        // A second copy that was created since (mirror.h) equals the first.
        line.one_copy = line.line->single() && may_differ(line);
        uint32_t which = 0;
        for (const ArenaSlot& slot : line.line->holders()) {
            Transfer& transfer = commands_.next_transfer(command, line, slot, transfer_done);
            transfer.kind = Transfer::Kind::kHeader;
            const bool first = which++ == 0;
            // If the move contains no header, the header of the arena slot is erased.
            if (first || !line.one_copy)
                transfer.move.header = commands_.header_bytes(
                    line, slot, *command.volume, first ? line.line->valid() : dirty, dirty, line.generation);
            engines_.link(slot.engine)->submit(transfer);
        }
    }
    if (--command.outstanding == 0) part_over(command);
}

void Writes::repaired(CacheCommand& command) noexcept {
    bool again = false;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        const bool one_copy = std::exchange(line.one_copy, false);
        if (line.line->holders().empty()) continue;
        // The first holder was lost in the meantime. The second is left, and its header must match the index.
        if (one_copy && line.line->holders()[0] != line.slots[0]) {
            again = true;
            continue;
        }
        if (line.filling.overlaps(line.line->dirty())) line.line->seen().set(line.generation);
        if (one_copy && line.line->holders().size() > 1) index_.drop_copy(*line.line, line.slots[1].engine);
    }
    again ? repair(command) : commands_.end(command, command.outcome);
}

void Writes::settle(CacheCommand& command) noexcept {
    const Nanoseconds now = reactor_.now();
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        losses_.written_anew(*command.volume, line.span.line, line.covered);
        if (line.filling.empty()) continue;
        if (!line.write.dirty_after.empty()) index_.written(*line.line, line.write.dirty_after, now);
        const SubBlocks clean = line.filling.without(line.write.dirty_after);
        if (command.changes == nodes_.changes())
            index_.filled(*line.line, clean);
        else
            index_.invalidate(*line.line, clean.without(line.line->dirty()));
    }
    if (members_.delays(*command.volume)) {  // SE2
        Commands::rest(command);
        unacknowledged_.push_back(command);
        if (is_cancelled(command.cancelled)) commands_.end_early(command);
        return;
    }
    commands_.end(command, {});
}

void Writes::store_from_client(CacheCommand& command, bool fua) noexcept {
    ++command.volume->counters.direct_writes;
    command.volume->counters.storage_write_bytes += command.length;
    Transfer& transfer = commands_.remote_io(command, Op::kWrite, stored);
    transfer.storage.fua = fua;
    command.volume->remote->storage()->submit(transfer);
}

// An RS that is lost may still read the client's memory. The client closes its link to the RS before it
// reuses the memory, and sends the command again. Data that the RS reads after that does not reach the disk
// (RS1).
void Writes::stored(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    if (transfer.error != 0 && command.volume->remote->answers_for_it(command.remote_engine))
        command.outcome = {.kind = CacheOutcome::Kind::kStorageFailed,
                           .error = transfer.error,
                           .io_op = io::Op::kWrite,
                           .offset = command.offset};
    else if (status != CacheStatus::kOk || transfer.error != 0)
        command.outcome = {.kind = CacheOutcome::Kind::kRetry, .engine = command.remote_engine.value};
    else
        command.volume->remote->note_write();
    command.storing = false;
    command.path.writes->one_over(command);
}

bool Writes::refuse_lost(CacheCommand& command) noexcept {
    if (losses_.none()) return false;
    const std::optional<CacheOutcome> outcome = losses_.refusal(command);
    if (!outcome) return false;
    command.may_have_changed() ? give_up(command, *outcome) : commands_.end(command, *outcome);
    return true;
}

void Writes::storage_done(io::Request& io) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(io.context);
    Commands::note_error(command, io);
    command.storing = false;
    command.path.writes->one_over(command);
}

void Writes::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    Writes& writes = *command.path.writes;
    if (status != CacheStatus::kOk) writes.commands_.note_failed(command, transfer);
    writes.one_over(command);
}

void Writes::membership_saved() noexcept {
    List<CacheCommand> ready;
    ready.splice_back(unacknowledged_);
    while (CacheCommand* command = ready.pop_front()) commands_.end(*command, {});
}

void Writes::wait_no_more(const CachedVolume& volume) noexcept {
    List<CacheCommand> others, refused;
    while (CacheCommand* command = unacknowledged_.pop_front())
        (command->volume == &volume ? refused : others).push_back(*command);
    unacknowledged_.splice_back(others);
    while (CacheCommand* command = refused.pop_front())
        commands_.end(*command, {.kind = CacheOutcome::Kind::kStorageFailed,
                                 .error = ENXIO,
                                 .io_op = io::Op::kWrite,
                                 .offset = command->offset});
}

// These writes keep their lines: a restart may still undo them, so no one may read them.
void Writes::end_cancelled() noexcept {
    unacknowledged_.for_each([this](CacheCommand& command) {
        if (is_cancelled(command.cancelled)) commands_.end_early(command);
    });
}

}  // namespace wss::cache
