// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace wss::fabric::shm {

void Rings::attach(Mapping area, int side) noexcept {
    WSS_ASSERT(area.bytes().size() >= sizeof(Area), "an area is mapped whole");
    mapping_ = std::move(area);
    area_ = reinterpret_cast<Area*>(mapping_.data());  // zeroed memory is an empty area
    side_ = side;
}

void Rings::detach() noexcept {
    area_ = nullptr;
    mapping_.reset();
}

ssize_t Rings::read(std::span<const iovec> into) noexcept {
    Area::Direction& direction = area_->directions[1 - side_];
    uint64_t available = direction.head.value.load(std::memory_order_acquire) - tail_;
    if (available > kRingBytes) return -EPROTO;
    uint64_t before = tail_;
    for (const iovec& vec : into) {
        auto* out = static_cast<std::byte*>(vec.iov_base);
        size_t wanted = std::min<uint64_t>(vec.iov_len, available);
        while (wanted > 0) {
            size_t at = tail_ & (kRingBytes - 1);
            size_t take = std::min(wanted, kRingBytes - at);
            std::memcpy(out, direction.data + at, take);
            out += take;
            tail_ += take;
            available -= take;
            wanted -= take;
        }
    }
    if (tail_ == before) return -EAGAIN;
    direction.tail.value.store(tail_, std::memory_order_seq_cst);  // pairs with the loads in sleep()
    read_ = true;
    return static_cast<ssize_t>(tail_ - before);
}

ssize_t Rings::write(std::span<const iovec> from) noexcept {
    Area::Direction& direction = area_->directions[side_];
    uint64_t used = head_ - direction.tail.value.load(std::memory_order_acquire);
    if (used > kRingBytes) return -EPROTO;
    uint64_t space = kRingBytes - used;
    uint64_t before = head_;
    for (const iovec& vec : from) {
        auto* in = static_cast<const std::byte*>(vec.iov_base);
        size_t wanted = std::min<uint64_t>(vec.iov_len, space);
        while (wanted > 0) {
            size_t at = head_ & (kRingBytes - 1);
            size_t put = std::min(wanted, kRingBytes - at);
            std::memcpy(direction.data + at, in, put);
            in += put;
            head_ += put;
            space -= put;
            wanted -= put;
        }
    }
    blocked_ = head_ == before;
    if (blocked_) return -EAGAIN;
    direction.head.value.store(head_, std::memory_order_seq_cst);  // pairs with the loads in sleep()
    wrote_ = true;
    return static_cast<ssize_t>(head_ - before);
}

bool Rings::has_data() const noexcept {
    return area_->directions[1 - side_].head.value.load(std::memory_order_seq_cst) != tail_;
}

bool Rings::has_space() const noexcept {
    return blocked_ &&
           area_->directions[side_].tail.value.load(std::memory_order_seq_cst) + kRingBytes != head_;
}

bool Rings::sleep() noexcept {
    uint32_t word = kSleeps | (blocked_ ? kWantsSpace : 0);
    area_->asleep[side_].value.store(word, std::memory_order_seq_cst);
    if (!has_data() && !has_space()) return true;
    awake();
    return false;
}

void Rings::awake() noexcept {
    area_->asleep[side_].value.store(0, std::memory_order_relaxed);  // a delay causes one more wake-up
}

bool Rings::peer_needs_waking() noexcept {
    uint32_t cares = (wrote_ ? kSleeps : 0) | (read_ ? kWantsSpace : 0);
    wrote_ = read_ = false;
    if (cares == 0) return false;
    std::atomic<uint32_t>& word = area_->asleep[1 - side_].value;
    if ((word.load(std::memory_order_seq_cst) & cares) == 0) return false;
    return word.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace wss::fabric::shm
