// SPDX-License-Identifier: Apache-2.0
// Checks and completion of requests, common to all queues.
#pragma once

#include <cerrno>

#include "lib/io/backend.h"

namespace wss::io {

// 0, or the errno for a request that must be rejected before it accesses storage of `size` bytes.
inline int refusal(const Request& request, uint64_t size, uint32_t block, bool read_only) noexcept {
    if (request.op == Op::kFlush) return 0;
    if (read_only && request.op != Op::kRead) return EROFS;
    if ((request.offset | request.length) % block != 0) return EINVAL;
    if (request.offset > size || request.length > size - request.offset)
        return request.op == Op::kRead ? EIO : EFBIG;
    return 0;
}

// Completes `request`. Nothing may access it afterwards, because its owner may have reused it.
inline void finish(Request& request, int error, uint64_t done_bytes) noexcept {
    request.error = error;
    request.done_bytes = done_bytes;
    request.done(request);
}

// Completes the requests of `ended`, whose results are set, and returns their number. `in_flight` is the
// count of their queue. Requests that done() adds to `ended` are for the next call.
inline size_t finish_all(List<Request>& ended, size_t& in_flight) noexcept {
    List<Request> now;
    now.splice_back(ended);
    size_t count = 0;
    while (Request* request = now.pop_front()) {
        ++count;
        --in_flight;
        request->done(*request);
    }
    return count;
}

}  // namespace wss::io
