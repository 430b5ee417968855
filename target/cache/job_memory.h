// SPDX-License-Identifier: Apache-2.0
// JobMemory: memory for the cache's own jobs, to and from which engines move data. It consists of line
// buffers for the destager and the mirror, and a sub-block of zeroes for the eraser.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/cache/types.h"
#include "target/cache/nets.h"

namespace wss::cache {

class JobMemory {
  public:
    Status prepare(const Nets& nets, uint32_t buffers, uint32_t line_bytes) {
        line_bytes_ = line_bytes;
        const size_t bytes = size_t{buffers} * line_bytes + kSubBlockBytes;
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
        if (memory_ == nullptr)
            return failure(Code::kExhausted,
                           "cannot allocate {} bytes for destaging: free memory on this machine", bytes);
        zeroes_ = memory_.get() + bytes - kSubBlockBytes;
        std::memset(zeroes_, 0, kSubBlockBytes);
        auto regions = nets.register_buffers({memory_.get(), bytes});
        if (regions) regions_ = std::move(*regions);
        return regions.status();
    }
    std::byte* buffer(uint32_t number) const noexcept { return memory_.get() + size_t{number} * line_bytes_; }
    std::byte* zeroes() const noexcept { return zeroes_; }  // a sub-block
    const BufferRegions& regions() const noexcept { return *regions_; }

  private:
    struct FreeMemory {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    uint32_t line_bytes_ = 0;
    std::unique_ptr<std::byte, FreeMemory> memory_;
    std::byte* zeroes_ = nullptr;
    std::unique_ptr<BufferRegions> regions_;
};

}  // namespace wss::cache
