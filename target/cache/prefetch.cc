// SPDX-License-Identifier: Apache-2.0
#include "target/cache/prefetch.h"

#include <algorithm>
#include <utility>

namespace wss::cache {

Status Prefetch::prepare(const Nets& nets) {
    const size_t bytes = size_t{kBuffers} * geometry_.line_bytes();
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    if (memory_ == nullptr)
        return failure(Code::kExhausted,
                       "cannot allocate {} bytes for read-ahead: free memory on this machine", bytes);
    auto regions = nets.register_buffers({memory_.get(), bytes});
    if (!regions) return regions.status();
    regions_ = std::move(*regions);
    for (uint32_t i = 0; i < kBuffers; ++i)
        free_.push_back(memory_.get() + size_t{i} * geometry_.line_bytes());
    return Status::ok();
}

void Prefetch::reads(CachedVolume& volume, Stretch stretch) noexcept {
    const Stretch wanted = volume.ahead->read(stretch, volume.open->volume().size());
    if (wanted.length == 0) return;
    const uint64_t end = geometry_.line_of(wanted.offset + wanted.length - 1) + 1;
    for (uint64_t line = geometry_.line_of(wanted.offset); line < end; ++line) {
        Gate::Holder place = volume.gate.enter();
        if (!place || waiting_ == queue_.size()) return;
        queue_[(first_ + waiting_++) % queue_.size()] = {&volume, std::move(place), line};
    }
}

void Prefetch::forget(const CachedVolume& volume) noexcept {
    for (Wanted& wanted : queue_)
        if (wanted.volume == &volume) wanted = {};
}

size_t Prefetch::turn() noexcept {
    size_t begun = 0;
    while (wants_turn()) {
        const Wanted wanted = std::exchange(queue_[first_], {});
        first_ = (first_ + 1) % queue_.size();
        --waiting_;
        if (wanted.volume != nullptr && begin(wanted)) ++begun;
    }
    return begun;
}

bool Prefetch::begin(const Wanted& wanted) noexcept {
    CachedVolume& volume = *wanted.volume;
    const uint64_t offset = geometry_.start_of(wanted.line);
    const uint64_t size = volume.open->volume().size();
    // Operations that froze the volume or made it smaller do not wait for read-ahead.
    if (!volume.serves() || volume.gate.frozen() || recovery_.holding() || offset >= size) return false;
    CacheCommand* command = commands_.take_command(volume, {});
    if (command == nullptr) return false;
    command->owner = this;
    command->cookie = free_.back();
    free_.pop_back();
    command->is_write = command->fua = false;
    command->is_ahead = true;
    command->offset = offset;
    command->length = static_cast<uint32_t>(std::min<uint64_t>(geometry_.line_bytes(), size - offset));
    commands_.begin(*command);
    return true;
}

void Prefetch::need_buffer(CacheCommand& command) noexcept {
    command.buffer_home = this;
    command.buffer_bytes = geometry_.line_bytes();
    commands_.buffer_ready(command, static_cast<std::byte*>(command.cookie), *regions_);
}

void Prefetch::delegated(CacheCommand&) noexcept {
    WSS_ASSERT(false, "there is no client to delegate to");
}

void Prefetch::answered(CacheCommand&) noexcept {
    WSS_ASSERT(false, "there is no client that an engine could answer");
}

// Errors are ignored: the reader gets them by a miss of its own.
void Prefetch::ended(CacheCommand& command, const CacheOutcome&) noexcept {
    if (command.buffer_home == nullptr) free_.push_back(static_cast<std::byte*>(command.cookie));
    commands_.release(command);
}

void Prefetch::give_back(std::byte* buffer, uint32_t) noexcept {
    free_.push_back(buffer);
}

}  // namespace wss::cache
