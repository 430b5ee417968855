// SPDX-License-Identifier: Apache-2.0
// Misses of volumes whose real storage is on another node: data moves directly between the storage, the
// client and the engines. If the storage is not connected to one of them, a buffer of the target is used.
#include "target/cache/reads.h"
#include "target/cache/remote.h"

namespace wss::cache {

using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

// True if only real storage has the data: no dirty sub-blocks overlay it, and nothing has failed before.
static bool is_storages_alone(const CacheCommand& command) noexcept {
    if (command.by_storage || command.attempts > 0) return false;
    for (uint32_t i = 0; i < command.line_count; ++i)
        if (command.lines[i].touched.overlaps(command.lines[i].line->dirty())) return false;
    return true;
}

bool Reads::can_fetch(const CacheCommand& command) noexcept {
    return !command.is_ahead && commands_.reaches_storage(command) && is_storages_alone(command);
}

bool Reads::can_stage(const CacheCommand& command) const noexcept {
    return command.is_ahead && command.volume->remote != nullptr && is_storages_alone(command);
}

bool Reads::fetches(CacheCommand& command) noexcept {
    if (!can_fetch(command)) return false;
    fetch(command);
    return true;
}

void Reads::miss(CacheCommand& command) noexcept {
    bool fills = false;
    for (uint32_t i = 0; i < command.line_count; ++i) fills = fills || wants_fill(command.lines[i]);
    const bool direct = can_fetch(command);
    if (fills && (direct || can_stage(command))) command.staging = staging_for(command);
    if (command.staging && !direct) return stage(command);
    if (direct && (command.staging || !fills)) return fetch(command);
    if (direct) command.phase = CacheCommand::Phase::kFetch;
    Commands::rest(command);
    command.owner->need_buffer(command);
}

// A staging buffer that every engine to be filled can reach, or none.
StagingBuffer Reads::staging_for(const CacheCommand& command) noexcept {
    if (!nodes_.has_staging()) return {};
    EngineIndex one;
    StagingBuffer staging;
    for (uint32_t i = 0; i < command.line_count; ++i) {
        if (!wants_fill(command.lines[i])) continue;
        const EngineIndex engine = index_.first_choice(*command.lines[i].line);
        if (engine == one) continue;
        one = engine;
        if (!staging)
            staging = nodes_.take(*command.volume, engine, command.length);
        else if (!nodes_.reaches(staging, engine))
            nodes_.give_back(staging);
        if (!staging) return {};
    }
    return staging;
}

// Real storage answers the client. If the command has a staging buffer or a buffer of the target, storage
// also writes the data there, for the fill.
void Reads::fetch(CacheCommand& command) noexcept {
    command.phase = CacheCommand::Phase::kFetch;
    Commands::rest(command);
    command.is_delegated = true;
    command.owner->delegated(command);
    CacheCounters& counters = command.volume->counters;
    ++counters.direct_reads;
    ++counters.out_of_band_reads;
    counters.out_of_band_read_bytes += command.length;
    counters.storage_read_bytes += command.length;
    EngineLink& storage = *command.volume->remote->storage();
    Transfer& transfer = commands_.remote_io(command, Op::kRead, fetched);
    transfer.storage.immediate = true;
    transfer.storage.immediate_value = wire::pack_fused({.tag = command.tag, .credits = 0});
    transfer.storage.has_copy = command.buffer != nullptr;
    if (command.buffer != nullptr)
        transfer.storage.copy =
            command.regions->remote(storage.identity().via, command.buffer, command.length);
    storage.submit(transfer);
}

void Reads::fetched(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    --command.outstanding;
    const bool counts = command.volume->remote->answers_for_it(command.remote_engine);
    if (status != CacheStatus::kOk || (transfer.error != 0 && !counts)) {
        command.transfer_failed = true;
        command.failed_engine = command.remote_engine.value;
    }
    // The RS reports that its storage failed. It has written nothing to the client, and will not.
    if (transfer.error != 0 && counts)
        command.outcome = {
            .kind = CacheOutcome::Kind::kStorageFailed, .error = transfer.error, .offset = command.offset};
    command.path.reads->part_over(command);
}

// Read-ahead: moves data from real storage only to an engine, through a staging buffer.
void Reads::stage(CacheCommand& command) noexcept {
    command.phase = CacheCommand::Phase::kFetch;
    Commands::rest(command);
    command.volume->counters.storage_read_bytes += command.length;
    command.volume->counters.read_ahead_bytes += command.length;
    Transfer& transfer = commands_.remote_io(command, Op::kRead, staged);
    command.volume->remote->storage()->submit(transfer);
}

void Reads::staged(Transfer& transfer, CacheStatus status) noexcept {
    CacheCommand& command = *static_cast<CacheCommand*>(transfer.context);
    --command.outstanding;
    if (status != CacheStatus::kOk)
        command.outcome = {
            .kind = CacheOutcome::Kind::kStorageFailed, .error = EIO, .offset = command.offset};
    command.path.reads->part_over(command);
}

}  // namespace wss::cache
