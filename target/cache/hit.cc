// SPDX-License-Identifier: Apache-2.0
// The fast path of reads, which most reads take: the range is in one line that no operation changes, and the
// client is connected to the engine. The path enters the line like every other command, so the same rules
// hold, but has nothing to plan and nothing to wait for. If it does not apply it has changed nothing, and the
// command takes the full path (reads.cc). So does the end of a read whose engine failed.
#include "target/cache/reads.h"

namespace wss::se {

using wire::CacheStatus;

bool Reads::hit(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    LineWork& line = work.lines[0];
    line.span = geometry_.first_span(work.offset, work.length);
    if (line.span.length != work.length || work.client == nullptr || work.is_ahead) return false;
    cache::Line* entry = index_.find({volume.number, line.span.line});
    if (entry == nullptr) return false;
    line.touched = geometry_.touched(line.span);
    // The full path handles lost data and volumes that are not served.
    if (!entry->serves(line.touched) || !losses_.none() || !volume.serves()) return false;
    const cache::Slot slot = entry->holders()[0];
    if (!commands_.attached(work, slot)) return false;

    volume.gate.begin();
    work.state = Work::State::kRunning;
    work.line_count = work.entered = 1;
    line.line = entry;
    line.op.access = cache::Access::kShared;
    line.op.pieces = line.touched;
    const bool granted = lines_.enter(*entry, line.op, work);
    WSS_ASSERT(granted, "a reader waits for writers only");
    index_.touch(*entry, line.touched);

    ++volume.counters.short_hits;
    line.transfers_used = 0;
    Transfer& transfer = commands_.next_transfer(work, line, slot, hit_over);
    begin_delegation(work);
    delegate_to(work, line, 0, transfer);
    return true;
}

void Reads::hit_over(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    if (status != CacheStatus::kOk) return transfer_done(transfer, status);
    Reads& reads = *work.path.reads;
    --work.outstanding;
    if (work.is_lazy) reads.lazy_over(work);
    reads.answer(work);
}

}  // namespace wss::se
