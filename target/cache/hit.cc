// SPDX-License-Identifier: Apache-2.0
// The shortest way of a read, which most go: all of it is in one line that nobody changes, and the client
// reaches the engine. It enters its line like every other command, so that the rules are the same; there is
// only nothing to plan and nothing to wait for. What cannot go this way has changed nothing and goes the long
// one (work.cc, read.cc), and so does the end of a read whose engine failed.
#include "target/cache/cache.h"

namespace wss::se {

using wire::CacheStatus;

// False: not this way.
bool Cache::hit(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    LineWork& line = work.lines[0];
    line.span = geometry_.first_span(work.offset, work.length);
    if (line.span.length != work.length || work.client == nullptr || work.is_ahead) return false;
    cache::Line* entry = index_->find({volume.number, line.span.line});
    if (entry == nullptr) return false;
    line.touched = geometry_.touched(line.span);
    // What of it is lost, or may not be served, the long way finds out.
    if (!entry->serves(line.touched) || !membership_.lost.empty() ||
        volume.settings.policy == cache::Policy::kNone)
        return false;
    const cache::Slot slot = entry->holders()[0];
    if (!attached(work, slot)) return false;

    volume.gate.begin();
    work.state = Work::State::kRunning;
    work.line_count = work.entered = 1;
    line.line = entry;
    line.op.context = &work;
    line.op.access = cache::Access::kShared;
    line.op.pieces = line.touched;
    const bool granted = index_->enter(*entry, line.op);
    WSS_ASSERT(granted, "who reads waits for who changes only");
    index_->touch(*entry, line.touched);

    ++volume.counters.short_hits;
    line.transfers_used = 0;
    Transfer& transfer = next_transfer(work, line, slot);
    transfer.done = hit_over;
    begin_delegation(work);
    delegate_to(work, line, 0, transfer);
    return true;
}

void Cache::hit_over(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    Cache& cache = *work.cache;
    if (status != CacheStatus::kOk) return cache.transfer_over(work, transfer, status);
    --work.outstanding;
    if (work.is_lazy) cache.lazy_over(work);
    cache.answer_read(work);
}

}  // namespace wss::se
