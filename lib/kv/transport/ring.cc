// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/transport/ring.h"

#include <xxhash.h>

#include <atomic>
#include <bit>
#include <cstring>

namespace wss::kv {

namespace {

constexpr uint32_t kHead = 16;
constexpr uint32_t kTail = 8;
constexpr uint32_t kAsleepAt = 8;  // offset in the prefix
static_assert(kHead + kTail == kRingFrameExtra, "a frame is its head, its body and its tail");

uint32_t padded(uint32_t bytes) {
    return (bytes + 7) & ~7u;
}

// The peer writes concurrently: load each word once, and read nothing that follows before it.
uint64_t load64(const std::byte* at) {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(const_cast<std::byte*>(at)))
        .load(std::memory_order_acquire);
}

uint64_t checksum(uint64_t seed, uint32_t sequence, wire::Bytes body) {
    return XXH3_64bits_withSeed(body.data(), body.size(), seed + sequence);
}

}  // namespace

bool Ring::offer(fabric::Fabric& fabric, bool by_announcement) {
    ours_announced_ = by_announcement;
    // The ring is readable as well, because the shm fabric does not map write-only memory and would need
    // system calls to write it. It holds only what the peer itself wrote.
    auto memory = fabric.allocate(kRingPrefix + kRingBytes, fabric::Access::kRemoteReadWrite);
    auto staging = fabric.allocate(kRingBytes + 2 * kRingPrefix, fabric::Access::kLocal);
    if (!memory || !staging) return false;
    memory_ = std::move(*memory);
    staging_ = std::move(*staging);
    return true;
}

wire::KvRing Ring::ours(size_t device) const {
    if (!memory_) return {};
    return {.address = memory_->remote_address(),
            .rkey = memory_->rkey(device),
            .bytes = kRingBytes,
            .announced = ours_announced_};
}

bool Ring::begin(const wire::KvRing& theirs, uint64_t seed) {
    if (!memory_ || theirs.bytes != kRingBytes) return false;
    theirs_ = theirs;
    seed_ = seed;
    return active_ = true;
}

uint64_t Ring::peer_consumed() const noexcept {
    uint64_t consumed = load64(memory_->bytes().data());
    // A peer that reports more than was written harms only its own ring.
    return std::min(consumed, written_);
}

std::byte* Ring::staging(uint64_t position) noexcept {
    return staging_->bytes().data() + position % kRingBytes;
}

bool Ring::room(uint32_t body) const noexcept {
    uint32_t frame = kRingFrameExtra + padded(body);
    uint64_t to_end = kRingBytes - written_ % kRingBytes;
    uint64_t needed = frame <= to_end ? frame : frame + to_end;
    uint64_t free_from = std::min(peer_consumed(), staged_done_);
    return written_ + needed <= free_from + kRingBytes;
}

uint32_t Ring::put(wire::Bytes body, Post posts[2]) noexcept {
    uint32_t count = 0;
    auto length = static_cast<uint32_t>(body.size());
    uint32_t frame = kRingFrameExtra + padded(length);
    auto post = [&](uint32_t bytes) {
        posts[count++] = {
            .segment = {.address = staging(written_), .length = bytes, .lkey = staging_->lkey()},
            .remote = {.address = theirs_.address + kRingPrefix + written_ % kRingBytes,
                       .rkey = theirs_.rkey}};
        written_ += bytes;
    };
    if (uint64_t to_end = kRingBytes - written_ % kRingBytes; frame > to_end) {
        // Positions are multiples of eight, so there is room for the length and sequence.
        uint32_t mark[2] = {kRingSkip, next_put_};
        std::memcpy(staging(written_), mark, sizeof mark);
        post(sizeof mark);
        written_ += to_end - sizeof mark;
    }
    std::byte* at = staging(written_);
    uint64_t sum = checksum(seed_, next_put_, body), tail = next_put_;
    std::memcpy(at, &length, 4);
    std::memcpy(at + 4, &next_put_, 4);
    std::memcpy(at + 8, &sum, 8);
    std::memcpy(at + kHead, body.data(), length);
    std::memset(at + kHead + length, 0, padded(length) - length);
    std::memcpy(at + kHead + padded(length), &tail, 8);
    post(frame);
    if (theirs_.announced) posts[count - 1].announce = next_put_;
    // Zero means "credit only".
    if (++next_put_ == 0) next_put_ = 1;
    return count;
}

wire::Bytes Ring::peek() noexcept {
    const std::byte* data = memory_->bytes().data() + kRingPrefix;
    const std::byte* at = data + read_ % kRingBytes;
    uint64_t head = load64(at);
    if (static_cast<uint32_t>(head >> 32) != next_take_) return {};
    if (static_cast<uint32_t>(head) == kRingSkip) {
        read_ += kRingBytes - read_ % kRingBytes;
        at = data;
        head = load64(at);
        // The mark may be visible before the frame. It is not consumed twice, because read_ is at the front
        // now.
        if (static_cast<uint32_t>(head >> 32) != next_take_) return {};
    }
    auto length = static_cast<uint32_t>(head);
    if (length == 0 || length > kRingBodyMax ||
        read_ % kRingBytes + kRingFrameExtra + padded(length) > kRingBytes) {
        nonsense_ = true;
        return {};
    }
    if (load64(at + kHead + padded(length)) != next_take_) return {};
    // Copy before the check: checked bytes must not change afterwards.
    copy_.resize(length);
    std::memcpy(copy_.data(), at + kHead, length);
    if (load64(at + 8) != checksum(seed_, next_take_, copy_)) return {};
    taken_bytes_ = kRingFrameExtra + padded(length);
    return copy_;
}

void Ring::consumed() noexcept {
    read_ += taken_bytes_;
    if (++next_take_ == 0) next_take_ = 1;
}

bool Ring::credit(Post& post, bool force) noexcept {
    if (read_ == credited_ || (!force && read_ - credited_ < kRingBytes / 4)) return false;
    credited_ = read_;
    // The position is in a word of its own after the staged data. If it is overwritten while its post is in
    // flight, the peer receives a later position, which is also correct.
    std::byte* word = staging_->bytes().data() + kRingBytes;
    std::atomic_ref(*reinterpret_cast<uint64_t*>(word)).store(read_, std::memory_order_relaxed);
    post = {.segment = {.address = word, .length = 8, .lkey = staging_->lkey()},
            .remote = {.address = theirs_.address, .rkey = theirs_.rkey}};
    // A credit alone must notify the peer; if a frame follows, its notification suffices.
    if (theirs_.announced && !force) post.announce = kCreditOnly;
    return true;
}

// --- sleep ---

Ring::Post Ring::asleep_word(bool asleep) noexcept {
    std::byte* word = staging_->bytes().data() + kRingBytes + kRingPrefix;
    uint64_t value = asleep ? 1 : 0;
    std::memcpy(word, &value, sizeof value);
    return {.segment = {.address = word, .length = 8, .lkey = staging_->lkey()},
            .remote = {.address = theirs_.address + kAsleepAt, .rkey = theirs_.rkey}};
}

bool Ring::peer_says_asleep() const noexcept {
    return load64(memory_->bytes().data() + kAsleepAt) != 0;
}

void Ring::forget_peer_says() noexcept {
    std::byte* word = memory_->bytes().data() + kAsleepAt;
    std::atomic_ref(*reinterpret_cast<uint64_t*>(word)).store(0, std::memory_order_relaxed);
}

}  // namespace wss::kv
