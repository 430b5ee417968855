// SPDX-License-Identifier: Apache-2.0
// The storage operations of commands. A request has at most one in flight. Commands that need several
// continue in storage_finished().
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

using Kind = scsi::Action::Kind;

// Zeroes are written in chunks, because some backends must really write them. So one operation does not take
// minutes, and an abort takes effect between two chunks.
static constexpr uint64_t kZeroChunk = 32 * 1024 * 1024;

void Channel::submit(Request& request, io::Op op, uint64_t offset, uint64_t length,
                     std::byte* data) noexcept {
    volume::Counters& counters = request.unit->open->counters();
    switch (op) {
        case io::Op::kRead:
            volume::Counters::add(counters.reads);
            volume::Counters::add(counters.read_bytes, length);
            break;
        case io::Op::kWrite:
            volume::Counters::add(counters.writes);
            volume::Counters::add(counters.written_bytes, length);
            break;
        case io::Op::kFlush:
            volume::Counters::add(counters.flushes);
            break;
        case io::Op::kDiscard:
            volume::Counters::add(counters.discards);
            break;
        case io::Op::kWriteZeroes:
            volume::Counters::add(counters.others);
            break;
    }
    request.state = State::kStorage;
    ++busy_;
    request.io.op = op;
    request.io.fua = request.action.fua && op == io::Op::kWrite;
    request.io.offset = offset;
    request.io.length = length;
    request.io.data = data;
    request.unit->open->queue().submit(request.io);
}

void Channel::storage_done(io::Request& io) noexcept {
    Request& request = *static_cast<Request*>(io.context);
    Channel& channel = *request.channel;
    if (!channel.take_back(request)) return;
    if (request.aborted) return channel.respond(request);
    if (io.error != 0) return channel.storage_failed(request);
    channel.storage_finished(request);
}

void Channel::storage_finished(Request& request) noexcept {
    // A fence waits for this command. A WRITE has completed, and is answered as good. A command of several
    // steps ends here instead.
    if (!request.fences.empty() && request.action.kind != Kind::kWrite)
        return respond_failure(request, rights_.refusal(*request.unit), scsi::sense::write_protected());
    switch (request.action.kind) {
        case Kind::kRead:
            request.in_given = request.action.data_in_length;
            return respond_good(request);
        case Kind::kUnmap:
            return next_unmap(request);
        case Kind::kWriteSame:
            return next_write_same(request);
        case Kind::kVerify:
            return verify_read(request);
        case Kind::kCompareAndWrite:
            return compare_and_write(request);
        default:
            return respond_good(request);
    }
}

static void report_full(volume::OpenVolume& open, Nanoseconds now) noexcept {
    if (!open.is_full_again(now)) return;
    log::error("volume {}: its storage {} is full, writes fail: make room there", open.volume().name(),
               open.volume().backend_name());
}

void Channel::storage_failed(Request& request) noexcept {
    const io::Request& io = request.io;
    const uint64_t lba = (io.offset + io.done_bytes) / request.unit_block();
    volume::Counters::add(request.unit->open->counters().errors);
    // The volume was removed while the command waited.
    if (io.error == ENXIO && request.unit->open->closing())
        return respond_sense(request, scsi::sense::lun_not_supported());
    if (io.error == EROFS) return respond_sense(request, scsi::sense::write_protected());
    // The storage was shrunk from outside, but the volume does not have the new size yet.
    if (io.error == EFBIG && io.op != io::Op::kFlush)
        return respond_sense(request, scsi::sense::lba_out_of_range(lba));
    if (io.error == ENOSPC || io.error == EDQUOT) {
        report_full(*request.unit->open, worker_.reactor().now());
        return respond_sense(request, scsi::sense::no_space(lba));
    }
    if (io.op == io::Op::kFlush) return respond_sense(request, scsi::sense::flush_error());
    if (io.op == io::Op::kRead) return respond_sense(request, scsi::sense::read_error(lba));
    respond_sense(request, scsi::sense::write_error(lba));
}

// ---- UNMAP: one discard per range ------------------------------------------------------------------------

void Channel::next_unmap(Request& request) noexcept {
    scsi::UnmapList list;
    wire::Sense sense;
    // The list is in the target's memory and does not change. So parsing it again for each range gives the
    // same result, unless the volume was resized meanwhile.
    if (!scsi::parse_unmap_list({request.data, request.action.data_out_length}, request.unit->device, list,
                                sense))
        return respond_sense(request, sense);
    while (request.progress < list.count()) {
        wire::BlockRange range = list.range(static_cast<uint32_t>(request.progress));
        if (range.blocks > 0) request.unit->throttle.charge_step(request, 0);
        ++request.progress;
        if (range.blocks == 0) continue;
        return submit(request, io::Op::kDiscard, range.lba * request.unit_block(),
                      range.blocks * request.unit_block(), nullptr);
    }
    respond_good(request);
}

// ---- WRITE SAME: zeroes as such, anything else as writes of a buffer full of the pattern -----------------

static bool all_zero(const std::byte* data, size_t bytes) {
    return data[0] == std::byte{0} && std::memcmp(data, data + 1, bytes - 1) == 0;
}

void Channel::next_write_same(Request& request) noexcept {
    enum : uint8_t { kStart, kZeroes, kPattern };
    const uint64_t block = request.unit_block();
    const uint64_t total = request.action.blocks * block;
    if (request.phase == kStart) {
        request.phase = request.action.no_data_out || all_zero(request.data, block) ? kZeroes : kPattern;
        if (request.phase == kPattern)
            for (uint64_t at = block; at < request.buffer_bytes; at += block)
                std::memcpy(request.data + at, request.data, block);
    } else {
        request.progress += request.io.length;
    }
    if (request.progress == total) return respond_good(request);
    const uint64_t offset = request.action.lba * block + request.progress;
    const uint64_t left = total - request.progress;
    const bool zeroes = request.phase == kZeroes;
    const uint64_t length = std::min(left, zeroes ? kZeroChunk : uint64_t{request.buffer_bytes});
    request.unit->throttle.charge_step(request, length);
    submit(request, zeroes ? io::Op::kWriteZeroes : io::Op::kWrite, offset, length,
           zeroes ? nullptr : request.data);
}

// ---- VERIFY: reads, and compares if there is data-out. Buffer: data-out, then one chunk ------------------

void Channel::next_verify(Request& request) noexcept {
    const uint64_t total = request.action.blocks * request.unit_block();
    if (request.progress == total) return respond_good(request);
    const uint32_t chunk = request.buffer_bytes - request.action.data_out_length;
    const uint64_t length = std::min<uint64_t>(total - request.progress, chunk);
    request.unit->throttle.charge_step(request, length);
    submit(request, io::Op::kRead, request.action.lba * request.unit_block() + request.progress, length,
           request.data + request.action.data_out_length);
}

// The index of the first byte that differs, or `length` if none differs.
static uint64_t first_difference(const std::byte* a, const std::byte* b, uint64_t length) {
    return static_cast<uint64_t>(std::mismatch(a, a + length, b).first - a);
}

void Channel::verify_read(Request& request) noexcept {
    const uint64_t length = request.io.length;
    if (request.action.data_out_length > 0) {
        uint64_t same = first_difference(request.data + request.progress, request.io.data, length);
        if (same < length) return respond_sense(request, scsi::sense::miscompare(request.progress + same));
    }
    request.progress += length;
    next_verify(request);
}

// ---- COMPARE AND WRITE: under a range lock. Buffer: compare data, write data, data read ------------------

void Channel::compare_and_write(Request& request) noexcept {
    enum : uint8_t { kLocked, kRead, kWritten };
    const uint64_t bytes = request.action.blocks * request.unit_block();
    const uint64_t offset = request.action.lba * request.unit_block();
    std::byte* present = request.data + 2 * bytes;
    switch (request.phase++) {
        case kLocked:
            return submit(request, io::Op::kRead, offset, bytes, present);
        case kRead: {
            uint64_t same = first_difference(request.data, present, bytes);
            if (same < bytes) return respond_sense(request, scsi::sense::miscompare(same));
            return submit(request, io::Op::kWrite, offset, bytes, request.data + bytes);
        }
        default:
            return respond_good(request);
    }
}

}  // namespace wss::block
