// SPDX-License-Identifier: Apache-2.0
#include "target/cache/remote_state.h"

#include <utility>

namespace wss::cache {

Result<std::shared_ptr<RemoteState>> RemoteState::create(uint64_t bytes, uint32_t block) {
    auto made = std::make_shared<RemoteState>(bytes, block);
    WSS_TRY(made->sizes_.start(0));
    return made;
}

std::string RemoteState::trouble() const {
    std::lock_guard lock(m_);
    return trouble_;
}

void RemoteState::report(uint64_t bytes, bool suspended, std::string trouble) {
    if (bytes < block_) return lose("its real storage was resized to less than one block of the volume");
    std::lock_guard lock(m_);
    if (is_lost()) return;
    sizes_.changed(bytes);
    may_give_up_ = false;
    suspended_there_ = suspended;
    offered_.store(UINT64_MAX, std::memory_order_release);
    suspended_.store(suspended, std::memory_order_release);
    trouble_ = std::move(trouble);
}

bool RemoteState::refuse(Refusal refusal) {
    std::lock_guard lock(m_);
    may_give_up_ = refusal.may_give_up;
    offered_.store(refusal.offered, std::memory_order_release);
    suspended_.store(suspended_there_ || refusal.suspends, std::memory_order_release);
    if (is_lost() || trouble_ == refusal.why) return false;
    trouble_ = std::move(refusal.why);
    return true;
}

void RemoteState::note_departed() {
    std::lock_guard lock(m_);
    if (!is_lost()) trouble_ = "waits for its real storage, which is away";
}

bool RemoteState::give_up() noexcept {
    std::lock_guard lock(m_);
    if (!may_give_up_ || lost_.exchange(true, std::memory_order_acq_rel)) return false;
    trouble_ = "writes that cache engines hold for its former owner were given up";
    return true;
}

void RemoteState::lose(std::string why) {
    std::lock_guard lock(m_);
    if (lost_.exchange(true, std::memory_order_acq_rel)) return;
    // The volume is closed when a thread has delivered the notice. Until then engines serve nothing.
    suspended_.store(true, std::memory_order_release);
    trouble_ = std::move(why);
    sizes_.lose();
}

}  // namespace wss::cache
