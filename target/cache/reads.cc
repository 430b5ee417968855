// SPDX-License-Identifier: Apache-2.0
#include "target/cache/reads.h"

#include <algorithm>

namespace wss::cache {

using wire::CacheStatus;

void Reads::run(CacheCommand& command) noexcept {
    if (refuse_lost(command)) return;
    const uint32_t engines = index_.placeable_engines();
    bool all_hit = true;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        line.read = plan_read({.settings = command.volume->settings,
                               .touched = line.touched,
                               .valid = line.line->valid(),
                               .dirty = line.line->dirty(),
                               .engines = engines});
        all_hit = all_hit && line.read.from == ReadFrom::kEngine;
        if (line.read.from == ReadFrom::kEngine && !command.is_ahead) index_.touch(*line.line, line.touched);
    }
    if (all_hit && command.is_ahead) return commands_.end(command, {});
    if (!all_hit || command.by_storage) return miss(command);
    if (can_delegate(command)) return delegate(command);
    ++command.volume->counters.read_hits;
    command.phase = CacheCommand::Phase::kGather;
    Commands::rest(command);
    command.owner->need_buffer(command);
}

bool Reads::can_delegate(const CacheCommand& command) noexcept {
    for (uint32_t i = 0; i < command.line_count; ++i)
        if (!commands_.attached(command, command.lines[i].line->holders()[0])) return false;
    return true;
}

// Most hits may be reported late (SE7). Reads of several lines are rare and are reported at once. If no
// latency has been measured, the next read is reported at once to measure it.
bool Reads::may_coalesce(const CacheCommand& command) noexcept {
    if (command.line_count != 1 || command.volume->hit_ns == 0) return false;
    const EngineLink& engine = *engines_.link(command.lines[0].line->holders()[0].engine);
    return command.client->coalesced < Client::kCoalescedMax && engine.coalesced() < engine.slots() / 8 &&
           engines_.late() < commands_.commands() / 4;
}

void Reads::coalesced_over(CacheCommand& command) noexcept {
    engines_.late_over();
    if (command.client != nullptr) --command.client->coalesced;
}

void Reads::delegate_to(CacheCommand& command, LinePart& line, uint32_t at, Transfer& transfer) noexcept {
    const ArenaSlot slot = line.line->holders()[0];
    transfer.move.to_peer = true;
    transfer.move.immediate = true;
    transfer.move.coalesced = command.is_coalesced;
    transfer.move.immediate_value = wire::pack_fused({.tag = command.tag, .credits = 0});
    transfer.move.handle = command.client->engines[slot.engine.value].handle;
    transfer.move.offset = line.span.offset;
    transfer.move.length = line.span.length;
    transfer.move.remote = {command.remote.address + at, command.remote.rkey, line.span.length};
    engines_.link(slot.engine)->submit(transfer);
}

void Reads::begin_delegation(CacheCommand& command) noexcept {
    command.is_delegated = true;
    command.is_coalesced = may_coalesce(command);
    if (command.is_coalesced) ++command.client->coalesced;
    if (command.is_coalesced) engines_.late_begun();
    command.owner->delegated(command);
    CacheCounters& counters = command.volume->counters;
    ++counters.read_hits;
    ++counters.out_of_band_reads;
    counters.out_of_band_read_bytes += command.length;
}

void Reads::delegate(CacheCommand& command) noexcept {
    begin_delegation(command);
    // Keeps the command alive until all transfers are counted, because the first transfer could otherwise end
    // it.
    ++command.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        delegate_to(command, line, at,
                    commands_.next_transfer(command, line, line.line->holders()[0], transfer_done));
        at += line.span.length;
    }
    if (--command.outstanding == 0) part_over(command);
}

// A hit for a client that is not connected to the engines passes through a buffer of the target.
void Reads::gather(CacheCommand& command) noexcept {
    ++command.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        // During the wait for the buffer, an engine was lost or the volume was suspended. After the loss no
        // copy is left, or only one that has just the dirty sub-blocks.
        if (!line.line->valid().contains(line.touched) || command.volume->suspended) {
            command.transfer_failed = true;
            break;
        }
        const ArenaSlot slot = line.line->holders()[0];
        Transfer& transfer = commands_.next_transfer(command, line, slot, transfer_done);
        transfer.move.to_peer = true;
        transfer.move.offset = line.span.offset;
        transfer.move.length = line.span.length;
        transfer.move.remote = command.regions->remote(engines_.link(slot.engine)->identity().via,
                                                       command.buffer + at, line.span.length);
        at += line.span.length;
        engines_.link(slot.engine)->submit(transfer);
    }
    if (--command.outstanding == 0) part_over(command);
}

// Real storage has been read. Sub-blocks that are newer in an engine overwrite that data in the buffer, one
// contiguous run of each line at a time.
void Reads::overlay(CacheCommand& command) noexcept {
    command.phase = CacheCommand::Phase::kOverlay;
    ++command.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        line.transfers_used = 0;
        const SubBlocks run = line.overlay.first_run();
        if (!run.empty() && !line.line->holders().empty()) {
            line.overlay = line.overlay.without(run);
            uint32_t begin = run.first() * kSubBlockBytes;
            uint32_t end = begin + run.count() * kSubBlockBytes;
            begin = std::max(begin, line.span.offset);
            end = std::min(end, line.span.offset + line.span.length);
            const ArenaSlot slot = line.line->holders()[0];
            Transfer& transfer = commands_.next_transfer(command, line, slot, transfer_done);
            transfer.move.to_peer = true;
            transfer.move.offset = begin;
            transfer.move.length = end - begin;
            transfer.move.remote =
                command.regions->remote(engines_.link(slot.engine)->identity().via,
                                        command.buffer + at + (begin - line.span.offset), end - begin);
            engines_.link(slot.engine)->submit(transfer);
        } else {
            line.overlay = {};
        }
        at += line.span.length;
    }
    if (--command.outstanding == 0) part_over(command);
}

void Reads::part_over(CacheCommand& command) noexcept {
    if (command.phase == CacheCommand::Phase::kFill) return fill_over(command);
    if (command.is_delegated) {
        if (command.is_coalesced) coalesced_over(command);
        const bool fills = command.buffer != nullptr || command.staging;
        if (!command.transfer_failed) return fills ? fill(command) : answer(command);
        // A retry would take as long, and would fail as well.
        if (command.outcome.error != 0) return commands_.end(command, command.outcome);
        ++command.volume->counters.done_again;
        return commands_.end(command, {.kind = CacheOutcome::Kind::kRetry, .engine = command.failed_engine});
    }
    if (command.outcome.error != 0) return commands_.end(command, command.outcome);
    if (command.transfer_failed) {
        // Real storage has the data that an engine did not deliver, unless it was dirty and is lost with the
        // engine.
        command.transfer_failed = false;
        command.phase = CacheCommand::Phase::kNone;
        if (refuse_lost(command)) return;
        if (++command.attempts > 3) return commands_.end(command, {.kind = CacheOutcome::Kind::kBusy});
        for (uint32_t i = 0; i < command.line_count; ++i) command.lines[i].transfers_used = 0;
        return start_storage(command);
    }
    if (command.phase == CacheCommand::Phase::kGather) return commands_.end(command, {});
    // Sub-blocks that were to be overlaid may have been lost while real storage was read.
    if (refuse_lost(command)) return;
    if (command.phase == CacheCommand::Phase::kStorage) {
        // Data that was destaged while storage was read may have reached storage only after the read. Nothing
        // becomes dirty in the meantime, because no write has entered the line. So the retries end.
        bool overlaid = false;
        for (uint32_t i = 0; i < command.line_count; ++i) {
            LinePart& line = command.lines[i];
            const SubBlocks dirty = line.touched & line.line->dirty();
            overlaid = overlaid || !line.overlay.without(dirty).empty();
            line.overlay = dirty;
        }
        if (overlaid) return start_storage(command);
    }
    for (uint32_t i = 0; i < command.line_count; ++i)
        if (!command.lines[i].overlay.empty()) return overlay(command);
    fill(command);
}

// Data that was lost since the buffer was filled is not used for a fill: it is known again only when an
// engine returns with it.
bool Reads::may_fill(const CacheCommand& command, const LinePart& line) const noexcept {
    return wants_fill(line) &&
           (losses_.none() || !losses_.has(*command.volume, line.span.line, line.covered));
}

bool Reads::wants_fill(const LinePart& line) const noexcept {
    return line.read.fill_afterwards.overlaps(line.covered) && line.op.access == Access::kExclusive &&
           !life_.stopping();
}

// Does not close the engine's link: the engine may be sound but not connected to the RS.
void Reads::fill_failed(CacheCommand& command, const Transfer& transfer) noexcept {
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        if (line.transfers_used == 0 || &line.transfers[0] != &transfer) continue;
        line.filling = {};
        nodes_.quarantine(command.staging, line.slots[0].engine, transfer.move.handle);
    }
}

// Makes lines that were placed but not filled evictable.
void Reads::settle_unfilled(CacheCommand& command) noexcept {
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        const bool exclusive = line.op.access == Access::kExclusive;
        if (exclusive && line.line->state() == LineState::kFilling) index_.filled(*line.line, {});
    }
}

void Reads::fill_over(CacheCommand& command) noexcept {
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        if (line.filling.empty() || command.transfer_failed || !commands_.still_there(line)) continue;
        if (command.changes != nodes_.changes()) continue;  // the data read may be obsolete: forget_clean()
        if (index_.filled(*line.line, line.filling)) {
            ++command.volume->counters.fills;
            command.volume->counters.fill_bytes += line.filling.count() * kSubBlockBytes;
            StorageNodes::count_upkeep(*command.volume, command.staging,
                                       line.filling.count() * kSubBlockBytes);
            if (command.is_ahead) index_.read_ahead(*line.line);
        }
    }
    settle_unfilled(command);
    commands_.finish_part(command);
    commands_.part_over(command);
}

// Answers the client from the buffer while engines take the missing sub-blocks from it.
void Reads::fill(CacheCommand& command) noexcept {
    if (!commands_.resume(command, [](CacheCommand& resumed) noexcept { resumed.path.reads->fill(resumed); }))
        return;
    command.phase = CacheCommand::Phase::kFill;
    ++command.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        LinePart& line = command.lines[i];
        line.transfers_used = 0;
        line.filling = {};
        const uint32_t begins = at;
        at += line.span.length;
        if (!may_fill(command, line)) continue;
        if (index_.place(*line.line, 1) != Placed::kDone) {
            ++command.volume->counters.no_room;
            continue;
        }
        const ArenaSlot slot = line.line->holders()[0];
        if (command.staging && !nodes_.reaches(command.staging, slot.engine)) continue;
        const uint32_t begin = line.covered.first() * kSubBlockBytes;
        const uint32_t length = line.covered.count() * kSubBlockBytes;  // covered sub-blocks are adjacent
        line.filling = line.covered;
        Transfer& transfer = commands_.next_transfer(command, line, slot, transfer_done);
        transfer.move.to_peer = false;
        transfer.move.has_header = true;
        transfer.move.header =
            commands_.header_bytes(line, slot, *command.volume, line.line->valid() | line.covered,
                                   line.line->dirty(), std::max<uint64_t>(line.line->generation(), 1));
        transfer.move.offset = begin;
        transfer.move.length = length;
        const uint32_t from = begins + (begin - line.span.offset);
        if (command.staging)
            nodes_.aim(transfer, command.staging, slot.engine, from);
        else
            transfer.move.remote = command.regions->remote(engines_.link(slot.engine)->identity().via,
                                                           command.buffer + from, length);
        engines_.link(slot.engine)->submit(transfer);
    }
    --command.outstanding;
    const bool nothing = command.outstanding == 0;
    if (nothing) settle_unfilled(command);
    if (nothing) command.phase = CacheCommand::Phase::kNone;
    answer(command);
}

// Answers the client from the buffer, or reports that engines have answered it. A fill may continue.
void Reads::answer(CacheCommand& command) noexcept {
    if (!command.is_delegated) return commands_.end(command, {});
    const bool filling = command.phase == CacheCommand::Phase::kFill;
    if (!filling) commands_.finish_part(command);
    command.state = CacheCommand::State::kAnswered;
    if (!filling) command.phase = CacheCommand::Phase::kEnding;
    command.owner->answered(command);
    if (!filling) commands_.part_over(command);
}

bool Reads::refuse_lost(CacheCommand& command) noexcept {
    if (losses_.none()) return false;
    const std::optional<CacheOutcome> outcome = losses_.refusal(command);
    if (outcome) commands_.end(command, *outcome);
    return outcome.has_value();
}

void Reads::buffer_ready(CacheCommand& command) noexcept {
    command.phase == CacheCommand::Phase::kGather ? gather(command) : start_storage(command);
}

void Reads::start_storage(CacheCommand& command) noexcept {
    command.phase = CacheCommand::Phase::kStorage;
    for (uint32_t i = 0; i < command.line_count; ++i)
        command.lines[i].overlay = command.lines[i].touched & command.lines[i].line->dirty();
    Commands::rest(command);
    commands_.start_storage(command, io::Op::kRead, storage_done);
}

void Reads::storage_done(io::Request& io) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(io.context);
    Commands::note_error(command, io);
    if (--command.outstanding == 0) command.path.reads->part_over(command);
}

void Reads::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    Reads& reads = *command.path.reads;
    if (status != CacheStatus::kOk && command.staging && command.phase == CacheCommand::Phase::kFill)
        reads.fill_failed(command, transfer);
    else if (status != CacheStatus::kOk)
        reads.commands_.note_failed(command, transfer);
    if (--command.outstanding == 0) reads.part_over(command);
}

}  // namespace wss::cache
