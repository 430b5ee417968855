// SPDX-License-Identifier: Apache-2.0
#include "target/cache/destager.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/cache/header.h"
#include "target/cache/destage_job.h"
#include "target/cache/remote.h"

namespace wss::cache {

using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

constexpr Nanoseconds kSalvageAgain = from_s(1);
constexpr Nanoseconds kFollowMax = from_s(60);  // more than DestageOptions::retry_max
constexpr uint32_t kSalvageLooksPerTurn = 256;  // below 0.2 ms
// Lines that are this near to a silent line are assumed to be in the same part of the storage, an object of a
// Ceph image.
constexpr uint32_t kPartShift = 22;

Destager::Destager(const Uses& uses, reactor::Reactor& reactor, Turn& turn)
    : uses_(uses),
      index_(uses.lines.index()),
      geometry_(uses.lines.geometry()),
      reactor_(reactor),
      turn_(turn) {}

Destager::~Destager() = default;

void Destager::prepare(uint32_t destages) {
    destages_ = destages;
    runs_ = std::make_unique<Runs>(*this, size_t{destages} * kJobsFor);
    for (uint32_t i = 0; i < destages * kJobsFor; ++i) {
        jobs_.push_back(std::make_unique<Job>());
        Job& job = *jobs_.back();
        job.owner = this;
        job.number = i;
        job.on_entered = [](LineUser& user) noexcept {
            auto& entered = static_cast<Job&>(user);
            entered.begun ? entered.owner->step(entered) : entered.owner->entered(entered);
        };
        job.buffer = uses_.memory.buffer(i);
    }
}

Destager::Job* Destager::free_job() noexcept {
    auto free = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->busy; });
    return free == jobs_.end() ? nullptr : free->get();
}

// ---- Jobs ------------------------------------------------------------------------------------------------

void Destager::tick() noexcept {
    note_silent();
    start_all();
    // Lines that flushes wait for may disappear without a job: a volume that became smaller has dropped them.
    for (CachedVolume& volume : uses_.volumes.open())
        if (!volume.flushes.empty()) check_flushes(volume, {});
    fail_flushes();
    salvage_again();
}

// Reports silent jobs that wait for storage, or for a command that holds the line and waits for storage. A
// job that waits for its engine is not reported, because a silent engine is soon considered lost.
void Destager::note_silent() noexcept {
    for (const auto& job : jobs_) {
        if (!job->busy || job->silent || reactor_.now() - job->since < kSilentAfter) continue;
        job->silent = true;
        const bool fetches = job->begun && job->phase == Job::Phase::kFetch;
        if (!fetches) job->volume->planner->unanswered(reactor_.now());
    }
}

Destager::Load Destager::load_of(const CachedVolume& volume) const noexcept {
    Load load{.volumes = 1};
    for (size_t i = 0; i < jobs_.size(); ++i) {
        const Job& job = *jobs_[i];
        if (!job.busy) {
            ++load.free;
            continue;
        }
        load.working += !job.silent;
        load.of_volume += job.volume == &volume;
        load.working_of_volume += !job.silent && job.volume == &volume;
        if (job.silent || job.volume == &volume) continue;
        const auto same = [&job](const auto& other) {
            return other->busy && !other->silent && other->volume == job.volume;
        };
        load.volumes += std::none_of(jobs_.begin(), jobs_.begin() + static_cast<ptrdiff_t>(i), same);
    }
    return load;
}

bool Destager::leaves_room(const CachedVolume& volume, const Load& load) noexcept {
    if (load.of_volume == 0) return true;
    if (volume.planner->suspect() && load.working_of_volume > 0) return false;
    return 2 * load.of_volume <= load.free;
}

// Each volume with lines to be destaged has a job. So the volumes that have jobs share the free jobs.
Destager::Room Destager::room_for(const CachedVolume& volume) noexcept {
    const Load load = load_of(volume);
    short_of_jobs_ = short_of_jobs_ || load.free == 0;
    if (load.free == 0 || !leaves_room(volume, load)) return {};
    const uint32_t share = std::max(destages_ / load.volumes, 1U);
    Room room{.together = std::max(share / 2, 1U), .grows = load.working_of_volume > 0};
    room.jobs = std::min(share - std::min(share, load.working_of_volume),
                         destages_ - std::min(destages_, load.working));
    if (load.of_volume == 0) room.jobs = std::max(room.jobs, 1U);
    if (volume.planner->suspect()) room.jobs = std::min(room.jobs, 1U);
    // The last of these jobs must leave room as well.
    const uint32_t unused = load.free - std::min(load.free, 2 * load.of_volume);
    room.jobs = std::min(room.jobs, unused / 3 + 1);
    return room;
}

DestagePlanner::Look Destager::look_at(const Line& line) const noexcept {
    using Look = DestagePlanner::Look;
    const uint32_t shift = kPartShift - geometry_.shift();
    Look look = Look::kYes;
    for (const auto& job : jobs_) {
        if (!job->busy || job->key.volume != line.key().volume) continue;
        if (!job->salvage && job->key == line.key()) return Look::kAskedFor;
        if (job->silent && job->key.line >> shift == line.key().line >> shift) look = Look::kSilent;
    }
    return look;
}

// Round-robin if there are fewer jobs than volumes.
void Destager::start_all() noexcept {
    short_of_jobs_ = false;
    const uint32_t first = next_volume_;
    for (const bool before_first : {false, true})
        for (CachedVolume& volume : uses_.volumes.open()) {
            if ((volume.number < first) != before_first) continue;
            const bool began = start(volume);
            if (!short_of_jobs_) continue;
            next_volume_ = volume.number + began;  // the other volumes come first
            return;
        }
}

bool Destager::start(CachedVolume& volume) noexcept {
    if (index_.dirty_lines(volume.number) == 0 || uses_.recovery.holding()) return false;
    if (volume.removed() || volume.given_up) return false;
    bool began = false;
    std::array<Line*, kDestageRunMax> run;
    for (Room room = room_for(volume); room.jobs > 0; room = room_for(volume)) {
        // While one write is in flight, the next is fetched. The oldest line is always included.
        const uint32_t most = room.grows ? room.together : std::min(room.together, room.jobs);
        const size_t count =
            volume.planner->next(index_, volume.number, reactor_.now(), std::span(run).first(most),
                                 [this](const Line& line) { return look_at(line); });
        if (count == 0 || count > room.jobs) break;
        began = true;
        runs_->begin(volume, std::span(run).first(count));
    }
    return began;
}

void Destager::begin_job(Job& job, CachedVolume& volume, Line& line, Access access) noexcept {
    job.busy = true;
    job.since = reactor_.now();
    job.silent = false;
    job.volume = &volume;
    job.place = volume.gate.enter();
    WSS_ASSERT(job.place, "no job begins for a volume that is being removed");
    job.line = &line;
    job.key = line.key();
    job.error = 0;
    job.changes = uses_.nodes.changes();
    job.staging = {};
    job.cut_off = {};
    job.failed = false;
    job.begun = false;
    job.phase = Job::Phase::kFetch;
    volume.open->hold();
    job.op.sub_blocks = geometry_.all();
    job.op.access = access;
    if (uses_.lines.enter(line, job.op, job)) return entered(job);
    Runs::leave(job);
    uses_.engines.flush_completions();
}

// Chooses the sub-blocks to destage and the slot of their copy. Returns false if either is missing.
bool Destager::choose_copy(Job& job, ArenaSlot& slot) noexcept {
    if (job.salvage) {
        slot = job.item.slot;
        job.token = {.sub_blocks = salvageable(job.item)};
        EngineLink* engine = uses_.engines.link(slot.engine);
        if (engine == nullptr || engine->identity().incarnation != job.item.incarnation) return false;
    } else {
        if (job.line->state() != LineState::kDirty || job.line->holders().empty()) return false;
        slot = job.line->holders()[0];
        job.token = index_.begin_destage(*job.line);
    }
    return !job.token.sub_blocks.empty();
}

void Destager::entered(Job& job) noexcept {
    ArenaSlot slot;
    if (!choose_copy(job, slot)) {
        Runs::leave(job);
        return done(job, 0);
    }
    job.begun = true;
    if (job.salvage) job.op.rest();  // the line's copies do not have these sub-blocks
    job.left = job.token.sub_blocks;
    const uint32_t first = job.left.first();
    const uint32_t last = 63 - static_cast<uint32_t>(std::countl_zero(job.left.bits));
    EngineLink& engine = *uses_.engines.link(slot.engine);
    Transfer& transfer = job.transfers[0];
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.to_peer = true;
    transfer.move.slot = slot.number;
    transfer.move.offset = first * kSubBlockBytes;
    transfer.move.length = (last + 1 - first) * kSubBlockBytes;
    job.from = slot.engine;
    if (!job.salvage) job.staging = uses_.nodes.take(*job.volume, slot.engine, geometry_.line_bytes());
    if (job.staging)
        uses_.nodes.aim(transfer, job.staging, slot.engine, transfer.move.offset);
    else
        transfer.move.remote = uses_.memory.regions().remote(
            engine.identity().via, job.buffer + transfer.move.offset, transfer.move.length);
    transfer.done = transfer_done;
    transfer.context = &job;
    job.outstanding = 1;
    engine.submit(transfer);
}

void Destager::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Job& job = *static_cast<Job*>(transfer.context);
    job.failed = job.failed || status != CacheStatus::kOk;
    if (--job.outstanding > 0) return;
    const bool late = job.failed && job.phase == Job::Phase::kFetch;
    if (late && job.staging) job.owner->uses_.nodes.quarantine(job.staging, job.from, transfer.move.handle);
    if (job.phase == Job::Phase::kFetch) return job.owner->runs_->fetched(job);
    // An engine that failed to clear the dirty bits is disconnected, and its copy is no longer valid.
    job.owner->step(job);
}

// The fetch of the line has ended, successfully or not.
void Destager::go_on(Job& job) noexcept {
    job.failed ? done(job, EAGAIN) : step(job);
}

void Destager::storage_done(io::Request& io) noexcept {
    Job& job = *static_cast<Job*>(io.context);
    if (io.error != 0) return job.owner->done(job, io.error);
    job.owner->count_stored(job, io.length);
    job.owner->step(job);
}

void Destager::count_stored(Job& job, uint64_t bytes) noexcept {
    job.volume->counters.storage_write_bytes += bytes;
    job.volume->counters.destaged_bytes += bytes;
    StorageNodes::count_upkeep(*job.volume, job.staging, bytes);
}

// The next sub-blocks to store. Of a lost line, those still lost, up to the smallest end that the volume had.
SubBlocks Destager::next_run(Job& job) const noexcept {
    if (job.salvage) job.left &= salvageable(job.item);
    const SubBlocks run = job.left.first_run();
    if (!job.salvage || run.empty()) return run;
    const uint64_t last = (end_of(job.item, run) - 1) >> kSubBlockShift;
    return last >= kSubBlocksMax - 1 ? run : run & SubBlocks{(uint64_t{2} << last) - 1};
}

uint64_t Destager::end_of(const SalvageQueue::Item& item, SubBlocks sub_blocks) const noexcept {
    return uses_.members.now().lost.end_of(item.header.volume, item.header.line, sub_blocks);
}

// Stores the contiguous runs of dirty sub-blocks one after another, then clears the copies.
void Destager::step(Job& job) noexcept {
    if (job.phase == Job::Phase::kClear) return done(job, 0);
    job.phase = Job::Phase::kStore;
    const SubBlocks run = next_run(job);
    if (!run.empty()) {
        job.left = job.left.without(run);
        const uint64_t begin = uint64_t{run.first()} * kSubBlockBytes;
        const uint64_t line_begin = geometry_.start_of(job.key.line), at = line_begin + begin;
        uint64_t size = job.volume->open->volume().size();
        if (job.salvage) size = std::min(size, line_begin + end_of(job.item, run));
        const uint64_t run_bytes = uint64_t{run.count()} * kSubBlockBytes;
        if (at >= size) return step(job);  // the volume shrank
        const uint64_t length = std::min(run_bytes, size - at);
        if (length < run_bytes)
            job.cut_off = {.last = {uint64_t{1} << (run.first() + run.count() - 1)}, .end = size};
        if (job.staging) {
            if (!store_from_staging(job, at, static_cast<uint32_t>(begin), length)) done(job, EAGAIN);
            return;
        }
        job.io.op = io::Op::kWrite;
        job.io.fua = false;
        job.io.offset = at;
        job.io.length = length;
        job.io.data = job.buffer + begin;
        job.io.done = storage_done;
        job.io.context = &job;
        job.volume->open->queue().submit(job.io);
        return;
    }
    // A second copy that is being made would claim sub-blocks that are already stored.
    if (!job.salvage && !index_.resume(job.op)) return;
    job.phase = Job::Phase::kClear;
    if (job.salvage) return step(job);
    index_.begin_clear(*job.line, job.token);
    job.outstanding = 1;
    uint32_t which = 0;
    for (const ArenaSlot& slot : job.line->copies()) {
        EngineLink& engine = *uses_.engines.link(slot.engine);
        Transfer& transfer = job.transfers[which];
        transfer.kind = Transfer::Kind::kHeader;
        transfer.move = {};
        transfer.move.slot = slot.number;
        LineHeader header{.volume = job.volume->open->volume().wwid(),
                          .line = job.key.line,
                          .generation = job.line->generation(),
                          .incarnation = engine.identity().incarnation,
                          .valid = which == 0 ? job.line->valid() : SubBlocks{},
                          .dirty = {},
                          .line_shift = geometry_.shift()};
        // Once the line is clean the second copy is erased.
        if (which == 0) write_header(header, transfer.move.header);
        transfer.done = transfer_done;
        transfer.context = &job;
        ++job.outstanding;
        ++which;
        engine.submit(transfer);
    }
    if (--job.outstanding == 0) step(job);
}

// Returns false if the storage process is lost, and its staging buffer with it.
bool Destager::store_from_staging(Job& job, uint64_t at, uint32_t begin, uint64_t length) noexcept {
    EngineLink* storage = uses_.nodes.storage_of(job.staging, *job.volume);
    if (storage == nullptr) return false;
    Transfer& transfer = job.transfers[0];
    transfer.kind = Transfer::Kind::kStorage;
    transfer.storage = {.op = Op::kWrite,
                        .staged = true,
                        .volume = job.volume->remote->number(),
                        .offset = at,
                        .length = length,
                        .staging_offset = job.staging.place() + begin};
    transfer.done = stored_from_staging;
    transfer.context = &job;
    storage->submit(transfer);
    return true;
}

void Destager::stored_from_staging(Transfer& transfer, CacheStatus status) noexcept {
    Job& job = *static_cast<Job*>(transfer.context);
    Destager& destager = *job.owner;
    const bool failed = transfer.error != 0 && job.volume->remote->answers_for_it(job.staging.storage);
    if (status != CacheStatus::kOk) return destager.done(job, failed ? transfer.error : EAGAIN);
    job.volume->remote->note_write();
    destager.count_stored(job, transfer.storage.length);
    destager.step(job);
}

// True if storage has rejected another line of the volume, and has not accepted it since.
bool Destager::is_refused(CachedVolume& volume, const Job& job) noexcept {
    if (!volume.planner->failing()) return false;
    if (index_.dirty(volume.number).first_deferred() != nullptr) return true;
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& other) {
        return other.get() != &job && other->busy && other->volume == &volume &&
               (other->again || other->silent);
    });
}

// A volume shrinks with its storage, and drops dirty lines beyond the new end. Flushes wait for that: storage
// rejects writes there from the start of the shrink, but reports its new size only at the end.
bool Destager::follows_storage(CachedVolume& volume) noexcept {
    const Nanoseconds now = reactor_.now();
    auto& smaller = volume.smaller;
    const bool known = smaller.since != kNever && now - smaller.seen <= kFollowMax;
    smaller = {.since = known ? smaller.since : now, .seen = now};
    return now - smaller.since < kFollowMax;
}

void Destager::done(Job& job, int error) noexcept {
    CachedVolume& volume = *job.volume;
    const bool follows = error == EFBIG && follows_storage(volume);
    if (follows) {
        error = EAGAIN;
        volume.planner->failed(reactor_.now(), true);
    }
    const bool is_cut_off = job.begun && !job.salvage && !job.cut_off.last.empty();
    if (is_cut_off && job.cut_off.end != volume.open->volume().size() && error == 0) error = EAGAIN;
    if (job.begun && !job.salvage)
        index_.end_destage(*job.line, job.token,
                           error == 0 ? Index::Destaged::kStable : Index::Destaged::kFailed);
    if (job.begun && !job.salvage && job.changes != uses_.nodes.changes())
        index_.invalidate(*job.line, job.token.sub_blocks.without(job.line->dirty()));
    // Real storage may have other data beyond the former end, which is visible when the volume grows.
    if (is_cut_off && error == 0) index_.invalidate(*job.line, job.cut_off.last.without(job.line->dirty()));
    const bool storage_failed = error != 0 && error != EAGAIN;
    // Done even if every holder was lost in the meantime, because real storage has the data.
    if (error == 0 && job.begun) uses_.losses.destaged(volume, job.key.line, job.token.sub_blocks);
    if (error != 0 && job.salvage) salvage_failed(job);
    if (error == 0 && job.begun) {
        ++(job.salvage ? volume.counters.salvaged_lines : volume.counters.destaged_lines);
        volume.planner->succeeded(job.again || job.silent);
        if (!is_refused(volume, job)) {
            volume.planner->succeeded(true);
            volume.last_error.clear();
            volume.smaller = {};
        }
    } else if (storage_failed) {
        ++volume.counters.destage_errors;
        volume.planner->failed(reactor_.now(), job.silent);
        std::string text = Status::from_errno(error, "real storage does not accept dirty data").to_string();
        if (volume.last_error != text)
            log::error("volume {}: {}; the cache keeps it and tries again", volume.open->volume().name(),
                       text);
        volume.last_error = std::move(text);
    }
    if (job.staging) uses_.nodes.give_back(job.staging);
    uses_.lines.leave(job.op);
    turn_.want();
    // After this the job may be reused.
    const Gate::Holder place = std::move(job.place);
    salvage_due_ = salvage_due_ || job.salvage;
    job.busy = false;
    volume.open->release();
    check_flushes(volume, {.plain = storage_failed ? error : 0, .holding = follows ? EFBIG : 0});
    if (short_of_jobs_)
        start_all();
    else if (!storage_failed)
        start(volume);
}

// ---- Lost lines that an engine returned with -------------------------------------------------------------

// Each job takes one copy. Each completion checks only as many copies as are needed to fill the free jobs.
void Destager::salvage() noexcept {
    salvage_due_ = false;
    uint32_t looks = kSalvageLooksPerTurn;
    for (EngineLink& engine : uses_.engines.all()) {
        if (!engine.identity().returned || !engine.is_ready()) continue;
        SalvageQueue& queue = salvage_of(engine);
        while (queue.has_due()) {
            if (looks-- == 0) {
                salvage_due_ = true;
                return turn_.want();
            }
            Job* const free = free_job();
            const auto working = [](const auto& job) { return job->busy && !job->silent; };
            if (free == nullptr || std::count_if(jobs_.begin(), jobs_.end(), working) >= destages_) break;
            SalvageQueue::Item item = *queue.take();
            if (!start_salvage(*free, item)) queue.postpone(std::move(item));
        }
        const auto any_job = [this, &engine](auto&& which) {
            return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
                return job->busy && job->salvage && job->item.slot.engine == engine.index() && which(*job);
            });
        };
        // Copies of lines that were lost after the engine had joined were skipped, so the engine must join
        // again. Copies that are due are fetched first. Otherwise repeated losses would delay them forever.
        if (queue.noted() != uses_.losses.noted() && !uses_.losses.none()) {
            const bool fetches =
                any_job([](const Job& job) { return job.begun && job.phase == Job::Phase::kFetch; });
            if (queue.has_due() || fetches) continue;
            uses_.losses.ask_again(engine);
            engine.close(Status(Code::kUnavailable, "more lines were lost: it must send its headers again"));
            continue;
        }
        if (!queue.empty() || any_job([](const Job&) { return true; })) continue;
        log::info("cache engine {:016x} has returned the lost lines", engine.identity().identity);
        uses_.losses.gave_back(engine);
        engine.close(Status(Code::kUnavailable, "all its lines were destaged; it joins again"));
    }
}

// The queue records noted(), because copies of lines that are lost later may already have been skipped.
SalvageQueue& Destager::salvage_of(const EngineLink& engine) {
    return salvages_.try_emplace(engine.index().value, uses_.losses.noted()).first->second;
}

void Destager::engine_returned(const EngineLink& engine) {
    salvage_of(engine);
    salvage_due_ = true;
    turn_.want();
}

void Destager::salvage_again() noexcept {
    for (auto& [engine, queue] : salvages_) queue.retry();
    salvage_due_ = true;
}

void Destager::add_salvage(EngineLink& engine, const wire::CacheHeader& item) {
    SalvageQueue& queue = salvage_of(engine);
    const ParsedHeader parsed = parse_header(item.header);
    const uint32_t incarnation = engine.identity().incarnation;
    if (parsed.fault != HeaderFault::kNone || parsed.header.line_shift != geometry_.shift() ||
        parsed.header.incarnation != incarnation)
        return;
    SalvageQueue::Item copy{{engine.index(), item.slot}, incarnation, parsed.header, {}};
    if (!salvageable(copy).empty()) queue.add(std::move(copy));
}

// Returns false if the job cannot begin now. Returns true if a job has the item, or nothing of it is left.
bool Destager::start_salvage(Job& job, const SalvageQueue::Item& item) noexcept {
    ++salvage_checks_;
    const LineHeader& header = item.header;
    if (salvageable(item).empty()) return true;
    CachedVolume* volume = uses_.volumes.find(header.volume);
    if (volume == nullptr || reactor_.now() < item.not_before) return false;
    if (!leaves_room(*volume, load_of(*volume))) return false;
    Line* line = index_.open({volume->number, header.line});
    if (line == nullptr) return false;
    job.salvage = true;
    job.again = false;
    job.item = item;
    begin_job(job, *volume, *line, Access::kExclusive);
    return true;
}

// The sub-blocks that are still lost. Some may have been written again since.
SubBlocks Destager::salvageable(const SalvageQueue::Item& item) const noexcept {
    const LineHeader& header = item.header;
    return uses_.members.now().lost.in_copy({header.volume, header.line, header.generation}, header.dirty);
}

void Destager::salvage_failed(Job& job) noexcept {
    EngineLink* engine = uses_.engines.link(job.item.slot.engine);
    const bool here = engine != nullptr && engine->identity().incarnation == job.item.incarnation;
    job.item.not_before = reactor_.now() + kSalvageAgain;
    if (here) salvage_of(*engine).postpone(job.item);
}

}  // namespace wss::cache
