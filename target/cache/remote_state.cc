// SPDX-License-Identifier: Apache-2.0
#include "target/cache/remote_state.h"

#include <utility>

namespace wss::se {

Result<std::shared_ptr<RemoteState>> RemoteState::create(uint64_t bytes) {
    auto made = std::make_shared<RemoteState>();
    WSS_TRY(made->sizes_.start(bytes));
    return made;
}

std::string RemoteState::trouble() const {
    std::lock_guard lock(m_);
    return trouble_;
}

// The size that an RS reports first is where the volume begins: only a change of it is followed.
void RemoteState::report(uint64_t bytes, bool suspended, std::string trouble) {
    std::lock_guard lock(m_);
    if (is_lost()) return;
    if (std::exchange(reported_, true))
        sizes_.changed(bytes);
    else
        sizes_.begin(bytes);
    awaits_owner_ = false;
    offered_.store(UINT64_MAX, std::memory_order_release);
    suspended_.store(suspended, std::memory_order_release);
    trouble_ = std::move(trouble);
}

bool RemoteState::refuse(std::string why, uint64_t offered) {
    std::lock_guard lock(m_);
    awaits_owner_ = false;
    offered_.store(offered, std::memory_order_release);
    if (is_lost() || trouble_ == why) return false;
    trouble_ = std::move(why);
    return true;
}

bool RemoteState::await_owner(std::string why) {
    const bool is_new = refuse(std::move(why));
    std::lock_guard lock(m_);
    awaits_owner_ = true;
    suspended_.store(true, std::memory_order_release);
    return is_new;
}

bool RemoteState::give_up() noexcept {
    std::lock_guard lock(m_);
    return awaits_owner_ && !lost_.exchange(true, std::memory_order_acq_rel);
}

void RemoteState::lose(std::string why) {
    std::lock_guard lock(m_);
    if (lost_.exchange(true, std::memory_order_acq_rel)) return;
    trouble_ = std::move(why);
    sizes_.lose();
}

}  // namespace wss::se
