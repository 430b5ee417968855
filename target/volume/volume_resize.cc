// SPDX-License-Identifier: Apache-2.0
// VolumeSet: resizes volumes.
//
//   larger   the state file records the growth; the backend grows; reactors and initiators are notified.
//            Nothing is reverted in storage: others may have used the space since.
//   smaller  the state file records the shrink; commands beyond the new end are refused; observers release
//            the data there; the backend shrinks. After a restart in between, the operator repeats this. From
//            the first step on the volume is a part of its storage. It covers all of it again when storage is
//            known to have shrunk.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/ownership.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// Lets storage answer. False: `stop` was requested.
static bool pause(const std::function<bool()>& turn, const std::stop_token& stop) {
    constexpr auto kLookAgain = std::chrono::milliseconds(100);
    std::mutex m;
    std::condition_variable_any stopped;
    std::unique_lock lock(m);
    if (turn)
        turn();
    else
        stopped.wait_for(lock, stop, kLookAgain, [] { return false; });
    return !stop.stop_requested();
}

// One change of a volume's size. The next one can begin when the last reference to `turn` is gone, however
// this one ended.
struct VolumeSet::Resize {
    std::string name;
    std::shared_ptr<Volume> volume;
    std::shared_ptr<Turn> turn;
    uint64_t bytes = 0;        // requested
    uint64_t shrink_to = 0;    // first, if not 0: an incomplete shrink is completed before the volume grows
    uint64_t cut_from = 0;     // see RecordedSizes
    bool follows = false;      // its storage has that size already, and is not changed
    bool shrunk = false;       // storage has shrunk to `shrink_to`
    bool waits = false;        // storage has not answered its resize in time
    bool enlarges = false;     // storage must grow
    uint64_t former_part = 0;  // VolumeSize::part() before
    bool grows() const { return bytes > shrink_to; }
    static Result<Resize> take_turn(VolumeSet& set, const std::string& name);
    Status plan(const VolumeSet& set, uint64_t to, bool is_following);
    Status resize_backend(uint64_t to);
    Status record_growth(VolumeSet& set, bool begins) const;
    Status extend() const;
    Status enlarge(VolumeSet& set);
    Status storage_too_small(uint64_t has) const;
    uint64_t size_to_require(uint64_t now, bool is_all) const;
    Status carry_out(VolumeSet& set);
    Status resize_storage(VolumeSet& set);
    Status notify(VolumeSet& set) const;
    Status end_later(VolumeSet& set, const std::shared_ptr<Begun>& dropped, Status late) const;
    Status carry_on(VolumeSet& set, const std::stop_token& stop);
    Status check_wanted(const VolumeSet& set) const;
};

// Returns the size that the next start requires of the storage; 0: whatever it has then. `is_all`: the volume
// covers all of its storage.
uint64_t VolumeSet::Resize::size_to_require(uint64_t now, bool is_all) const {
    return turn->record->keeps_size || !is_all ? now : 0;
}

// Resizes the storage. If an attempt is still in progress, this takes its result: a second attempt would undo
// what others have done to the storage since.
Status VolumeSet::Resize::resize_backend(uint64_t to) {
    io::Backend& backend = volume->backend();
    std::optional<Status> resized;
    if (waits) resized = backend.late_resize();
    if (!resized) resized = backend.resize(to);
    waits = resized->code() == Code::kTimedOut || (waits && resized->code() == Code::kBusy);
    return *resized;
}

// Until the result is destroyed, no other change of the volume's size begins, and no reopening.
Result<VolumeSet::Resize> VolumeSet::Resize::take_turn(VolumeSet& set, const std::string& name) {
    std::lock_guard lock(set.m_);
    auto record = set.find_live(name);
    if (!record) return record.status();
    if ((*record)->resizing.exchange(true))
        return failure(Code::kBusy, "volume {}: another resize is still in progress; try again", name);
    return Resize{.name = name, .volume = (*record)->volume, .turn = std::make_shared<Turn>(*record)};
}

Status VolumeSet::Resize::storage_too_small(uint64_t has) const {
    const uint64_t fits = volume->sizes().fit(has);
    const std::string first =
        fits == 0
            ? std::string()
            : fmt::format("shrink the volume to that first (wssctl volume resize {} {}), or ", name, fits);
    return failure(Code::kRefused,
                   "volume {}: its storage has only {} ({} bytes): {}wait until it has followed", name,
                   readable_size(has), has, first);
}

// Determines the steps to the size `to`.
Status VolumeSet::Resize::plan(const VolumeSet& set, uint64_t to, bool is_following) {
    bytes = to;
    follows = is_following;
    former_part = volume->sizes().part();
    if (bytes == 0 || bytes % volume->block_size() != 0)
        return failure(Code::kInvalid, "volume {}: size {} is not a positive multiple of its block size {}",
                       name, bytes, volume->block_size());
    if (volume->lost())
        return failure(
            Code::kInvalid,
            "volume {}: its storage is lost or has another owner: first run wssctl volume reopen {}", name,
            name);
    if (!follows && volume->backend().hides_growth())
        return failure(Code::kBusy,
                       "volume {}: others have shrunk and enlarged its storage, and the volume has not "
                       "followed yet; try again",
                       name);
    const uint64_t size = volume->size(), backend_size = volume->backend().limits().size;
    std::lock_guard lock(set.m_);
    auto known = set.known_.find(name);
    const bool shrinking = known != set.known_.end() && known->second.sizes.is_shrinking();
    if (bytes < size || shrinking) shrink_to = std::min(bytes, size);
    if (!follows && bytes < size && backend_size < bytes) return storage_too_small(backend_size);
    // An incomplete shrink is abandoned if others have resized the storage since, because it would destroy
    // their data.
    if (follows) return Status::ok();
    // During a shrink the backend may still have its former size, whatever it reports now.
    const uint64_t pending = shrinking ? known->second.sizes.cut_from() : 0;
    if (pending != 0 && (backend_size == size || backend_size == pending))
        cut_from = pending;
    else if (shrink_to != 0 && shrink_to < std::min(size, backend_size) && !volume->sizes().is_part() &&
             !volume->sizes().is_less_than(backend_size))
        cut_from = backend_size;  // others may use storage of which the volume is a part
    if (cut_from != 0 && grows())
        return failure(Code::kRefused,
                       "volume {}: a shrink to {} is incomplete, and data beyond that would reappear: wssctl "
                       "volume resize {} {} shrinks its storage first",
                       name, readable_size(size), name, size);
    return Status::ok();
}

Result<VolumeSet::Resize> VolumeSet::begin_resize(const std::string& name, uint64_t bytes, bool follows) {
    auto change = Resize::take_turn(*this, name);
    if (change) WSS_TRY(change->plan(*this, bytes, follows));
    return change;
}

Status VolumeSet::begin_shrink(const Resize& change) {
    // Checked before anything is recorded or dropped.
    io::Backend& backend = change.volume->backend();
    if (change.cut_from != 0) WSS_TRY(backend.may_resize().within("volume " + change.name));
    std::lock_guard changing(change_m_);
    Known before;
    const bool is_wanted = !change.follows && !change.grows();
    VolumeSize& size = change.volume->size_;
    if (is_wanted) size.begin_shrink(change.shrink_to, backend.limits().size, change.cut_from != 0);
    std::optional<uint64_t> part;
    if (is_wanted || (change.follows && !size.is_part())) part = size.part();
    const bool there = remember(*change.volume, [&](Known& known) {
        before = known;
        // The next start drops the data beyond the new end.
        known.sizes.begin_shrink(
            {.to = change.shrink_to,
             .followed = change.follows && !size.is_part(),
             .part = part,
             .cut_from = change.cut_from,
             .cut_ownership = change.cut_from != 0 ? backend.ownership() : std::string()});
    });
    if (!there) return removed_meanwhile();
    Status saved = save();
    // Storage that others shrank is smaller, whatever the file records: commands beyond it must fail now.
    if (saved || change.follows) return Status::ok();
    size.undo_shrink(change.former_part);
    remember(*change.volume, [&](Known& known) { known = before; });
    save_again();
    return saved.within(fmt::format("volume {} was not changed", change.name));
}

void VolumeSet::drop_beyond(const Resize& change, Done done) {
    const std::shared_ptr<Volume>& volume = change.volume;
    volume->size_.shrink(change.shrink_to);
    volume->note_change();
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    // The receiver of the answer may begin the next change, so this releases the turn first.
    auto answer = [gathering](std::shared_ptr<Turn>& turn, Status status) {
        turn.reset();
        gathering->arrive(std::move(status));
    };
    for (size_t i = 0; i < tables_.size(); ++i)
        reactors_[i]->post([this, volume, answer, i, bytes = change.shrink_to, turn = change.turn]() mutable {
            OpenVolume* open = tables_[i]->find(volume->lun());
            if (open == nullptr || &open->volume() != volume.get()) return answer(turn, removed_meanwhile());
            tables_[i]->notify(Change::kResized, *open);
            // The turn ends with the last answer, whether that is a failure or not.
            tables_[i]->shrink(*open, bytes, [answer, turn = std::move(turn)](Status status) mutable {
                answer(turn, std::move(status));
            });
        });
}

// Shrinks the storage and drops the record of the shrink. Storage that others have shrunk is not changed.
Status VolumeSet::end_shrink(Resize& change) {
    const io::Backend& backend = change.volume->backend();
    if (change.cut_from != 0 && (change.waits || backend.limits().size >= change.shrink_to)) {
        Status cut = change.resize_backend(change.shrink_to);
        if (!cut && !change.check_wanted(*this)) return cut;
        if (!cut && cut.code() != Code::kTimedOut && cut.code() != Code::kBusy)
            return failure(cut.code(),
                           "{}; data beyond the new end is no longer served, and its storage shrinks when "
                           "this is repeated",
                           cut.text());
        WSS_TRY(cut);
    }
    std::lock_guard changing(change_m_);
    VolumeSize& size = change.volume->size_;
    if (!change.follows && !change.grows())
        size.end_shrink(change.former_part != 0 && change.cut_from == 0, backend.limits().size);
    const bool is_all = !size.is_part();
    const bool there = remember(*change.volume, [&](Known& known) {
        std::optional<uint64_t> part;
        if (!change.follows || is_all) part = size.part();
        known.sizes.end_shrink(change.size_to_require(change.shrink_to, is_all), part);
    });
    if (!there) return removed_meanwhile();
    if (change.grows()) return Status::ok();
    Status saved = save();
    if (!saved && change.follows)
        log::warning(
            "{}: the new size of volume {}, {}, is not saved; a restart before the next saved change uses "
            "the former size, and may refuse the volume because it is larger than its storage",
            saved.to_string(), change.name, readable_size(change.shrink_to));
    else if (!saved)
        log::warning("{}: the shrink of volume {} has completed, but stays recorded as incomplete",
                     saved.to_string(), change.name);
    return Status::ok();
}

Status VolumeSet::Resize::record_growth(VolumeSet& set, bool begins) const {
    std::lock_guard changing(set.change_m_);
    const bool there = set.remember(
        *volume, [&](Known& known) { begins ? known.sizes.begin_growth(bytes) : known.sizes.fail_growth(); });
    return there ? set.save() : removed_meanwhile();
}

// The extension of a volume in memory takes the new memory first.
Status VolumeSet::Resize::extend() const {
    const std::span<std::byte> memory = volume->backend().memory();
    if (volume->extension() == nullptr || memory.empty()) return Status::ok();
    return volume->extension_->memory_grows(memory.first(std::min<size_t>(memory.size(), bytes)));
}

// Enlarges the storage. The state file records this first: if the target ends before it can save the result,
// the next start gives the volume what the storage then has, up to the requested size.
Status VolumeSet::Resize::enlarge(VolumeSet& set) {
    Status enlarged = record_growth(set, true);
    if (enlarged)
        enlarged = resize_backend(bytes);
    else
        enlarged = enlarged.within("it was not changed");
    if (enlarged) enlarged = check_wanted(set);
    // Before the volume grows, engines must drop the data that others' shrink has removed.
    if (enlarged && (volume->backend().hides_growth() || volume->backend().limits().size < bytes))
        enlarged =
            failure(Code::kRefused,
                    "others have shrunk its storage meanwhile; the volume follows soon, then repeat this");
    if (enlarged) enlarged = extend();
    // kClosed: the storage was lost, and the loss has dropped the record; or the program ends, and the
    // storage may grow all the same.
    if (enlarged || waits || enlarged.code() == Code::kClosed) return enlarged;
    // The next start must not repeat a growth that has failed.
    if (Status forgotten = record_growth(set, false); !forgotten && forgotten.code() != Code::kClosed)
        log::error("{}", forgotten.to_string());
    return enlarged;
}

Status VolumeSet::grow(Resize& change) {
    Volume& volume = *change.volume;
    io::Backend& backend = volume.backend();
    if (!change.waits) change.enlarges = change.bytes > backend.limits().size;
    if (change.enlarges && change.follows)
        return failure(Code::kBusy, "its storage became smaller meanwhile");
    WSS_TRY(change.enlarges ? change.enlarge(*this) : change.extend());
    const bool is_all = volume.sizes().covers_at(change.bytes, backend.limits().size, change.follows);
    std::lock_guard changing(change_m_);
    RecordedSizes before;
    const bool there = remember(volume, [&](Known& known) {
        before = known.sizes;
        std::optional<uint64_t> part;
        if (!change.follows) part = is_all ? 0 : change.bytes;
        known.sizes.end_growth(change.size_to_require(change.bytes, is_all), part);
    });
    if (!there) return removed_meanwhile();
    Status saved = save();
    if (!saved && !change.enlarges) {
        remember(volume, [&](Known& known) { known.sizes = before; });
        // A change that follows storage is repeated, and Following logs the reason.
        if (Status again = save(); !again && !change.follows) log::error("{}", again.to_string());
        return saved.within("it was not changed");
    }
    if (!saved)
        log::warning("{}: volume {} has grown, which is recorded as incomplete", saved.to_string(),
                     change.name);
    volume.size_.grow(change.bytes, change.follows, is_all);
    volume.note_change();
    return Status::ok();
}

void VolumeSet::resize_async(const std::string& name, uint64_t bytes, Done done) {
    auto begun = begin_resize(name, bytes, false);
    if (!begun) return done(begun.status());
    auto grow_it = [this, change = *begun, done](const Status& before) mutable {
        if (!before) return done(before);
        if (!change.grows()) return done(before);
        if (Status grown = grow(change); !grown) return done(grown.within("volume " + change.name));
        notify_reactors(change.volume, {.change = Change::kResized},
                        [turn = change.turn, done](Status) { done(Status::ok()); });
    };
    if (begun->shrink_to == 0) return grow_it(Status::ok());
    if (Status saved = begin_shrink(*begun); !saved) return done(saved);
    // After the set's destruction `dropped` is a failure, and the set is not used.
    drop_beyond(*begun, [this, change = *begun, grow_it](const Status& dropped) mutable {
        grow_it(dropped ? end_shrink(change) : dropped);
    });
}

// Like resize_async(), but changes the backend and the state file on the caller's thread.
Status VolumeSet::resize(const std::string& name, uint64_t bytes) {
    auto change = begin_resize(name, bytes, false);
    return change ? change->carry_out(*this) : change.status();
}

Status VolumeSet::Resize::carry_out(VolumeSet& set) {
    const std::string what = "resizing volume " + name;
    if (shrink_to != 0) {
        WSS_TRY(set.begin_shrink(*this));
        const auto dropped = Begun::begin([&](Done done) { set.drop_beyond(*this, std::move(done)); });
        if (!dropped->wait(set.options_))
            return end_later(set, dropped,
                             failure(Code::kTimedOut, "{}: not finished after {} s", what,
                                     set.options_.wait.count / 1'000'000'000));
        WSS_TRY(set.end_of(*dropped, what));
    }
    Status resized = resize_storage(set);
    if (resized.code() == Code::kTimedOut && !follows) return end_later(set, nullptr, std::move(resized));
    WSS_TRY(resized);
    Status notified = notify(set);
    // The volume has its new size, so storage must not repeat its notice: it would take the former size for
    // the volume's. Reactors that are late are notified anyway.
    return follows ? Status::ok() : notified;
}

// Called when observers have released the data beyond the new end. After a failure it can be repeated, and
// continues at the step that failed.
Status VolumeSet::Resize::resize_storage(VolumeSet& set) {
    const std::string what = "volume " + name;
    if (shrink_to != 0 && !shrunk) WSS_TRY(set.end_shrink(*this).within(what));
    shrunk = true;
    return grows() ? set.grow(*this).within(what) : Status::ok();
}

// Notifies the reactors of a larger size. drop_beyond() has notified them of a smaller one.
Status VolumeSet::Resize::notify(VolumeSet& set) const {
    if (!grows()) return Status::ok();
    const auto told = Begun::begin(
        [&](Done done) { set.notify_reactors(volume, {.change = Change::kResized}, std::move(done)); });
    return set.end_of(*told, "resizing volume " + name);
}

// Fails if the volume was removed or its storage was lost. That storage must not be resized.
Status VolumeSet::Resize::check_wanted(const VolumeSet& set) const {
    auto live = set.hold_live(name);
    if (!live || *live != volume) return removed_meanwhile();
    if (volume->lost() || volume->backend().lost())
        return failure(Code::kClosed, "its storage was lost meanwhile");
    return Status::ok();
}

// Repeats the change until storage has answered.
Status VolumeSet::Resize::carry_on(VolumeSet& set, const std::stop_token& stop) {
    for (;;) {
        WSS_TRY(check_wanted(set));
        Status resized = resize_storage(set);
        if (resized) return notify(set);
        // kBusy: storage still executes the resize. A change that follows storage ends here, because storage
        // repeats its notice.
        if (follows || (resized.code() != Code::kTimedOut && resized.code() != Code::kBusy)) return resized;
        if (!pause(set.options_.turn, stop)) return failure(Code::kClosed, "the target is stopping");
    }
}

// Completes a resize in the background when observers hold data beyond the new end (`dropped`), or storage
// does not answer, for longer than the caller waits. A shrink must not stay recorded after it is complete: a
// size that others give the storage later would be mistaken for the size before the shrink.
Status VolumeSet::Resize::end_later(VolumeSet& set, const std::shared_ptr<Begun>& dropped,
                                    Status late) const {
    const std::string what = "resizing volume " + name;
    const Status begun = set.late_ends_.begin([&set, change = *this, dropped,
                                               what](const std::stop_token& stop) mutable {
        if (dropped && !dropped->wait(set.options_, stop)) return;
        Status ended = dropped ? set.end_of(*dropped, what) : Status::ok();
        if (ended) ended = change.carry_on(set, stop);
        if (ended)
            log::info("{} had outlasted its command; the size is now {}", what, readable_size(change.bytes));
        else if (ended.code() == Code::kClosed || change.follows)
            log::info("{} outlasted its command and has not completed: {}", what, ended.to_string());
        else
            log::error("{} outlasted its command, then failed: {}; repeat wssctl volume resize {} {}", what,
                       ended.to_string(), change.name, change.bytes);
    });
    if (begun) return failure(late.code(), "{}, continuing in the background", late.text());
    return failure(late.code(), "{} ({}){}; repeat wssctl volume resize {} {}", late.text(),
                   begun.to_string(), shrink_to != 0 ? ": data beyond the new end is no longer served" : "",
                   name, bytes);
}

// The target ended during a shrink. The storage may have been shrunk since, and others may use space that
// they have added, so a start never shrinks it. The shrink stays recorded, so that the operator can repeat
// it, while the storage keeps its former size and owner.
void VolumeSet::Record::check_cut(const io::Backend& backend) {
    if (sizes.cut_from() == 0) return;
    if (backend.limits().size == options.size)
        part = 0;  // the storage was shrunk, and the volume covers all of it
    else if (!io::is_same_ownership(sizes.cut_ownership(), backend.ownership()))
        log::warning(
            "volume {}: another owner has had its storage since a shrink from {} to {} began: the storage is "
            "not shrunk, and data beyond the end is not served",
            options.name, readable_size(sizes.cut_from()), readable_size(options.size));
    else if (backend.limits().size == sizes.cut_from())
        return log::warning(
            "volume {}: its storage has {}: a shrink to {} was incomplete when the target ended; data beyond "
            "the end is not served; wssctl volume resize {} {} shrinks the storage",
            options.name, readable_size(sizes.cut_from()), readable_size(options.size), options.name,
            options.size);
    sizes.forget_cut();
}

// The observers were requested to drop the data beyond the end of a shrink that was cut off. The record of
// the shrink stays until they have done so: a later start would otherwise serve that data, or drop data that
// was written since. Storage that has grown meanwhile reports that afterwards.
void VolumeSet::Record::end_shrink(VolumeSet& set) const {
    auto change = set.begin_resize(options.name, volume->size(), true);
    if (!change) return;  // another change, which ends the shrink, has begun
    const auto dropped = Begun::begin([&](Done done) { set.drop_beyond(*change, std::move(done)); });
    const Status begun =
        set.late_ends_.begin([&set, change = *change, dropped](const std::stop_token& stop) mutable {
            if (!dropped->wait(set.options_, stop)) return;
            Status ended = set.end_of(*dropped, "ending the shrink of volume " + change.name);
            if (ended) ended = set.end_shrink(change);
            if (!ended)
                log::info("volume {}: its shrink stays recorded as incomplete: {}", change.name,
                          ended.to_string());
        });
    if (!begun)
        log::warning("volume {}: its shrink stays recorded as incomplete: {}", options.name,
                     begun.to_string());
}

std::shared_ptr<const AccessList> nobody() {
    return std::make_shared<const AccessList>(*AccessList::parse({"*=none"}));
}

// Another owner took the storage. No initiator may use the volume, so that cache engines return no stale data
// either. Access that the operator sets meanwhile takes effect after a reopening. A volume that is not found,
// because it has yet to replace another one, is checked by serve().
//
// `bytes`: the last known size of the storage; 0: unknown.
bool VolumeSet::storage_lost(const std::string& name, const Volume* volume, uint64_t bytes) {
    std::shared_ptr<Volume> live;
    {
        std::lock_guard lock(m_);
        auto found = records_.find(name);
        if (found == records_.end() || found->second->volume.get() != volume) return true;
        found->second->volume->lose(bytes != 0 ? Volume::Loss::kOfKnownSize : Volume::Loss::kOfUnknownSize);
        if (found->second->state == Record::State::kLive) live = found->second->volume;
    }
    log::error(
        "volume {}: its storage is lost or has another owner; all commands are refused until it is reopened",
        name);
    if (live != nullptr) {
        // The storage must no longer be shrunk: others write to it. Engines drop their data beyond the end.
        std::lock_guard changing(change_m_);
        remember(*live, [](Known& known) { known.sizes.lose(); });
        save_again();
    }
    if (live != nullptr)
        notify_reactors(live, {.change = Change::kAccess, .access = nobody()}, [](const Status&) {});
    return true;
}

// Records whether a volume follows the size of its storage. This is tried again each second, so only a change
// of the result is logged. `trouble` of the volume shows the current one.
struct VolumeSet::Following {
    VolumeSet& set;
    const std::string& name;
    const Volume* volume;

    RecordedSizes sizes() const {
        std::lock_guard lock(set.m_);
        auto known = set.known_.find(name);
        return known == set.known_.end() ? RecordedSizes{} : known->second.sizes;
    }
    void note(uint64_t bytes, const Status& status) const {
        std::string now;
        if (!status)
            now = fmt::format("its storage now has {}, but the volume keeps its size: {}",
                              readable_size(bytes), reason_of(status, name));
        {
            std::lock_guard lock(set.m_);
            auto found = set.records_.find(name);
            if (found == set.records_.end() || found->second->volume.get() != volume) return;
            if (std::exchange(found->second->not_followed, now) == now) return;
        }
        if (status)
            log::info("volume {} follows the size of its storage again", name);
        else
            log::warning("volume {}: {}", name, now);
    }
};

// The storage was resized elsewhere, or its size has become known (`before` is 0). A volume that covers all
// of it takes the new size. A volume on a part of it shrinks with it, and never exceeds the size that the
// operator gave it. A volume that is being created, or has yet to replace another one, is resized when it is
// live. A change of the volume's size that is in progress ends first.
bool VolumeSet::follow_backend(const std::string& name, const Volume* volume, uint64_t before,
                               uint64_t after) {
    auto change = Resize::take_turn(*this, name);
    if (!change || change->volume.get() != volume) return false;
    if (volume->lost()) return true;
    // The operator's resize has overtaken this notice. If the storage has shrunk, it repeats the notice.
    if (volume->backend().limits().size > after) return false;
    const uint64_t size = volume->size();
    const Following following{*this, name, volume};
    const RecordedSizes sizes = following.sizes();
    VolumeSize& known = change->volume->size_;
    if (before == 0) known.learn(after);
    // The storage had a size that proves an incomplete shrink of the operator, by whomever it was made.
    const uint64_t least = before == 0 ? after : std::min(before, after);
    if (sizes.cut_from() != 0 && !known.is_less_than(least)) known.cover_all();
    const uint64_t bytes = known.fit(after);
    if (bytes == size && !sizes.is_shrinking()) {
        following.note(after, Status::ok());
        return true;
    }
    Status status = change->plan(*this, bytes, true);
    if (status) status = change->carry_out(*this);
    if (status || status.code() != Code::kBusy) following.note(after, status);
    return status.is_ok();
}

}  // namespace wss::volume
