// SPDX-License-Identifier: Apache-2.0
// What every queue checks and says in the same way.
#pragma once

#include <cerrno>

#include "lib/io/backend.h"

namespace wss::io {

// 0 or the errno with which a request must be refused before it touches storage of `size` bytes.
inline int refusal(const Request& request, uint64_t size, uint32_t block, bool read_only) noexcept {
    if (request.op == Op::kFlush) return 0;
    if (read_only && request.op != Op::kRead) return EROFS;
    if ((request.offset | request.length) % block != 0) return EINVAL;
    if (request.offset > size || request.length > size - request.offset)
        return request.op == Op::kRead ? EIO : EFBIG;
    return 0;
}

// Reports the end of `request`. Nothing may touch it afterwards: its owner may have reused it.
inline void finish(Request& request, int error, uint64_t done_bytes) noexcept {
    request.error = error;
    request.done_bytes = done_bytes;
    request.done(request);
}

}  // namespace wss::io
