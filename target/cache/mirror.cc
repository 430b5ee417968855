// SPDX-License-Identifier: Apache-2.0
#include "target/cache/mirror.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/log.h"
#include "lib/cache/header.h"

namespace wss::cache {

using wire::CacheStatus;

constexpr Nanoseconds kNextRound = from_s(1);
// Lines that will be copied or destaged shortly are not worth a warning.
constexpr Nanoseconds kLogAfter = from_s(5);

//   kFetch: the first holder writes the dirty sub-blocks to `buffer` → kPut: the second holder reads them →
//   kErase: the second holder erases its header, which may mark sub-blocks as dirty. This phase is used only
//   if the copy failed or is no longer needed, for example because the first holder was lost.
struct Mirror::Job {
    enum class Phase : uint8_t { kFetch, kPut, kErase };

    Mirror* owner = nullptr;
    std::byte* buffer = nullptr;  // one line
    bool busy = false;

    uint64_t wwid = 0;
    Line* line = nullptr;
    LineOp op;
    SubBlocks sub_blocks;
    // The first and the second holder, and the incarnations of their engines.
    std::array<ArenaSlot, kHoldersMax> slots;
    std::array<uint32_t, kHoldersMax> incarnations{};
    Phase phase = Phase::kFetch;
    bool failed = false;
    Transfer transfer;
    Lines::Ended ended;
};

Mirror::Mirror(const Uses& uses, reactor::Reactor& reactor, Turn& turn)
    : uses_(uses),
      index_(uses.lines.index()),
      reactor_(reactor),
      turn_(turn),
      single_(index_, uses.members, uses.volumes) {}

Mirror::~Mirror() = default;

void Mirror::prepare(uint32_t first_buffer) {
    for (uint32_t i = 0; i < kJobs; ++i) {
        jobs_.push_back(std::make_unique<Job>());
        jobs_.back()->owner = this;
        jobs_.back()->buffer = uses_.memory.buffer(first_buffer + i);
    }
}

// ---- Rounds ----------------------------------------------------------------------------------------------

// For an unsafe volume, the operator has chosen to have one copy.
uint64_t Mirror::single_lines(uint32_t number) const {
    const std::optional<uint64_t> wwid = uses_.volumes.wwid_of(number);
    if (!wwid) return 0;
    const auto known = uses_.members.now().policies.find(*wwid);
    const bool unsafe = known != uses_.members.now().policies.end() && known->second.unsafe;
    return unsafe ? 0 : index_.dirty(number).single();
}

uint64_t Mirror::all_single_lines() const {
    uint64_t lines = 0;
    for (const CachedVolume& volume : uses_.volumes.open()) lines += single_lines(volume.number);
    for (const auto& [wwid, number] : uses_.volumes.absent()) lines += single_lines(number);
    return lines;
}

// No line may be placed during recovery.
bool Mirror::may_copy() const {
    return index_.placeable_engines() > 0 && !uses_.life.stopping();
}

void Mirror::tick() {
    const uint64_t lines = all_single_lines();
    log_single(lines);
    if (lines == 0 || walks_ > 0 || reactor_.now() < next_round_ || !may_copy()) return;
    begin_round();
}

void Mirror::log_single(uint64_t lines) {
    if (lines == 0) {
        if (std::exchange(logged_, false))
            log::info("all dirty lines are in real storage or have two copies");
        single_since_ = kNever;
        return;
    }
    if (single_since_ == kNever) single_since_ = reactor_.now();
    if (logged_ || reactor_.now() - single_since_ < kLogAfter) return;
    logged_ = true;
    log::warning(
        "{} dirty lines have only one copy, and each is lost if the cache engine that holds it is lost: {}",
        lines,
        index_.placeable_engines() > 1
            ? "real storage does not accept them, and no second copy of them could be created yet"
            : "real storage does not accept them, and there is no other engine for a second copy");
}

void Mirror::begin_round() {
    std::vector<uint32_t> numbers;
    for (const CachedVolume& volume : uses_.volumes.open()) numbers.push_back(volume.number);
    for (const auto& [wwid, number] : uses_.volumes.absent()) numbers.push_back(number);
    for (const uint32_t number : numbers) {
        if (single_lines(number) == 0) continue;
        ++walks_;
        uses_.lines.walk(
            number, 0, UINT64_MAX, [this](Line& line, Lines::Ended ended) { visit(line, std::move(ended)); },
            [this] {
                --walks_;
                next_round_ = reactor_.now() + kNextRound;
            });
    }
}

void Mirror::visit(Line& line, Lines::Ended ended) {
    if (!line.single()) return ended();
    if (free_job() == nullptr) {
        waiting_.emplace_back(line.key(), std::move(ended));
        return;
    }
    if (!begin(line, ended)) ended();
}

void Mirror::begin_waiting() {
    while (!waiting_.empty() && free_job() != nullptr) {
        auto [key, ended] = std::move(waiting_.front());
        waiting_.pop_front();
        Line* const line = index_.find(key);
        if (line == nullptr || !begin(*line, ended)) ended();
    }
}

// ---- Jobs ------------------------------------------------------------------------------------------------

Mirror::Job* Mirror::free_job() noexcept {
    auto free = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->busy; });
    return free == jobs_.end() ? nullptr : free->get();
}

// Returns false if the line needs no copy, or cannot get one now.
bool Mirror::begin(Line& line, Lines::Ended& ended) {
    const std::optional<uint64_t> wwid = uses_.volumes.wwid_of(line.key().volume);
    if (!wwid || !may_copy() || !line.single() || line.holders().size() != 1) return false;
    Job& job = *free_job();
    if (!index_.enter_beside(line, job.op)) return false;
    if (index_.begin_copy(line) != Placed::kDone) {
        uses_.lines.leave(job.op);
        return false;
    }
    job.busy = true;
    job.wwid = *wwid;
    job.line = &line;
    job.sub_blocks = line.dirty();
    job.failed = false;
    job.ended = std::move(ended);
    for (size_t which = 0; which < job.slots.size(); ++which) {
        job.slots[which] = line.holders()[which];
        job.incarnations[which] = uses_.engines.link(job.slots[which].engine)->identity().incarnation;
    }
    fetch(job);
    return true;
}

// Returns nullptr if the engine was lost since the job began.
EngineLink* Mirror::engine_of(const Job& job, size_t which) const noexcept {
    EngineLink* const engine = uses_.engines.link(job.slots[which].engine);
    const bool same = engine != nullptr && engine->identity().incarnation == job.incarnations[which];
    return same ? engine : nullptr;
}

void Mirror::submit(Job& job, EngineLink& engine) noexcept {
    job.transfer.done = transfer_done;
    job.transfer.context = &job;
    engine.submit(job.transfer);
}

void Mirror::fetch(Job& job) noexcept {
    job.phase = Job::Phase::kFetch;
    const uint32_t first = job.sub_blocks.first();
    const uint32_t end = 64 - static_cast<uint32_t>(std::countl_zero(job.sub_blocks.bits));
    EngineLink& engine = *engine_of(job, 0);
    Transfer& transfer = job.transfer;
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.to_peer = true;
    transfer.move.slot = job.slots[0].number;
    transfer.move.offset = first * kSubBlockBytes;
    transfer.move.length = (end - first) * kSubBlockBytes;
    transfer.move.remote = uses_.memory.regions().remote(
        engine.identity().via, job.buffer + transfer.move.offset, transfer.move.length);
    submit(job, engine);
}

void Mirror::put(Job& job) noexcept {
    job.phase = Job::Phase::kPut;
    EngineLink& engine = *engine_of(job, 1);
    const LineHeader header{.volume = job.wwid,
                            .line = job.line->key().line,
                            .generation = job.line->generation(),
                            .incarnation = job.incarnations[1],
                            .valid = job.sub_blocks,
                            .dirty = job.sub_blocks,
                            .line_shift = index_.geometry().shift()};
    wire::CacheMove& move = job.transfer.move;
    const uint32_t offset = move.offset, length = move.length;
    move = {};
    move.to_peer = false;
    move.atomic = move.has_header = true;
    write_header(header, move.header);
    move.slot = job.slots[1].number;
    move.offset = offset;
    move.length = length;
    move.remote = uses_.memory.regions().remote(engine.identity().via, job.buffer + offset, length);
    submit(job, engine);
}

void Mirror::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Job& job = *static_cast<Job*>(transfer.context);
    Mirror& mirror = *job.owner;
    job.failed = job.failed || status != CacheStatus::kOk;
    const bool wrote = job.phase != Job::Phase::kFetch;
    EngineLink* const second = mirror.engine_of(job, 1);
    // Only the engine can have made this transfer fail, and the state of its header is unknown.
    if (wrote && status != CacheStatus::kOk && second != nullptr)
        second->close(Status(Code::kIo, "the engine failed to store a copy"));
    if (job.phase == Job::Phase::kErase) return mirror.over(job);
    if (wrote) return mirror.settle(job);
    const bool of_use = !job.failed && second != nullptr && job.line->copying();
    of_use ? mirror.put(job) : mirror.over(job);
}

// The header of the second holder may claim dirty sub-blocks. So either the copy is kept, or the header is
// erased.
void Mirror::settle(Job& job) noexcept {
    EngineLink* const second = engine_of(job, 1);
    if (!job.failed && job.line->copying()) {
        WSS_ASSERT(job.line->dirty() == job.sub_blocks,
                   "L3: no operation changes a line that is being copied");
        index_.end_copy(*job.line, job.slots[1], true);
        return over(job);
    }
    if (second == nullptr) return over(job);
    job.phase = Job::Phase::kErase;
    job.transfer.kind = Transfer::Kind::kHeader;
    job.transfer.move = {};
    job.transfer.move.slot = job.slots[1].number;
    submit(job, *second);
}

void Mirror::over(Job& job) noexcept {
    index_.end_copy(*job.line, job.slots[1], false);
    uses_.lines.leave(job.op);
    const Lines::Ended ended = std::move(job.ended);
    job.busy = false;
    ended();
    begin_waiting();
    turn_.want();
}

}  // namespace wss::cache
