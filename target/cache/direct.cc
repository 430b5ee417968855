// SPDX-License-Identifier: Apache-2.0
// What goes straight between an engine and real storage (RS) on another node: fills behind a miss,
// read-ahead, destaging. The RS is a client of the engines, by the same tokens as initiators; its bays
// (bays.h) are what our buffers are elsewhere. Where the RS does not reach the engine, or has no bay left,
// our buffers serve.
#include <algorithm>

#include "target/cache/destage.h"
#include "target/cache/direct.h"

namespace wss::se {

using cache::EngineIndex;
using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

void Cache::open_bays(EngineLink& storage) {
    if (storage.bays().bytes < kBayUnit) return;
    reached_.push_back(std::make_unique<Reached>(*this, storage));
    auto client = std::make_unique<Client>();
    client->sink = reached_.back().get();
    client->scheme = schemes_[storage.identity().net];
    client->is_storage = true;
    reached_.back()->client = admit_client(std::move(client));
}

void Cache::close_bays(const EngineLink& storage) {
    std::erase_if(reached_, [&](const auto& one) {
        if (one->storage != storage.index()) return false;
        remove_client(one->client);
        return true;
    });
}

Cache::Reached* Cache::reached_by(EngineIndex storage, uint32_t incarnation) noexcept {
    for (auto& one : reached_)
        if (one->storage == storage && one->incarnation == incarnation) return one.get();
    return nullptr;
}

void Cache::engine_gone(EngineLink& storage, uint64_t handle) noexcept {
    if (Reached* reached = reached_by(storage.index(), storage.identity().incarnation))
        reached->bays.gone(handle);
}

// ---- Bays ------------------------------------------------------------------------------------------------

bool Cache::reaches_bay(const Bay& bay, EngineIndex engine) noexcept {
    const Reached* reached = reached_by(bay.storage, bay.incarnation);
    EngineLink* holder = link(engine);
    return reached != nullptr && holder != nullptr && holder->is_ready() &&
           reached->client->engines[engine.value].attached;
}

// To move data of the volume between its real storage and this engine.
Bay Cache::take_bay(const CachedVolume& volume, EngineIndex engine, uint32_t bytes) noexcept {
    if (reached_.empty() || volume.remote == nullptr) return {};
    const EngineLink* storage = volume.remote->storage();
    if (storage == nullptr) return {};
    const Bay whose{.storage = storage->index(), .incarnation = storage->identity().incarnation};
    if (!reaches_bay(whose, engine)) return {};
    return reached_by(whose.storage, whose.incarnation)->bays.take(bytes);
}

// Every engine that will take of it is reached.
Bay Cache::bay_for(const Work& work) noexcept {
    if (reached_.empty()) return {};
    EngineIndex one;
    Bay bay;
    for (uint32_t i = 0; i < work.line_count; ++i) {
        if (!wants_fill(work, work.lines[i])) continue;
        const EngineIndex engine = index_->first_choice(*work.lines[i].line);
        if (engine == one) continue;
        one = engine;
        if (!bay)
            bay = take_bay(*work.volume, engine, work.length);
        else if (!reaches_bay(bay, engine))
            give_back(bay);
        if (!bay) return {};
    }
    return bay;
}

void Cache::give_back(Bay& bay) noexcept {
    if (Reached* reached = reached_by(bay.storage, bay.incarnation)) reached->bays.give_back(bay);
    bay = {};
}

// The peer of this move is the bay, `offset` bytes behind its beginning.
void Cache::aim_at_bay(Transfer& transfer, const Bay& bay, EngineIndex engine, uint32_t offset) noexcept {
    const Reached& reached = *reached_by(bay.storage, bay.incarnation);
    transfer.move.handle = reached.client->engines[engine.value].handle;
    transfer.move.remote = reached.bays.remote(bay, offset, transfer.move.length);
}

// SB1. They get another connection: by this one nothing good comes any more.
void Cache::distrust(const Bay& bay, EngineIndex engine, uint64_t handle) noexcept {
    Reached* reached = reached_by(bay.storage, bay.incarnation);
    if (reached == nullptr) return;
    reached->bays.distrust(bay, handle);
    Client::Place& place = reached->client->engines[engine.value];
    if (place.handle != handle) return;
    place.attached = false;
    if (EngineLink* holder = link(engine)) holder->revoke(handle);
}

void Cache::count_upkeep(CachedVolume& volume, const Bay& bay, uint64_t bytes) noexcept {
    (bay ? volume.counters.upkeep_direct_bytes : volume.counters.upkeep_through_us_bytes) += bytes;
}

// ---- Fills -----------------------------------------------------------------------------------------------

// Read-ahead: nobody but an engine wants it.
void Cache::bring(Work& work) noexcept {
    work.phase = Work::Phase::kFetch;
    work.volume->counters.storage_read_bytes += work.length;
    work.volume->counters.read_ahead_bytes += work.length;
    Transfer& transfer = remote_io(work, Op::kRead);
    transfer.done = brought;
    work.volume->remote->storage()->submit(transfer);
}

void Cache::brought(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    --work.outstanding;
    if (status != CacheStatus::kOk)
        work.ending = {.kind = Ending::Kind::kStorageFailed, .error = EIO, .offset = work.offset};
    work.cache->read_part_over(work);
}

// The engine may be well, and is not reached.
void Cache::fill_failed(Work& work, const Transfer& transfer) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        if (line.transfers_used == 0 || &line.transfers[0] != &transfer) continue;
        line.filling = {};
        distrust(work.bay, line.slots[0].engine, transfer.move.handle);
    }
}

// A line that got its place and nothing in it: an empty one may be evicted.
void Cache::settle_unfilled(Work& work) noexcept {
    for (uint32_t i = 0; i < work.line_count; ++i) {
        LineWork& line = work.lines[i];
        const bool exclusive = line.op.access == cache::Access::kExclusive;
        if (exclusive && line.line->state() == cache::LineState::kFilling) index_->filled(*line.line, {});
    }
}

// ---- Destaging -------------------------------------------------------------------------------------------

// False: the storage is lost, and the bay with it.
bool Cache::store_from_bay(Destage& job, uint64_t at, uint32_t begin, uint64_t length) noexcept {
    const Reached* reached = reached_by(job.bay.storage, job.bay.incarnation);
    EngineLink* storage = job.volume->remote->storage();
    if (reached == nullptr || storage == nullptr || storage->index() != job.bay.storage) return false;
    Transfer& transfer = job.transfers[0];
    transfer.kind = Transfer::Kind::kStorage;
    transfer.storage = {.op = Op::kWrite,
                        .in_bay = true,
                        .volume = job.volume->remote->number(),
                        .offset = at,
                        .length = length,
                        .bay = job.bay.place() + begin};
    transfer.done = destage_stored;
    transfer.context = &job;
    storage->submit(transfer);
    return true;
}

void Cache::destage_stored(Transfer& transfer, CacheStatus status) noexcept {
    Destage& job = *static_cast<Destage*>(transfer.context);
    Cache& cache = *job.cache;
    if (transfer.error != 0) return cache.destage_done(job, transfer.error);
    if (status != CacheStatus::kOk) return cache.destage_done(job, EAGAIN);
    job.volume->remote->note_write();
    cache.count_stored(job, transfer.storage.length);
    cache.destage_step(job);
}

}  // namespace wss::se
