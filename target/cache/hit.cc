// SPDX-License-Identifier: Apache-2.0
// The fast path of reads, which most reads take: the range is in one line that no operation changes, and the
// client is connected to the engine. On this path a command enters the line like every other command, so the
// same rules hold. But it has nothing to plan and nothing to wait for. If the fast path does not apply, it
// has changed nothing, and the command takes the full path (reads.cc). A read whose engine fails also ends
// there.
#include "target/cache/reads.h"

namespace wss::cache {

using wire::CacheStatus;

bool Reads::hit(CacheCommand& command) noexcept {
    CachedVolume& volume = *command.volume;
    LinePart& line = command.lines[0];
    line.span = geometry_.first_span(command.offset, command.length);
    if (line.span.length != command.length || command.client == nullptr || command.is_ahead) return false;
    Line* entry = index_.find({volume.number, line.span.line});
    if (entry == nullptr) return false;
    line.touched = geometry_.touched(line.span);
    // The full path handles lost data and volumes that are not served.
    if (!entry->serves(line.touched) || !losses_.none() || !volume.serves()) return false;
    const ArenaSlot slot = entry->holders()[0];
    if (!commands_.attached(command, slot)) return false;

    volume.gate.begin();
    command.state = CacheCommand::State::kRunning;
    command.line_count = command.entered = 1;
    line.line = entry;
    line.op.access = Access::kShared;
    line.op.sub_blocks = line.touched;
    const bool granted = lines_.enter(*entry, line.op, command);
    WSS_ASSERT(granted, "a reader waits for writers only");
    index_.touch(*entry, line.touched);

    ++volume.counters.fast_path_hits;
    line.transfers_used = 0;
    Transfer& transfer = commands_.next_transfer(command, line, slot, hit_over);
    begin_delegation(command);
    delegate_to(command, line, 0, transfer);
    return true;
}

void Reads::hit_over(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    if (status != CacheStatus::kOk) return transfer_done(transfer, status);
    Reads& reads = *command.path.reads;
    --command.outstanding;
    if (command.is_coalesced) reads.coalesced_over(command);
    reads.answer(command);
}

}  // namespace wss::cache
