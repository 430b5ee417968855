// SPDX-License-Identifier: Apache-2.0
// File: reads and writes for threads that may block.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/io/file.h"

namespace wss::io {

namespace {

constexpr uint64_t kTransferMax = 1 << 30;  // the kernel moves at most 2 GiB - 4 KiB at once

ssize_t move(int fd, const Request& request, std::byte* data, uint64_t length, uint64_t offset) noexcept {
    iovec segment{data, length};
    auto at = static_cast<off_t>(offset);
    if (request.op == Op::kRead) return preadv2(fd, &segment, 1, at, 0);
    return pwritev2(fd, &segment, 1, at, request.fua ? RWF_DSYNC : 0);
}

}  // namespace

int File::block_transfer(Request& request, std::byte* bounce) noexcept {
    bool aligned = reinterpret_cast<uintptr_t>(request.data) % memory_align_ == 0;
    request.done_bytes = 0;
    while (request.done_bytes < request.length) {
        std::byte* place = request.data + request.done_bytes;
        uint64_t length =
            std::min(request.length - request.done_bytes, aligned ? kTransferMax : kBounceBytes);
        std::byte* data = aligned ? place : bounce;
        if (!aligned && request.op == Op::kWrite) std::memcpy(data, place, length);
        ssize_t moved = move(fd_, request, data, length, request.offset + request.done_bytes);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return volume_errno(errno);
        // O_DIRECT can continue only at block boundaries. If there is no progress, the file was truncated or
        // the medium is full.
        uint64_t whole = static_cast<uint64_t>(moved) / limits_.logical_block * limits_.logical_block;
        if (whole == 0) return request.op == Op::kRead ? EIO : ENOSPC;
        if (!aligned && request.op == Op::kRead) std::memcpy(place, data, whole);
        request.done_bytes += whole;
    }
    return 0;
}

}  // namespace wss::io
