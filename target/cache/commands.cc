// SPDX-License-Identifier: Apache-2.0
#include "target/cache/commands.h"

#include <algorithm>
#include <utility>

#include "lib/cache/header.h"
#include "target/cache/remote.h"

namespace wss::se {

using cache::Line;
using cache::Pieces;
using cache::Slot;
using Op = wire::CacheStorage::Op;

// Reserves, as parts of all command objects (as for buffers, block/arena.cc): the last free eighth is for
// volumes that hold none, the sixteenth before it also for initiators that hold none.
constexpr uint32_t kVolumeReserve = 8, kNexusReserve = 16;

void Commands::drop_all() noexcept {
    for (auto& work : works_) {
        work->unlink();
        work->place.release();
    }
}

void Commands::prepare(uint32_t works, uint32_t lines_per_work, const WorkPaths& paths) {
    lines_per_work_ = lines_per_work;
    for (uint32_t i = 0; i < works; ++i) {
        auto work = std::make_unique<Work>();
        work->path = paths;
        work->on_entered = paths.entered;
        work->lines = std::make_unique<LineWork[]>(lines_per_work);
        free_.push_back(*work);
        works_.push_back(std::move(work));
    }
    free_count_ = works;
}

// ---- Command objects -------------------------------------------------------------------------------------

Work* Commands::take(CachedVolume& volume, const WorkShareRef& share) noexcept {
    const size_t for_volumes = works_.size() / kVolumeReserve;
    const size_t used = volume.works + for_volumes + works_.size() / kNexusReserve;
    const bool first = share && share->works == 0;
    if (volume.works > 0 && (first ? for_volumes : used) >= free_count_) return nullptr;
    // Each command that the volume takes makes its share larger and the free part smaller.
    const size_t room = free_count_ > used ? (free_count_ - used) / 2 : 0;
    if (share && !leaves_enough(share->works, room)) return nullptr;
    Work* work = free_.pop_front();
    if (work == nullptr) return nullptr;
    --free_count_;
    work->volume = &volume;
    work->share = share;
    if (share) ++share->works;
    work->place = volume.gate.enter();
    if (work->place) ++volume.works;
    work->line_count = work->entered = work->outstanding = 0;
    work->phase = Work::Phase::kNone;
    work->is_abandoned = work->is_again = work->is_ahead = work->is_delegated = work->is_lazy =
        work->by_storage = work->transfer_failed = work->storing = work->rests = false;
    work->hold = true;
    work->attempts = 0;
    work->failed_engine = WSS_CACHE_ENGINES_MAX;
    work->buffer = nullptr;
    work->regions = nullptr;
    work->buffer_home = nullptr;
    work->buffer_bytes = 0;
    work->client = nullptr;
    work->remote = {};
    work->ending = {};
    return work;
}

// Called by the owner when it no longer needs the command and its buffer. If the cache's part is not over
// yet, part_over() calls it again, which frees both.
void Commands::release(Work& work) noexcept {
    work.hold = false;
    if (work.phase != Work::Phase::kNone) return;
    if (work.buffer_home != nullptr) work.buffer_home->give_back(work.buffer, work.buffer_bytes);
    work.buffer_home = nullptr;
    if (work.share) --work.share->works;
    work.share = {};
    work.fences.clear();
    work.state = Work::State::kIdle;
    free_.push_back(work);
    ++free_count_;
    // The volume may be freed with it.
    if (work.place) --work.volume->works;
    work.place.release();
}

void Commands::fence_abandoned(const CachedVolume& volume, const Fence& fence) {
    for (auto& work : works_)
        if (work->volume == &volume && work->is_write && work->is_abandoned &&
            work->phase != Work::Phase::kNone)
            work->fences.emplace_back(fence);
}

void Commands::forget(const Client& client) noexcept {
    for (auto& work : works_)
        if (work->client == &client) work->client = nullptr;
}

// ---- Lines -----------------------------------------------------------------------------------------------

void Commands::name_lines(Work& work) noexcept {
    uint64_t at = work.offset;
    uint64_t left = work.length;
    while (left > 0) {
        WSS_ASSERT(work.line_count < lines_per_work_, "a command is no longer than its lines");
        LineWork& line = work.lines[work.line_count++];
        line.span = geometry_.first_span(at, left);
        line.touched = geometry_.touched(line.span);
        line.covered = geometry_.covered(line.span);
        line.line = nullptr;
        line.filling = line.overlay = {};
        line.transfers_used = 0;
        at += line.span.length;
        left -= line.span.length;
    }
}

// SE1: whether operations of the volume must name all sub-blocks of a line.
bool Commands::is_wide(const CachedVolume& volume) noexcept {
    return volume.settings.policy == cache::Policy::kBack || index_.dirty_lines(volume.number) > 0;
}

// Enters lines in ascending order and keeps each (L1). While it waits for the next line its lines rest, as
// storage may hold that line for hours.
bool Commands::enter_lines(Work& work) noexcept {
    while (work.entered < work.line_count) {
        LineWork& line = work.lines[work.entered];
        Line* entry = index_.open({work.volume->number, line.span.line});
        if (entry == nullptr) {
            ++work.volume->counters.busy;
            end(work, {.kind = Ending::Kind::kBusy});
            return false;
        }
        line.line = entry;
        const bool hit = !work.is_write && entry->valid().contains(line.touched);
        line.op.access = hit ? cache::Access::kShared : cache::Access::kExclusive;
        line.op.pieces = !hit && is_wide(*work.volume) ? geometry_.all() : line.touched;
        if (!lines_.enter(*entry, line.op, work)) {
            rest(work);
            ++work.entered;
            engines_.hurry();
            return false;  // continues from Lines::serve()
        }
        ++work.entered;
    }
    work.state = Work::State::kRunning;
    return true;
}

void Commands::rest(Work& work) noexcept {
    for (uint32_t i = 0; i < work.entered; ++i) work.lines[i].op.rest();
    work.rests = true;
}

bool Commands::resume(Work& work, void (*then)(Work& work) noexcept) noexcept {
    if (!work.rests) return true;
    work.on_resumed = nullptr;
    work.resumed = 0;
    resume_lines(work);
    work.on_resumed = then;
    return !work.rests;
}

// Keeps each resumed line, as enter_lines() does: the copying that it waits for waits for no other operation.
void Commands::resume_lines(Work& work) noexcept {
    while (work.resumed < work.entered)
        if (!index_.resume(work.lines[work.resumed++].op)) return;
    work.rests = false;
    if (work.on_resumed != nullptr) work.on_resumed(work);
}

void Commands::leave_lines(Work& work) noexcept {
    for (uint32_t i = 0; i < work.entered; ++i) {
        lines_.leave(work.lines[i].op);
        work.lines[i].line = nullptr;
    }
    work.entered = 0;
    lines_.want_turn_if_granted();
}

// ---- Endings ---------------------------------------------------------------------------------------------

// Notifies the owner. The lines are left here, or by finish_part() when a fill continues.
void Commands::end(Work& work, const Ending& ending) noexcept {
    work.ending = ending;
    const bool filling = work.phase == Work::Phase::kFill;
    if (!filling) finish_part(work);
    work.state = Work::State::kAnswered;
    // The owner may release it before ended() returns.
    if (!filling) work.phase = Work::Phase::kEnding;
    work.owner->ended(work, ending);
    if (!filling) part_over(work);
}

void Commands::finish_part(Work& work) noexcept {
    leave_lines(work);
    if (work.bay) nodes_.give_back(work.bay);
    CachedVolume& volume = *work.volume;
    // The time includes a fill that continued after the answer, as the next reader of these sub-blocks waits
    // for it. A completion that was reported late is charged the latency of the last one that was reported at
    // once.
    auto took = static_cast<uint64_t>((reactor_.now() - work.began).count);
    if (work.is_lazy)
        took = volume.hit_ns;
    else if (work.is_delegated)
        volume.hit_ns = took;
    if (!work.is_ahead) (work.is_write ? volume.counters.write_ns : volume.counters.read_ns) += took;
    volume.open->release();
    volume.gate.end();
}

void Commands::refuse(Work& work) noexcept {
    end_unbegun(work, {.kind = Ending::Kind::kStorageFailed,
                       .error = ENXIO,
                       .io_op = work.is_write ? io::Op::kWrite : io::Op::kRead,
                       .offset = work.offset});
}

void Commands::end_unbegun(Work& work, const Ending& ending) noexcept {
    work.phase = Work::Phase::kEnding;
    work.state = Work::State::kAnswered;
    work.owner->ended(work, ending);
    part_over(work);
}

void Commands::part_over(Work& work) noexcept {
    work.phase = Work::Phase::kNone;
    if (work.hold) return;
    release(work);
}

// ---- Transfers -------------------------------------------------------------------------------------------

Transfer& Commands::next_transfer(Work& work, LineWork& line, Slot slot, Transfer::Done done) noexcept {
    WSS_ASSERT(line.transfers_used < line.transfers.size(), "one transfer for each copy");
    const uint32_t i = line.transfers_used++;
    line.slots[i] = slot;
    EngineLink* engine = engines_.link(slot.engine);
    line.incarnations[i] = engine == nullptr ? 0 : engine->identity().incarnation;
    Transfer& transfer = line.transfers[i];
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.slot = slot.number;
    transfer.done = done;
    transfer.context = &work;
    ++work.outstanding;
    return transfer;
}

void Commands::note_failed(Work& work, const Transfer& transfer) noexcept {
    const bool is_first = !std::exchange(work.transfer_failed, true);
    for (uint32_t i = 0; i < work.line_count; ++i)
        for (uint32_t t = 0; t < work.lines[i].transfers_used; ++t) {
            if (&work.lines[i].transfers[t] != &transfer) continue;
            const uint32_t engine = work.lines[i].slots[t].engine.value;
            // Once two engines have failed, all count, however many transfers fail afterwards.
            work.failed_engine = is_first || work.failed_engine == engine ? engine : WSS_CACHE_ENGINES_MAX;
            // Only the engine can make a move to or from the target's own memory fail.
            EngineLink* failed = engines_.link(work.lines[i].slots[t].engine);
            if (failed != nullptr && transfer.move.handle == wire::kStorageHandle)
                failed->close(Status(Code::kIo, "the engine failed to move data"));
        }
}

bool Commands::still_there(const LineWork& line) noexcept {
    for (uint32_t i = 0; i < line.transfers_used; ++i) {
        EngineLink* engine = engines_.link(line.slots[i].engine);
        if (engine == nullptr || engine->identity().incarnation != line.incarnations[i]) return false;
        auto holders = line.line->holders();
        if (std::find(holders.begin(), holders.end(), line.slots[i]) == holders.end()) return false;
    }
    return line.transfers_used > 0;
}

bool Commands::attached(const Work& work, Slot slot) noexcept {
    return work.client != nullptr && work.remote.length >= work.length &&
           work.client->engines[slot.engine.value].attached && engines_.link(slot.engine) != nullptr &&
           engines_.link(slot.engine)->is_ready();
}

std::array<std::byte, wire::kCacheHeaderBytes> Commands::header_bytes(const LineWork& line, Slot slot,
                                                                      const CachedVolume& volume,
                                                                      Pieces valid, Pieces dirty,
                                                                      uint64_t generation) {
    std::array<std::byte, wire::kCacheHeaderBytes> bytes;
    cache::LineHeader header{.volume = volume.open->volume().wwid(),
                             .line = line.span.line,
                             .generation = generation,
                             .incarnation = engines_.link(slot.engine)->identity().incarnation,
                             .valid = valid,
                             .dirty = dirty,
                             .line_shift = geometry_.shift()};
    cache::write_header(header, bytes);
    return bytes;
}

// ---- Real storage ----------------------------------------------------------------------------------------

void Commands::start_storage(Work& work, io::Op op, void (*done)(io::Request& io) noexcept) noexcept {
    CachedVolume& volume = *work.volume;
    work.io.op = op;
    work.io.offset = work.offset;
    work.io.length = work.length;
    work.io.data = work.buffer;
    work.io.done = done;
    work.io.context = &work;
    (op == io::Op::kRead ? volume.counters.storage_read_bytes : volume.counters.storage_write_bytes) +=
        work.length;
    ++work.outstanding;
    volume.open->queue().submit(work.io);
}

void Commands::note_error(Work& work, const io::Request& io) noexcept {
    if (io.error == 0 || work.ending.error != 0) return;
    work.ending = {.kind = Ending::Kind::kStorageFailed,
                   .error = io.error,
                   .io_op = io.op,
                   .offset = io.offset + io.done_bytes};
}

bool Commands::reaches_storage(const Work& work) noexcept {
    if (work.volume->remote == nullptr || work.client == nullptr || work.remote.length < work.length)
        return false;
    const EngineLink* storage = work.volume->remote->storage();
    return storage != nullptr && work.client->engines[storage->index().value].attached;
}

Transfer& Commands::remote_io(Work& work, Op op, Transfer::Done done) noexcept {
    EngineLink& storage = *work.volume->remote->storage();
    work.remote_engine = storage.index();
    Transfer& transfer = work.remote_io;
    transfer.kind = Transfer::Kind::kStorage;
    transfer.storage = {
        .op = op, .volume = work.volume->remote->number(), .offset = work.offset, .length = work.length};
    if (work.client != nullptr) {
        transfer.storage.handle = work.client->engines[storage.index().value].handle;
        transfer.storage.remote = {work.remote.address, work.remote.rkey, work.length};
    }
    if (work.bay) {
        transfer.storage.in_bay = true;
        transfer.storage.bay = work.bay.place();
    }
    transfer.done = done;
    transfer.context = &work;
    ++work.outstanding;
    return transfer;
}

}  // namespace wss::se
