// SPDX-License-Identifier: Apache-2.0
// RemoteQueue and RemoteBackend: access to real storage on another node.
#include "target/cache/remote.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/io/request.h"
#include "target/cache/storage_nodes.h"

namespace wss::cache {

using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

// ---- The queue -------------------------------------------------------------------------------------------

struct RemoteQueue::Job {
    RemoteQueue* owner = nullptr;
    std::byte* buffer = nullptr;
    io::Request* request = nullptr;
    EngineIndex storage;
    uint64_t writes = 0;  // for a flush: number of writes that completed before it
    Transfer transfer;
};

namespace {

// Stored in Request::scratch.
struct Progress {
    Nanoseconds until;
    uint64_t done;
    uint64_t loss;  // last_loss_ at submission
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

RemoteQueue::RemoteQueue(StorageNodes& nodes, reactor::Reactor& reactor, std::string name,
                         std::shared_ptr<RemoteState> state, std::shared_ptr<RemoteQueuePlace> place)
    : nodes_(nodes),
      reactor_(reactor),
      name_(std::move(name)),
      state_(std::move(state)),
      place_(std::move(place)) {}

Result<std::unique_ptr<io::Queue>> RemoteQueue::create(StorageNodes& nodes, reactor::Reactor& reactor,
                                                       std::string name, std::shared_ptr<RemoteState> state,
                                                       std::shared_ptr<RemoteQueuePlace> place) {
    std::unique_ptr<RemoteQueue> made(
        new RemoteQueue(nodes, reactor, std::move(name), std::move(state), std::move(place)));
    constexpr size_t kMemory = size_t{kJobs} * kPartBytes;
    made->memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, kMemory)));
    if (made->memory_ == nullptr)
        return failure(
            Code::kExhausted,
            "cannot allocate {} MiB for volume rs:{}: free memory on this machine, or serve fewer volumes",
            kMemory >> 20, made->name_);
    auto regions = nodes.register_buffers({made->memory_.get(), kMemory});
    if (!regions) return regions.status();
    made->regions_ = std::move(*regions);
    for (uint32_t i = 0; i < kJobs; ++i) {
        made->jobs_.push_back(std::make_unique<Job>());
        Job& job = *made->jobs_.back();
        job.owner = made.get();
        job.buffer = made->memory_.get() + size_t{i} * kPartBytes;
        made->free_.push_back(&job);
    }
    made->place_->queue = made.get();
    return std::unique_ptr<io::Queue>(std::move(made));
}

RemoteQueue::~RemoteQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    if (place_->queue == this) place_->queue = nullptr;
}

EngineLink* RemoteQueue::storage() const noexcept {
    return state_->is_lost() ? nullptr : nodes_.link(index_, incarnation_);
}

void RemoteQueue::attach(const EngineLink& engine, const wire::CacheVolume& volume,
                         const io::Succession& succession) {
    index_ = engine.index();
    incarnation_ = engine.identity().incarnation;
    number_ = volume.number;
    if (boot_ != 0 && volume.boot != 0 && boot_ != volume.boot && writes_ != flushed_) {
        log::error("volume {}: the machine of its real storage was restarted; the next flushes fail", name_);
        last_loss_ = nodes_.note_loss();
        flushed_ = writes_;
    }
    boot_ = volume.boot;
    away_since_ = kNever;
    taken_ = {};
    last_.reset();
    refuses_ = false;
    server_.identity = engine.identity().identity;
    server_.places.serve(succession);
    note_process(engine);
}

void RemoteQueue::note_process(const EngineLink& engine) {
    if (process_ != 0 && process_ != engine.identity().identity) nodes_.note_change();
    process_ = engine.identity().identity;
}

void RemoteQueue::note_away() noexcept {
    if (away_since_ != kNever) return;
    away_since_ = reactor_.now();
    // Only storage with successive holders may have been taken from the last RS.
    if (succession().is_known() && !last_) last_.emplace(reactor_.now());
}

bool RemoteQueue::accepts_refusal_of(const EngineLink& engine) const noexcept {
    return server_.identity == 0 || server_.identity == engine.identity().identity ||
           reactor_.now() - away_since_ >= kAwayMax;
}

void RemoteQueue::remember(uint64_t owner, uint64_t process, io::Succession taken) {
    owner_ = owner;
    server_.identity = process;
    if (process != 0) last_.emplace(reactor_.now());
    if (taken.is_known())
        note_taken(taken, "its real storage was lost to another process before the target was restarted");
}

void RemoteQueue::note_taken(io::Succession from, std::string why) {
    taken_.from = from;
    taken_.why = std::move(why);
    taken_.wait = {.looked = reactor_.now(), .waited = {}};
    index_ = {};
    incarnation_ = 0;
}

bool RemoteQueue::is_over(Wait& wait, Nanoseconds most, bool counts) noexcept {
    constexpr Nanoseconds kLookMax = from_ms(500);
    const Nanoseconds now = reactor_.now(), passed = now - std::exchange(wait.looked, now);
    if (counts && nodes_.may_join()) wait.waited = wait.waited + std::min(passed, kLookMax);
    return wait.waited >= most;
}

bool RemoteQueue::awaits_successor() noexcept {
    return !is_over(taken_.wait, kTakenMax);
}

bool RemoteQueue::awaits_last(bool is_replaceable) noexcept {
    if (!last_) return false;
    const bool is_away_over = is_over(last_->away, kLastMax);
    const bool is_offered_over = is_over(last_->offered, kLastMax, is_replaceable);
    // Storage without successive holders cannot have been taken from served_by().
    return !(is_replaceable && succession().is_known() ? is_offered_over : is_away_over);
}

void RemoteQueue::submit(io::Request& request) noexcept {
    new (request.scratch) Progress{reactor_.now() + kAwayMax, 0, last_loss_};
    ++in_flight_;
    waiting_.push_back(request);
}

size_t RemoteQueue::poll() noexcept {
    size_t events = io::finish_all(finished_, in_flight_);
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
        if (!state_->is_lost() && !refuses_ && reactor_.now() < progress_of(request).until) return;
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
    // Writes that this flush should make stable may have been lost.
    if (request.op == io::Op::kFlush && progress_of(request).loss != last_loss_) {
        free_.push_back(&job);
        return finish(request, EIO);
    }
    const uint64_t done = progress_of(request).done;
    const uint64_t length =
        moves(request) ? std::min<uint64_t>(request.length - done, kPartBytes) : request.length;
    if (request.op == io::Op::kWrite) std::memcpy(job.buffer, request.data + done, length);
    job.storage = storage.index();
    job.writes = writes_;
    job.transfer.kind = Transfer::Kind::kStorage;
    job.transfer.storage = {.op = remote_op(request.op),
                            .fua = request.fua,
                            .volume = number_,
                            .offset = request.offset + done,
                            .length = length};
    if (moves(request))
        job.transfer.storage.remote =
            regions_->remote(storage.identity().via, job.buffer, static_cast<uint32_t>(length));
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
    if (job.transfer.error != 0 && answers_for_it(job.storage)) return finish(request, job.transfer.error);
    if (status != CacheStatus::kOk || job.transfer.error != 0) {
        // The operation was lost with its RS. The RS may return, or another RS may take its place.
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

static Status not_here(const std::string& name) {
    return failure(Code::kInvalid,
                   "rs:{}: only the storage process (--role rs) can shut out the owner of the storage: start "
                   "it with steal=true for this volume",
                   name);
}

Result<std::unique_ptr<io::Backend>> RemoteBackend::open(StorageNodes& nodes, reactor::Reactor& home,
                                                         const std::string& name,
                                                         const io::OpenOptions& options) {
    if (name.empty())
        return failure(Code::kInvalid,
                       "rs: needs the name of the volume in the storage process, for example rs:disk0");
    if (options.size == 0)
        return failure(Code::kInvalid, "rs:{} needs a size, for example rs:{},size=100G", name, name);
    if (options.steal) return not_here(name);
    auto state = RemoteState::create(options.size, std::max<uint32_t>(options.block, 512));
    if (!state) return state.status();
    return std::unique_ptr<io::Backend>(new RemoteBackend(nodes, home, name, std::move(*state)));
}

io::Limits RemoteBackend::limits() const noexcept {
    return {.size = std::min(state_->bytes(), state_->offered()), .discard = true};
}

Result<std::unique_ptr<io::Queue>> RemoteBackend::open_queue(reactor::Reactor& reactor) {
    if (&reactor != &home_) return std::unique_ptr<io::Queue>(new ForwardedQueue(place_, home_, reactor));
    return RemoteQueue::create(nodes_, reactor, name_, state_, place_);
}

Status RemoteBackend::may_steal() const {
    return not_here(name_);
}

Status RemoteBackend::resize(uint64_t) {
    return failure(
        Code::kUnsupported,
        "its real storage is on another node (--role rs): resize it there (rbd resize for an image of Ceph); "
        "a volume that covers all of it takes the new size");
}

}  // namespace wss::cache
