// SPDX-License-Identifier: Apache-2.0
// Session: volumes of the target. A survey lists them and probes those that are open. It runs after every
// login, and when the target reports a change.
#include <algorithm>
#include <utility>

#include "lib/initiator/session.h"

namespace wss::initiator {

void Session::look_again() {
    look_again_ = true;
    run_control();
}

// Starts the next operation, unless one is running: its end calls this again.
void Session::run_control() {
    if (discovery_.busy()) return;
    if (state_ == State::kDiscovering || (state_ == State::kLive && look_again_)) return survey();
    if (state_ == State::kLive && !opens_.empty()) open_next();
}

void Session::survey() {
    look_again_ = false;
    discovery_.list([this](const Status& status, std::vector<VolumeName> names) {
        if (!status) return survey_done(status);
        names_ = std::move(names);
        forget_closed_volumes();
        for (PendingOpen& open : opens_) open.looked = true;
        survey_at_ = 0;
        survey_next();
    });
}

// The state of a closed volume is kept for its next open. A volume that the target has deleted does not
// return.
void Session::forget_closed_volumes() {
    std::erase_if(volumes_, [this](const auto& volume) {
        const VolumeName* found = find_name(volume->info_.name);
        return volume->users_ == 0 && (found == nullptr || found->naa != volume->info_.naa);
    });
}

void Session::survey_next() {
    for (; survey_at_ < volumes_.size(); ++survey_at_) {
        Volume& volume = *volumes_[survey_at_];
        if (volume.users_ == 0) continue;
        const VolumeName* found = find_name(volume.info_.name);
        if (found != nullptr && found->naa == volume.info_.naa)
            return discovery_.probe(found->lun, [this, &volume](const Status& status, VolumeInfo info) {
                survey_probed(volume, status, std::move(info));
            });
        if (!std::exchange(volume.gone_, true)) handler_.on_volume_changed(*this, volume);
    }
    survey_done(Status::ok());
}

void Session::survey_probed(Volume& volume, const Status& status, VolumeInfo info) {
    if (!status) return survey_done(status);
    // If the volume was renamed or deleted since the list was made, the target's notification starts another
    // survey.
    volume.gone_ = info.name != volume.info_.name || info.naa != volume.info_.naa;
    if (!volume.gone_) volume.info_ = std::move(info);
    handler_.on_volume_changed(*this, volume);
    ++survey_at_;
    survey_next();
}

// Requests that waited while their volume disappeared must not reach the unit that has its LUN now.
void Session::fail_for_gone_volumes() {
    List<Request> over;
    for (List<Request>* list : {&queue_, &delayed_})
        list->for_each([&](Request& request) {
            if (request.volume == nullptr || !request.volume->gone() || request.outstanding_ > 0) return;
            request.outcome = Outcome::kVolumeGone;
            request.unlink();
            over.push_back(request);
        });
    while (Request* request = over.front()) finish(*request);
}

void Session::survey_done(const Status& status) {
    if (status.is_ok()) fail_for_gone_volumes();
    // Requests may be sent again, unless the target has reported another change meanwhile.
    if (status.is_ok() && !look_again_ && std::exchange(units_unknown_, false)) wants_turn_ = true;
    if (state_ == State::kDiscovering) {
        if (!status) return lose(status.within("looking for volumes"));
        set_state(State::kLive);
        ever_live_ = true;
        down_since_ = kNever;
        delay_ = Nanoseconds{};
        handler_.on_ready(*this);
    } else if (!status) {
        // The next login determines which unit a LUN denotes.
        if (units_unknown_) return lose(status.within("looking for volumes"));
        for (PendingOpen& open : opens_) open.looked = true;  // fail instead of repeating the survey for ever
    }
    run_control();
}

const VolumeName* Session::find_name(const std::string& name) const {
    auto found = std::find_if(names_.begin(), names_.end(),
                              [&](const VolumeName& each) { return name.empty() || each.name == name; });
    return found == names_.end() ? nullptr : &*found;
}

Status Session::no_such_volume(const std::string& name) const {
    if (names_.empty()) return failure(Code::kNotFound, "{} has no volumes", options_.address.to_string());
    std::string list;
    constexpr size_t kShown = 20;
    for (size_t i = 0; i < std::min(names_.size(), kShown); ++i)
        list += fmt::format("{}'{}'", i == 0 ? "" : ", ", names_[i].name);
    if (names_.size() > kShown) list += fmt::format(" and {} more", names_.size() - kShown);
    if (name.empty())
        return failure(Code::kInvalid, "{} has more than one volume; name one of {}",
                       options_.address.to_string(), list);
    return failure(Code::kNotFound, "{} has no volume '{}'; it has {}", options_.address.to_string(), name,
                   list);
}

void Session::open_volume(std::string name, Opened done) {
    if (state_ == State::kClosing || state_ == State::kClosed)
        return done(Status(Code::kClosed, "the session is closed"));
    opens_.push_back({std::move(name), std::move(done)});
    run_control();
}

void Session::open_next() {
    PendingOpen& open = opens_.front();
    const VolumeName* found = find_name(open.name);
    bool ambiguous = open.name.empty() && names_.size() > 1;
    if (found != nullptr && !ambiguous)
        return discovery_.probe(found->lun, [this, wanted = *found](const Status& status, VolumeInfo info) {
            open_probed(wanted, status, std::move(info));
        });
    if (open.looked) return finish_open(no_such_volume(open.name));
    survey();
}

void Session::open_probed(const VolumeName& wanted, const Status& status, VolumeInfo info) {
    if (opens_.empty()) return;  // fail_opens() was called meanwhile
    bool same = status.is_ok() && info.name == wanted.name && info.naa == wanted.naa;
    if (same) return finish_open(&adopt(std::move(info)));
    if (opens_.front().looked || state_ != State::kLive)
        return finish_open(status.is_ok() ? no_such_volume(wanted.name) : status);
    survey();
}

Volume& Session::adopt(VolumeInfo info) {
    for (const auto& volume : volumes_) {
        if (volume->info_.name != info.name || volume->info_.naa != info.naa) continue;
        volume->info_ = std::move(info);
        volume->gone_ = false;
        ++volume->users_;
        return *volume;
    }
    volumes_.push_back(std::make_unique<Volume>(std::move(info)));
    volumes_.back()->users_ = 1;
    return *volumes_.back();
}

void Session::close_volume(Volume& volume) {
    WSS_ASSERT(volume.users_ > 0, "a volume is closed as often as it was opened");
    --volume.users_;
}

void Session::finish_open(Result<Volume*> result) {
    Opened done = std::move(opens_.front().done);
    opens_.pop_front();
    done(std::move(result));
    run_control();
}

void Session::fail_opens(const Status& why) {
    std::deque<PendingOpen> failed = std::exchange(opens_, {});
    for (PendingOpen& open : failed) open.done(why);
}

}  // namespace wss::initiator
