// SPDX-License-Identifier: Apache-2.0
// What reads and writes have in common: entering lines, buffers, transfers, endings.
#include <algorithm>
#include <cstring>

#include "lib/cache/header.h"
#include "target/cache/cache.h"

namespace wss::se {

using cache::Line;
using cache::Pieces;
using cache::Slot;
using wire::CacheStatus;

// The last eighth is for volumes that hold none.
constexpr uint32_t kReserve = 8;

Work* Cache::take_work(CachedVolume& volume) noexcept {
    if (volume.works > 0 && volume.works + options_.works / kReserve >= free_works_count_) return nullptr;
    Work* work = free_works_.pop_front();
    if (work == nullptr) return nullptr;
    --free_works_count_;
    work->volume = &volume;
    work->place = volume.gate.enter();
    if (work->place) ++volume.works;
    work->line_count = work->entered = work->outstanding = 0;
    work->phase = Work::Phase::kNone;
    work->is_again = work->is_ahead = work->is_delegated = work->is_lazy = work->by_storage =
        work->transfer_failed = false;
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

void Cache::count_command(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    (work.is_write ? volume.counters.writes : volume.counters.reads)++;
    (work.is_write ? volume.counters.write_bytes : volume.counters.read_bytes) += work.length;
    // Without engines there is nowhere to bring it.
    if (!work.is_write && !volume.gate.frozen() && !holding_ && index_->placeable_engines() > 0)
        prefetch_->reads(volume, {work.offset, work.length});
}

void Cache::begin(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    if (!work.is_ahead && !work.is_again) count_command(work);
    work.began = reactor_.now();
    if (volume.removed()) return refuse(work);
    if (holds(volume) && waits_are_over_) return end_unbegun(work, {.kind = Ending::Kind::kBusy});
    volume.open->hold();
    if (volume.gate.frozen() || holds(volume)) {
        work.state = Work::State::kHeld;
        volume.gate.hold_back(work);
        return;
    }
    if (!work.is_write && hit(work)) return;
    admit(work);
}

void Cache::admit(Work& work) noexcept {
    work.volume->gate.begin();
    work.changes = storage_changes_;
    work.state = Work::State::kEntering;
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
    enter_lines(work);
}

// SE1.
bool Cache::is_wide(const CachedVolume& volume) noexcept {
    return volume.settings.policy == cache::Policy::kBack || index_->dirty_lines(volume.number) > 0;
}

// In ascending order, each kept (L1).
void Cache::enter_lines(Work& work) noexcept {
    while (work.entered < work.line_count) {
        LineWork& line = work.lines[work.entered];
        Line* entry = index_->open({work.volume->number, line.span.line});
        if (entry == nullptr) {
            ++work.volume->counters.busy;
            return end(work, {.kind = Ending::Kind::kBusy});
        }
        line.line = entry;
        line.op.context = &work;
        const bool hit = !work.is_write && entry->valid().contains(line.touched);
        line.op.access = hit ? cache::Access::kShared : cache::Access::kExclusive;
        line.op.pieces = !hit && is_wide(*work.volume) ? geometry_.all() : line.touched;
        ++work.entered;
        if (!index_->enter(*entry, line.op)) return hurry();  // goes on from serve_granted()
    }
    work.state = Work::State::kRunning;
    run(work);
}

void Cache::leave_lines(Work& work) noexcept {
    for (uint32_t i = 0; i < work.entered; ++i) {
        index_->leave(work.lines[i].op, granted_);
        work.lines[i].line = nullptr;
    }
    work.entered = 0;
    if (!granted_.empty()) wants_turn_ = true;
}

void Cache::run(Work& work) noexcept {
    if (beyond_end(work))
        return end(work, {.kind = Ending::Kind::kStorageFailed,
                          .error = ENOSPC,
                          .io_op = work.is_write ? io::Op::kWrite : io::Op::kRead,
                          .offset = work.offset});
    work.is_write ? run_write(work) : run_read(work);
}

// ---- Endings ---------------------------------------------------------------------------------------------

// The client hears of it. Lines are left here, or, when a fill goes on, by finish_part().
void Cache::end(Work& work, const Ending& ending) noexcept {
    work.ending = ending;
    const bool filling = work.phase == Work::Phase::kFill;
    if (!filling) finish_part(work);
    work.state = Work::State::kAnswered;
    // The owner may release it before ended() returns.
    if (!filling) work.phase = Work::Phase::kEnding;
    work.owner->ended(work, ending);
    if (!filling) part_over(work);
}

// Our part is over: nothing of the work refers to lines, engines or storage.
void Cache::finish_part(Work& work) noexcept {
    leave_lines(work);
    if (work.bay) give_back(work.bay);
    CachedVolume& volume = *work.volume;
    // A fill that went on behind the answer counts: the next reader of these pieces waits for it. What is
    // heard of late took as long as the last of its kind that was not.
    auto took = static_cast<uint64_t>((reactor_.now() - work.began).count);
    if (work.is_lazy)
        took = volume.hit_ns;
    else if (work.is_delegated)
        volume.hit_ns = took;
    if (!work.is_ahead) (work.is_write ? volume.counters.write_ns : volume.counters.read_ns) += took;
    volume.open->release();
    volume.gate.end();
}

// Its volume is being removed.
void Cache::refuse(Work& work) noexcept {
    end_unbegun(work, {.kind = Ending::Kind::kStorageFailed,
                       .error = ENXIO,
                       .io_op = work.is_write ? io::Op::kWrite : io::Op::kRead,
                       .offset = work.offset});
}

// It has not begun and does not.
void Cache::end_unbegun(Work& work, const Ending& ending) noexcept {
    work.phase = Work::Phase::kEnding;
    work.state = Work::State::kAnswered;
    work.owner->ended(work, ending);
    part_over(work);
}

void Cache::part_over(Work& work) noexcept {
    work.phase = Work::Phase::kNone;
    if (work.hold) return;
    release(work);
}

// Called by the owner when it has no use for the work and its buffer, and by us when we have none either.
void Cache::release(Work& work) noexcept {
    work.hold = false;
    if (work.phase != Work::Phase::kNone) return;
    if (work.buffer_home != nullptr) work.buffer_home->give_back(work.buffer, work.buffer_bytes);
    work.buffer_home = nullptr;
    work.state = Work::State::kIdle;
    free_works_.push_back(work);
    ++free_works_count_;
    // The volume may go with it.
    if (work.place) --work.volume->works;
    work.place.release();
}

// ---- Buffers ---------------------------------------------------------------------------------------------

void Cache::buffer_ready(Work& work, std::byte* buffer, const BufferRegions& regions) noexcept {
    work.buffer = buffer;
    work.regions = &regions;
    // Only for what engines take from it.
    if (work.phase == Work::Phase::kFetch && can_fetch(work)) return fetch(work);
    (work.is_ahead ? work.volume->counters.read_ahead_bytes : work.volume->counters.through_us_bytes) +=
        work.length;
    if (work.is_write) return start_write(work);
    if (work.phase == Work::Phase::kGather) return gather(work);
    start_storage(work, io::Op::kRead);
}

void Cache::buffer_failed(Work& work) noexcept {
    // A write that has failed once may have changed copies.
    if (work.is_write && work.attempts > 0) return give_up_write(work, {.kind = Ending::Kind::kBusy});
    end(work, {.kind = Ending::Kind::kBusy});
}

// Owner of what its owner left: nobody hears how that ends.
class Nobody final : public WorkOwner {
  public:
    void need_buffer(Work& work) noexcept override { work.cache->buffer_failed(work); }
    void delegated(Work&) noexcept override {}
    void answered(Work& work) noexcept override { work.cache->release(work); }
    void ended(Work& work, const Ending&) noexcept override { work.cache->release(work); }
};

// A write that has failed once ends only when its copies are made alike, long after its owner.
void Cache::abandon(Work& work) noexcept {
    static Nobody nobody;
    work.owner = &nobody;
    work.cookie = nullptr;
    buffer_failed(work);
}

// ---- Storage ---------------------------------------------------------------------------------------------

void Cache::start_storage(Work& work, io::Op op) noexcept {
    CachedVolume& volume = *work.volume;
    if (!work.is_write) {
        work.phase = Work::Phase::kStorage;
        for (uint32_t i = 0; i < work.line_count; ++i)
            work.lines[i].overlay = work.lines[i].touched & work.lines[i].line->dirty();
    }
    work.io.op = op;
    work.io.offset = work.offset;
    work.io.length = work.length;
    work.io.data = work.buffer;
    work.io.done = storage_done;
    work.io.context = &work;
    (op == io::Op::kRead ? volume.counters.storage_read_bytes : volume.counters.storage_write_bytes) +=
        work.length;
    ++work.outstanding;
    volume.open->queue().submit(work.io);
}

void Cache::storage_done(io::Request& io) noexcept {
    Work& work = *static_cast<Work*>(io.context);
    Cache& cache = *work.cache;
    if (io.error != 0 && work.ending.error == 0)
        work.ending = {.kind = Ending::Kind::kStorageFailed,
                       .error = io.error,
                       .io_op = io.op,
                       .offset = io.offset + io.done_bytes};
    if (--work.outstanding == 0) work.is_write ? cache.write_part_over(work) : cache.read_part_over(work);
}

// ---- Transfers -------------------------------------------------------------------------------------------

// Filled in by the caller but for who hears of it.
Transfer& Cache::next_transfer(Work& work, LineWork& line, Slot slot) noexcept {
    WSS_ASSERT(line.transfers_used < line.transfers.size(), "one transfer for each copy");
    const uint32_t i = line.transfers_used++;
    line.slots[i] = slot;
    EngineLink* engine = link(slot.engine);
    line.incarnations[i] = engine == nullptr ? 0 : engine->identity().incarnation;
    Transfer& transfer = line.transfers[i];
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.slot = slot.number;
    transfer.done = transfer_done;
    transfer.context = &work;
    ++work.outstanding;
    return transfer;
}

void Cache::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    work.cache->transfer_over(work, transfer, status);
}

void Cache::transfer_over(Work& work, Transfer& transfer, CacheStatus status) noexcept {
    if (status != CacheStatus::kOk && work.bay && work.phase == Work::Phase::kFill) {
        fill_failed(work, transfer);
    } else if (status != CacheStatus::kOk) {
        work.transfer_failed = true;
        for (uint32_t i = 0; i < work.line_count; ++i)
            for (uint32_t t = 0; t < work.lines[i].transfers_used; ++t)
                if (&work.lines[i].transfers[t] == &transfer) {
                    const uint32_t engine = work.lines[i].slots[t].engine.value;
                    const bool first = work.failed_engine == WSS_CACHE_ENGINES_MAX;
                    work.failed_engine =
                        first || work.failed_engine == engine ? engine : WSS_CACHE_ENGINES_MAX;
                    // A move with our own memory fails by the engine's fault alone.
                    EngineLink* failed = link(work.lines[i].slots[t].engine);
                    if (failed != nullptr && transfer.move.handle == wire::kStorageHandle)
                        failed->close(Status(Code::kIo, "the engine failed to move data"));
                }
    }
    if (--work.outstanding == 0) work.is_write ? write_part_over(work) : read_part_over(work);
}

// The copies that the line's transfers went to are still its copies: no engine was lost and replaced.
bool Cache::still_there(const LineWork& line) noexcept {
    for (uint32_t i = 0; i < line.transfers_used; ++i) {
        EngineLink* engine = link(line.slots[i].engine);
        if (engine == nullptr || engine->identity().incarnation != line.incarnations[i]) return false;
        auto holders = line.line->holders();
        if (std::find(holders.begin(), holders.end(), line.slots[i]) == holders.end()) return false;
    }
    return line.transfers_used > 0;
}

bool Cache::attached(const Work& work, Slot slot) noexcept {
    return work.client != nullptr && work.remote.length >= work.length &&
           work.client->engines[slot.engine.value].attached && link(slot.engine) != nullptr &&
           link(slot.engine)->is_ready();
}

std::array<std::byte, wire::kCacheHeaderBytes> Cache::header_bytes(const LineWork& line, Slot slot,
                                                                   const CachedVolume& volume, Pieces valid,
                                                                   Pieces dirty, uint64_t generation) {
    std::array<std::byte, wire::kCacheHeaderBytes> bytes;
    cache::LineHeader header{.volume = volume.open->volume().wwid(),
                             .line = line.span.line,
                             .generation = generation,
                             .incarnation = link(slot.engine)->identity().incarnation,
                             .valid = valid,
                             .dirty = dirty,
                             .line_shift = geometry_.shift()};
    cache::write_header(header, bytes);
    return bytes;
}

void Cache::serve_granted() noexcept {
    while (cache::LineOp* op = granted_.pop_front()) {
        // A destage names itself by the low bit of its context.
        auto context = reinterpret_cast<uintptr_t>(op->context);
        if (context & 1)
            destage_entered(*reinterpret_cast<Destage*>(context & ~uintptr_t{1}));
        else if (context & 2)
            erase_entered(*reinterpret_cast<Erase*>(context & ~uintptr_t{2}), *op);
        else
            enter_lines(*static_cast<Work*>(op->context));
    }
}

}  // namespace wss::se
