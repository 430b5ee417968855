// SPDX-License-Identifier: Apache-2.0
// Bringing dirty lines home: the primary writes them into our buffer, we write them to real storage, every
// copy clears its dirty bits, and only then the line counts as clean (lib/cache/header.h, H3). Reads of the
// line go on meanwhile; writes wait. Storage that fails keeps the line dirty; the planner tries again later.
#include "target/cache/destage.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/cache/header.h"

namespace wss::se {

using cache::Pieces;
using wire::CacheStatus;

void Cache::destage_tick() noexcept {
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed()) start_destages(*volume);
    fail_flushes();
    salvage_again();
}

// Some of what is dirty now has one copy left.
void Cache::destage_single_copies() noexcept {
    degraded_mark_ = index_->flush_mark();
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed()) volume->planner->want(degraded_mark_);
}

void Cache::start_destages(CachedVolume& volume) noexcept {
    if (index_->dirty_lines(volume.number) == 0 || holding_ || volume.removed()) return;
    std::array<cache::Line*, cache::kDestageRunMax> run;
    for (;;) {
        const auto free = static_cast<size_t>(
            std::count_if(destages_.begin(), destages_.end(), [](const auto& job) { return !job->busy; }));
        if (free == 0) return;
        const size_t count = volume.planner->next(
            *index_, volume.number, reactor_.now(), run, [this](const cache::Line& line) {
                return std::any_of(destages_.begin(), destages_.end(), [&](const auto& job) {
                    return job->busy && !job->salvage && job->key == line.key();
                });
            });
        if (count == 0) return;
        for (size_t i = 0; i < std::min(count, free); ++i) start_destage(volume, *run[i]);
    }
}

void Cache::start_destage(CachedVolume& volume, cache::Line& line) noexcept {
    auto found = std::find_if(destages_.begin(), destages_.end(), [](const auto& job) { return !job->busy; });
    (*found)->salvage = false;
    begin_job(**found, volume, line, cache::Access::kShared);
}

void Cache::begin_job(Destage& job, CachedVolume& volume, cache::Line& line, cache::Access access) noexcept {
    job.busy = true;
    job.volume = &volume;
    job.place = volume.gate.enter();
    WSS_ASSERT(job.place, "no job begins for a volume that is being removed");
    job.line = &line;
    job.key = line.key();
    job.error = 0;
    job.changes = storage_changes_;
    job.bay = {};
    job.failed = false;
    job.begun = false;
    job.phase = Destage::Phase::kFetch;
    volume.open->hold();
    job.op.pieces = geometry_.all();
    job.op.access = access;
    job.op.context = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&job) | 1);
    index_->enter(line, job.op) ? destage_entered(job) : hurry();
}

// What is to be brought home, and from where; false if there is nothing any more.
bool Cache::choose_copy(Destage& job, cache::Slot& slot) noexcept {
    if (job.salvage) {
        slot = job.item.slot;
        job.token = {.pieces = salvageable(job.item)};
        EngineLink* engine = link(slot.engine);
        if (engine == nullptr || engine->identity().incarnation != job.item.incarnation) return false;
    } else {
        if (job.line->state() != cache::LineState::kDirty || job.line->holders().empty()) return false;
        slot = job.line->holders()[0];
        job.token = index_->begin_destage(*job.line);
    }
    return !job.token.pieces.empty();
}

void Cache::destage_entered(Destage& job) noexcept {
    cache::Slot slot;
    if (!choose_copy(job, slot)) return destage_done(job, 0);
    job.begun = true;
    job.left = job.token.pieces;
    const uint32_t first = job.left.first();
    const uint32_t last = 63 - static_cast<uint32_t>(std::countl_zero(job.left.bits));
    EngineLink& engine = *link(slot.engine);
    Transfer& transfer = job.transfers[0];
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.to_peer = true;
    transfer.move.slot = slot.number;
    transfer.move.offset = first * cache::kPieceBytes;
    transfer.move.length = (last + 1 - first) * cache::kPieceBytes;
    job.from = slot.engine;
    if (!job.salvage) job.bay = take_bay(*job.volume, slot.engine, geometry_.line_bytes());
    if (job.bay)
        aim_at_bay(transfer, job.bay, slot.engine, transfer.move.offset);
    else
        transfer.move.remote = destage_regions_->remote(
            engine.identity().net, job.buffer + transfer.move.offset, transfer.move.length);
    transfer.done = destage_transfer_done;
    transfer.context = &job;
    job.outstanding = 1;
    engine.submit(transfer);
}

void Cache::destage_transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Destage& job = *static_cast<Destage*>(transfer.context);
    job.failed = job.failed || status != CacheStatus::kOk;
    if (--job.outstanding > 0) return;
    const bool unfetched = job.failed && job.phase == Destage::Phase::kFetch;
    if (unfetched && job.bay) job.cache->distrust(job.bay, job.from, transfer.move.handle);
    if (unfetched) return job.cache->destage_done(job, EAGAIN);
    // A copy whose bits were not cleared is the copy of an engine that is lost: it counts no more.
    job.cache->destage_step(job);
}

void Cache::destage_storage_done(io::Request& io) noexcept {
    Destage& job = *static_cast<Destage*>(io.context);
    if (io.error != 0) return job.cache->destage_done(job, io.error);
    job.cache->count_stored(job, io.length);
    job.cache->destage_step(job);
}

void Cache::count_stored(Destage& job, uint64_t bytes) noexcept {
    job.volume->counters.storage_write_bytes += bytes;
    job.volume->counters.destaged_bytes += bytes;
    count_upkeep(*job.volume, job.bay, bytes);
}

// A stretch of dirty pieces after the other; then the copies.
void Cache::destage_step(Destage& job) noexcept {
    if (job.phase == Destage::Phase::kClear) return destage_done(job, 0);
    job.phase = Destage::Phase::kStore;
    const Pieces run = job.left.first_run();
    if (!run.empty()) {
        job.left = job.left.without(run);
        const uint64_t begin = uint64_t{run.first()} * cache::kPieceBytes;
        const uint64_t at = geometry_.start_of(job.key.line) + begin;
        const uint64_t size = job.volume->open->volume().size();
        const uint64_t run_bytes = uint64_t{run.count()} * cache::kPieceBytes;
        if (at >= size) return destage_step(job);  // it shrank
        const uint64_t length = std::min(run_bytes, size - at);
        if (job.bay) {
            if (!store_from_bay(job, at, static_cast<uint32_t>(begin), length)) destage_done(job, EAGAIN);
            return;
        }
        job.io.op = io::Op::kWrite;
        job.io.fua = false;
        job.io.offset = at;
        job.io.length = length;
        job.io.data = job.buffer + begin;
        job.io.done = destage_storage_done;
        job.io.context = &job;
        job.volume->open->queue().submit(job.io);
        return;
    }
    job.phase = Destage::Phase::kClear;
    if (job.salvage) return destage_step(job);
    job.outstanding = 1;
    uint32_t which = 0;
    for (const cache::Slot& slot : job.line->holders()) {
        EngineLink& engine = *link(slot.engine);
        Transfer& transfer = job.transfers[which];
        transfer.kind = Transfer::Kind::kHeader;
        transfer.move = {};
        transfer.move.slot = slot.number;
        cache::LineHeader header{.volume = job.volume->open->volume().wwid(),
                                 .line = job.key.line,
                                 .generation = job.line->generation(),
                                 .incarnation = engine.identity().incarnation,
                                 .valid = which == 0 ? job.line->valid() : Pieces{},
                                 .dirty = {},
                                 .line_shift = geometry_.shift()};
        // The second copy holds nothing once the line is clean.
        if (which == 0) cache::write_header(header, transfer.move.header);
        transfer.done = destage_transfer_done;
        transfer.context = &job;
        ++job.outstanding;
        ++which;
        engine.submit(transfer);
    }
    if (--job.outstanding == 0) destage_step(job);
}

void Cache::destage_done(Destage& job, int error) noexcept {
    CachedVolume& volume = *job.volume;
    if (job.begun && !job.salvage)
        index_->end_destage(*job.line, job.token,
                            error == 0 ? cache::Index::Destaged::kStable : cache::Index::Destaged::kFailed);
    if (job.begun && !job.salvage && job.changes != storage_changes_)
        index_->invalidate(*job.line, job.token.pieces.without(job.line->dirty()));
    const bool storage_failed = error != 0 && error != EAGAIN;
    // Also if every holder was lost meanwhile: real storage has it.
    if (error == 0 && job.begun) brought_home(volume, job.key.line, job.token.pieces);
    if (error != 0 && job.salvage) salvage_failed(job);
    if (error == 0 && job.begun) {
        ++(job.salvage ? volume.counters.salvaged_lines : volume.counters.destaged_lines);
        volume.planner->succeeded();
        volume.last_error.clear();
    } else if (storage_failed) {
        ++volume.counters.destage_errors;
        volume.planner->failed(reactor_.now());
        std::string text = Status::from_errno(error, "real storage does not take dirty data").to_string();
        if (volume.last_error != text)
            log::error("volume {}: {}; the cache keeps it and tries again", volume.open->volume().name(),
                       text);
        volume.last_error = std::move(text);
    }
    if (job.bay) give_back(job.bay);
    index_->leave(job.op, granted_);
    wants_turn_ = true;
    // The job may be the next one's from here on.
    const Gate::Holder place = std::move(job.place);
    salvage_due_ = salvage_due_ || job.salvage;
    job.busy = false;
    volume.open->release();
    check_flushes(volume, storage_failed ? error : 0);
    if (!storage_failed) start_destages(volume);
}

void Cache::check_flushes(CachedVolume& volume, int error) noexcept {
    auto& flushes = volume.flushes;
    const bool tells = !flushes.empty() && fails_flushes(volume, Asker::kClient);
    for (auto at = flushes.begin(); at != flushes.end();) {
        const bool done = index_->flushed(volume.number, at->mark);
        const bool clients = at->asker == Asker::kClient;
        const bool lost = clients ? tells : fails_flushes(volume, at->asker);
        if (!done && error == 0 && !lost) {
            ++at;
            continue;
        }
        const Gate::Holder place = std::move(at->place);
        auto tell = std::move(at->done);
        at = flushes.erase(at);
        if (lost && clients && awaits(volume)) {
            tell(waits_are_over_ ? EBUSY : EAGAIN);
            continue;
        }
        if (lost && clients) told_of_loss(volume);
        tell(lost ? EIO : done ? 0 : error);
    }
    if (!flushes.empty()) return;
    volume.planner->want_no_more();
    if (membership_.degraded) volume.planner->want(degraded_mark_);
}

void Cache::flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker) {
    Gate::Holder place = volume.gate.enter();
    if (!place) return done(ENXIO);
    if (waits(volume))
        return postpone(after_recovery_, volume,
                        [this, &volume, done = std::move(done), asker] { flush(volume, done, asker); });
    if (holds(volume)) return done(EBUSY);
    if (asker == Asker::kClient && awaits(volume)) return done(waits_are_over_ ? EBUSY : EAGAIN);
    ++volume.counters.flushes;
    const uint64_t mark = index_->flush_mark();
    const bool lost = fails_flushes(volume, asker);
    if (!lost && index_->flushed(volume.number, mark)) return done(0);
    volume.flushes.push_back({std::move(place), mark, asker, std::move(done)});
    if (lost) return check_flushes(volume, EIO);
    volume.planner->want(mark);
    start_destages(volume);
}

}  // namespace wss::se
