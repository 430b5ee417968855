// SPDX-License-Identifier: Apache-2.0
#include "target/cache/members.h"

#include "lib/base/log.h"

namespace wss::se {

static std::set<uint64_t> dirty_of(const Membership& membership) {
    std::set<uint64_t> volumes;
    for (const auto& [wwid, known] : membership.dirty) volumes.insert(wwid);
    return volumes;
}

Status Members::load() {
    auto text = store_->load();
    if (!text || text->empty()) return text.status();
    auto membership = Membership::parse(*text);
    if (!membership) return membership.status();
    now_ = std::move(*membership);
    saved_engines_ = now_.engines;
    saved_engines_.insert(now_.away.begin(), now_.away.end());
    saved_dirty_ = saving_dirty_ = dirty_of(now_);
    saving_engines_ = saved_engines_;
    saved_text_ = saving_text_ = now_.to_text();
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
    saving_dirty_ = dirty_of(stable);
    saving_text_ = stable.to_text();
    write(saving_text_);
}

void Members::write(const std::string& text) {
    store_->save(text, [this](const Status& status) { saved(status); });
}

void Members::saved(const Status& status) {
    turn_.want();
    const State was = std::exchange(state_, status ? State::kStable : State::kUnsaved);
    trouble_ = status;
    if (was == State::kProbing) {
        state_ = State::kStable;
        return tell_recorders(status);
    }
    if (!status) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::error("the cache's membership cannot be saved, writes wait for it: {}", status.to_string());
        return tell_recorders(status);
    }
    saved_engines_ = saving_engines_;
    saved_dirty_ = saving_dirty_;
    saved_text_ = saving_text_;
    if (was == State::kSavingOld) return save();
    observer_.membership_saved();
    waiting_.run(nullptr);
    if (!pending()) tell_recorders(status);
}

void Members::tell_recorders(const Status& status) {
    for (auto& done : std::exchange(recorders_, {})) done(status);
}

void Members::record(std::function<void(const Status&)> done) {
    recorders_.push_back(std::move(done));
    save();
}

void Members::probe(std::function<void(const Status&)> done) {
    if (state_ != State::kStable || saved_text_.empty()) return record(std::move(done));
    recorders_.push_back(std::move(done));
    state_ = State::kProbing;
    write(saved_text_);
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
