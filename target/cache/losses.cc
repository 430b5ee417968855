// SPDX-License-Identifier: Apache-2.0
#include "target/cache/losses.h"

#include <algorithm>

#include "lib/base/log.h"

namespace wss::cache {

constexpr size_t kLooksPerTurn = 256;  // below 0.2 ms
// More than the number of engines that realistically come and go while one line lacks its second copy. If
// there are more, all earlier ones are dropped.
constexpr size_t kDepartedMax = 1024;

// ---- Lost data -------------------------------------------------------------------------------------------

// SE4, SE5. If the target leaves its engines, nothing is recorded: the engines stay in the membership, and
// the next start waits for them.
void Losses::note(const EngineLink& engine, const Loss& loss) {
    if (life_.leaving()) return;
    const auto& identity = engine.identity();
    if (loss.second_copies > 0) remember(identity.identity, identity.incarnation);
    bool any = false;
    for (const LostLine& line : loss.lost) {
        const std::optional<uint64_t> wwid = volumes_.wwid_of(line.key.volume);
        if (!wwid) continue;  // the volume is being removed
        any = true;
        if (CachedVolume* volume = volumes_.at(line.key.volume)) volume->loss_told = false;
        members_.edit().lost.add({*wwid, line.key.line, line.generation}, line.sub_blocks, reactor_.now(),
                                 line.bounds);
    }
    if (!any) return;
    ++noted_;
    // The engines' copies may have newer headers, from writes that were never acknowledged.
    members_.edit().generation = std::max(members_.now().generation, loss.generation);
    members_.edit().away[identity.identity] = identity.incarnation;
    members_.edit().away.insert(departed_.begin(), departed_.end());
    log::error(
        "acknowledged data of {} lines is only in cache engine {:016x} or in engines that were lost before "
        "it. Until one of them returns, reads of these lines wait and then fail. wssctl cache give-up ends "
        "the wait",
        loss.lost.size(), identity.identity);
    if (members_.now().lost.lines().size() > kLostLinesSaved)
        log::warning(
            "more than {} lines are lost: if the target restarts before engines return, the volumes that "
            "have the most of these lines are lost as a whole",
            kLostLinesSaved);
}

void Losses::remember(uint64_t identity, uint32_t incarnation) {
    if (departed_.size() >= kDepartedMax) departed_.clear();
    departed_[identity] = incarnation;
}

// Until the engine has erased its other contents, it may hold copies of data that other engines lose in the
// meantime.
void Losses::gave_back(const EngineLink& engine) {
    remember(engine.identity().identity, engine.identity().incarnation);
    members_.edit().away.erase(engine.identity().identity);
    members_.save();
}

void Losses::ask_again(const EngineLink& engine) {
    members_.edit().away[engine.identity().identity] = engine.identity().incarnation;
    members_.save();
}

uint64_t Losses::lost_bytes(const volume::Volume& volume) const {
    return members_.now().lost.is_whole(volume.wwid())
               ? volume.size()
               : members_.now().lost.sub_blocks_of(volume.wwid()) * kSubBlockBytes;
}

Nanoseconds Losses::lost_for(const CachedVolume& volume) const {
    const Nanoseconds since = members_.now().lost.since(volume.wwid);
    return since == kNever ? Nanoseconds{} : reactor_.now() - std::max(since, volume.opened);
}

struct Asked {
    uint64_t offset = 0, length = 0;
    bool is_write = false;
};
// The time of the first loss in the range of a command, or kNever if none of the range is lost.
static Nanoseconds first_loss(const LineGeometry& geometry, const LostSubBlocks& lost, uint64_t wwid,
                              Asked asked) {
    Nanoseconds first = kNever;
    while (asked.length > 0) {
        const Span span = geometry.first_span(asked.offset, asked.length);
        const SubBlocks touched = geometry.touched(span);
        const SubBlocks sub_blocks = asked.is_write ? touched.without(geometry.covered(span)) : touched;
        first = std::min(first, lost.since(wwid, span.line, sub_blocks));
        asked.offset += span.length;
        asked.length -= span.length;
    }
    return first;
}

// A read of lost data would return old data. A write of a part of a lost sub-block would be undone, wholly or
// partly, when the sub-block returns.
std::optional<CacheOutcome> Losses::refusal(const CacheCommand& command) noexcept {
    if (none()) return std::nullopt;
    CachedVolume& volume = *command.volume;
    const uint64_t wwid = volume.open->volume().wwid();
    const bool whole = members_.now().lost.is_whole(wwid);
    for (uint32_t i = 0; i < command.line_count; ++i) {
        const LinePart& line = command.lines[i];
        const SubBlocks asked =
            command.is_write && !whole ? line.touched.without(line.covered) : line.touched;
        const SubBlocks lost = members_.now().lost.of(wwid, line.span.line) & asked;
        if (lost.empty()) continue;
        const uint64_t at = geometry_.start_of(line.span.line) + uint64_t{lost.first()} * kSubBlockBytes;
        CacheOutcome outcome{.kind = CacheOutcome::Kind::kStorageFailed,
                             .error = EIO,
                             .io_op = command.is_write ? io::Op::kWrite : io::Op::kRead,
                             .offset = std::max(at, command.offset)};
        // A write that may have changed copies may be visible, and other writes may have overwritten it. So
        // it is not repeated later.
        const bool may_wait = !life_.waits_are_over() && !command.may_have_changed();
        const Asked all{command.offset, command.length, command.is_write};
        if (!whole && in_time(volume, first_loss(geometry_, members_.now().lost, wwid, all)))
            outcome = {.kind = may_wait ? CacheOutcome::Kind::kAwait : CacheOutcome::Kind::kBusy};
        if (outcome.kind == CacheOutcome::Kind::kStorageFailed) ++volume.counters.lost_refusals;
        return outcome;
    }
    return std::nullopt;
}

// ---- Waiting for lost data -------------------------------------------------------------------------------

// A short loss is not an error. The engines will probably be back soon: perhaps a link broke, a switch fails
// over, or an engine's machine was stalled. Engines that the operator gave up do not return.
bool Losses::in_time(const CachedVolume& volume, Nanoseconds lost) const noexcept {
    return !volume.removed() && lost != kNever && reactor_.now() - std::max(lost, volume.opened) < grace_;
}

// The same for commands on the whole volume. Each loss has its own deadline. The first deadline ends the
// wait.
bool Losses::awaits(const CachedVolume& volume) const noexcept {
    return !members_.now().lost.is_whole(volume.wwid) &&
           in_time(volume, members_.now().lost.since(volume.wwid));
}

bool Losses::awaits(const CachedVolume& volume, uint64_t offset, uint64_t length, bool is_write) const {
    if (life_.waits_are_over() || volume.removed() || members_.now().lost.is_whole(volume.wwid)) return false;
    if (length == 0) return awaits(volume);
    if (offset + length > volume.open->volume().size()) return false;
    return in_time(volume,
                   first_loss(geometry_, members_.now().lost, volume.wwid, {offset, length, is_write}));
}

// Waiting commands are checked when lost data is known again, when their time has expired, and when the size
// of the volume changes. So a tick costs nothing for a command that keeps waiting.
void Losses::tick() noexcept {
    const uint64_t before = std::exchange(looked_at_, members_.now().lost.known_again());
    const bool changed = looked_at_ != before;
    const Nanoseconds limit = reactor_.now() - grace_;  // waits end for data that was lost at this time or
                                                        // earlier
    for (CachedVolume& volume : volumes_.open()) {
        // If there are several losses, each has its own deadline.
        const bool over = members_.now().lost.any_since(volume.wwid, looked_until_, limit) ||
                          (volume.opened > looked_until_ && volume.opened <= limit);
        if (changed || life_.waits_are_over() || over) look_due(volume);
    }
    looked_until_ = limit;
}

void Losses::look_due(CachedVolume& volume) noexcept {
    if (volume.waiters.empty()) return;
    for (LostWaiters* waiters : volume.waiters) waiters->look_due();
    looking_ = true;
    turn_.want();
}

// Checks some of the waiting commands, each turn.
void Losses::look() noexcept {
    size_t left = kLooksPerTurn;
    looking_ = false;
    for (CachedVolume& volume : volumes_.open())
        for (LostWaiters* waiters : volume.waiters) looking_ |= waiters->look(left);
    checks_ += kLooksPerTurn - left;
    if (looking_) turn_.want();
}

bool Losses::known_again(uint64_t wwid, uint64_t line, SubBlocks sub_blocks) {
    if (members_.now().lost.empty() || !members_.edit().lost.found(wwid, line, sub_blocks)) return false;
    clear_away_if_none();
    return true;
}

// The write is acknowledged when this change of the membership is stable (SE2). Until then, a restart after a
// crash would destage the lost copy over the new data, even if that copy had been destaged before.
void Losses::written_anew(const CachedVolume& volume, uint64_t line, SubBlocks sub_blocks) {
    if (members_.now().lost.empty() && !members_.any_home_unsaved()) return;
    const uint64_t wwid = volume.open->volume().wwid();
    if (known_again(wwid, line, sub_blocks) || members_.is_home_unsaved(wwid, line)) members_.save();
}

// Real storage has these sub-blocks. If the target restarts before this is on stable storage, it destages
// them once more. That changes nothing as long as no write changes the line. So many such changes are saved
// together, at the next tick or with another change.
void Losses::destaged(const CachedVolume& volume, uint64_t line, SubBlocks sub_blocks) {
    const uint64_t wwid = volume.open->volume().wwid();
    if (!known_again(wwid, line, sub_blocks)) return;
    members_.destaged(wwid, line);
    if (members_.now().lost.empty()) members_.save();
}

void Losses::forget(uint64_t wwid) {
    if (drop(wwid)) members_.save();
}

bool Losses::drop(uint64_t wwid) {
    if (!members_.edit().lost.forget(wwid)) return false;
    clear_away_if_none();
    return true;
}

void Losses::give_up(CachedVolume& volume) {
    const uint64_t wwid = volume.open->volume().wwid();
    log::warning("volume {} ({}): {} KiB of acknowledged data are given up, on the operator's command",
                 volume.open->volume().name(), volume::wwid_text(wwid),
                 lost_bytes(volume.open->volume()) / 1024);
    // A client must get an error, because acknowledged data is not stable.
    volume.fail_next_flush = volume.fail_next_flush || !volume.loss_told;
    volume.loss_told = true;
    if (volume.fail_next_flush) members_.edit().given_up.insert(wwid);
    forget(wwid);
}

bool Losses::fails_flushes(const CachedVolume& volume, Asker asker) const noexcept {
    return (asker == Asker::kClient && volume.fail_next_flush) ||
           (!members_.now().lost.empty() && members_.now().lost.any_of(volume.open->volume().wwid()));
}

void Losses::told(CachedVolume& volume) noexcept {
    volume.loss_told = true;
    volume.fail_next_flush = false;
    if (members_.edit().given_up.erase(volume.open->volume().wwid()) > 0) members_.save();
}

void Losses::cut(uint64_t wwid, uint64_t last, uint32_t bytes) {
    if (!members_.edit().lost.cut(wwid, last, bytes)) return;
    clear_away_if_none();
    members_.save();
}

// Engines that are away no longer have lost data, unless data that is dirty now is lost later.
void Losses::clear_away_if_none() {
    if (!none()) return;
    for (const auto& [identity, incarnation] : members_.now().away) remember(identity, incarnation);
    members_.edit().away.clear();
}

}  // namespace wss::cache
