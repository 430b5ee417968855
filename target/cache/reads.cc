// SPDX-License-Identifier: Apache-2.0
#include "target/cache/reads.h"

#include <algorithm>

namespace wss::se {

using cache::Pieces;
using wire::CacheStatus;

void Reads::run(Work& work) noexcept {
    if (refuse_lost(work)) return;
    const uint32_t engines = index_.placeable_engines();
    bool all_hit = true;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        line.read = cache::plan_read({.settings = work.volume->settings,
                                      .touched = line.touched,
                                      .valid = line.line->valid(),
                                      .dirty = line.line->dirty(),
                                      .engines = engines});
        all_hit = all_hit && line.read.from == cache::ReadFrom::kEngine;
        if (line.read.from == cache::ReadFrom::kEngine && !work.is_ahead)
            index_.touch(*line.line, line.touched);
    }
    if (all_hit && work.is_ahead) return commands_.end(work, {});
    if (!all_hit || work.by_storage) return miss(work);
    if (can_delegate(work)) return delegate(work);
    ++work.volume->counters.read_hits;
    work.phase = Work::Phase::kGather;
    Commands::rest(work);
    work.owner->need_buffer(work);
}

bool Reads::can_delegate(const Work& work) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i)
        if (!commands_.attached(work, work.lines[i].line->holders()[0])) return false;
    return true;
}

// SE7. Reads of several lines are rare. Without a measured latency the next read is reported at once, to
// measure it.
bool Reads::may_be_lazy(const Work& work) noexcept {
    if (work.line_count != 1 || work.volume->hit_ns == 0) return false;
    const EngineLink& engine = *engines_.link(work.lines[0].line->holders()[0].engine);
    return work.client->lazy < Client::kLazyMax && engine.lazy() < engine.slots() / 8 &&
           engines_.late() < commands_.works() / 4;
}

void Reads::lazy_over(Work& work) noexcept {
    engines_.late_over();
    if (work.client != nullptr) --work.client->lazy;
}

void Reads::delegate_to(Work& work, LineWork& line, uint32_t at, Transfer& transfer) noexcept {
    const cache::Slot slot = line.line->holders()[0];
    transfer.move.to_peer = true;
    transfer.move.immediate = true;
    transfer.move.lazy = work.is_lazy;
    transfer.move.immediate_value = wire::pack_fused({.tag = work.tag, .credits = 0});
    transfer.move.handle = work.client->engines[slot.engine.value].handle;
    transfer.move.offset = line.span.offset;
    transfer.move.length = line.span.length;
    transfer.move.remote = {work.remote.address + at, work.remote.rkey, line.span.length};
    engines_.link(slot.engine)->submit(transfer);
}

void Reads::begin_delegation(Work& work) noexcept {
    work.is_delegated = true;
    work.is_lazy = may_be_lazy(work);
    if (work.is_lazy) ++work.client->lazy;
    if (work.is_lazy) engines_.late_begun();
    work.owner->delegated(work);
    CacheCounters& counters = work.volume->counters;
    ++counters.read_hits;
    ++counters.out_of_band_reads;
    counters.out_of_band_read_bytes += work.length;
}

void Reads::delegate(Work& work) noexcept {
    begin_delegation(work);
    // Keeps the command until all transfers are counted: the first could end it before.
    ++work.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        delegate_to(work, line, at,
                    commands_.next_transfer(work, line, line.line->holders()[0], transfer_done));
        at += line.span.length;
    }
    if (--work.outstanding == 0) part_over(work);
}

// A hit for a client that is not connected to the engines: through a buffer of the target.
void Reads::gather(Work& work) noexcept {
    ++work.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        // An engine was lost during the wait for the buffer: no copy is left, or one that has only the dirty
        // sub-blocks. Or the volume was suspended.
        if (!line.line->valid().contains(line.touched) || work.volume->suspended) {
            work.transfer_failed = true;
            break;
        }
        const cache::Slot slot = line.line->holders()[0];
        Transfer& transfer = commands_.next_transfer(work, line, slot, transfer_done);
        transfer.move.to_peer = true;
        transfer.move.offset = line.span.offset;
        transfer.move.length = line.span.length;
        transfer.move.remote = work.regions->remote(engines_.link(slot.engine)->identity().net,
                                                    work.buffer + at, line.span.length);
        at += line.span.length;
        engines_.link(slot.engine)->submit(transfer);
    }
    if (--work.outstanding == 0) part_over(work);
}

// Real storage has been read. Sub-blocks that are newer in an engine overwrite it in the buffer, one
// contiguous run of each line at a time.
void Reads::overlay(Work& work) noexcept {
    work.phase = Work::Phase::kOverlay;
    ++work.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        line.transfers_used = 0;
        const Pieces run = line.overlay.first_run();
        if (!run.empty() && !line.line->holders().empty()) {
            line.overlay = line.overlay.without(run);
            uint32_t begin = run.first() * cache::kPieceBytes;
            uint32_t end = begin + run.count() * cache::kPieceBytes;
            begin = std::max(begin, line.span.offset);
            end = std::min(end, line.span.offset + line.span.length);
            const cache::Slot slot = line.line->holders()[0];
            Transfer& transfer = commands_.next_transfer(work, line, slot, transfer_done);
            transfer.move.to_peer = true;
            transfer.move.offset = begin;
            transfer.move.length = end - begin;
            transfer.move.remote =
                work.regions->remote(engines_.link(slot.engine)->identity().net,
                                     work.buffer + at + (begin - line.span.offset), end - begin);
            engines_.link(slot.engine)->submit(transfer);
        } else {
            line.overlay = {};
        }
        at += line.span.length;
    }
    if (--work.outstanding == 0) part_over(work);
}

void Reads::part_over(Work& work) noexcept {
    if (work.phase == Work::Phase::kFill) return fill_over(work);
    if (work.is_delegated) {
        if (work.is_lazy) lazy_over(work);
        const bool fills = work.buffer != nullptr || work.bay;
        if (!work.transfer_failed) return fills ? fill(work) : answer(work);
        // A retry would take as long and fail too.
        if (work.ending.error != 0) return commands_.end(work, work.ending);
        ++work.volume->counters.done_again;
        return commands_.end(work, {.kind = Ending::Kind::kDoAgain, .engine = work.failed_engine});
    }
    if (work.ending.error != 0) return commands_.end(work, work.ending);
    if (work.transfer_failed) {
        // Real storage has the data that an engine did not deliver, unless it was dirty and is lost with the
        // engine.
        work.transfer_failed = false;
        work.phase = Work::Phase::kNone;
        if (refuse_lost(work)) return;
        if (++work.attempts > 3) return commands_.end(work, {.kind = Ending::Kind::kBusy});
        for (uint32_t i = 0; i < work.line_count; ++i) work.lines[i].transfers_used = 0;
        return start_storage(work);
    }
    if (work.phase == Work::Phase::kGather) return commands_.end(work, {});
    // Sub-blocks that were to be overlaid may have been lost while real storage was read.
    if (refuse_lost(work)) return;
    if (work.phase == Work::Phase::kStorage) {
        // Data that was destaged while storage was read may have reached storage after the read. Nothing
        // becomes dirty meanwhile, as no write has entered the line, so the retries end.
        bool came_home = false;
        for (uint32_t i = 0; i < work.line_count; ++i) {
            LineWork& line = work.lines[i];
            const Pieces dirty = line.touched & line.line->dirty();
            came_home = came_home || !line.overlay.without(dirty).empty();
            line.overlay = dirty;
        }
        if (came_home) return start_storage(work);
    }
    for (uint32_t i = 0; i < work.line_count; ++i)
        if (!work.lines[i].overlay.empty()) return overlay(work);
    fill(work);
}

// No fill of data that was lost since the buffer was filled: the data is known again only when an engine
// returns with it.
bool Reads::may_fill(const Work& work, const LineWork& line) const noexcept {
    return wants_fill(line) && (losses_.none() || !losses_.has(*work.volume, line.span.line, line.covered));
}

bool Reads::wants_fill(const LineWork& line) const noexcept {
    return line.read.fill_afterwards.overlaps(line.covered) && line.op.access == cache::Access::kExclusive &&
           !life_.stopping();
}

// The engine may be sound but not connected to the RS.
void Reads::fill_failed(Work& work, const Transfer& transfer) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        if (line.transfers_used == 0 || &line.transfers[0] != &transfer) continue;
        line.filling = {};
        nodes_.distrust(work.bay, line.slots[0].engine, transfer.move.handle);
    }
}

// Makes lines that were placed but not filled evictable.
void Reads::settle_unfilled(Work& work) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        const bool exclusive = line.op.access == cache::Access::kExclusive;
        if (exclusive && line.line->state() == cache::LineState::kFilling) index_.filled(*line.line, {});
    }
}

void Reads::fill_over(Work& work) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        if (line.filling.empty() || work.transfer_failed || !commands_.still_there(line)) continue;
        if (work.changes != nodes_.changes()) continue;  // the data read may be obsolete: forget_clean()
        if (index_.filled(*line.line, line.filling)) {
            ++work.volume->counters.fills;
            work.volume->counters.fill_bytes += line.filling.count() * cache::kPieceBytes;
            StorageNodes::count_upkeep(*work.volume, work.bay, line.filling.count() * cache::kPieceBytes);
            if (work.is_ahead) index_.brought_ahead(*line.line);
        }
    }
    settle_unfilled(work);
    commands_.finish_part(work);
    commands_.part_over(work);
}

// Answers the client from the buffer while engines take the missing sub-blocks from it.
void Reads::fill(Work& work) noexcept {
    if (!commands_.resume(work, [](Work& resumed) noexcept { resumed.path.reads->fill(resumed); })) return;
    work.phase = Work::Phase::kFill;
    ++work.outstanding;
    uint32_t at = 0;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        line.transfers_used = 0;
        line.filling = {};
        const uint32_t begins = at;
        at += line.span.length;
        if (!may_fill(work, line)) continue;
        if (index_.place(*line.line, 1) != cache::Placed::kDone) {
            ++work.volume->counters.no_room;
            continue;
        }
        const cache::Slot slot = line.line->holders()[0];
        if (work.bay && !nodes_.reaches(work.bay, slot.engine)) continue;
        const uint32_t begin = line.covered.first() * cache::kPieceBytes;
        const uint32_t length = line.covered.count() * cache::kPieceBytes;  // covered sub-blocks are adjacent
        line.filling = line.covered;
        Transfer& transfer = commands_.next_transfer(work, line, slot, transfer_done);
        transfer.move.to_peer = false;
        transfer.move.has_header = true;
        transfer.move.header =
            commands_.header_bytes(line, slot, *work.volume, line.line->valid() | line.covered,
                                   line.line->dirty(), std::max<uint64_t>(line.line->generation(), 1));
        transfer.move.offset = begin;
        transfer.move.length = length;
        const uint32_t from = begins + (begin - line.span.offset);
        if (work.bay)
            nodes_.aim(transfer, work.bay, slot.engine, from);
        else
            transfer.move.remote =
                work.regions->remote(engines_.link(slot.engine)->identity().net, work.buffer + from, length);
        engines_.link(slot.engine)->submit(transfer);
    }
    --work.outstanding;
    const bool nothing = work.outstanding == 0;
    if (nothing) settle_unfilled(work);
    if (nothing) work.phase = Work::Phase::kNone;
    answer(work);
}

// Answers the client from the buffer, or reports that engines have answered it. A fill may continue.
void Reads::answer(Work& work) noexcept {
    if (!work.is_delegated) return commands_.end(work, {});
    const bool filling = work.phase == Work::Phase::kFill;
    if (!filling) commands_.finish_part(work);
    work.state = Work::State::kAnswered;
    if (!filling) work.phase = Work::Phase::kEnding;
    work.owner->answered(work);
    if (!filling) commands_.part_over(work);
}

bool Reads::refuse_lost(Work& work) noexcept {
    if (losses_.none()) return false;
    const std::optional<Ending> ending = losses_.refusal(work);
    if (ending) commands_.end(work, *ending);
    return ending.has_value();
}

void Reads::buffer_ready(Work& work) noexcept {
    work.phase == Work::Phase::kGather ? gather(work) : start_storage(work);
}

void Reads::start_storage(Work& work) noexcept {
    work.phase = Work::Phase::kStorage;
    for (uint32_t i = 0; i < work.line_count; ++i)
        work.lines[i].overlay = work.lines[i].touched & work.lines[i].line->dirty();
    Commands::rest(work);
    commands_.start_storage(work, io::Op::kRead, storage_done);
}

void Reads::storage_done(io::Request& io) noexcept {
    Work& work = *static_cast<Work*>(io.context);
    Commands::note_error(work, io);
    if (--work.outstanding == 0) work.path.reads->part_over(work);
}

void Reads::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    Reads& reads = *work.path.reads;
    if (status != CacheStatus::kOk && work.bay && work.phase == Work::Phase::kFill)
        reads.fill_failed(work, transfer);
    else if (status != CacheStatus::kOk)
        reads.commands_.note_failed(work, transfer);
    if (--work.outstanding == 0) reads.part_over(work);
}

}  // namespace wss::se
