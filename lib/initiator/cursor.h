// SPDX-License-Identifier: Apache-2.0
// Cursor: a position in a list of buffers. Its functions copy data from or to the buffers, or visit them,
// from that position on.
//
// Invariant: `offset_` is less than the length of the current buffer, or the cursor is at the end. Buffers of
// length zero are skipped.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace wss::initiator {

class Cursor {
  public:
    Cursor() = default;
    explicit Cursor(std::span<const iovec> buffers) : rest_(buffers) { skip_empty(); }

    bool at_end() const { return rest_.empty(); }
    // The rest of the current buffer. REQUIRES !at_end().
    std::span<std::byte> current() const {
        return {static_cast<std::byte*>(rest_.front().iov_base) + offset_, rest_.front().iov_len - offset_};
    }
    // Advances within the current buffer, or to the next one. REQUIRES `bytes` ≤ current().size().
    void advance(size_t bytes) {
        offset_ += bytes;
        if (offset_ < rest_.front().iov_len) return;
        rest_ = rest_.subspan(1);
        offset_ = 0;
        skip_empty();
    }

    // Calls visit(std::span<std::byte>) for each run of the next `bytes`, and moves past them. Stops at the
    // end.
    template <typename Visit>
    void walk(size_t bytes, Visit&& visit) {
        while (bytes > 0 && !at_end()) {
            std::span<std::byte> run = current();
            run = run.first(std::min(run.size(), bytes));
            visit(run);
            bytes -= run.size();
            advance(run.size());
        }
    }
    void gather(std::byte* to, size_t bytes) {
        walk(bytes, [&to](std::span<std::byte> run) {
            std::memcpy(to, run.data(), run.size());
            to += run.size();
        });
    }
    void scatter(const std::byte* from, size_t bytes) {
        walk(bytes, [&from](std::span<std::byte> run) {
            std::memcpy(run.data(), from, run.size());
            from += run.size();
        });
    }

  private:
    void skip_empty() {
        while (!rest_.empty() && rest_.front().iov_len == 0) rest_ = rest_.subspan(1);
    }

    std::span<const iovec> rest_;
    size_t offset_ = 0;
};

// The sum of the lengths. It saturates, because a caller's list is not trusted.
inline uint64_t total_length(std::span<const iovec> buffers) {
    uint64_t sum = 0;
    for (const iovec& buffer : buffers)
        if (__builtin_add_overflow(sum, buffer.iov_len, &sum)) return UINT64_MAX;
    return sum;
}

}  // namespace wss::initiator
