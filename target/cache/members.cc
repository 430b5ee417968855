// SPDX-License-Identifier: Apache-2.0
#include "target/cache/members.h"

#include "lib/base/log.h"

namespace wss::se {

Status Members::load() {
    auto text = store_->load();
    if (!text || text->empty()) return text.status();
    auto membership = Membership::parse(*text);
    if (!membership) return membership.status();
    now_ = std::move(*membership);
    saved_engines_ = now_.engines;
    saved_engines_.insert(now_.away.begin(), now_.away.end());
    return Status::ok();
}

void Members::await_engines() {
    awaited_ = now_.engines;
}

void Members::save() {
    if (saving()) {
        state_ = State::kSavingOld;
        return;
    }
    state_ = State::kSaving;
    came_home_.clear();
    Membership stable = now_;
    stable.engines.insert(awaited_.begin(), awaited_.end());
    saving_engines_ = stable.engines;
    saving_engines_.insert(stable.away.begin(), stable.away.end());
    store_->save(stable.to_text(), [this](const Status& status) { saved(status); });
}

void Members::saved(const Status& status) {
    turn_.want();
    if (!status) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::error("the cache's membership cannot be saved, writes wait for it: {}", status.to_string());
        state_ = State::kUnsaved;
        return;
    }
    saved_engines_ = std::move(saving_engines_);
    if (std::exchange(state_, State::kStable) == State::kSavingOld) return save();
    observer_.membership_saved();
    waiting_.run(nullptr);
}

void Members::retry() {
    if ((state_ == State::kUnsaved || any_home_unsaved()) && !saving()) save();
}

void Members::when_saved(CachedVolume& volume, std::function<void()> task) {
    if (any_home_unsaved()) save();
    if (!delays(volume)) return task();
    waiting_.add(volume, std::move(task));
}

void Members::when_recorded(std::function<void()> task) {
    if (!pending()) return task();
    waiting_.add(std::move(task));
}

bool Members::counts_when_saved(uint64_t identity, uint32_t incarnation) const noexcept {
    auto saved = saved_engines_.find(identity);
    return saved != saved_engines_.end() && saved->second == incarnation;
}

}  // namespace wss::se
