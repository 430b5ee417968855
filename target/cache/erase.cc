// SPDX-License-Identifier: Apache-2.0
// Lines that go: dropped where nothing of them is dirty, wiped in their engines where their volume is gone or
// smaller.
#include "target/cache/cache.h"
#include "target/cache/destage.h"

namespace wss::se {

using wire::CacheStatus;

// Walks the lines of the range or those of the index, whichever are fewer.
std::vector<cache::LineKey> Cache::lines_in(uint32_t number, uint64_t offset, uint64_t length) {
    std::vector<cache::LineKey> keys;
    const uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    if (offset >= end) return keys;
    const uint64_t first = geometry_.line_of(offset), last = geometry_.line_of(end - 1);
    if (last - first <= index_->counters().lines) {
        for (uint64_t line = first; line <= last; ++line)
            if (index_->find({number, line}) != nullptr) keys.push_back({number, line});
        return keys;
    }
    index_->for_each([&](cache::Line& line) {
        const cache::LineKey key = line.key();
        if (key.volume == number && key.line >= first && key.line <= last) keys.push_back(key);
    });
    return keys;
}

// Nothing is under way: the volume is frozen, and nothing of it is dirty there.
void Cache::drop_lines(CachedVolume& volume, uint64_t offset, uint64_t length) {
    for (const cache::LineKey& key : lines_in(volume.number, offset, length)) {
        cache::Line* line = index_->find(key);
        if (line == nullptr) continue;
        cache::LineOp op;
        op.pieces = geometry_.all();
        op.access = cache::Access::kExclusive;
        if (index_->enter(*line, op)) index_->invalidate(*line, geometry_.all());
        index_->leave(op, granted_);
    }
}

// All of the volume; `removal` is empty for one that is not open.
void Cache::wipe_lines(uint32_t number, const Gate::Holder& removal) {
    for (const cache::LineKey& key : lines_in(number, 0, UINT64_MAX)) {
        cache::Line* line = index_->find(key);
        if (line == nullptr) continue;
        auto erase = erase_of(*line);
        if (removal) erase->place = removal.share();
        begin_erase(std::move(erase));
    }
}

std::unique_ptr<Cache::Erase> Cache::erase_of(cache::Line& line) {
    auto erase = std::make_unique<Erase>();
    erase->cache = this;
    erase->line = &line;
    erase->op.pieces = geometry_.all();
    erase->op.access = cache::Access::kExclusive;
    erase->op.context = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(erase.get()) | 2);
    return erase;
}

void Cache::begin_erase(std::unique_ptr<Erase> erase) {
    Erase& job = *erase;
    erases_.push_back(std::move(erase));
    index_->enter(*job.line, job.op) ? erase_entered(job, job.op) : hurry();
}

void Cache::erase_entered(Erase& erase, cache::LineOp&) noexcept {
    if (erase.keep > 0) return trim(erase);
    index_->begin_erase(*erase.line, cache::LineState::kWiping);
    erase.outstanding = 1;
    uint32_t which = 0;
    for (const cache::Slot& slot : erase.line->holders()) {
        Transfer& transfer = erase.transfers[which++];
        transfer.kind = Transfer::Kind::kWipe;
        transfer.move = {};
        transfer.move.slot = slot.number;
        transfer.done = erase_transfer_done;
        transfer.context = &erase;
        ++erase.outstanding;
        link(slot.engine)->submit(transfer);
    }
    if (--erase.outstanding == 0) erase_over(erase);
}

void Cache::erase_transfer_done(Transfer& transfer, CacheStatus) noexcept {
    // An engine that did not do it is lost, and its contents with it.
    Erase& erase = *static_cast<Erase*>(transfer.context);
    if (--erase.outstanding == 0) erase.cache->erase_over(erase);
}

void Cache::erase_over(Erase& erase) noexcept {
    index_->erased(*erase.line);
    index_->leave(erase.op, granted_);
    erase.over = true;
    wants_turn_ = true;
    const Gate::Holder place = std::move(erase.place);
    if (auto ended = std::exchange(erase.ended, nullptr)) ended();
}

}  // namespace wss::se
