// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/volume.h"

#include <algorithm>
#include <utility>

namespace wss::initiator {

namespace {

bool writes(Operation operation) {
    return operation != Operation::kRead && operation != Operation::kFlush && operation != Operation::kAdmin;
}

// Bytes that the buffers must hold.
uint64_t buffer_bytes(const Request& request) {
    switch (request.operation) {
        case Operation::kRead:
        case Operation::kWrite:
            return request.length;
        case Operation::kCompareAndWrite:
            return request.length > UINT64_MAX / 2 ? UINT64_MAX : 2 * request.length;
        default:
            return 0;
    }
}

}  // namespace

Outcome Volume::check(const Request& request) const noexcept {
    if (gone_) return Outcome::kVolumeGone;
    if (request.operation == Operation::kFlush) return Outcome::kOk;
    if (Outcome outcome = check_range(request); outcome != Outcome::kOk) return outcome;
    if (info_.read_only && writes(request.operation)) return Outcome::kReadOnly;
    if (Outcome outcome = check_support(request); outcome != Outcome::kOk) return outcome;
    uint64_t needed = buffer_bytes(request);
    if (needed != 0 && total_length(request.buffers) < needed) return Outcome::kBadBuffers;
    return Outcome::kOk;
}

Outcome Volume::check_range(const Request& request) const noexcept {
    if (request.offset % info_.block_size != 0 || request.length % info_.block_size != 0)
        return Outcome::kUnaligned;
    if (request.offset > info_.size || request.length > info_.size - request.offset)
        return Outcome::kOutOfRange;
    return Outcome::kOk;
}

Outcome Volume::check_support(const Request& request) const noexcept {
    switch (request.operation) {
        case Operation::kDiscard:
            return info_.discard ? Outcome::kOk : Outcome::kUnsupported;
        case Operation::kWriteZeroes:
            return info_.write_zeroes ? Outcome::kOk : Outcome::kUnsupported;
        case Operation::kCompareAndWrite:
            if (info_.compare_max == 0) return Outcome::kUnsupported;
            return request.length <= info_.compare_max ? Outcome::kOk : Outcome::kTooLong;
        default:
            return Outcome::kOk;
    }
}

uint64_t Volume::command_max(Operation operation) const noexcept {
    switch (operation) {
        case Operation::kRead:
        case Operation::kWrite:
            return info_.transfer_max;
        case Operation::kDiscard:
            return info_.discard_max;
        case Operation::kWriteZeroes:
            return info_.write_zeroes_max;
        default:
            return UINT64_MAX;
    }
}

wire::Cdb Volume::make_cdb(const Request& request, uint64_t offset, uint64_t length) const noexcept {
    uint64_t lba = offset / info_.block_size;
    uint32_t blocks = static_cast<uint32_t>(length / info_.block_size);
    switch (request.operation) {
        case Operation::kRead:
            return wire::make_read16(lba, blocks);
        case Operation::kWrite:
            return wire::make_write16(lba, blocks, request.fua && info_.fua);
        case Operation::kDiscard:
            return wire::make_unmap(static_cast<uint16_t>(wire::unmap_list_bytes(1)));
        case Operation::kWriteZeroes:
            return wire::make_write_zeroes16(lba, blocks, request.may_unmap && info_.discard);
        case Operation::kCompareAndWrite:
            return wire::make_compare_and_write(lba, static_cast<uint8_t>(blocks), request.fua && info_.fua);
        case Operation::kFlush:
            return wire::make_synchronize_cache16();
        case Operation::kAdmin:
            break;
    }
    return request.cdb;
}

void Volume::note_end(Request& request) noexcept {
    if (request.outcome != Outcome::kOk) return;
    const bool flush = request.operation == Operation::kFlush;
    if (!flush && request.operation != Operation::kRead && !request.fua) ++written_;
    if (!flush) return;
    if (std::exchange(lost_, false))
        request.outcome = Outcome::kWritesLost;
    else
        flushed_ = std::max(flushed_, request.covers_);
}

void Volume::cache_lost() noexcept {
    if (!info_.write_cache || written_ == flushed_) return;
    flushed_ = written_;
    lost_ = true;
}

}  // namespace wss::initiator
