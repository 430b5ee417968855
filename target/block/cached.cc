// SPDX-License-Identifier: Apache-2.0
// Commands of cached volumes. Reads, writes and flushes go through cache::Cache. Commands that the cache does
// not support (UNMAP, WRITE SAME, COMPARE AND WRITE, VERIFY) freeze the volume in the cache. The cache
// destages the dirty lines if necessary, and drops the range that the command changes. Then the command goes
// to real storage.
//
// While the cache owns a request, its state is kStorage. The cache returns it by calling need_buffer(),
// answered() or ended(), or the function passed to flush() or freeze().
#include <algorithm>
#include <cstring>

#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

using Kind = scsi::Action::Kind;

static_assert(kTransferMax <= cache::kCommandBytesMax, "a cache operation is large enough for a command");
static_assert(cache::Client::kCoalescedMax <= kSpareReceives / 2, "a reader has a slot for its next command");

static Request& request_of(cache::CacheCommand& command) {
    return *static_cast<Request*>(command.cookie);
}

bool Channel::take_back(Request& request) noexcept {
    --busy_;
    if (running()) return true;
    release(request);
    if (dead()) lane_.channel_died();
    return false;
}

// ---- Flushes and freezes ---------------------------------------------------------------------------------

// Whether unflushed writes of this initiator to remote storage may be lost. Returns true once per loss,
// channel and volume, because the loss must be reported to the initiator once.
bool Channel::is_new_loss(const cache::CachedVolume& volume, uint64_t loss) noexcept {
    if (loss <= record_->losses_at_login) return false;
    uint64_t& told = losses_told_[volume.number];
    return std::exchange(told, loss) < loss;
}

void Channel::cached_flush(Request& request) noexcept {
    request.state = State::kStorage;
    ++busy_;
    worker_.gateway()->flush(
        *request.unit->cached,
        [this, &request](int error, uint64_t loss) {
            if (!take_back(request)) return;
            if (request.aborted) return respond(request);
            if (error == EAGAIN) return await_engines(request);
            if (error == 0 && is_new_loss(*request.unit->cached, loss)) error = EIO;
            if (error == 0) return submit(request, io::Op::kFlush, 0, 0, nullptr);
            cache_failed(request, io::Op::kFlush, error);
        },
        &request.aborted);
}

void Channel::cache_failed(Request& request, io::Op op, int error) noexcept {
    // The command waited, and the target is stopping. The initiator repeats the command to the restarted
    // target.
    if (error == EBUSY) {
        request.status = wire::kBusy;
        return respond(request);
    }
    request.io.op = op;
    request.io.error = error;
    request.io.offset = request.io.done_bytes = 0;
    storage_failed(request);
}

static ByteRange frozen_range(const Request& request) {
    const uint64_t block = request.unit_block();
    if (request.action.kind != Kind::kUnmap)
        return {request.action.lba * block, (request.action.lba + request.action.blocks) * block};
    ByteRange hull{UINT64_MAX, 0};
    scsi::UnmapList list;
    wire::Sense sense;
    if (!scsi::parse_unmap_list({request.data, request.action.data_out_length}, request.unit->device, list,
                                sense))
        return {};
    for (uint32_t i = 0; i < list.count(); ++i) {
        const wire::BlockRange range = list.range(i);
        if (range.blocks == 0) continue;
        hull.begin = std::min(hull.begin, range.lba * block);
        hull.end = std::max(hull.end, (range.lba + range.blocks) * block);
    }
    return hull.begin < hull.end ? hull : ByteRange{};
}

// Returns true if the request waits for the freeze; it continues in frozen().
bool Channel::freeze_first(Request& request) noexcept {
    const Kind kind = request.action.kind;
    const bool strange = kind == Kind::kUnmap || kind == Kind::kWriteSame || kind == Kind::kCompareAndWrite ||
                         kind == Kind::kVerify;
    if (!strange || request.froze) return false;
    const ByteRange range = frozen_range(request);
    if (range.begin == range.end) return false;
    request.state = State::kStorage;
    ++busy_;
    const auto use = kind == Kind::kVerify ? cache::Frozen::kRead : cache::Frozen::kChanged;
    worker_.gateway()->freeze(
        *request.unit->cached, {range.begin, range.end - range.begin}, use,
        [this, &request](int error, bool is_frozen) { frozen(request, error, is_frozen); }, &request.aborted);
    return true;
}

void Channel::frozen(Request& request, int error, bool is_frozen) noexcept {
    request.froze = is_frozen;
    if (!take_back(request)) return;
    if (request.aborted) return respond(request);
    if (error == EAGAIN) return await_engines(request);
    if (error == 0) return request.action.kind == Kind::kVerify ? data_ready(request) : change(request);
    cache_failed(request, io::Op::kWrite, error);
}

// ---- Reads and writes ------------------------------------------------------------------------------------

uint32_t cached_length(const Request& request) {
    const uint32_t bytes = request.action.kind == Kind::kWrite
                               ? request.action.data_out_length
                               : std::min(request.action.data_in_length, request.command.in.length);
    const auto block = static_cast<uint32_t>(request.unit_block());
    return (bytes + block - 1) / block * block;
}

void Channel::cached_io(Request& request) noexcept {
    if (cached_length(request) == 0) return respond_good(request);
    FlowQueue& queue = worker_.cache_queue();
    Unit& unit = *request.unit;
    cache::CacheCommand* command =
        queue.empty()
            ? worker_.gateway()->take_command(*unit.cached, unit.cached_commands, nexus_of(request).commands)
            : nullptr;
    if (command != nullptr) return begin_cached(request, *command);
    counters_.waited_for_cache.add();
    request.state = State::kWaiting;
    queue.wait(flows_[unit.lun()].cache, request);
}

void Channel::command_offered(Request& request, cache::CacheCommand& command) noexcept {
    if (running()) return begin_cached(request, command);
    worker_.gateway()->release(command);
    release(request);
}

void Channel::begin_cached(Request& request, cache::CacheCommand& command) noexcept {
    const bool write = request.action.kind == Kind::kWrite;
    const wire::DataBuffer& data = write ? request.command.out : request.command.in;
    command.owner = this;
    command.cookie = &request;
    command.cancelled = &request.aborted;
    command.is_write = write;
    command.is_again = request.waited;
    command.fua = write && request.action.fua;
    command.offset = request.action.lba * request.unit_block();
    command.length = cached_length(request);
    command.tag = static_cast<uint16_t>(request.command.tag);
    // An engine moves the client's whole buffer, in one contiguous transfer, or none of it.
    if (data.count == 1 && data.length == command.length && terms_.cache()) {
        command.remote = data.descriptor(0);
        command.client = cache_client_;
    }
    volume::Counters& counters = request.unit->open->counters();
    if (!request.waited) {
        volume::Counters::add(write ? counters.writes : counters.reads);
        volume::Counters::add(write ? counters.written_bytes : counters.read_bytes, command.length);
    }
    request.cache_command = &command;
    request.state = State::kStorage;
    ++busy_;
    worker_.gateway()->begin(command);
}

void Channel::need_buffer(cache::CacheCommand& command) noexcept {
    Request& request = request_of(command);
    if (!running() || request.aborted) return worker_.gateway()->buffer_failed(command);
    --busy_;
    if (obtain(request, command.length, part_of(command.length))) cached_buffer(request);
}

void Channel::cached_buffer(Request& request) noexcept {
    if (!request.cache_command->is_write) return cached_data_here(request);
    if (request.command.out.kind != wire::DataBuffer::Kind::kImmediate)
        return begin_fetch(request, request.data, request.data_lkey, request.action.data_out_length);
    std::memcpy(request.data, request.command.immediate.data(), request.action.data_out_length);
    counters_.immediate.add();
    counters_.written_bytes.add(request.action.data_out_length);
    cached_data_here(request);
}

// Now the cache command owns the buffer, because a fill may outlive the request.
void Channel::cached_data_here(Request& request) noexcept {
    cache::CacheCommand& command = *request.cache_command;
    const cache::BufferRegions& regions = *lane_.cache_regions(part_of(request.buffer_bytes));
    command.buffer_home = &lane_;
    command.buffer_bytes = std::exchange(request.buffer_bytes, 0);
    request.state = State::kStorage;
    ++busy_;
    worker_.gateway()->buffer_ready(command, request.data, regions);
}

// The initiator receives its credit with the engines' answer, and may use it before the target is notified.
// So the target counts the credit as returned now.
void Channel::delegated(cache::CacheCommand& command) noexcept {
    counters_.read_bytes.add(command.length);
    ++credits_;
    counters_.delegated.add();
}

void Channel::answered(cache::CacheCommand& command) noexcept {
    Request& request = request_of(command);
    counters_.read_latency.add(worker_.reactor().now() - request.received);
    if (take_back(request)) recycle(request);
}

void Channel::ended(cache::CacheCommand& command, const cache::CacheOutcome& outcome) noexcept {
    Request& request = request_of(command);
    if (!take_back(request)) return;
    // The target's response returns the credit, which delegated() has already counted. Undo that.
    if (command.is_delegated && outcome.kind == cache::CacheOutcome::Kind::kStorageFailed)
        (void)take_credit();
    if (request.aborted) return respond(request);
    switch (outcome.kind) {
        case cache::CacheOutcome::Kind::kGood:
            request.data = command.buffer;
            if (command.is_write) {
                request.out_taken = request.action.data_out_length;
                // Engines moved the data.
                if (command.buffer == nullptr) counters_.written_bytes.add(command.length);
            } else {
                request.in_given = request.action.data_in_length;
            }
            return respond_good(request);
        case cache::CacheOutcome::Kind::kStorageFailed:
            request.io.op = outcome.io_op;
            request.io.error = outcome.error;
            request.io.offset = outcome.offset;
            request.io.done_bytes = 0;
            return storage_failed(request);
        case cache::CacheOutcome::Kind::kBusy:
            request.status = wire::kBusy;
            return respond(request);
        case cache::CacheOutcome::Kind::kAwait:
            return await_engines(request);
        case cache::CacheOutcome::Kind::kRetry:
            // RETRY returns the credit. For a delegated read, delegated() has already counted it.
            if (!command.is_delegated) ++credits_;
            request.state = State::kSending;
            return send_ready(request,
                              wire::encode_retry({.tag = request.command.tag, .engine = outcome.engine},
                                                 {request.slot + kSlotAnswer, kSlotAnswerBytes}));
    }
}

// ---- Engines that are away -------------------------------------------------------------------------------

// The request waits for the engines that hold its data, and is then started again. While it waits, it holds
// no cache command, range or buffer, but only its descriptor table and its slot, which belongs to the
// initiator.
void Channel::await_engines(Request& request) noexcept {
    leave_cache(request);
    end_change(request);
    give_data_buffer(request);
    request.waited = true;
    request.state = State::kAwaiting;
    life_ == Life::kLive ? request.unit->awaiting.wait(request) : wait_over(request);
}

// The sense data for a command whose initiator lost its access while the command waited; nullopt: it may
// proceed.
static std::optional<wire::Sense> forbidden(const Request& request, volume::Permission permission) {
    if (permission == volume::Permission::kNone) return scsi::sense::lun_not_supported();
    const Kind kind = request.action.kind;
    const bool changes = kind != Kind::kRead && kind != Kind::kVerify && kind != Kind::kFlush;
    if (changes && request.unit->device.read_only) return scsi::sense::write_protected();
    return std::nullopt;
}

void Channel::wait_over(Request& request) noexcept {
    if (!running()) return;  // the request ends with the channel
    // After BUSY the initiator repeats the command, on its next channel.
    if (life_ != Life::kLive) {
        request.status = wire::kBusy;
        return respond(request);
    }
    const volume::Permission allowed = rights_.permission(*request.unit);
    request.unit->refresh(allowed == volume::Permission::kWrite);
    if (auto sense = forbidden(request, allowed)) return respond_sense(request, *sense);
    request.action.kind == Kind::kFlush ? cached_flush(request) : with_table(request);
}

// Thaws the volume if the request froze it. Ends the cache command of the request, if any.
void Channel::leave_cache(Request& request) noexcept {
    cache::Gateway* const gateway = worker_.gateway();
    if (std::exchange(request.froze, false)) gateway->thaw(*request.unit->cached);
    cache::CacheCommand* command = std::exchange(request.cache_command, nullptr);
    if (command == nullptr) return;
    if (command->state == cache::CacheCommand::State::kAnswered) return gateway->release(*command);
    // The cache command was waiting for a buffer or for the client's data. It may end after this channel
    // does, and fences wait for it.
    command->fences = std::exchange(request.fences, {});
    command->cancelled = nullptr;
    gateway->abandon(*command);
}

// ---- Notices ---------------------------------------------------------------------------------------------

void Channel::join_cache() noexcept {
    cache::Gateway* gateway = worker_.gateway();
    if (gateway == nullptr || !terms_.cache() || !running() || auth_ != nullptr || cache_client_ != nullptr)
        return;
    const std::string_view fabric = lane_.fabric().caps().name;
    fabric::Scheme scheme = fabric == "verbs" ? fabric::Scheme::kRdma
                            : fabric == "tcp" ? fabric::Scheme::kTcp
                            : fabric == "tls" ? fabric::Scheme::kTls
                            : fabric == "shm" ? fabric::Scheme::kShm
                                              : fabric::Scheme::kSim;
    cache_client_ = gateway->add_client(scheme, [record = record_](const wire::CacheEngineNotice& notice) {
        if (record->channel != nullptr) record->channel->notify(notice);
    });
}

void Channel::notify(const wire::CacheEngineNotice& notice) noexcept {
    // Only the latest notice about an engine matters, so there is at most one per engine.
    std::erase_if(notices_, [&](const auto& other) { return other.index == notice.index; });
    notices_.push_back(notice);
    mark_dirty();
}

void Channel::build_notice() noexcept {
    if (notices_.empty() || notice_busy_ || !has_room() || life_ != Life::kLive) return;
    const size_t length = wire::encode_cache_engine(notices_.front(), notice_memory_);
    WSS_ASSERT(length > 0, "a notice fits its memory");
    notices_.pop_front();
    fabric::WorkRequest& work =
        add(fabric::Op::kSend, notice_memory_.data(), static_cast<uint32_t>(length), messages_->lkey());
    signal(work, kNoticeCookie);
    notice_busy_ = true;
    counters_.sends.add();
}

}  // namespace wss::block
