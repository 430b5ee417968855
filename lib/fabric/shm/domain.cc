// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/domain.h"

#include <cstdint>

namespace wss::fabric::shm {

Result<std::shared_ptr<Domain>> Domain::create() {
    std::shared_ptr<Domain> domain(new Domain);
    Result<SharedMemory> validity = make_shared("wss-validity", kValidityBytes, true);
    if (!validity) return validity.status();
    domain->validity_ = std::move(*validity);
    return domain;
}

Validity Domain::take_slot() noexcept {
    std::lock_guard guard(lock_);
    if (free_slots_.empty()) {
        if (generations_.size() == kSlots) return {};
        free_slots_.push_back(static_cast<uint32_t>(generations_.size()));
        generations_.push_back(0);
    }
    uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    if (++generations_[slot] == 0) generations_[slot] = 1;  // 0 means: no valid region
    word(slot).store(generations_[slot], std::memory_order_release);
    return {.slot = slot, .generation = generations_[slot]};
}

void Domain::invalidate(const Validity& validity) noexcept {
    if (validity.slot == kNoSlot) return;
    word(validity.slot).store(0, std::memory_order_release);
    std::lock_guard guard(lock_);
    free_slots_.push_back(validity.slot);
}

SharedRegion::SharedRegion(std::shared_ptr<Domain> domain, SharedMemory memory, size_t bytes, Access access)
    : domain_(std::move(domain)), memory_(std::move(memory)) {
    bytes_ = memory_.mapping.bytes().first(bytes);
    remote_address_ = reinterpret_cast<uintptr_t>(bytes_.data());
    // A mapping cannot prevent a peer with write-only access from reading.
    if (stream::allows(access, Access::kRemoteRead)) validity_ = domain_->take_slot();
    lkey_ = domain_->table()->add(bytes_, access, this);
    set_rkey(0, lkey_);
}

SharedRegion::~SharedRegion() {
    domain_->table()->remove(lkey_);  // no grants from here on
    domain_->invalidate(validity_);
}

}  // namespace wss::fabric::shm
