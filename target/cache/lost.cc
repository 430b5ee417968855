// SPDX-License-Identifier: Apache-2.0
// Dirty lines whose engines are away, every one that had a copy: lib/cache/lost.h says what that means.
//
// Such an engine may be a link away, with all it holds. When it comes back in the same incarnation it is
// asked what it has, and the copies that missed nothing are written to real storage straight from it. It is
// no member meanwhile: nothing is put there, no client hears of it. Then it is let go, and joins anew, with
// nothing.
#include <algorithm>

#include "lib/base/log.h"
#include "target/cache/cache.h"
#include "target/cache/destage.h"

namespace wss::se {

using cache::Pieces;

constexpr Nanoseconds kSalvageAgain = from_s(1);
constexpr size_t kLooksPerTurn = 256;  // below 0.2 ms
// More engines than ever join come and go while one line is without its second copy: older ones are
// forgotten.
constexpr size_t kDepartedMax = 1024;

// ---- What is lost ----------------------------------------------------------------------------------------

// SE4, SE5. Of a stop with dirty lines the membership tells: the next start waits for the engines.
void Cache::note_loss(const EngineLink& engine, const cache::Loss& loss) {
    if (stopping_) return;
    const auto& identity = engine.identity();
    if (loss.second_copies > 0) {
        if (departed_.size() >= kDepartedMax) departed_.clear();
        departed_[identity.identity] = identity.incarnation;
    }
    bool any = false;
    for (const cache::LostLine& line : loss.lost) {
        const std::optional<uint64_t> wwid = wwid_of(line.key.volume);
        if (!wwid) continue;  // it is being removed
        any = true;
        if (CachedVolume* volume = volumes_[line.key.volume].get()) volume->loss_told = false;
        membership_.lost.add({*wwid, line.key.line, line.generation}, line.pieces, reactor_.now());
    }
    if (!any) return;
    membership_.away[identity.identity] = identity.incarnation;
    membership_.away.insert(departed_.begin(), departed_.end());
    log::error(
        "{} lines hold acknowledged data that only cache engine {:016x} or engines lost before it have: "
        "reading them waits for a while, then fails, until one is back (or: wssctl cache give-up)",
        loss.lost.size(), identity.identity);
}

struct Asked {
    uint64_t offset = 0, length = 0;
    bool is_write = false;
};
// Of all that a command asks for; kNever: nothing of that is lost.
static Nanoseconds first_loss(const cache::LineGeometry& geometry, const cache::LostPieces& lost,
                              uint64_t wwid, Asked asked) {
    Nanoseconds first = kNever;
    while (asked.length > 0) {
        const cache::Span span = geometry.first_span(asked.offset, asked.length);
        const Pieces touched = geometry.touched(span);
        const Pieces pieces = asked.is_write ? touched.without(geometry.covered(span)) : touched;
        first = std::min(first, lost.since(wwid, span.line, pieces));
        asked.offset += span.length;
        asked.length -= span.length;
    }
    return first;
}

// A read of what is lost would show old data; a write of part of a piece would be undone, or half of it, when
// the piece comes back. True: the work has ended.
bool Cache::refuse_lost(Work& work) noexcept {
    if (membership_.lost.empty()) return false;
    CachedVolume& volume = *work.volume;
    const uint64_t wwid = volume.open->volume().wwid();
    const bool whole = membership_.lost.is_whole(wwid);
    for (uint32_t i = 0; i < work.line_count; ++i) {
        const LineWork& line = work.lines[i];
        const Pieces asked = work.is_write && !whole ? line.touched.without(line.covered) : line.touched;
        const Pieces lost = membership_.lost.of(wwid, line.span.line) & asked;
        if (lost.empty()) continue;
        const uint64_t at = geometry_.start_of(line.span.line) + uint64_t{lost.first()} * cache::kPieceBytes;
        Ending ending{.kind = Ending::Kind::kStorageFailed,
                      .error = EIO,
                      .io_op = work.is_write ? io::Op::kWrite : io::Op::kRead,
                      .offset = std::max(at, work.offset)};
        // A write that has failed once may have changed copies. Others may see it, and write over it: it is
        // not done again behind their backs.
        const bool may_have_changed = work.is_write && work.attempts > 0;
        const bool may_wait = !waits_are_over_ && !may_have_changed;
        const Asked all{work.offset, work.length, work.is_write};
        if (!whole && in_time(volume, first_loss(geometry_, membership_.lost, wwid, all)))
            ending = {.kind = may_wait ? Ending::Kind::kAwait : Ending::Kind::kBusy};
        if (ending.kind == Ending::Kind::kStorageFailed) ++volume.counters.lost_refusals;
        may_have_changed ? give_up_write(work, ending) : end(work, ending);
        return true;
    }
    return false;
}

// ---- A short loss is not an error ------------------------------------------------------------------------

// Its engines are probably back soon: a link that broke, a switch that fails over, an engine's machine that
// stood still. What the operator does not wait for does not come back.
bool Cache::in_time(const CachedVolume& volume, Nanoseconds lost) const noexcept {
    return !volume.removed() && lost != kNever &&
           reactor_.now() - std::max(lost, volume.opened) < options_.lost_grace;
}

// For what asks for all of the volume: each loss has a time of its own, the first one's is over first.
bool Cache::awaits(const CachedVolume& volume) const noexcept {
    return !membership_.lost.is_whole(volume.wwid) && in_time(volume, membership_.lost.since(volume.wwid));
}

bool Cache::awaits(const CachedVolume& volume, uint64_t offset, uint64_t length, bool is_write) const {
    if (waits_are_over_ || membership_.lost.is_whole(volume.wwid)) return false;
    if (length == 0) return awaits(volume);
    if (offset + length > volume.open->volume().size()) return false;
    return in_time(volume, first_loss(geometry_, membership_.lost, volume.wwid, {offset, length, is_write}));
}

// What waits is checked when something that was lost is known again, when its time is over, and when the
// volume has another size: a tick costs nothing for a command that goes on waiting.
void Cache::look_again() noexcept {
    const uint64_t before = std::exchange(looked_at_, membership_.lost.known_again());
    const bool changed = looked_at_ != before;
    const Nanoseconds limit = reactor_.now() - options_.lost_grace;  // what was lost by then is over
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed()) continue;
        // Of several losses each has its time.
        const bool over = membership_.lost.any_since(volume->wwid, looked_until_, limit) ||
                          (volume->opened > looked_until_ && volume->opened <= limit);
        if (changed || waits_are_over_ || over) look_due(*volume);
    }
    looked_until_ = limit;
}

void Cache::look_due(CachedVolume& volume) noexcept {
    if (volume.waiters == nullptr) return;
    volume.waiters->look_due();
    looking_ = wants_turn_ = true;
}

// Some each turn.
void Cache::look() noexcept {
    size_t left = kLooksPerTurn;
    looking_ = false;
    for (auto& volume : volumes_)
        if (volume != nullptr && volume->waiters != nullptr) looking_ |= volume->waiters->look(left);
    waiting_checks_ += kLooksPerTurn - left;
    wants_turn_ |= looking_;
}

// True: what is on stable storage still says that they are lost.
bool Cache::known_again(uint64_t wwid, uint64_t line, Pieces pieces) {
    if (membership_.lost.empty() || !membership_.lost.found(wwid, line, pieces)) return false;
    if (membership_.lost.empty()) membership_.away.clear();
    return true;
}

// SE2: the write is acknowledged when that is stable. Until then a crash would bring the lost copy home over
// it, also if that copy has come home before.
void Cache::written_anew(const CachedVolume& volume, uint64_t line, Pieces pieces) {
    if (membership_.lost.empty() && came_home_.empty()) return;
    const uint64_t wwid = volume.open->volume().wwid();
    if (known_again(wwid, line, pieces) || came_home_.contains({wwid, line})) save_membership();
}

// Real storage has them. A crash before that is stable brings them home once more, which changes nothing as
// long as nobody changes the line. So many are saved together: at the next tick, or when something else is.
void Cache::brought_home(const CachedVolume& volume, uint64_t line, Pieces pieces) {
    const uint64_t wwid = volume.open->volume().wwid();
    if (!known_again(wwid, line, pieces)) return;
    came_home_.insert({wwid, line});
    if (membership_.lost.empty()) save_membership();
}

void Cache::forget_lost(uint64_t wwid) {
    if (!membership_.lost.forget(wwid)) return;
    if (membership_.lost.empty()) membership_.away.clear();
    save_membership();
}

void Cache::give_up_lost(CachedVolume& volume) {
    const uint64_t wwid = volume.open->volume().wwid();
    log::warning("volume {} ({}): {} KiB of acknowledged data are given up, by the operator's word",
                 volume.open->volume().name(), volume::wwid_text(wwid),
                 lost_bytes(volume.open->volume()) / 1024);
    // Somebody must hear that what was acknowledged is not stable.
    volume.fail_next_flush = volume.fail_next_flush || !volume.loss_told;
    volume.loss_told = true;
    if (volume.fail_next_flush) membership_.given_up.insert(wwid);
    forget_lost(wwid);
}

// Which of those that engines may hold dirty lines of.
Result<uint64_t> Cache::volume_to_give_up(const std::string& which) const {
    std::vector<uint64_t> closed;
    for (const auto& [wwid, known] : membership_.dirty) {
        const CachedVolume* volume = opened(wwid);
        const bool something = volume == nullptr || membership_.lost.any_of(wwid);
        if (something && volume::wwid_text(wwid) == which) return wwid;
        if (known.name != which) continue;
        if (volume != nullptr && something) return wwid;
        if (volume == nullptr) closed.push_back(wwid);
    }
    const bool is_open = std::any_of(volumes_.begin(), volumes_.end(), [&which](const auto& volume) {
        return volume != nullptr && !volume->removed() && volume->open->volume().name() == which;
    });
    if (closed.size() == 1 && !is_open) return closed.front();
    if (closed.empty())
        return failure(Code::kNotFound, "nothing of volume {} is lost, and cache engines keep nothing for it",
                       which);
    std::string wwids;
    for (uint64_t wwid : closed) wwids += (wwids.empty() ? "" : ", ") + volume::wwid_text(wwid);
    return failure(
        Code::kInvalid,
        "{}{} volume{} that cache engines keep lines of {} named {}: give the WWID of the one that "
        "is meant: {}",
        is_open ? "nothing of the open volume is lost; " : "", closed.size(), closed.size() == 1 ? "" : "s",
        closed.size() == 1 ? "was also" : "were", which, wwids);
}

Result<uint64_t> Cache::give_up(const std::string& which) {
    auto wwid = volume_to_give_up(which);
    if (!wwid) return wwid;
    CachedVolume* volume = opened(*wwid);
    // What engines hold of it is not known yet.
    if (volume == nullptr && holding_)
        return failure(Code::kBusy, "dirty lines are being recovered; try again");
    volume == nullptr ? give_up_absent(*wwid) : give_up_lost(*volume);
    return wwid;
}

// ---- Flushes ---------------------------------------------------------------------------------------------

bool Cache::fails_flushes(const CachedVolume& volume, Asker asker) const noexcept {
    return (asker == Asker::kClient && volume.fail_next_flush) ||
           (!membership_.lost.empty() && membership_.lost.any_of(volume.open->volume().wwid()));
}

// A flush fails for it.
void Cache::told_of_loss(CachedVolume& volume) noexcept {
    volume.loss_told = true;
    volume.fail_next_flush = false;
    if (membership_.given_up.erase(volume.open->volume().wwid()) > 0) save_membership();
}

// Those that were waiting when lines were lost.
void Cache::fail_flushes() noexcept {
    if (membership_.lost.empty()) return;
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && !volume->flushes.empty() &&
            fails_flushes(*volume, Asker::kOperator))
            check_flushes(*volume, EIO);
}

// ---- Bringing it back ------------------------------------------------------------------------------------

bool Cache::is_returning(uint64_t identity, uint32_t incarnation) const noexcept {
    auto known = membership_.away.find(identity);
    return known != membership_.away.end() && known->second == incarnation;
}

// A job takes one copy at a time; each completion looks at as many copies as it takes to fill the free jobs.
void Cache::salvage() noexcept {
    for (size_t i = 0; i < links_end_; ++i) {
        const auto& engine = links_[i];
        if (engine == nullptr || !engine->identity().returned || !engine->is_ready()) continue;
        SalvageQueue& queue = salvages_[i];
        while (queue.has_due()) {
            auto free =
                std::find_if(destages_.begin(), destages_.end(), [](const auto& job) { return !job->busy; });
            if (free == destages_.end()) break;
            SalvageQueue::Item item = *queue.take();
            if (!start_salvage(**free, item)) queue.postpone(std::move(item));
        }
        const cache::EngineIndex index = engine->index();
        const bool busy =
            !queue.empty() || std::any_of(destages_.begin(), destages_.end(), [index](const auto& job) {
                return job->busy && job->salvage && job->item.slot.engine == index;
            });
        if (busy) continue;
        log::info("cache engine {:016x} has given back what was lost", engine->identity().identity);
        membership_.away.erase(engine->identity().identity);
        save_membership();
        engine->close(Status(Code::kUnavailable, "all it had was brought home; it joins anew"));
    }
}

void Cache::salvage_again() noexcept {
    for (auto& [engine, queue] : salvages_) queue.retry();
    salvage_due_ = true;
}

void Cache::add_salvage(EngineLink& engine, const wire::CacheHeader& item) {
    const cache::ParsedHeader parsed = cache::parse_header(item.header);
    const uint32_t incarnation = engine.identity().incarnation;
    if (parsed.fault != cache::HeaderFault::kNone || parsed.header.line_shift != geometry_.shift() ||
        parsed.header.incarnation != incarnation)
        return;
    salvages_[engine.index().value].add({{engine.index(), item.slot}, incarnation, parsed.header, {}});
}

// False: not now. True: the item is done with, or the job has it.
bool Cache::start_salvage(Destage& job, const SalvageQueue::Item& item) noexcept {
    ++salvage_checks_;
    const cache::LineHeader& header = item.header;
    if (salvageable(item).empty()) return true;
    CachedVolume* volume = opened(header.volume);
    if (volume == nullptr || reactor_.now() < item.not_before) return false;
    cache::Line* line = index_->open({volume->number, header.line});
    if (line == nullptr) return false;
    job.salvage = true;
    job.item = item;
    begin_job(job, *volume, *line, cache::Access::kExclusive);
    return true;
}

// As of now: some may have been written anew since.
Pieces Cache::salvageable(const SalvageQueue::Item& item) const noexcept {
    const cache::LineHeader& header = item.header;
    return membership_.lost.in_copy({header.volume, header.line, header.generation}, header.dirty);
}

void Cache::salvage_failed(Destage& job) noexcept {
    EngineLink* engine = link(job.item.slot.engine);
    const bool here = engine != nullptr && engine->identity().incarnation == job.item.incarnation;
    job.item.not_before = reactor_.now() + kSalvageAgain;
    if (here) salvages_[job.item.slot.engine.value].postpone(job.item);
}

}  // namespace wss::se
