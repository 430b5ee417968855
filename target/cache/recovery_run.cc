// SPDX-License-Identifier: Apache-2.0
#include "target/cache/recovery_run.h"

#include <fmt/ranges.h>

#include "lib/base/log.h"

namespace wss::cache {

constexpr size_t kLooksPerTurn = 4096;  // clean copies per turn; takes less than 0.5 ms
constexpr size_t kErasesMax = 1024;     // erasures that are active at the same time

// Erases an arena slot whose copy lost the comparison at recovery.
struct RecoveryRun::SlotErase {
    RecoveryRun* run = nullptr;
    Transfer transfer;
};

RecoveryRun::RecoveryRun(const Uses& uses, Nanoseconds grace, const Life& life, reactor::Reactor& reactor,
                         Turn& turn, RecoveryObserver& observer)
    : uses_(uses), grace_(grace), life_(life), reactor_(reactor), turn_(turn), observer_(observer) {}

RecoveryRun::~RecoveryRun() = default;

void RecoveryRun::advance(State next) noexcept {
    WSS_ASSERT(next > state_, "the states of a recovery only advance");
    state_ = next;
}

Status RecoveryRun::begin(uint32_t line_bytes) {
    const Membership& saved = uses_.members.now();
    const bool needed = !saved.dirty.empty() && !saved.engines.empty();
    if ((needed || !saved.lost.empty()) && saved.line_bytes != line_bytes)
        return failure(Code::kInvalid,
                       "cache engines hold dirty lines of {} bytes: start with this line size until they "
                       "are in real storage",
                       saved.line_bytes);
    if (needed) {
        state_ = saved.degraded ? State::kWaitingForAll : State::kWaitingForMost;
        uses_.members.await_engines();
        found_ = std::make_unique<Recovery>(uses_.index.geometry(), [this](uint64_t wwid) {
            return uses_.members.now().dirty.contains(wwid) || uses_.volumes.find(wwid) != nullptr;
        });
    }
    // All later writes must be newer than copies of lost lines in engines that are away.
    uses_.index.set_generation_floor(saved.generation);
    uses_.index.hold_placement(needed);
    uses_.members.edit().engines.clear();
    uses_.members.edit().line_bytes = line_bytes;
    // The contents of awaited engines count until recovery has ended, so these engines stay members on stable
    // storage.
    if (!needed) uses_.members.save();
    began_ = reactor_.clock().now();
    return Status::ok();
}

void RecoveryRun::take_item(const EngineLink& engine, const wire::CacheHeader& item) {
    if (waiting())
        found_->add_header({engine.index(), item.slot}, engine.identity().incarnation, item.header);
}

void RecoveryRun::engine_lost(EngineIndex engine) {
    if (holding()) found_->forget(engine);
}

// True if each dirty line has a copy in an engine that has returned.
bool RecoveryRun::finds_all(size_t back) const {
    const size_t members = uses_.members.awaited().size();
    bool unsafe = state_ == State::kWaitingForAll || members < 2;
    for (const auto& [wwid, settings] : uses_.members.now().policies) unsafe = unsafe || settings.unsafe;
    return back == members || (!unsafe && back + 1 == members);
}

bool RecoveryRun::may_finish(size_t back) const {
    if (back == uses_.members.awaited().size() || forgotten_) return true;
    const bool waited = reactor_.clock().now() - began_ > grace_;
    return waited && finds_all(back);
}

Members::Engines RecoveryRun::back() const {
    Members::Engines back;
    for (const EngineLink& engine : uses_.engines.all())
        if (engine.is_ready() && engine.identity().kept)
            back[engine.identity().identity] = engine.identity().incarnation;
    return back;
}

std::vector<uint64_t> RecoveryRun::missing() const {
    std::vector<uint64_t> missing;
    const Members::Engines here = back();
    for (const auto& [identity, incarnation] : uses_.members.awaited())
        if (!here.contains(identity)) missing.push_back(identity);
    return missing;
}

// Logs the reason why commands hang, once.
void RecoveryRun::log_wait() {
    if (wait_is_told_ || reactor_.clock().now() - began_ <= grace_) return;
    wait_is_told_ = true;
    log::warning(
        "recovery waits for cache engines that may hold the only copies of acknowledged writes: {:016x}; "
        "commands of volumes that may be dirty wait for these engines; to end the wait: wssctl cache forget",
        fmt::join(missing(), ", "));
}

// The operator gave up waiting for engines that may have dirty lines that no other engine has. It is unknown
// which lines these are.
void RecoveryRun::note_forgotten() {
    for (const auto& [wwid, dirty] : uses_.members.now().dirty) {
        log::error(
            "volume {}: recovery no longer waits for cache engines that may hold acknowledged writes: reads "
            "fail until these writes are given up (wssctl cache give-up {})",
            dirty.name, dirty.name);
        uses_.members.edit().lost.add_whole(wwid);
    }
    for (CachedVolume& volume : uses_.volumes.open())
        if (volume.may_be_dirty) volume.loss_told = false;
}

// Only one copy of each line will be left. Before the other copies are erased, stable storage must record
// that the next start needs every engine, and without which engines this recovery continues.
void RecoveryRun::check() {
    if (!waiting()) return;
    Members::Engines back = this->back();
    if (!may_finish(back.size())) return log_wait();
    const bool without = back.size() < uses_.members.awaited().size();
    forgotten_ = false;  // does not apply to engines that are lost later
    if (without) {
        log::warning("recovery continues without {} of {} cache engines",
                     uses_.members.awaited().size() - back.size(), uses_.members.awaited().size());
        if (!finds_all(back.size())) note_forgotten();
        // The copies in present engines may be lost before they are copied. The copies of the missing engines
        // are as new.
        for (const auto& [identity, incarnation] : uses_.members.awaited())
            if (!back.contains(identity)) uses_.losses.remember(identity, incarnation);
        // An engine that is still joining is too late.
        for (EngineLink& engine : uses_.engines.all())
            if (engine.identity().kept && !back.contains(engine.identity().identity))
                engine.close(Status(Code::kUnavailable, "recovery continued without it"));
        uses_.members.await_only(std::move(back));
        if (state_ == State::kWaitingForMost) advance(State::kWaitingForAll);
    }
    if (without || !uses_.members.now().degraded) {
        uses_.members.edit().degraded = true;
        uses_.members.save();
    }
    if (!uses_.members.pending() && found_->compared()) finish();
}

void RecoveryRun::go_on() {
    waiting() ? compare() : erase();
}

// Compares some headers each turn. It waits while an engine is still sending its headers, because the headers
// of other engines may describe the same dirty lines.
void RecoveryRun::compare() {
    if (found_->compared()) return;
    for (const EngineLink& engine : uses_.engines.all())
        if (engine.identity().kept && !engine.is_ready()) return;
    found_->compare(kLooksPerTurn);
    turn_.want();
    if (found_->compared()) check();
}

void RecoveryRun::finish() {
    for (CachedVolume& volume : uses_.volumes.open())
        found_->add_volume(volume.open->volume().wwid(), volume.number, volume.open->volume().size(),
                           volume.may_be_dirty);
    uses_.absent.keep(*found_);
    Index& index = uses_.index;
    index.hold_placement(false);
    const RecoveryReport report = found_->restore(index);
    index.hold_placement(true);
    log::info("recovered {} dirty lines from {} headers of {} cache engines", report.dirty_lines,
              report.headers, uses_.members.awaited().size());
    uses_.single.mark();
    // Some engine that is a member has a dirty copy: the line was written after the loss, but the membership
    // that records this was not saved.
    for (CachedVolume& volume : uses_.volumes.open())
        if (!uses_.members.now().lost.empty())
            index.dirty(volume.number).for_each([&](Line& line) {
                uses_.losses.known_again(volume.open->volume().wwid(), line.key().line, line.dirty());
                return true;
            });
    uses_.absent.settle();
    advance(State::kErasing);
    erases_ = std::make_unique<SlotErase[]>(kErasesMax);
    for (size_t i = 0; i < kErasesMax; ++i) free_erases_.push_back(&erases_[i]);
    uses_.members.settle();
    uses_.members.save();
    turn_.want();
}

void RecoveryRun::forget_awaited() {
    if (!waiting()) return;
    log::warning("recovery ends without the cache engines that are away, on the operator's command");
    forgotten_ = true;
    check();
}

// Copies that lost the comparison must not claim dirty data. Erases these claims, and waits for the
// confirmation before anything is written that these copies would miss.
void RecoveryRun::erase() {
    size_t looks = kLooksPerTurn;
    while (!free_erases_.empty()) {
        const auto loser = found_->next_loser(looks);
        if (!loser) break;
        begin_erase(*loser);
    }
    if (!found_->any_left() && free_erases_.size() == kErasesMax) return end();
    if (found_->any_left() && !free_erases_.empty()) turn_.want();
}

void RecoveryRun::begin_erase(const Recovery::Loser& loser) {
    SlotErase& erase = *free_erases_.back();
    free_erases_.pop_back();
    erase.run = this;
    erase.transfer.kind = loser.wipe ? Transfer::Kind::kWipe : Transfer::Kind::kHeader;
    erase.transfer.move = {};
    erase.transfer.move.slot = loser.slot.number;
    erase.transfer.context = &erase;
    erase.transfer.done = [](Transfer& transfer, wire::CacheStatus) noexcept {
        // An engine that fails this transfer is disconnected, and is no longer a member.
        auto& over = *static_cast<SlotErase*>(transfer.context);
        over.run->free_erases_.push_back(&over);
        over.run->turn_.want();
    };
    uses_.engines.link(loser.slot.engine)->submit(erase.transfer);
}

void RecoveryRun::end() {
    advance(State::kOver);
    found_.reset();
    free_erases_.clear();
    erases_.reset();
    uses_.index.hold_placement(false);
    observer_.recovery_over();
}

}  // namespace wss::cache
