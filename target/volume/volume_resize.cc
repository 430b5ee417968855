// SPDX-License-Identifier: Apache-2.0
// Volumes become larger and smaller.
//
//   larger   the backend grows, the state file says so, then everybody sees the new size
//   smaller  the state file says what is about to happen; nobody goes beyond the new end any more; observers
//            let go of what lies there; the backend is cut. After a start in between the operator repeats it.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/ownership.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// At storage that has not answered.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

// One change of a volume's size. The next one can begin when the last reference to this one is gone, however
// it ended.
struct VolumeSet::Resize {
    std::string name;
    std::shared_ptr<Volume> volume;
    std::shared_ptr<Turn> turn;
    uint64_t bytes = 0;      // wanted
    uint64_t shrink_to = 0;  // first, if not 0: a shrink that is not over is finished before the volume grows
    uint64_t cut_from = 0;   // see Known
    bool follows = false;    // its storage has that size, and is not changed
    bool shrunk = false;     // storage has shrunk to `shrink_to`
    bool grows() const { return bytes > shrink_to; }
    void note_part() const;
    Status carry_out(VolumeSet& set);
    Status resize_storage(VolumeSet& set);
    Status tell(VolumeSet& set) const;
    Status end_later(VolumeSet& set, const std::shared_ptr<Begun>& dropped, Status late) const;
    Status carry_on(VolumeSet& set, const std::stop_token& stop);
    Status check_wanted(const VolumeSet& set) const;
};

// The operator has made the volume a part of its storage, or all of it. A part that shrinks to what others
// have left of its storage is a part.
void VolumeSet::Resize::note_part() const {
    if (follows) return;
    const bool cuts_nothing = shrink_to != 0 && !grows() && cut_from == 0;
    const bool is_part =
        (volume->part_ != 0 && cuts_nothing) || !volume->is_all_of(volume->backend().limits().size);
    volume->part_ = is_part ? volume->size() : 0;
}

Result<VolumeSet::Resize> VolumeSet::begin_resize(const std::string& name, uint64_t bytes, bool follows) {
    std::lock_guard lock(m_);
    auto record = find_live(name);
    if (!record) return record.status();
    const std::shared_ptr<Volume>& volume = (*record)->volume;
    if (bytes == 0 || bytes % volume->block_size() != 0)
        return failure(Code::kInvalid, "volume {}: size {} is not a positive multiple of its block size {}",
                       name, bytes, volume->block_size());
    if (volume->lost())
        return failure(
            Code::kInvalid,
            "volume {}: its storage is lost, or another owner's: wssctl volume reopen {} comes first", name,
            name);
    const uint64_t size = volume->size(), backend_size = volume->backend().limits().size;
    auto known = known_.find(name);
    const bool shrinking = known != known_.end() && known->second.shrinking;
    if ((*record)->resizing.exchange(true))
        return failure(Code::kBusy, "volume {}: another change of its size is not over; try again", name);
    Resize change{.name = name,
                  .volume = volume,
                  .turn = std::make_shared<Turn>(*record),
                  .bytes = bytes,
                  .follows = follows};
    if (bytes < size || shrinking) change.shrink_to = std::min(bytes, size);
    // A shrink that was not over is, without a cut, when others have given the storage another size since:
    // what they make of it would be cut.
    if (follows) return change;
    // While a shrink is not over the backend may be as long as it was, whatever it reports now.
    const uint64_t pending = shrinking ? known->second.cut_from : 0;
    if (pending != 0 && (backend_size == size || backend_size == pending))
        change.cut_from = pending;
    else if (change.shrink_to != 0 && backend_size == size)  // a larger file's end was never ours to cut
        change.cut_from = size;
    if (change.cut_from != 0 && change.grows())
        return failure(Code::kRefused,
                       "volume {}: a shrink to {} is not over, and what lay beyond that would return: wssctl "
                       "volume resize {} {} cuts its storage first",
                       name, readable_size(size), name, size);
    return change;
}

Status VolumeSet::begin_shrink(const Resize& change) {
    // Before anything is recorded or dropped.
    io::Backend& backend = change.volume->backend();
    if (change.cut_from != 0) WSS_TRY(backend.may_resize().within("volume " + change.name));
    std::lock_guard changing(change_m_);
    Known before;
    const bool there = remember(*change.volume, [&](Known& known) {
        before = known;
        known.resized = change.shrink_to;
        known.shrinking = true;
        known.cut_from = change.cut_from;
        known.cut_ownership = change.cut_from != 0 ? backend.ownership() : std::string();
    });
    if (!there) return removed_meanwhile();
    Status saved = save();
    // Storage that others made smaller is so whatever the file says: nothing beyond its end may be answered,
    // or acknowledged, any more.
    if (saved || change.follows) return Status::ok();
    remember(*change.volume, [&](Known& known) { known = before; });
    save_again();
    return saved.within(fmt::format("volume {} is not changed", change.name));
}

void VolumeSet::drop_beyond(const Resize& change, Done done) {
    const std::shared_ptr<Volume>& volume = change.volume;
    volume->size_.store(change.shrink_to, std::memory_order_release);
    volume->generation_.fetch_add(1, std::memory_order_relaxed);
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    // Whoever hears the answer may begin the next change: no reference to the turn is left here by then.
    auto answer = [gathering](std::shared_ptr<Turn>& turn, Status status) {
        turn.reset();
        gathering->arrive(std::move(status));
    };
    for (size_t i = 0; i < tables_.size(); ++i)
        reactors_[i]->post([this, volume, answer, i, bytes = change.shrink_to, turn = change.turn]() mutable {
            OpenVolume* open = tables_[i]->find(volume->lun());
            if (open == nullptr || &open->volume() != volume.get()) return answer(turn, removed_meanwhile());
            tables_[i]->tell(Change::kResized, *open);
            // The turn is over when the answers are, whatever they are.
            tables_[i]->shrink(*open, bytes, [answer, turn = std::move(turn)](Status status) mutable {
                answer(turn, std::move(status));
            });
        });
}

// What others made shorter meanwhile is not made longer.
Status VolumeSet::end_shrink(const Resize& change) {
    io::Backend& backend = change.volume->backend();
    if (change.cut_from != 0 && backend.limits().size >= change.shrink_to) {
        Status cut = backend.resize(change.shrink_to);
        if (!cut && cut.code() != Code::kTimedOut && cut.code() != Code::kBusy)
            return failure(cut.code(),
                           "{}; what lies beyond the end is not served any more, and its storage is cut when "
                           "this is repeated",
                           cut.text());
        WSS_TRY(cut);
    }
    std::lock_guard changing(change_m_);
    change.note_part();
    if (!remember(*change.volume, [](Known& known) { known.end_shrink(); })) return removed_meanwhile();
    if (change.grows()) return Status::ok();
    Status saved = save();
    if (!saved && change.follows)
        log::warning(
            "{}: volume {} has {} now, as its storage; a start before the next change is saved does not "
            "know that, and may refuse the volume as larger than its storage",
            saved.to_string(), change.name, readable_size(change.shrink_to));
    else if (!saved)
        log::warning("{}: the shrink of volume {} is over, and stays recorded as one that is not",
                     saved.to_string(), change.name);
    return Status::ok();
}

Status VolumeSet::grow(const Resize& change) {
    Volume& volume = *change.volume;
    io::Backend& backend = volume.backend();
    const uint64_t backend_size = backend.limits().size;
    const bool longer = change.bytes > backend_size;
    if (longer && change.follows) return failure(Code::kBusy, "its storage became smaller meanwhile");
    if (longer) WSS_TRY(backend.resize(change.bytes));
    std::span<std::byte> memory = backend.memory();
    if (volume.extension() != nullptr && !memory.empty())
        WSS_TRY(volume.extension_->memory_grows(memory.first(std::min<size_t>(memory.size(), change.bytes))));
    std::unique_lock changing(change_m_);
    uint64_t before = 0;
    const bool there =
        remember(volume, [&](Known& known) { before = std::exchange(known.resized, change.bytes); });
    if (!there) return removed_meanwhile();
    if (Status saved = save(); !saved) {
        remember(volume, [&](Known& known) { known.resized = before; });
        // One that follows is repeated, and Following logs why.
        if (Status again = save(); !again && !change.follows) log::error("{}", again.to_string());
        changing.unlock();  // storage may be silent
        if (Status back = longer ? backend.resize(backend_size) : Status::ok(); !back)
            log::warning("volume {}: {}", change.name, back.to_string());
        return saved.within("it is not changed");
    }
    volume.size_.store(change.bytes, std::memory_order_release);
    change.note_part();
    volume.generation_.fetch_add(1, std::memory_order_relaxed);
    return Status::ok();
}

void VolumeSet::resize_async(const std::string& name, uint64_t bytes, Done done) {
    auto begun = begin_resize(name, bytes, false);
    if (!begun) return done(begun.status());
    auto grow_it = [this, change = *begun, done](const Status& before) {
        if (!before) return done(before);
        if (!change.grows()) return done(before);
        if (Status grown = grow(change); !grown) return done(grown.within("volume " + change.name));
        tell_reactors(change.volume, {.change = Change::kResized},
                      [turn = change.turn, done](Status) { done(Status::ok()); });
    };
    if (begun->shrink_to == 0) return grow_it(Status::ok());
    if (Status saved = begin_shrink(*begun); !saved) return done(saved);
    // Of a set that is gone none succeeds.
    drop_beyond(*begun, [this, change = *begun, grow_it](const Status& dropped) {
        grow_it(dropped ? end_shrink(change) : dropped);
    });
}

// As above, but for the backend and the state file, which are changed on the caller's thread.
Status VolumeSet::resize(const std::string& name, uint64_t bytes) {
    auto change = begin_resize(name, bytes, false);
    return change ? change->carry_out(*this) : change.status();
}

Status VolumeSet::Resize::carry_out(VolumeSet& set) {
    const std::string what = "resizing volume " + name;
    if (shrink_to != 0) {
        WSS_TRY(set.begin_shrink(*this));
        const auto dropped = Begun::begin([&](Done done) { set.drop_beyond(*this, std::move(done)); });
        if (!dropped->wait_for(set.options_.wait))
            return end_later(set, dropped,
                             failure(Code::kTimedOut, "{}: not finished after {} s", what,
                                     set.options_.wait.count / 1'000'000'000));
        WSS_TRY(set.end_of(*dropped, what));
    }
    Status resized = resize_storage(set);
    if (resized.code() == Code::kTimedOut && !follows) return end_later(set, nullptr, std::move(resized));
    WSS_TRY(resized);
    return tell(set);
}

// Nobody has anything beyond the new end any more. It goes on where it has failed.
Status VolumeSet::Resize::resize_storage(VolumeSet& set) {
    const std::string what = "volume " + name;
    if (shrink_to != 0 && !shrunk) WSS_TRY(set.end_shrink(*this).within(what));
    shrunk = true;
    return grows() ? set.grow(*this).within(what) : Status::ok();
}

// Of a shrink they know already.
Status VolumeSet::Resize::tell(VolumeSet& set) const {
    if (!grows()) return Status::ok();
    const auto told = Begun::begin(
        [&](Done done) { set.tell_reactors(volume, {.change = Change::kResized}, std::move(done)); });
    return set.end_of(*told, "resizing volume " + name);
}

// Storage of a volume that is gone, or another owner's, is not ours to resize.
Status VolumeSet::Resize::check_wanted(const VolumeSet& set) const {
    auto live = set.hold_live(name);
    if (!live || *live != volume) return removed_meanwhile();
    if (volume->lost()) return failure(Code::kClosed, "its storage was lost meanwhile");
    return Status::ok();
}

// Until storage has answered.
Status VolumeSet::Resize::carry_on(VolumeSet& set, const std::stop_token& stop) {
    std::mutex m;
    std::condition_variable_any stopped;
    for (;;) {
        WSS_TRY(check_wanted(set));
        Status resized = resize_storage(set);
        if (resized) return tell(set);
        // Busy: with what was begun. Of one that follows others its storage gives notice again.
        if (follows || (resized.code() != Code::kTimedOut && resized.code() != Code::kBusy)) return resized;
        std::unique_lock lock(m);
        stopped.wait_for(lock, stop, kLookAgain, [] { return false; });
        if (stop.stop_requested()) return failure(Code::kClosed, "the target ends");
    }
}

// Observers keep what lies beyond the new end for longer than the caller waits (`dropped`), or storage takes
// longer: it may not be left at that. Who finds a shrink recorded that is over takes a size that others give
// the storage later for the former one.
Status VolumeSet::Resize::end_later(VolumeSet& set, const std::shared_ptr<Begun>& dropped,
                                    Status late) const {
    const std::string what = "resizing volume " + name;
    const Status begun = set.late_ends_.begin([&set, change = *this, dropped,
                                               what](const std::stop_token& stop) mutable {
        if (dropped && !dropped->wait(stop)) return;
        Status ended = dropped ? set.end_of(*dropped, what) : Status::ok();
        if (ended) ended = change.carry_on(set, stop);
        if (ended)
            log::info("{}: it has {} now, after that had outlasted its command", what,
                      readable_size(change.bytes));
        else if (ended.code() == Code::kClosed || change.follows)
            log::info("{}: it outlasted its command, and is not ended: {}", what, ended.to_string());
        else
            log::error("{}: it outlasted its command, and failed then: {}; repeat wssctl volume resize {} {}",
                       what, ended.to_string(), change.name, change.bytes);
    });
    if (begun) return failure(late.code(), "{}, continuing in the background", late.text());
    return failure(
        late.code(),
        "{} ({}): what lies beyond the end is not served any more; repeat wssctl volume resize {} {}",
        late.text(), begun.to_string(), name, bytes);
}

// The target ended in the middle of a shrink. Its storage may have been cut since, and others may use what
// they have added to it: so no start cuts it. It is remembered for a shrink that the operator repeats, as
// long as its size may be the one of before.
void VolumeSet::Record::check_cut(const io::Backend& backend) {
    if (cut_from == 0) return;
    if (!io::is_same_ownership(cut_ownership, backend.ownership()))
        log::warning(
            "volume {}: another owner has had its storage since a shrink from {} to {} began: it is not cut, "
            "and what lies beyond the end is not served",
            options.name, readable_size(cut_from), readable_size(options.size));
    else if (backend.limits().size == cut_from)
        return log::warning(
            "volume {}: its storage has {}: a shrink to {} was not over when the target ended; what lies "
            "beyond the end is not served; wssctl volume resize {} {} cuts the storage",
            options.name, readable_size(cut_from), readable_size(options.size), options.name, options.size);
    cut_from = 0;
    cut_ownership.clear();
}

std::shared_ptr<const AccessList> nobody() {
    return std::make_shared<const AccessList>(*AccessList::parse({"*=none"}));
}

// Somebody else took its storage: nobody may use the volume, so that cache engines answer nothing old either.
// What the operator allows meanwhile counts when it is reopened.
// Of one that is not found, because it is to replace another one first, serve() looks.
bool VolumeSet::storage_lost(const std::string& name, const Volume* volume, uint64_t bytes) {
    std::shared_ptr<Volume> live;
    {
        std::lock_guard lock(m_);
        auto found = records_.find(name);
        if (found == records_.end() || found->second->volume.get() != volume) return true;
        found->second->volume->lose(bytes);
        if (found->second->state == Record::State::kLive) live = found->second->volume;
    }
    log::error("volume {}: its storage is lost, or another owner's; it refuses everybody from now on", name);
    if (live != nullptr) {
        // What others write from now on is not ours to cut; engines drop what they hold beyond the end.
        std::lock_guard changing(change_m_);
        remember(*live, [](Known& known) { known.forget_cut(); });
        save_again();
    }
    if (live != nullptr)
        tell_reactors(live, {.change = Change::kAccess, .access = nobody()}, [](const Status&) {});
    return true;
}

// Whether a volume follows the size of its storage. It is tried again each second: what changes is logged,
// what is so is shown.
struct VolumeSet::Following {
    VolumeSet& set;
    const std::string& name;
    const Volume* volume;

    bool is_shrinking() const {
        std::lock_guard lock(set.m_);
        auto known = set.known_.find(name);
        return known != set.known_.end() && known->second.shrinking;
    }
    void note(uint64_t bytes, const Status& status) const {
        std::string now;
        if (!status)
            now = fmt::format("its storage has {} now, the volume does not follow: {}", readable_size(bytes),
                              reason_of(status, name));
        {
            std::lock_guard lock(set.m_);
            auto found = set.records_.find(name);
            if (found == set.records_.end() || found->second->volume.get() != volume) return;
            if (std::exchange(found->second->not_followed, now) == now) return;
        }
        if (status)
            log::info("volume {} follows its storage again", name);
        else
            log::warning("volume {}: {}", name, now);
    }
};

// Somebody else resized its storage, or its size is known at last (`before` is 0). A volume that is all of it
// follows; one that was made a part shrinks, and becomes no larger than it was. One that is being created, or
// is to replace another one, follows when it is there.
bool VolumeSet::follow_backend(const std::string& name, const Volume* volume, uint64_t before,
                               uint64_t after) {
    auto live = hold_live(name);
    if (!live || live->get() != volume) return false;
    if (volume->lost()) return true;
    const uint64_t size = volume->size();
    if (before == 0 && volume->takes_all_) before = size;
    if (before == 0 && volume->fit(after) > size) (*live)->part_ = size;
    uint64_t bytes = volume->fit(after);
    if (!volume->is_all_of(before) && bytes > size) bytes = size;
    const Following following{*this, name, volume};
    if (bytes == size && !following.is_shrinking()) {
        following.note(after, Status::ok());
        return true;
    }
    auto change = begin_resize(name, bytes, true);
    const Status status = change ? change->carry_out(*this) : change.status();
    if (status || status.code() != Code::kBusy) following.note(after, status);
    return status.is_ok();
}

}  // namespace wss::volume
