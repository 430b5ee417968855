// SPDX-License-Identifier: Apache-2.0
// A command from its IU to its answer, except its storage operations (storage.cc) and the movement of its
// data (transfer.cc). For the states see request.h.
//
//   start_command   parse, find the unit, interpret
//   dispatch        by kind of action
//   prepare         descriptor table, then buffer, then data-out: each step may wait, then calls the next
//   data_ready      all data is here: pass the command to storage; commands that write go through
//                   begin_change()
//   respond_*       the answer
#include <algorithm>
#include <cstring>

#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

using Kind = scsi::Action::Kind;

std::string_view to_string(State state) {
    constexpr std::string_view kNames[] = {"receiving",     "waiting", "throttled", "fetching-table",
                                           "fetching-data", "held",    "awaiting",  "locking",
                                           "reserving",     "storage", "sending",   "aborting"};
    return kNames[static_cast<size_t>(state)];
}

static void reset(Request& request) {
    request.state = State::kWaiting;
    request.aborted.store(false, std::memory_order_relaxed);
    request.report_aborted = request.is_task_management = request.locked = false;
    request.phase = 0;
    request.action = {};
    request.unit = nullptr;
    request.data = nullptr;
    request.data_is_volume = false;
    request.remote = nullptr;
    request.to_move = request.moved = 0;
    request.status = wire::kGood;
    request.has_sense = request.answer_waits = request.waited = false;
    request.in_given = request.out_taken = 0;
    request.ready_bytes = 0;
    request.progress = 0;
    request.is_charged = false;
}

void Channel::start_command(Request& request) noexcept {
    if (!take_credit()) return;
    reset(request);
    request.received = worker_.reactor().now();
    ++in_flight_;
    counters_.commands.add();
    wire::Bytes iu{request.iu(), request.iu_length};
    auto error = wire::parse_command(iu, terms_.imm_data_offset, request.command);
    if (error == wire::ParseError::kTooShort) {
        release(request);
        return violation(WSS_SRP_LOGOUT_MALFORMED);
    }
    if (error != wire::ParseError::kNone) {
        request.command.in = request.command.out = {};
        return respond_sense(request, scsi::sense::wrong_data_buffer());
    }
    request.unit = find_unit(request.command.lun);
    if (request.unit != nullptr) worker_.units().hold(*request.unit);
    interpret(request);
}

// The size of an answer that does not fit in a slot (REPORT LUNS of many volumes), or 0 if it fits.
static uint32_t long_answer(const wire::Command& command, size_t luns) {
    if (wire::get8(command.cdb.data()) != wire::kReportLuns) return 0;
    size_t bytes = 8 + 8 * luns;
    return bytes > kSlotAdminBytes ? static_cast<uint32_t>(std::min<size_t>(bytes, scsi::kAnswerMax)) : 0;
}

// The unit, if this initiator may see it.
Unit* Channel::find_unit(uint64_t lun) noexcept {
    Unit* unit = worker_.units().find(lun);
    return unit == nullptr || rights_.permission(*unit) == volume::Permission::kNone ? nullptr : unit;
}

void Channel::interpret(Request& request) noexcept {
    static const scsi::Device kAbsent{.present = false};
    // Only REPORT LUNS uses the list.
    const bool lists_units = wire::get8(request.command.cdb.data()) == wire::kReportLuns;
    auto luns = lists_units ? rights_.visible(worker_.units()) : worker_.units().luns();
    uint32_t room = long_answer(request.command, luns.size());
    if (room > 0 && request.admin_bytes == 0 && !obtain(request, room, Part::kAdmin)) return;
    wire::MutableBytes answer{request.slot + kSlotAdmin, kSlotAdminBytes};
    request.data_lkey = request.slot_lkey;
    if (request.admin_bytes > 0) {
        answer = {request.admin, request.admin_bytes};
        request.data_lkey = lane_.arena().pool(Part::kAdmin).lkey();
    }
    uint64_t lun = request.command.lun;
    scsi::UnitAttentions* attentions = request.unit != nullptr ? attentions_.of(lun) : nullptr;
    scsi::Standing standing;
    if (request.unit != nullptr) {
        request.unit->refresh(rights_.permission(*request.unit) == volume::Permission::kWrite);
        standing = {request.unit->reservations.get(), rights_.restriction(*request.unit)};
    }
    const scsi::Device& device = request.unit != nullptr ? request.unit->device : kAbsent;
    request.action = scsi::interpret(request.command.cdb, device, luns, attentions, answer, standing);
    request.data = answer.data();
    dispatch(request);
}

// Whether the command has data-out that is not inside the IU.
static bool fetches_data(const Request& request) {
    return request.action.data_out_length > 0 &&
           request.command.out.kind != wire::DataBuffer::Kind::kImmediate;
}

void Channel::dispatch(Request& request) noexcept {
    const scsi::Action& action = request.action;
    if (action.kind != Kind::kFail && request.command.out.length != action.data_out_length)
        return respond_sense(request, scsi::sense::wrong_data_buffer());
    if (!request.is_charged && !within_limits(request)) return;
    switch (action.kind) {
        case Kind::kFail:
            return respond_failure(request, action.status, action.sense);
        case Kind::kFlush:
            if (is_cached(request)) return cached_flush(request);
            if (!request.unit->device.volatile_cache) return respond_good(request);
            return submit(request, io::Op::kFlush, 0, 0, nullptr);
        case Kind::kRead:
            counters_.reads.add();
            break;
        case Kind::kWrite:
        case Kind::kWriteSame:
        case Kind::kCompareAndWrite:
            counters_.writes.add();
            break;
        default:
            break;
    }
    const bool has_extent =
        action.kind != Kind::kRespond && action.kind != Kind::kUnmap && action.kind != Kind::kReserveOut;
    if (has_extent && action.blocks == 0) return respond_good(request);
    prepare(request);
}

void Channel::prepare(Request& request) noexcept {
    const wire::DataBuffer& out = request.command.out;
    const wire::DataBuffer& in = request.command.in;
    if (!out.partial && !in.partial) return with_table(request);
    // No command has data in both directions, so two tables are an error. A request can hold one block of the
    // admin pool, so a long answer with a partial table is refused as well.
    const uint32_t length = out.partial ? out.table.length : in.table.length;
    if ((out.partial && in.partial) || request.admin_bytes > 0 || length == 0 || length > kBufferMax)
        return respond_sense(request, scsi::sense::wrong_data_buffer());
    if (obtain(request, length, Part::kAdmin)) begin_table_fetch(request);
}

// The size of the I/O buffer that the command needs; 0: none.
static uint32_t buffer_needed(const Request& request, bool is_cached) {
    const scsi::Action& action = request.action;
    const bool immediate = request.command.out.kind == wire::DataBuffer::Kind::kImmediate;
    const uint32_t block = request.unit != nullptr ? request.unit->device.block_size : 512;
    const uint64_t bytes = action.blocks * block;
    const uint32_t chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes, kCompareChunk));
    switch (action.kind) {
        case Kind::kRead: {
            if (request.unit->memory != nullptr || is_cached) return 0;
            uint32_t wanted = std::min(action.data_in_length, request.command.in.length);
            return (wanted + block - 1) / block * block;
        }
        case Kind::kWrite:
            if (request.unit->memory != nullptr || is_cached) return 0;
            return immediate ? 0 : action.data_out_length;
        case Kind::kUnmap:
        case Kind::kReserveOut:
            return immediate ? 0 : action.data_out_length;
        case Kind::kWriteSame:
            return action.no_data_out ? 0 : chunk;
        case Kind::kVerify:
            return action.data_out_length + chunk;
        case Kind::kCompareAndWrite:
            return action.data_out_length + static_cast<uint32_t>(bytes);
        default:
            return 0;
    }
}

void Channel::with_table(Request& request) noexcept {
    uint32_t bytes = buffer_needed(request, is_cached(request));
    if (bytes > kBufferMax) return respond_sense(request, scsi::sense::invalid_field(0));
    if (bytes > 0 && !obtain(request, bytes, part_of(bytes))) return;
    with_buffer(request);
}

Account Channel::account_of(const Request& request) noexcept {
    Share& volume = request.unit != nullptr ? *request.unit->shares[lane_.index()] : lane_.arena().nobody();
    return {.volume = volume, .initiator = share_->all(), .nexus = *nexus_of(request).buffers};
}

NexusShare& Channel::nexus_of(const Request& request) noexcept {
    return request.unit != nullptr ? share_->of_volume(request.unit->lun()) : share_->of_no_volume();
}

// Takes a block of the arena. Returns false if the request waits for one; it continues in buffer_offered().
bool Channel::obtain(Request& request, uint32_t bytes, Part part) noexcept {
    request.wanted_bytes = bytes;
    request.part = part;
    std::byte* block = lane_.arena().take(part, bytes, account_of(request));
    if (block == nullptr) {
        counters_.waited_for_buffer.add();
        request.state = State::kWaiting;
        const uint64_t lun = request.unit != nullptr ? request.unit->lun() : wire::kBadLun;
        lane_.arena().wait(flows_[lun].buffers[static_cast<size_t>(part)], request);
        return false;
    }
    use_block(request, block);
    return true;
}

void Channel::use_block(Request& request, std::byte* block) noexcept {
    if (request.part == Part::kAdmin) {
        request.admin = block;
        request.admin_bytes = request.wanted_bytes;
        return;
    }
    request.data = block;
    request.buffer_bytes = request.wanted_bytes;
    request.data_lkey = lane_.arena().pool(request.part).lkey();
}

void Channel::give_data_buffer(Request& request) noexcept {
    if (request.buffer_bytes > 0)
        lane_.arena().give(part_of(request.buffer_bytes), request.data, request.buffer_bytes);
    request.buffer_bytes = 0;
}

void Channel::give_buffers(Request& request) noexcept {
    give_data_buffer(request);
    if (request.admin_bytes > 0) lane_.arena().give(Part::kAdmin, request.admin, request.admin_bytes);
    request.admin_bytes = 0;
}

void Channel::buffer_offered(Request& request, std::byte* block) noexcept {
    use_block(request, block);
    if (!running()) return release(request);
    if (request.cache_command != nullptr) return cached_buffer(request);
    if (request.part != Part::kAdmin) return with_buffer(request);
    // The action is still the one that reset() set: the request waited for the buffer inside interpret().
    if (request.action.kind == Kind::kFail) return interpret(request);
    begin_table_fetch(request);
}

void Channel::with_buffer(Request& request) noexcept {
    if (request.action.kind == Kind::kWrite && (request.unit->memory != nullptr || is_cached(request)))
        return begin_change(request);
    if (fetches_data(request))
        return begin_fetch(request, request.data, request.data_lkey, request.action.data_out_length);
    // Immediate data: a write uses it in place. A command that needs space after its data has a buffer, so
    // copy the data into it.
    if (request.action.data_out_length > 0) {
        counters_.immediate.add();
        counters_.written_bytes.add(request.action.data_out_length);
        request.out_taken = request.action.data_out_length;
        auto* immediate = const_cast<std::byte*>(request.command.immediate.data());
        if (request.buffer_bytes > 0)
            std::memcpy(request.data, immediate, request.action.data_out_length);
        else
            request.data = immediate;
    }
    data_ready(request);
}

void Channel::data_ready(Request& request) noexcept {
    const scsi::Action& action = request.action;
    const uint64_t offset = action.lba * request.unit_block();
    if (action.kind == Kind::kVerify && is_cached(request) && freeze_first(request)) return;
    switch (action.kind) {
        case Kind::kRespond:
            request.in_given = action.data_in_length;
            return respond_good(request);
        case Kind::kRead:
            if (request.command.in.length == 0) {
                request.in_given = action.data_in_length;
                return respond_good(request);
            }
            if (is_cached(request)) return cached_io(request);
            if (request.unit->memory == nullptr)
                return submit(request, io::Op::kRead, offset, request.buffer_bytes, request.data);
            request.data = request.unit->memory + offset;
            request.data_lkey = request.unit->regions->lkey(lane_.index());
            request.data_is_volume = true;
            request.in_given = action.data_in_length;
            volume::Counters::add(request.unit->open->counters().reads);
            volume::Counters::add(request.unit->open->counters().read_bytes, action.data_in_length);
            return respond_good(request);
        case Kind::kReserveOut:
            return reserve(request);
        case Kind::kVerify:
            return next_verify(request);
        case Kind::kUnmap:
        case Kind::kWrite:
        case Kind::kWriteSame:
        case Kind::kCompareAndWrite:
            return begin_change(request);
        case Kind::kFlush:
        case Kind::kFail:
            break;
    }
    respond_sense(request, scsi::sense::internal_failure());
}

// ---- Writes and range locks ------------------------------------------------------------------------------

static ByteRange range_of(const Request& request) {
    uint64_t block = request.unit_block();
    if (request.action.kind != Kind::kUnmap)
        return {request.action.lba * block, (request.action.lba + request.action.blocks) * block};
    return {0, UINT64_MAX};  // UNMAP has a list of ranges. It is rare, so it locks the whole volume
}

// Begins a command that changes the volume, unless a COMPARE AND WRITE holds the blocks.
void Channel::begin_change(Request& request) noexcept {
    if (request.aborted || !running()) return respond(request);
    request.range = range_of(request);
    if (request.action.kind == Kind::kCompareAndWrite) {
        request.state = State::kLocking;
        ++busy_;
        worker_.service().control_reactor().post(
            [&service = worker_.service(), lun = request.unit->lun(), range = request.range, record = record_,
             slot = request.index] { service.range_locks().acquire(lun, range, record, slot); });
        return;
    }
    bool is_held = false;
    request.unit->holds.for_each([&](Hold& hold) { is_held |= hold.range.overlaps(request.range); });
    if (is_held) {
        request.state = State::kHeld;
        request.unit->held.push_back(request);
        return;
    }
    request.unit->writers.push_back(request);
    change(request);
}

void Channel::hold_lifted(Request& request) noexcept {
    if (running()) begin_change(request);
}

void Channel::lock_granted(uint16_t slot, uint64_t lock_id) noexcept {
    Request& request = requests_[slot];
    WSS_ASSERT(request.state == State::kLocking, "a lock is granted to a request that waits for it");
    --busy_;
    request.locked = true;
    request.lock_id = lock_id;
    if (running()) return request.aborted ? respond(request) : change(request);
    release(request);
    if (dead()) lane_.channel_died();
}

void Channel::change(Request& request) noexcept {
    const scsi::Action& action = request.action;
    const uint64_t size = request.unit->open->volume().size();
    // The command was checked before the volume shrank ...
    if (action.kind != Kind::kUnmap && request.range.end > size)
        return respond_sense(
            request, scsi::sense::lba_out_of_range(std::max(action.lba, size / request.unit_block())));
    // ... or before its initiator lost the right to write.
    if (!rights_.may_write(*request.unit))
        return respond_failure(request, rights_.refusal(*request.unit), scsi::sense::write_protected());
    // Freeze only after taking the range lock: a range lock may wait for a write that the freeze would block.
    if (is_cached(request) && freeze_first(request)) return;
    switch (action.kind) {
        case Kind::kUnmap:
            return next_unmap(request);
        case Kind::kWriteSame:
            return next_write_same(request);
        case Kind::kCompareAndWrite:
            return compare_and_write(request);
        default:
            break;
    }
    if (is_cached(request)) return cached_io(request);
    const uint64_t offset = action.lba * request.unit_block();
    if (request.unit->memory == nullptr)
        return submit(request, io::Op::kWrite, offset, action.data_out_length, request.data);
    std::byte* memory = request.unit->memory + offset;
    volume::Counters::add(request.unit->open->counters().writes);
    volume::Counters::add(request.unit->open->counters().written_bytes, action.data_out_length);
    if (action.data_out_length > 0 && fetches_data(request)) {
        request.data_is_volume = true;
        return begin_fetch(request, memory, request.unit->regions->lkey(lane_.index()),
                           action.data_out_length);
    }
    if (action.data_out_length > 0) {
        std::memcpy(memory, request.command.immediate.data(), action.data_out_length);
        counters_.immediate.add();
        counters_.written_bytes.add(action.data_out_length);
        request.out_taken = action.data_out_length;
    }
    respond_good(request);
}

void Channel::end_change(Request& request) noexcept {
    if (std::exchange(request.beyond, false)) worker_.beyond_ended(*request.unit);
    request.fences.clear();
    auto& node = static_cast<ListNode<WriterTag>&>(request);
    if (node.linked()) {
        node.unlink();
        worker_.writer_ended(*request.unit, request.range);
    }
    if (std::exchange(request.locked, false))
        worker_.service().control_reactor().post(
            [&service = worker_.service(), id = request.lock_id] { service.range_locks().release(id); });
}

// ---- Answers ---------------------------------------------------------------------------------------------

void Channel::respond_good(Request& request) noexcept {
    request.status = wire::kGood;
    request.remote = &request.command.in;
    request.local = request.data;
    request.local_lkey = request.data_lkey;
    request.to_move = std::min(request.in_given, request.command.in.length);
    request.moved = request.descriptor = request.descriptor_offset = 0;
    if (request.action.kind == Kind::kRead) counters_.read_bytes.add(request.to_move);
    if (request.to_move > 0) counters_.data_requests.add();
    respond(request);
}

static void count_error(Counters& counters, const wire::Sense& sense) noexcept {
    counters.check_conditions.add();
    if (sense.key == wire::SenseKey::kMediumError)
        counters.medium_errors.add();
    else if (sense.key == wire::SenseKey::kIllegalRequest)
        counters.illegal_requests.add();
    else
        counters.other_errors.add();
}

void Channel::respond_sense(Request& request, const wire::Sense& sense) noexcept {
    request.status = wire::kCheckCondition;
    request.has_sense = true;
    request.sense = sense;
    request.in_given = 0;
    request.to_move = request.moved = 0;
    count_error(counters_, sense);
    respond(request);
}

void Channel::respond_failure(Request& request, uint8_t status, const wire::Sense& sense) noexcept {
    if (status == wire::kCheckCondition) return respond_sense(request, sense);
    request.status = status;
    request.in_given = 0;
    request.to_move = request.moved = 0;
    respond(request);
}

void Channel::respond(Request& request) noexcept {
    end_change(request);
    if (request.aborted && request.report_aborted) {
        counters_.aborted.add();
        request.status = wire::kTaskAborted;
        request.has_sense = false;
        request.to_move = request.moved = request.in_given = request.out_taken = 0;
    } else if (request.aborted) {  // Q3
        ++owed_;
        counters_.aborted.add();
        return recycle(request);
    }
    request.state = State::kSending;
    answers_.push_back(request);
    mark_dirty();
}

}  // namespace wss::block
