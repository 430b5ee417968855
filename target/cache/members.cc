// SPDX-License-Identifier: Apache-2.0
#include "target/cache/members.h"

#include "lib/base/log.h"

namespace wss::cache {

void Members::Counting::add(const Membership& membership, const Engines& members) {
    engines.insert(members.begin(), members.end());
    engines.insert(membership.away.begin(), membership.away.end());
    for (const auto& [wwid, known] : membership.dirty) dirty.insert(wwid);
}

Status Members::load() {
    auto text = store_->load();
    if (!text || text->empty()) return text.status();
    auto membership = Membership::parse(*text);
    if (!membership) return membership.status();
    now_ = std::move(*membership);
    found_.add(now_, now_.engines);
    saving_ = found_;
    saved_text_ = saving_text_ = now_.to_text();
    return Status::ok();
}

void Members::await_engines() {
    awaited_ = now_.engines;
}

void Members::save() {
    if (!is_final_) change();
}

void Members::change() {
    state_ = saving() ? State::kSavingOld : State::kChanged;
    turn_.want();
}

void Members::turn() {
    if (state_ != State::kChanged) return;
    state_ = State::kSaving;
    destaged_.clear();
    Engines members = now_.engines;
    members.insert(awaited_.begin(), awaited_.end());
    saving_ = {};
    saving_.add(now_, members);
    found_.add(now_, members);
    saving_text_ = now_.to_text(members);
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
        return notify_recorders(status, nullptr);
    }
    if (!status) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::error("the cache's membership cannot be saved, writes wait for it: {}", status.to_string());
        return notify_recorders(status, nullptr);
    }
    found_ = saving_;
    saved_text_ = saving_text_;
    if (was == State::kSavingOld) return change();
    observer_.membership_saved();
    waiting_.run(nullptr);
    if (!pending()) notify_recorders(status, nullptr);
}

void Members::notify_recorders(const Status& status, const CachedVolume* of) {
    std::list<Recorder> told;
    for (auto it = recorders_.begin(); it != recorders_.end();) {
        auto next = std::next(it);
        if (of == nullptr || it->volume == of) told.splice(told.end(), recorders_, it);
        it = next;
    }
    for (Recorder& recorder : told) recorder.done(status);
}

void Members::record(std::function<void(const Status&)> done) {
    if (is_final_) return done(stopping());
    recorders_.push_back({nullptr, {}, std::move(done)});
    save();
}

void Members::probe(CachedVolume& volume, std::function<void(const Status&)> done) {
    if (is_final_) return done(stopping());
    recorders_.push_back({&volume, volume.gate.enter(), std::move(done)});
    if (state_ != State::kStable || saved_text_.empty()) return save();
    state_ = State::kProbing;
    write(saved_text_);
}

void Members::retry() {
    if ((state_ == State::kUnsaved || any_home_unsaved()) && !saving()) change();
}

void Members::when_saved(CachedVolume& volume, std::function<void()> task, const Cancelled* cancelled) {
    if (any_home_unsaved()) save();
    if (!delays(volume) || is_cancelled(cancelled)) return task();
    waiting_.add(volume, std::move(task), cancelled);
}

void Members::when_recorded(std::function<void()> task) {
    if (!pending()) return task();
    waiting_.add(std::move(task));
}

}  // namespace wss::cache
