// SPDX-License-Identifier: Apache-2.0
// Real storage on another node: its queue, and what goes straight between it and a client.
#include "target/cache/remote.h"

#include <algorithm>
#include <cstring>

#include "lib/base/log.h"
#include "lib/io/request.h"
#include "target/cache/cache.h"

namespace wss::se {

using cache::Pieces;
using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

// ---- The queue -------------------------------------------------------------------------------------------

struct RemoteQueue::Job {
    RemoteQueue* owner = nullptr;
    std::byte* buffer = nullptr;
    io::Request* request = nullptr;
    uint64_t writes = 0;  // of a flush: what was done before it
    Transfer transfer;
};

namespace {

// In Request::scratch.
struct Progress {
    Nanoseconds until;
    uint64_t done;
    uint64_t loss;  // the last when it came
};
Progress& progress_of(io::Request& request) {
    return *std::launder(reinterpret_cast<Progress*>(request.scratch));
}

Op remote_op(io::Op op) {
    switch (op) {
        case io::Op::kRead:
            return Op::kRead;
        case io::Op::kWrite:
            return Op::kWrite;
        case io::Op::kFlush:
            return Op::kFlush;
        case io::Op::kDiscard:
            return Op::kDiscard;
        case io::Op::kWriteZeroes:
            break;
    }
    return Op::kWriteZeroes;
}

bool moves(const io::Request& request) {
    return request.op == io::Op::kRead || request.op == io::Op::kWrite;
}

}  // namespace

RemoteQueue::RemoteQueue(Cache& cache, reactor::Reactor& reactor, std::string name,
                         std::shared_ptr<RemoteState> state)
    : cache_(cache), reactor_(reactor), name_(std::move(name)), state_(std::move(state)) {}

Result<std::unique_ptr<io::Queue>> RemoteQueue::create(Cache& cache, reactor::Reactor& reactor,
                                                       std::string name, std::shared_ptr<RemoteState> state) {
    std::unique_ptr<RemoteQueue> made(new RemoteQueue(cache, reactor, std::move(name), std::move(state)));
    constexpr size_t kMemory = size_t{kJobs} * kPiece;
    made->memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, kMemory)));
    if (made->memory_ == nullptr)
        return failure(Code::kExhausted, "no {} MiB of memory for volume rs:{}", kMemory >> 20, made->name_);
    auto regions = cache.register_buffers({made->memory_.get(), kMemory});
    if (!regions) return regions.status();
    made->regions_ = std::move(*regions);
    for (uint32_t i = 0; i < kJobs; ++i) {
        made->jobs_.push_back(std::make_unique<Job>());
        Job& job = *made->jobs_.back();
        job.owner = made.get();
        job.buffer = made->memory_.get() + size_t{i} * kPiece;
        made->free_.push_back(&job);
    }
    return std::unique_ptr<io::Queue>(std::move(made));
}

RemoteQueue::~RemoteQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue dies only when its requests are done");
}

EngineLink* RemoteQueue::storage() const noexcept {
    return state_->is_lost() ? nullptr : cache_.storage_link(index_, incarnation_);
}

void RemoteQueue::attach(const EngineLink& engine, const wire::CacheVolume& volume) {
    index_ = engine.index();
    incarnation_ = engine.identity().incarnation;
    number_ = volume.number;
    if (boot_ != 0 && boot_ != volume.boot && writes_ != flushed_) {
        log::error("volume {}: the machine of its real storage was started anew; the next flushes fail",
                   name_);
        last_loss_ = cache_.note_storage_loss();
        flushed_ = writes_;
    }
    boot_ = volume.boot;
    // Others may have had the storage meanwhile.
    if (process_ != 0 && process_ != engine.identity().identity) cache_.note_storage_change();
    process_ = engine.identity().identity;
}

void RemoteQueue::submit(io::Request& request) noexcept {
    new (request.scratch) Progress{reactor_.now() + kAwayMax, 0, last_loss_};
    ++in_flight_;
    waiting_.push_back(request);
}

size_t RemoteQueue::poll() noexcept {
    size_t events = 0;
    List<io::Request> finished;
    finished.splice_back(finished_);
    while (io::Request* request = finished.pop_front()) {
        ++events;
        --in_flight_;
        request->done(*request);
    }
    EngineLink* const link = storage();
    if (link == nullptr) refuse_overdue();
    while (link != nullptr && !free_.empty() && !waiting_.empty()) {
        Job& job = *free_.back();
        free_.pop_back();
        job.request = waiting_.pop_front();
        start(job, *link);
        ++events;
    }
    return events;
}

bool RemoteQueue::arm() noexcept {
    return finished_.empty() && (waiting_.empty() || free_.empty() || storage() == nullptr);
}

void RemoteQueue::refuse_overdue() noexcept {
    waiting_.for_each([this](io::Request& request) {
        if (!state_->is_lost() && reactor_.now() < progress_of(request).until) return;
        request.unlink();
        finish(request, EIO);
    });
}

void RemoteQueue::finish(io::Request& request, int error) noexcept {
    request.error = error;
    request.done_bytes = error == 0 ? request.length : progress_of(request).done;
    finished_.push_back(request);
}

void RemoteQueue::start(Job& job, EngineLink& storage) noexcept {
    io::Request& request = *job.request;
    // What it was to make stable may be gone.
    if (request.op == io::Op::kFlush && progress_of(request).loss != last_loss_) {
        free_.push_back(&job);
        return finish(request, EIO);
    }
    const uint64_t done = progress_of(request).done;
    const uint64_t length =
        moves(request) ? std::min<uint64_t>(request.length - done, kPiece) : request.length;
    if (request.op == io::Op::kWrite) std::memcpy(job.buffer, request.data + done, length);
    job.writes = writes_;
    job.transfer.kind = Transfer::Kind::kStorage;
    job.transfer.storage = {.op = remote_op(request.op),
                            .fua = request.fua,
                            .volume = number_,
                            .offset = request.offset + done,
                            .length = length};
    if (moves(request))
        job.transfer.storage.remote =
            regions_->remote(storage.identity().net, job.buffer, static_cast<uint32_t>(length));
    job.transfer.context = &job;
    job.transfer.done = transfer_done;
    storage.submit(job.transfer);
}

void RemoteQueue::transfer_done(Transfer& transfer, CacheStatus status) noexcept {
    Job& job = *static_cast<Job*>(transfer.context);
    job.owner->over(job, status);
}

void RemoteQueue::over(Job& job, CacheStatus status) noexcept {
    io::Request& request = *job.request;
    Progress& progress = progress_of(request);
    free_.push_back(&job);
    if (job.transfer.error != 0) return finish(request, job.transfer.error);
    if (status != CacheStatus::kOk) {
        // Lost with its RS, which may come back.
        if (state_->is_lost() || reactor_.now() >= progress.until) return finish(request, EIO);
        progress.done = 0;
        return waiting_.push_front(request);
    }
    if (request.op == io::Op::kFlush) {
        flushed_ = std::max(flushed_, job.writes);
        return finish(request, 0);
    }
    if (request.op != io::Op::kRead) ++writes_;
    if (!moves(request)) return finish(request, 0);
    const uint64_t length = job.transfer.storage.length;
    if (request.op == io::Op::kRead) std::memcpy(request.data + progress.done, job.buffer, length);
    progress.done += length;
    if (progress.done == request.length) return finish(request, 0);
    waiting_.push_front(request);
}

Result<std::unique_ptr<io::Backend>> RemoteBackend::open(Cache& cache, const std::string& name,
                                                         const io::OpenOptions& options) {
    if (name.empty())
        return failure(Code::kInvalid, "rs: needs the volume's name there, for example rs:disk0");
    if (options.size == 0)
        return failure(Code::kInvalid, "rs:{} needs a size, for example rs:{},size=100G", name, name);
    if (options.steal)
        return failure(Code::kInvalid,
                       "rs:{}: its owner can be shut out only where the storage is, by steal=true there",
                       name);
    return std::unique_ptr<io::Backend>(new RemoteBackend(cache, name, options.size));
}

io::Limits RemoteBackend::limits() const noexcept {
    return {.size = state_->bytes(), .discard = true};
}

Result<std::unique_ptr<io::Queue>> RemoteBackend::open_queue(reactor::Reactor& reactor) {
    return RemoteQueue::create(cache_, reactor, name_, state_);
}

Status RemoteBackend::resize(uint64_t) {
    return failure(
        Code::kUnsupported,
        "its real storage is on another node: resize it there; a volume that is all of it follows");
}

// ---- The engine ------------------------------------------------------------------------------------------

EngineLink* Cache::storage_link(cache::EngineIndex index, uint32_t incarnation) noexcept {
    EngineLink* engine = link(index);
    const bool same =
        engine != nullptr && engine->is_storage() && engine->identity().incarnation == incarnation;
    return same && engine->is_ready() ? engine : nullptr;
}

static std::string reason(const wire::CacheVolumeState& state) {
    return state.text.empty() ? "its real storage is lost to another owner" : state.text;
}

void Cache::storage_ready(EngineLink& engine) {
    log::info("real storage at {} joined with {} volumes", engine.peer(), engine.volumes().size());
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed()) attach_storage(*volume, engine);
    for (auto& client : clients_) introduce(*client, engine);
    open_bays(engine);
    wants_turn_ = true;
}

void Cache::attach_storage(CachedVolume& volume, EngineLink& engine) {
    if (volume.remote == nullptr || volume.remote->state().is_lost()) return;
    const auto& all = engine.volumes();
    auto found = std::find_if(all.begin(), all.end(), [&](const wire::CacheVolume& one) {
        return one.name == volume.remote->name();
    });
    if (found == all.end()) return;
    const volume::Volume& here = volume.open->volume();
    RemoteState& state = volume.remote->state();
    const wire::CacheVolumeState* reported = engine.state_of(found->number);
    if (reported != nullptr && reported->error != 0) return state.lose(reason(*reported));
    const uint64_t bytes = reported != nullptr ? reported->bytes : found->bytes;
    if (bytes < here.size() || here.block_size() % found->logical_block != 0) {
        std::string why = fmt::format(
            "not served: its real storage at {} has {} bytes in blocks of {}, the volume {} of {}",
            engine.peer(), bytes, found->logical_block, here.size(), here.block_size());
        if (state.refuse(why)) log::error("volume {}: {}", here.name(), why);
        return;
    }
    const uint64_t before = storage_changes_;
    volume.remote->attach(engine, *found);
    state.report(bytes, reported != nullptr ? reported->text : std::string());
    if (storage_changes_ != before) forget_clean(volume);
}

void Cache::storage_gone() {
    for (auto& volume : volumes_)
        if (volume != nullptr && volume->remote != nullptr && volume->remote->storage() == nullptr)
            volume->remote->state().refuse("waits for its real storage, which is away");
}

// One that its real storage could not serve may have another size now.
void Cache::attach_again() {
    for (auto& engine : links_) {
        if (engine == nullptr || !engine->is_ready() || !engine->is_storage()) continue;
        for (auto& volume : volumes_)
            if (volume != nullptr && !volume->removed() && volume->remote != nullptr &&
                volume->remote->storage() == nullptr)
                attach_storage(*volume, *engine);
    }
}

void Cache::volume_state_changed(EngineLink& storage) noexcept {
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed() || volume->remote == nullptr ||
            volume->remote->storage() != &storage)
            continue;
        const wire::CacheVolumeState* reported = storage.state_of(volume->remote->number());
        if (reported == nullptr) continue;
        RemoteState& state = volume->remote->state();
        reported->error != 0 ? state.lose(reason(*reported)) : state.report(reported->bytes, reported->text);
    }
    wants_turn_ = true;
}

// Its storage may have lost what it had not flushed, or others have written it, and copies show what was:
// readers would go back when they are evicted. What is on its way from or to storage now counts for no copy
// either (Work::changes).
void Cache::forget_clean(const CachedVolume& volume) noexcept {
    index_->for_each([&](cache::Line& line) {
        const bool settled = line.state() == cache::LineState::kClean ||
                             line.state() == cache::LineState::kDirty ||
                             line.state() == cache::LineState::kDestaging;
        if (line.key().volume == volume.number && settled)
            index_->invalidate(line, line.valid().without(line.dirty()));
    });
}

// ---- Past us ---------------------------------------------------------------------------------------------

bool Cache::reaches_storage(const Work& work) noexcept {
    if (work.volume->remote == nullptr || work.client == nullptr || work.remote.length < work.length)
        return false;
    const EngineLink* storage = work.volume->remote->storage();
    return storage != nullptr && work.client->engines[storage->index().value].attached;
}

// Not where pieces come on top of it, nor when something has failed before.
static bool is_storages_alone(const Work& work) noexcept {
    if (work.by_storage || work.attempts > 0) return false;
    for (uint32_t i = 0; i < work.line_count; ++i)
        if (work.lines[i].touched.overlaps(work.lines[i].line->dirty())) return false;
    return true;
}

bool Cache::can_fetch(const Work& work) noexcept {
    return !work.is_ahead && reaches_storage(work) && is_storages_alone(work);
}

bool Cache::can_bring(const Work& work) const noexcept {
    return work.is_ahead && work.volume->remote != nullptr && is_storages_alone(work);
}

bool Cache::wants_fill(const Work&, const LineWork& line) const noexcept {
    return line.read.fill_afterwards.overlaps(line.covered) && line.op.access == cache::Access::kExclusive &&
           !stopping_;
}

void Cache::miss(Work& work) noexcept {
    bool fills = false;
    for (uint32_t i = 0; i < work.line_count; ++i) fills = fills || wants_fill(work, work.lines[i]);
    const bool direct = can_fetch(work);
    if (fills && (direct || can_bring(work))) work.bay = bay_for(work);
    if (work.bay && !direct) return bring(work);
    if (direct && (work.bay || !fills)) return fetch(work);
    if (direct) work.phase = Work::Phase::kFetch;
    work.owner->need_buffer(work);
}

Transfer& Cache::remote_io(Work& work, Op op) noexcept {
    EngineLink& storage = *work.volume->remote->storage();
    work.remote_engine = storage.index();
    Transfer& transfer = work.remote_io;
    transfer.kind = Transfer::Kind::kStorage;
    transfer.storage = {
        .op = op, .volume = work.volume->remote->number(), .offset = work.offset, .length = work.length};
    if (work.client != nullptr) {
        transfer.storage.handle = work.client->engines[storage.index().value].handle;
        transfer.storage.remote = {work.remote.address, work.remote.rkey, work.length};
    }
    if (work.bay) {
        transfer.storage.in_bay = true;
        transfer.storage.bay = work.bay.place();
    }
    transfer.context = &work;
    ++work.outstanding;
    return transfer;
}

// Real storage answers the client. If the work has a bay or a buffer that gets the bytes as well, for the
// fill.
void Cache::fetch(Work& work) noexcept {
    work.phase = Work::Phase::kFetch;
    work.is_delegated = true;
    work.owner->delegated(work);
    CacheCounters& counters = work.volume->counters;
    ++counters.direct_reads;
    ++counters.out_of_band_reads;
    counters.out_of_band_read_bytes += work.length;
    counters.storage_read_bytes += work.length;
    EngineLink& storage = *work.volume->remote->storage();
    Transfer& transfer = remote_io(work, Op::kRead);
    transfer.storage.immediate = true;
    transfer.storage.immediate_value = wire::pack_fused({.tag = work.tag, .credits = 0});
    transfer.storage.has_copy = work.buffer != nullptr;
    if (work.buffer != nullptr)
        transfer.storage.copy = work.regions->remote(storage.identity().net, work.buffer, work.length);
    transfer.done = fetched;
    storage.submit(transfer);
}

void Cache::fetched(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    --work.outstanding;
    // Also if its disk said no: the client asks again without it, and hears that from us.
    if (status != CacheStatus::kOk) {
        work.transfer_failed = true;
        work.failed_engine = work.remote_engine.value;
    }
    work.cache->read_part_over(work);
}

void Cache::store_from_client(Work& work, bool fua) noexcept {
    ++work.volume->counters.direct_writes;
    work.volume->counters.storage_write_bytes += work.length;
    Transfer& transfer = remote_io(work, Op::kWrite);
    transfer.storage.fua = fua;
    transfer.done = stored;
    work.volume->remote->storage()->submit(transfer);
}

// An RS that is lost may still read the client's memory: the client closes its link to it before it has the
// memory back, and asks again (RS1 keeps from the disk what was read after that).
void Cache::stored(Transfer& transfer, CacheStatus status) noexcept {
    Work& work = *static_cast<Work*>(transfer.context);
    if (transfer.error != 0)
        work.ending = {.kind = Ending::Kind::kStorageFailed,
                       .error = transfer.error,
                       .io_op = io::Op::kWrite,
                       .offset = work.offset};
    else if (status != CacheStatus::kOk)
        work.ending = {.kind = Ending::Kind::kDoAgain, .engine = work.remote_engine.value};
    else
        work.volume->remote->note_write();
    if (--work.outstanding == 0) work.cache->write_part_over(work);
}

}  // namespace wss::se
