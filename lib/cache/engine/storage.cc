// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/engine/storage.h"

#include <xxhash.h>

#include <algorithm>
#include <cerrno>

#include "lib/io/request.h"

namespace wss::cache {

constexpr size_t kStagingMultiple = 64 * 1024, kStagingMax = 256u << 20;
constexpr Nanoseconds kLookEvery = from_ms(100);

using wire::CacheStatus;
using Op = wire::CacheStorage::Op;

struct Engine::Storage::Job : Operation {
    Storage* owner = nullptr;
    wire::CacheStorage what;
    bool busy = false;
    CacheStatus status = CacheStatus::kOk;
    uint32_t moving = 0;  // RDMA operations outstanding
    io::Request io;
};

Engine::Storage::Storage(Engine& engine, SeLink& link)
    : engine_(engine), link_(link), look_(&Storage::look, this) {
    engine_.real_storages_.push_back(this);
}

Result<std::unique_ptr<Engine::Storage>> Engine::Storage::create(Engine& engine, SeLink& link,
                                                                 std::span<std::byte> memory) {
    std::unique_ptr<Storage> made(new Storage(engine, link));
    for (const EngineVolume& volume : engine.options_.volumes) {
        auto queue = volume.backend->open_queue(engine.reactor_);
        if (!queue) return queue.status().within("volume " + volume.name);
        engine.reactor_.add(**queue);
        auto lowest = std::make_shared<std::atomic<uint64_t>>(UINT64_MAX);
        made->volumes_.push_back(
            {volume.name, volume.backend, volume.read_only, std::move(*queue), {}, lowest});
        volume.backend->watch_size([lowest](uint64_t, uint64_t after) {
            uint64_t before = lowest->load(std::memory_order_relaxed);
            while (after < before && !lowest->compare_exchange_weak(before, after)) {
            }
            return true;
        });
    }
    if (Status status = made->divide(memory); !status) return status;
    for (uint32_t id = 0; id < wire::kCacheOperationsMax; ++id) {
        made->jobs_.push_back(std::make_unique<Job>());
        made->jobs_.back()->owner = made.get();
        made->jobs_.back()->link = &link;
        made->jobs_.back()->id = id;
    }
    return made;
}

// Up to half of the memory becomes staging buffers, if there is a fabric to the engines. Engines use a buffer
// for less time than clients, but staged reads of clients use these buffers too.
Status Engine::Storage::divide(std::span<std::byte> memory) {
    const Net& net = engine_.options_.reach;
    const size_t staging = std::min(memory.size() / 2, kStagingMax) / kStagingMultiple * kStagingMultiple;
    if (net.fabric != nullptr && memory.size() - staging >= wire::kStorageTransferMax && staging > 0) {
        auto reach = Reach::create(link_, net, memory.first(staging));
        if (!reach) return reach.status();
        reach_ = std::move(*reach);
        memory = memory.subspan(staging);
    }
    for (size_t at = 0; at + wire::kStorageTransferMax <= memory.size(); at += wire::kStorageTransferMax)
        free_.push_back(memory.data() + at);
    if (free_.empty())
        return failure(Code::kInvalid, "real storage needs at least {} MiB of memory",
                       wire::kStorageTransferMax >> 20);
    return Status::ok();
}

Engine::Storage::~Storage() {
    engine_.reactor_.cancel(look_);
    for (Volume& volume : volumes_) end_use(volume);
    std::erase(engine_.real_storages_, this);
}

void Engine::Storage::end_use(Volume& volume) noexcept {
    if (volume.queue == nullptr) return;
    volume.backend->watch_size({});
    engine_.reactor_.remove(*volume.queue);
    volume.queue.reset();
}

bool Engine::Storage::release(io::Backend& backend) noexcept {
    engine_.reactor_.cancel(look_);  // it reports all volumes
    for (Volume& volume : volumes_) {
        if (volume.backend != &backend) continue;
        if (volume.queue != nullptr && volume.queue->in_flight() > 0) return false;
        end_use(volume);
    }
    return true;
}

// True if acknowledged writes are known to survive a restart of the machine. The lack of a volatile cache
// does not suffice, because RAM has none either. Storage with an ownership can be taken by others, so it is
// not RAM.
static bool outlasts_machine(const io::Backend& backend) {
    return !backend.limits().volatile_cache && !backend.ownership().empty();
}

void Engine::Storage::introduce(RecordLink& link, const wire::CacheWelcome& welcome) noexcept {
    owners_ = welcome.owners;
    terms_ = welcome.terms;
    for (uint32_t number = 0; number < volumes_.size(); ++number) {
        Volume& volume = volumes_[number];
        const io::Limits limits = volume.backend->limits();
        // Ignore a shrink from before the join: the SE would drop data that was written after it.
        volume.lowest->store(UINT64_MAX);
        volume.reported = state_of(number);
        // A lost volume may no longer have a size; its state reports the loss.
        link.wrote(wire::put_volume({.bytes = std::max<uint64_t>(limits.size, limits.logical_block),
                                     .boot = outlasts_machine(*volume.backend) ? 0 : engine_.options_.boot,
                                     .number = number,
                                     .logical_block = limits.logical_block,
                                     .read_only = volume.read_only,
                                     .name = volume.name},
                                    link.room()));
        if (welcome.states) link.wrote(wire::put_volume_state(volume.reported, link.room()));
    }
    if (reach_ != nullptr) reach_->introduce(link);
    if (welcome.states) engine_.reactor_.set(look_, engine_.reactor_.clock().now() + kLookEvery);
}

// Returns 0 if the owner is unknown.
static uint64_t owner_number(const std::string& ownership) {
    return ownership.empty() ? 0 : std::max<uint64_t>(XXH3_64bits(ownership.data(), ownership.size()), 1);
}

wire::CacheVolumeState Engine::Storage::state_of(uint32_t number) const {
    const io::Backend& backend = *volumes_[number].backend;
    const uint64_t bytes = backend.limits().size;
    const bool lost = backend.lost() || bytes == 0;
    const io::Succession succession = terms_ ? backend.succession() : io::Succession{};
    return {.number = number,
            .error = static_cast<uint32_t>(lost ? ESHUTDOWN : 0),
            .bytes = bytes,
            .suspended = !lost && backend.suspended(),
            .owner = owners_ ? owner_number(backend.ownership()) : 0,
            .series = succession.series,
            .term = succession.term,
            .since = succession.since,
            .text = backend.trouble()};
}

bool Engine::Storage::report() noexcept {
    bool any = false;
    for (uint32_t number = 0; number < volumes_.size(); ++number) any |= report(number);
    return any;
}

bool Engine::Storage::report(uint32_t number) noexcept {
    if (!look_.is_set()) return false;
    Volume& volume = volumes_[number];
    const uint64_t lowest = volume.lowest->exchange(UINT64_MAX);
    wire::CacheVolumeState now = state_of(number);
    bool any = false;
    if (lowest != 0 && lowest < now.bytes && lowest < volume.reported.bytes) {
        wire::CacheVolumeState shrunk = now;
        shrunk.bytes = lowest;
        any = send_state(volume, std::move(shrunk));
    }
    return send_state(volume, std::move(now)) || any;
}

bool Engine::Storage::send_state(Volume& volume, wire::CacheVolumeState state) noexcept {
    if (state == volume.reported) return false;
    volume.reported = std::move(state);
    link_.report(volume.reported);
    return true;
}

void Engine::Storage::look(void* self) noexcept {
    Storage& storage = *static_cast<Storage*>(self);
    storage.engine_.reactor_.set(storage.look_, storage.engine_.reactor_.clock().now() + kLookEvery);
    storage.report();
}

bool Engine::Storage::named(const wire::Record& record) noexcept {
    return reach_ != nullptr && reach_->named(record);
}

size_t Engine::Storage::turn() noexcept {
    return reach_ == nullptr ? 0 : reach_->turn();
}

bool Engine::Storage::is_quiet() const noexcept {
    return reach_ == nullptr || reach_->is_quiet();
}

bool Engine::Storage::begin(const wire::Record& record) noexcept {
    if (record.id >= jobs_.size() || jobs_[record.id]->busy) return false;
    Job& job = *jobs_[record.id];
    if (wire::parse_storage(record, job.what) != wire::ParseError::kNone ||
        job.what.volume >= volumes_.size())
        return false;
    job.buffer = nullptr;
    if (job.what.staged) {
        job.buffer =
            reach_ == nullptr ? nullptr : reach_->staging_buffer(job.what.staging_offset, job.what.length);
        if (job.buffer == nullptr) return false;
    }
    job.busy = true;
    job.status = CacheStatus::kOk;
    job.moving = 0;
    link_.began();
    if (!needs_buffer(job)) {
        submit(job);
        return true;
    }
    if (free_.empty()) {
        waiting_.push_back(job);
        return true;
    }
    start(job);
    return true;
}

bool Engine::Storage::needs_buffer(const Job& job) const noexcept {
    return job.what.moves() && !job.what.staged;
}

void Engine::Storage::start(Job& job) noexcept {
    job.buffer = free_.back();
    free_.pop_back();
    job.what.op == Op::kRead ? submit(job) : pull(job);
}

void Engine::Storage::pull(Job& job) noexcept {
    job.moving = 1;
    job.move = {.to_peer = false, .length = static_cast<uint32_t>(job.what.length)};
    move_with_peer(job);
}

// The client may have disconnected since the SE sent the command.
void Engine::Storage::move_with_peer(Job& job) noexcept {
    job.move.handle = job.what.handle;
    job.move.remote = job.what.remote;
    if (job.what.handle == wire::kStorageHandle) {
        if (!link_.post(job)) moved(job, CacheStatus::kFailed);
    } else if (Client* client = link_.client_of(job.what.handle)) {
        client->run(job);
    } else {
        moved(job, CacheStatus::kNoClient);
    }
}

static io::Op io_op(Op op) {
    switch (op) {
        case Op::kRead:
            return io::Op::kRead;
        case Op::kWrite:
            return io::Op::kWrite;
        case Op::kFlush:
            return io::Op::kFlush;
        case Op::kDiscard:
            return io::Op::kDiscard;
        case Op::kWriteZeroes:
            break;
    }
    return io::Op::kWriteZeroes;
}

void Engine::Storage::submit(Job& job) noexcept {
    Volume& volume = volumes_[job.what.volume];
    if (volume.queue == nullptr) return end(job, CacheStatus::kFailed, 0);
    if (job.what.op == Op::kDiscard && !volume.backend->limits().discard)
        return end(job, CacheStatus::kOk, 0);
    job.io.op = io_op(job.what.op);
    job.io.fua = job.what.fua;
    job.io.offset = job.what.offset;
    job.io.length = job.what.length;
    job.io.data = job.buffer;
    job.io.context = &job;
    job.io.done = io_done;
    volume.queue->submit(job.io);
}

void Engine::Storage::io_done(io::Request& io) noexcept {
    Job& job = *static_cast<Job*>(io.context);
    Storage& storage = *job.owner;
    EngineCounters& counters = storage.engine_.counters_;
    if (io.error != 0) {
        ++counters.storage_errors;
        const Volume& volume = storage.volumes_[job.what.volume];
        if (volume.backend->lost() != (volume.reported.error != 0)) storage.report(job.what.volume);  // RS4
        return storage.end(job, CacheStatus::kFailed, io.error);
    }
    if (io.op == io::Op::kRead) {
        ++counters.storage_reads;
        counters.storage_read_bytes += io.length;
        return storage.push(job);
    }
    counters.storage_flushes += io.op == io::Op::kFlush;
    counters.storage_writes += io.op == io::Op::kWrite;
    if (io.op == io::Op::kWrite) counters.storage_write_bytes += io.length;
    storage.end(job, CacheStatus::kOk, 0);
}

// Posts the RDMA of the copy first, because posting that of the client may end the job at once. The copy
// carries no immediate value: it completes no command of a client.
void Engine::Storage::push(Job& job) noexcept {
    if (job.what.staged && job.what.handle == wire::kStorageHandle) return end(job, CacheStatus::kOk, 0);
    job.moving = 1 + (job.what.has_copy ? 1 : 0);
    job.move = {.to_peer = true, .length = static_cast<uint32_t>(job.what.length), .remote = job.what.copy};
    if (job.what.has_copy && !link_.post(job)) moved(job, CacheStatus::kFailed);
    job.move.immediate = job.what.immediate;
    job.move.immediate_value = job.what.immediate_value;
    move_with_peer(job);
}

void Engine::Storage::moved(Operation& operation, CacheStatus status) noexcept {
    Job& job = static_cast<Job&>(operation);
    if (status != CacheStatus::kOk && job.status == CacheStatus::kOk) job.status = status;
    if (--job.moving > 0) return;
    EngineCounters& counters = engine_.counters_;
    const bool client = job.what.handle != wire::kStorageHandle;
    if (job.status == CacheStatus::kOk) {
        const bool read = job.what.op == Op::kRead;
        (read ? (client ? counters.to_client_bytes : counters.to_storage_bytes)
              : (client ? counters.from_client_bytes : counters.from_storage_bytes)) += job.what.length;
        if (read && job.what.has_copy) counters.to_storage_bytes += job.what.length;
    }
    if (job.status != CacheStatus::kOk || job.what.op == Op::kRead) return end(job, job.status, 0);
    // RS1
    link_.is_up() ? submit(job) : end(job, CacheStatus::kFailed, 0);
}

void Engine::Storage::end(Job& job, CacheStatus status, int error) noexcept {
    if (needs_buffer(job) && job.buffer != nullptr) free_.push_back(job.buffer);
    job.buffer = nullptr;
    job.busy = false;
    job.state = Operation::State::kFree;
    link_.ended();
    error != 0 ? link_.failed(job.id, error) : link_.done(job.id, status);
    if (free_.empty()) return;
    if (Operation* next = waiting_.pop_front()) start(static_cast<Job&>(*next));
}

void Engine::Storage::link_over() noexcept {
    engine_.reactor_.cancel(look_);
    if (reach_ != nullptr) reach_->close_all();
    while (Operation* next = waiting_.pop_front()) end(static_cast<Job&>(*next), CacheStatus::kFailed, 0);
}

}  // namespace wss::cache
