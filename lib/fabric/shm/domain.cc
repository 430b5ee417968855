// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/domain.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "lib/base/clock.h"

namespace wss::fabric::shm {

// The longest copy takes milliseconds; a peer that is busy for longer is stopped, dead or lying.
constexpr Nanoseconds kBusyMax = from_s(1);

Result<std::shared_ptr<Domain>> Domain::create() {
    std::shared_ptr<Domain> domain(new Domain);
    Result<SharedMemory> validity = make_shared("wss-validity", kValidityBytes, true);
    if (!validity) return validity.status();
    domain->validity_ = std::move(*validity);
    return domain;
}

Validity Domain::take_slot() noexcept {
    std::lock_guard guard(lock_);
    if (free_slots_.empty()) reclaim_stuck();
    if (free_slots_.empty()) {
        if (generations_.size() == kSlots) return {};
        free_slots_.push_back(static_cast<uint32_t>(generations_.size()));
        generations_.push_back(0);
    }
    uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    if (++generations_[slot] == 0) generations_[slot] = 1;  // 0 means: nothing valid here
    word(slot).store(generations_[slot], std::memory_order_release);
    return {.slot = slot, .generation = generations_[slot]};
}

void Domain::invalidate(const Validity& validity, Reach reach) noexcept {
    if (validity.slot == kNoSlot) return;
    // Sequentially consistent, as are the peer's claim to be busy and its look at the word: either the peer
    // sees that the region is gone, or we see that it is busy.
    word(validity.slot).store(0, std::memory_order_seq_cst);
    SystemClock clock;
    const Nanoseconds deadline = reach == Reach::kForeign ? clock.now() + kBusyMax : Nanoseconds{};
    std::unique_lock guard(lock_);
    bool busy;
    while ((busy = anyone_busy_in(validity.slot)) && clock.now() <= deadline) {
        guard.unlock();  // others come and go meanwhile
        std::this_thread::yield();
        guard.lock();
    }
    (busy ? stuck_slots_ : free_slots_).push_back(validity.slot);
}

bool Domain::anyone_busy_in(uint32_t slot) const noexcept {
    return std::any_of(peers_.begin(), peers_.end(), [&](const std::atomic<uint32_t>* busy) {
        return busy->load(std::memory_order_seq_cst) == slot + 1;
    });
}

void Domain::reclaim_stuck() noexcept {
    std::erase_if(stuck_slots_, [&](uint32_t slot) {
        if (anyone_busy_in(slot)) return false;
        free_slots_.push_back(slot);
        return true;
    });
}

void Domain::add_peer(const std::atomic<uint32_t>* busy) {
    std::lock_guard guard(lock_);
    peers_.push_back(busy);
}

void Domain::remove_peer(const std::atomic<uint32_t>* busy) noexcept {
    std::lock_guard guard(lock_);
    std::erase(peers_, busy);
}

// --- regions ---

ShmRegion::ShmRegion(std::shared_ptr<Domain> domain, SharedMemory memory, size_t bytes, Access access)
    : domain_(std::move(domain)), memory_(std::move(memory)) {
    enter(memory_.mapping.bytes().first(bytes), access);
}

ShmRegion::ShmRegion(std::shared_ptr<Domain> domain, std::span<std::byte> memory, Access access)
    : domain_(std::move(domain)) {
    enter(memory, access);
}

void ShmRegion::enter(std::span<std::byte> bytes, Access access) {
    bytes_ = bytes;
    remote_address_ = reinterpret_cast<uintptr_t>(bytes.data());
    // A mapping could not keep a peer that may only write from reading.
    reach_ = fd() >= 0 && stream::allows(access, Access::kRemoteRead) ? Reach::kMapped : Reach::kForeign;
    if (access != Access::kLocal) validity_ = domain_->take_slot();
    rkey_ = lkey_ = domain_->table()->add(bytes, access, this);
}

ShmRegion::~ShmRegion() {
    domain_->table()->remove(rkey_);  // no grants from here on
    domain_->invalidate(validity_, reach_);
}

}  // namespace wss::fabric::shm
