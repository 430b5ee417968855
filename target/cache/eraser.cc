// SPDX-License-Identifier: Apache-2.0
#include "target/cache/eraser.h"

#include "lib/cache/header.h"

namespace wss::cache {

using wire::CacheStatus;

// The erasure of one line. A line of a removed volume, or beyond the end of a volume, is zeroed, and then its
// arena slots are freed. The line in which the volume now ends is cut.
struct Eraser::Erase : LineUser {
    Eraser* owner = nullptr;
    uint32_t keep = 0;  // bytes of the line that stay; 0: none stay
    uint64_t wwid = 0;  // WWID in the header of a line that is cut
    std::function<void()> ended;
    Line* line = nullptr;
    LineOp op;
    uint32_t outstanding = 0;
    bool is_over = false;
    std::array<Transfer, kHoldersMax> transfers;
    // The engines of `transfers`, if a line is cut.
    std::array<EngineIndex, kHoldersMax> engines;
    std::array<uint32_t, kHoldersMax> incarnations{};
};

Eraser::Eraser(Lines& lines, EngineSet& engines, const JobMemory& memory, Turn& turn)
    : lines_(lines),
      index_(lines.index()),
      geometry_(lines.geometry()),
      engines_(engines),
      memory_(memory),
      turn_(turn) {}

Eraser::~Eraser() = default;

void Eraser::free_over() noexcept {
    std::erase_if(erases_, [](const auto& erase) { return erase->is_over; });
}

void Eraser::wipe(uint32_t number, Gate::Holder removal, std::function<void()> done) {
    auto place = std::make_shared<Gate::Holder>(std::move(removal));
    lines_.walk(
        number, 0, UINT64_MAX, [this](Line& line, Lines::Ended ended) { cut(line, 0, 0, std::move(ended)); },
        [place = std::move(place), done = std::move(done)] {
            done();
            place->release();
        });
}

std::unique_ptr<Eraser::Erase> Eraser::erase_of(Line& line) {
    auto erase = std::make_unique<Erase>();
    erase->owner = this;
    erase->on_entered = [](LineUser& user) noexcept {
        auto& job = static_cast<Erase&>(user);
        job.owner->entered(job);
    };
    erase->line = &line;
    erase->op.sub_blocks = geometry_.all();
    erase->op.access = Access::kExclusive;
    return erase;
}

void Eraser::begin(std::unique_ptr<Erase> erase) {
    Erase& job = *erase;
    erases_.push_back(std::move(erase));
    lines_.enter(*job.line, job.op, job) ? entered(job) : engines_.flush_completions();
}

void Eraser::entered(Erase& erase) noexcept {
    if (erase.keep > 0) return trim(erase);
    index_.begin_erase(*erase.line, LineState::kWiping);
    erase.outstanding = 1;
    uint32_t which = 0;
    for (const ArenaSlot& slot : erase.line->holders()) {
        Transfer& transfer = erase.transfers[which++];
        transfer.kind = Transfer::Kind::kWipe;
        transfer.move = {};
        transfer.move.slot = slot.number;
        transfer.done = transfer_done;
        transfer.context = &erase;
        ++erase.outstanding;
        engines_.link(slot.engine)->submit(transfer);
    }
    if (--erase.outstanding == 0) over(erase);
}

void Eraser::transfer_done(Transfer& transfer, CacheStatus) noexcept {
    // An engine that fails this transfer is disconnected, and its contents are no longer valid.
    Erase& erase = *static_cast<Erase*>(transfer.context);
    if (--erase.outstanding == 0) erase.owner->over(erase);
}

void Eraser::trim(Erase& erase) noexcept {
    Line& line = *erase.line;
    const uint32_t keep = erase.keep;
    const Span tail{.line = line.key().line, .offset = keep, .length = geometry_.line_bytes() - keep};
    const SubBlocks split = geometry_.touched(tail).without(geometry_.covered(tail)) & line.dirty();
    index_.invalidate(line, geometry_.touched(tail).without(split));
    line.seen().cut(keep);
    const uint64_t generation = index_.stamp(line);
    erase.outstanding = 1;
    uint32_t which = 0;
    for (const ArenaSlot& slot : line.holders()) {
        EngineLink& engine = *engines_.link(slot.engine);
        Transfer& transfer = erase.transfers[which];
        transfer.move = {};
        transfer.move.slot = slot.number;
        LineHeader header{.volume = erase.wwid,
                          .line = line.key().line,
                          .generation = generation,
                          .incarnation = engine.identity().incarnation,
                          .valid = which == 0 ? line.valid() : line.dirty(),
                          .dirty = line.dirty(),
                          .line_shift = geometry_.shift()};
        // If the line is clean, the header of the second copy is erased.
        if (which == 0 || !line.dirty().empty()) write_header(header, transfer.move.header);
        transfer.kind = split.empty() ? Transfer::Kind::kHeader : Transfer::Kind::kMove;
        if (!split.empty()) {
            transfer.move.to_peer = false;
            transfer.move.atomic = transfer.move.has_header = true;
            transfer.move.offset = keep;
            transfer.move.length = (split.first() + 1) * kSubBlockBytes - keep;
            transfer.move.remote =
                memory_.regions().remote(engine.identity().via, memory_.zeroes(), transfer.move.length);
        }
        transfer.done = trim_done;
        transfer.context = &erase;
        erase.engines[which] = slot.engine;
        erase.incarnations[which] = engine.identity().incarnation;
        ++which;
        ++erase.outstanding;
        engine.submit(transfer);
    }
    if (--erase.outstanding == 0) over(erase);
}

void Eraser::trim_done(Transfer& transfer, CacheStatus status) noexcept {
    Erase& erase = *static_cast<Erase*>(transfer.context);
    const auto which = static_cast<size_t>(&transfer - erase.transfers.data());
    // A move from the target's own memory can fail only because of the engine. Its copy must not count.
    if (EngineLink* failed = erase.owner->engines_.link(erase.engines[which]);
        failed != nullptr && status != CacheStatus::kOk &&
        failed->identity().incarnation == erase.incarnations[which])
        failed->close(Status(Code::kIo, "the engine failed to truncate a line"));
    if (--erase.outstanding == 0) erase.owner->over(erase);
}

void Eraser::over(Erase& erase) noexcept {
    index_.erased(*erase.line);
    lines_.leave(erase.op);
    erase.is_over = true;
    turn_.want();
    std::exchange(erase.ended, nullptr)();
}

// Commands that entered lines before the volume became smaller hold these lines. Later commands fail. So each
// line beyond the end is entered, then wiped. In the line in which the volume ends, new headers no longer
// claim the sub-blocks beyond the end. If a dirty sub-block crosses the end, its part beyond the end is
// zeroed.
void Eraser::cut(Line& line, uint32_t keep, uint64_t wwid, std::function<void()> ended) {
    auto erase = erase_of(line);
    erase->keep = keep;
    erase->wwid = wwid;
    erase->ended = std::move(ended);
    begin(std::move(erase));
}

}  // namespace wss::cache
