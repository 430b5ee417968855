// SPDX-License-Identifier: Apache-2.0
// Misses of volumes whose real storage is on another node: data moves directly between it, the client and the
// engines. If it is not connected to one of them, a buffer of the target is used.
#include "target/cache/reads.h"
#include "target/cache/remote.h"

namespace wss::se {

using cache::EngineIndex;
using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

// True if real storage alone has the data: no dirty sub-blocks overlay it, and nothing has failed before.
static bool is_storages_alone(const Work& work) noexcept {
    if (work.by_storage || work.attempts > 0) return false;
    for (uint32_t i = 0; i < work.line_count; ++i)
        if (work.lines[i].touched.overlaps(work.lines[i].line->dirty())) return false;
    return true;
}

bool Reads::can_fetch(const Work& work) noexcept {
    return !work.is_ahead && commands_.reaches_storage(work) && is_storages_alone(work);
}

bool Reads::can_bring(const Work& work) const noexcept {
    return work.is_ahead && work.volume->remote != nullptr && is_storages_alone(work);
}

bool Reads::fetches(Work& work) noexcept {
    if (!can_fetch(work)) return false;
    fetch(work);
    return true;
}

void Reads::miss(Work& work) noexcept {
    bool fills = false;
    for (uint32_t i = 0; i < work.line_count; ++i) fills = fills || wants_fill(work.lines[i]);
    const bool direct = can_fetch(work);
    if (fills && (direct || can_bring(work))) work.bay = bay_for(work);
    if (work.bay && !direct) return bring(work);
    if (direct && (work.bay || !fills)) return fetch(work);
    if (direct) work.phase = Work::Phase::kFetch;
    Commands::rest(work);
    work.owner->need_buffer(work);
}

// A staging buffer that every engine to be filled can reach, or none.
Bay Reads::bay_for(const Work& work) noexcept {
    if (!nodes_.has_bays()) return {};
    EngineIndex one;
    Bay bay;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        if (!wants_fill(work.lines[i])) continue;
        const EngineIndex engine = index_.first_choice(*work.lines[i].line);
        if (engine == one) continue;
        one = engine;
        if (!bay)
            bay = nodes_.take(*work.volume, engine, work.length);
        else if (!nodes_.reaches(bay, engine))
            nodes_.give_back(bay);
        if (!bay) return {};
    }
    return bay;
}

// Real storage answers the client. If the command has a staging buffer or a buffer of the target, storage
// also writes the data there, for the fill.
void Reads::fetch(Work& work) noexcept {
    work.phase = Work::Phase::kFetch;
    Commands::rest(work);
    work.is_delegated = true;
    work.owner->delegated(work);
    CacheCounters& counters = work.volume->counters;
    ++counters.direct_reads;
    ++counters.out_of_band_reads;
    counters.out_of_band_read_bytes += work.length;
    counters.storage_read_bytes += work.length;
    EngineLink& storage = *work.volume->remote->storage();
    Transfer& transfer = commands_.remote_io(work, Op::kRead, fetched);
    transfer.storage.immediate = true;
    transfer.storage.immediate_value = wire::pack_fused({.tag = work.tag, .credits = 0});
    transfer.storage.has_copy = work.buffer != nullptr;
    if (work.buffer != nullptr)
        transfer.storage.copy = work.regions->remote(storage.identity().net, work.buffer, work.length);
    storage.submit(transfer);
}

void Reads::fetched(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    --work.outstanding;
    const bool counts = work.volume->remote->answers_for_it(work.remote_engine);
    if (status != CacheStatus::kOk || (transfer.error != 0 && !counts)) {
        work.transfer_failed = true;
        work.failed_engine = work.remote_engine.value;
    }
    // The RS reports that its storage failed: it has written nothing to the client and will not.
    if (transfer.error != 0 && counts)
        work.ending = {.kind = Ending::Kind::kStorageFailed, .error = transfer.error, .offset = work.offset};
    work.path.reads->part_over(work);
}

// Read-ahead: from real storage to an engine only, through a staging buffer.
void Reads::bring(Work& work) noexcept {
    work.phase = Work::Phase::kFetch;
    Commands::rest(work);
    work.volume->counters.storage_read_bytes += work.length;
    work.volume->counters.read_ahead_bytes += work.length;
    Transfer& transfer = commands_.remote_io(work, Op::kRead, brought);
    work.volume->remote->storage()->submit(transfer);
}

void Reads::brought(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    --work.outstanding;
    if (status != CacheStatus::kOk)
        work.ending = {.kind = Ending::Kind::kStorageFailed, .error = EIO, .offset = work.offset};
    work.path.reads->part_over(work);
}

}  // namespace wss::se
