// SPDX-License-Identifier: Apache-2.0
// VolumeSet: names and identities, opening, closing and settings of volumes. A change is posted to each
// reactor as a task. A Gathering counts the answers.
#include "target/volume/volume_set.h"

#include <xxhash.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

VolumeSet::VolumeSet(std::vector<reactor::Reactor*> reactors, Options options)
    : options_(std::move(options)),
      reactors_(std::move(reactors)),
      closer_(std::make_shared<Closer>(options_.closing_thread)),
      notices_(std::make_shared<Notices>()) {
    for (reactor::Reactor* reactor : reactors_) {
        tables_.push_back(std::make_unique<VolumeTable>(*reactor));
        if (options_.attach) reactor->add(*tables_.back());
    }
}

VolumeSet::~VolumeSet() {
    late_ends_.stop();
    notices_->end();
    retire();
    closer_->end();
    for (auto& [name, record] : records_) {
        // The kernel may still use its queues. A leak does less harm than writes to freed memory.
        log::error("volume {}: still in use at shutdown, not closed", name);
        for (auto& open : record->opens) (void)open.release();
        if (record->volume) record->volume->backend().watch_size({});
        new std::shared_ptr<Volume>(std::move(record->volume));
    }
    for (size_t i = 0; i < tables_.size(); ++i)
        if (!records_.empty()) {
            reactors_[i]->remove(*tables_[i]);
            (void)tables_[i].release();
        }
}

// --- names and identities ---

static uint64_t wwid_from(const VolumeOptions& options, const std::string& salt) {
    std::string text = salt + '\0' + options.name + '\0' + options.backend;
    return (XXH3_64bits(text.data(), text.size()) & kWwidMask) | 1;
}

Result<Identity> VolumeSet::choose_identity(const VolumeOptions& options) {
    if (auto known = known_.find(options.name); known != known_.end()) return known->second.identity;
    std::vector<bool> taken(kLunMax + 1);
    for (const auto& [name, known] : known_) taken[known.identity.lun] = true;
    for (const auto& [name, record] : records_) taken[record->identity.lun] = true;
    for (const Unopened::One& one : unopened_.all()) taken[one.stored.identity.lun] = true;
    std::vector<bool> avoided = taken;
    for (uint32_t lun : former_luns_) avoided[lun] = true;
    auto free = std::find(avoided.begin(), avoided.end(), false);
    if (free == avoided.end()) {
        // Take the LUN that was freed first. Commands for it are the least likely to be still in flight.
        auto former =
            std::find_if(former_luns_.begin(), former_luns_.end(), [&](uint32_t lun) { return !taken[lun]; });
        if (former == former_luns_.end())
            return failure(Code::kExhausted, "no LUN is free: remove volumes that are not needed");
        free = avoided.begin() + *former;
        former_luns_.erase(former);
    }
    Identity identity;
    identity.lun = static_cast<uint32_t>(free - avoided.begin());
    identity.wwid = options_.state == nullptr ? wwid_from(options, options_.identity_salt)
                                              : (Random::entropy() & kWwidMask) | 1;
    return identity;
}

static Status ends() {
    return Status(Code::kClosed, "the target is stopping");
}

static Status not_whole(const VolumeOptions& options, uint32_t block) {
    return failure(Code::kInvalid, "volume {}: size {} is not a multiple of its block size {}", options.name,
                   options.size, block);
}

Result<VolumeSet::RecordPtr> VolumeSet::reserve(const VolumeOptions& options, bool again) {
    WSS_TRY(check_name(options.name));
    if (options.block_size != 0 && options.block_size != 512 && options.block_size != 4096)
        return failure(Code::kInvalid, "volume {}: the block size must be 512 or 4096, not {}", options.name,
                       options.block_size);
    // Checked before the storage is opened: that may shut out its present owner.
    if (const uint32_t least = options.block_size == 0 ? 512 : options.block_size; options.size % least != 0)
        return not_whole(options, least);
    std::lock_guard lock(m_);
    if (ends_) return ends();
    if (is_being_deleted(options.name))
        return failure(Code::kBusy, "volume {} is being deleted", options.name);
    if (again && records_.contains(options.name))
        return failure(Code::kBusy, "volume {} is being opened", options.name);
    if (records_.contains(options.name))
        return failure(Code::kExists, "volume {} already exists", options.name);
    const bool unopened = unopened_.find(options.name) != nullptr;
    if (unopened && !again)
        return failure(Code::kExists,
                       "volume {} exists but could not be opened: try wssctl volume reopen {}, or delete it "
                       "first",
                       options.name, options.name);
    if (again && !unopened) return failure(Code::kNotFound, "there is no volume {}", options.name);
    if (records_.size() >= kVolumesMax)
        return failure(Code::kExhausted, "there are already {} volumes, the maximum", kVolumesMax);
    auto identity = choose_identity(options);
    if (!identity) return identity.status();
    auto record = std::make_shared<Record>();
    record->options = options;
    record->configured_size = options.size;
    record->keeps_size = options.size != 0 || !options.declared;
    if (auto known = known_.find(options.name); known != known_.end()) record->restore(known->second);
    WSS_TRY(check_limits(record->options.limits).within(fmt::format("volume {}", options.name)));
    auto access = AccessList::parse(record->options.access);
    if (!access) return access.status().within(fmt::format("volume {}", options.name));
    record->access = std::make_shared<const AccessList>(std::move(*access));
    record->identity = *identity;
    records_[options.name] = record;
    return record;
}

Result<VolumeSet::RecordPtr> VolumeSet::find_live(const std::string& name) const {
    auto found = records_.find(name);
    if (found == records_.end()) {
        if (unopened_.find(name) == nullptr) return failure(Code::kNotFound, "there is no volume {}", name);
        return failure(Code::kRefused,
                       "volume {} could not be opened (volume list shows the reason): try wssctl volume "
                       "reopen {}",
                       name, name);
    }
    if (found->second->reopening)
        return failure(Code::kBusy,
                       "volume {} is being reopened, and earlier commands are still in flight; try again",
                       name);
    switch (found->second->state) {
        case Record::State::kOpening:
            return failure(Code::kBusy, "volume {} is being created", name);
        case Record::State::kRemoving:
            return failure(Code::kBusy, "volume {} is being removed and still has I/O in flight", name);
        case Record::State::kLive:
            break;
    }
    return found->second;
}

void VolumeSet::forget(const RecordPtr& record, bool identity_too) {
    std::vector<Done> over;
    {
        std::lock_guard lock(m_);
        const std::string& name = record->options.name;
        if (auto known = known_.find(name); identity_too && known != known_.end())
            known->second.unmade = true;
        if (identity_too && !record->options.declared) {
            former_luns_.push_back(record->identity.lun);
            known_.erase(name);
            // Under the lock of the list: a caller that sees the volume gone must see this record gone too.
            std::erase_if(deleting_,
                          [&](const StoredVolume& stored) { return stored.identity == record->identity; });
        }
        record->opens.clear();
        if (record->volume) retired_.push_back(std::move(record->volume));
        records_.erase(name);
        if (records_.empty()) over.swap(all_closed_);
    }
    // The set may be destroyed as soon as the last of these is called.
    for (const Done& done : over) done(Status::ok());
}

void VolumeSet::retire(Until until) {
    {
        std::lock_guard retiring(retire_m_);
        std::vector<std::shared_ptr<Volume>> retired;
        {
            std::lock_guard lock(m_);
            retired.swap(retired_);
        }
        closer_->release(std::move(retired));
    }
    // With kClosed the storage is closed when this returns, even if another thread began to close it, because
    // the caller may open it again next.
    if (until == Until::kClosed) closer_->wait();
}

// --- create ---

// `growing`: see RecordedSizes.
static Status fit_size(VolumeOptions& options, const io::Limits& limits, uint64_t growing) {
    if (options.block_size == 0) options.block_size = std::max<uint32_t>(512, limits.logical_block);
    if (options.block_size < limits.logical_block)
        return failure(
            Code::kInvalid,
            "volume {}: its backend reads and writes blocks of {} bytes, so {} is too small; use 4096",
            options.name, limits.logical_block, options.block_size);
    if (options.size % options.block_size != 0) return not_whole(options, options.block_size);
    if (limits.size < options.block_size)
        return failure(Code::kInvalid, "volume {}: the backend has only {} bytes, less than one block of {}",
                       options.name, limits.size, options.block_size);
    const uint64_t whole = limits.size / options.block_size * options.block_size;
    if (options.size == 0) options.size = whole;
    options.size = std::max(options.size, std::min(growing, whole));
    if (options.size > limits.size)
        return failure(Code::kInvalid, "volume {}: the backend has only {}, not {}", options.name,
                       readable_size(limits.size), readable_size(options.size));
    return Status::ok();
}

Status VolumeSet::make_volume(Record& record, std::unique_ptr<io::Backend> backend) {
    record.keeps_size |= !backend->is_shared();
    if (record.keeps_size && record.size_if_private != 0) record.options.size = record.size_if_private;
    VolumeOptions options = record.options;
    // The data of a RAM volume was lost with its process. A new WWID distinguishes it from the old volume.
    if (!backend->memory().empty()) record.identity.wwid = (Random::entropy() & kWwidMask) | 1;
    record.check_cut(*backend);
    // Watch the size before it is read, so that no change is missed.
    auto made = std::make_shared<std::atomic<const Volume*>>(nullptr);
    auto follow = [this, name = options.name, made](uint64_t before, uint64_t after) {
        const Volume* volume = made->load();
        if (volume == nullptr) return false;
        return after == 0 ? storage_lost(name, volume, before) : follow_backend(name, volume, before, after);
    };
    backend->watch_size([notices = notices_, follow](uint64_t before, uint64_t after) {
        return notices->deliver([&] { return follow(before, after); });
    });
    io::Limits limits = backend->limits();
    // The backend may be offering the larger size already. `follow` refuses it until the volume is made.
    if (record.at_most != 0) limits.size = std::min(limits.size, record.at_most);
    WSS_TRY(fit_size(options, limits, record.sizes.growing()));
    if (record.part < options.size) record.part = 0;  // it has grown since that was recorded
    record.storage_bytes = limits.size;
    record.volume = closer_->make(options, record.identity, std::move(backend));
    if (record.write_protected) record.volume->read_only_.store(true, std::memory_order_relaxed);
    record.volume->drops_from_ = record.sizes.is_shrinking() ? record.sizes.resized() : 0;
    record.volume->size_.make(record.part, limits.size);
    made->store(record.volume.get());
    if (!options_.extend) return Status::ok();
    auto extension = options_.extend(*record.volume);
    if (!extension) return extension.status().within(fmt::format("volume {}", options.name));
    record.volume->extension_ = std::move(*extension);
    return Status::ok();
}

static Status not_alone(const VolumeOptions& options, const VolumeOptions& other) {
    if (other.backend != options.backend || other.name == options.name) return Status::ok();
    return failure(Code::kRefused, "volume {}: {} is already the storage of volume {}", options.name,
                   options.backend, other.name);
}

void VolumeSet::open_async(const VolumeOptions& options, const Opening& how, Done done) {
    retire();
    auto reserved = reserve(options, how.again);
    if (!reserved) return done(reserved.status());
    RecordPtr record = *reserved;
    if (how.again) record->grow = false;
    auto make = [&]() -> Status {
        if (options_.of_one_volume && options_.of_one_volume(options.backend)) {
            std::lock_guard lock(m_);
            for (const auto& [name, one] : records_) WSS_TRY(not_alone(options, one->options));
            // An unopened volume still owns its storage, because of the data that is kept for it. At a start
            // the first volume gets the storage.
            for (const Unopened::One& one : unopened_.all())
                if (!how.again && !options.declared) WSS_TRY(not_alone(options, one.stored.options));
        }
        const uint64_t private_size = io::has_owner(options.backend) ? 0 : record->size_if_private;
        auto backend = options_.open(options.backend, {.size = std::max(record->options.size, private_size),
                                                       .create = record->options.create,
                                                       .read_only = options.read_only,
                                                       .grow = record->grow,
                                                       .at_most = record->at_most,
                                                       .block = options.block_size,
                                                       .steal = how.steal});
        if (!backend) return backend.status().within(fmt::format("volume {}", options.name));
        return make_volume(*record, std::move(*backend));
    };
    Status made = make();
    if (made) return serve(record, std::move(done));
    if (options.create && !record->options.create && made.sys_errno() == ENOENT) {
        made = failure(Code::kRefused,
                       "volume {}: it existed before, but {} is gone: mount its file system and start "
                       "again, or delete the volume (wssctl volume delete {})",
                       options.name, options.backend, options.name);
    }
    forget_unserved(record, made);
    done(made);
}

// Opens and publishes the volume of `record` on all reactors. Forgets the record if that fails.
void VolumeSet::serve(const RecordPtr& record, Done done) {
    auto close = [this, record, done](const Status& why) {
        close_on_reactors(record, [this, record, done, why](Status) {
            forget_unserved(record, why);
            done(why);
        });
    };
    auto live = [this, record, done, close](Status) {
        std::unique_lock lock(m_);
        if (ends_) {
            lock.unlock();
            return close(ends());
        }
        unopened_.erase(record->options.name);
        record->state = Record::State::kLive;
        record->reopening = false;
        // Storage reports its loss only once. A report that came before this volume was live found no live
        // record and had no effect, so the loss takes effect here. Notices of a changed size are repeated.
        if (record->volume->backend().lost()) {
            record->volume->lose(Volume::Loss::kOfKnownSize);
            record->sizes.forget_cut();
        }
        Known& known = known_[record->options.name];
        known.identity = record->identity;
        if (record->sizes.cut_from() == 0) known.sizes.forget_cut();
        known.sizes.open(record->volume->size(), record->volume->sizes().part());
        // `size=` may have been removed since.
        if (!record->keeps_size && !known.sizes.is_shrinking() && !record->volume->sizes().is_part() &&
            record->volume->sizes().is_all_of(record->storage_bytes))
            known.sizes.require_no_size();
        known.unmade = false;
        const bool was_shrinking = known.sizes.is_shrinking() && known.sizes.cut_from() == 0;
        lock.unlock();
        if (record->volume->lost())
            return notify_reactors(record->volume, {.change = Change::kAccess, .access = nobody()}, done);
        if (was_shrinking) record->end_shrink(*this);
        done(Status::ok());
    };
    open_on_reactors(record, [this, record, close, live](Status opened) {
        if (opened && ends_) opened = ends();
        if (!opened) return close(opened);
        publish_on_reactors(record, live);
    });
}

// --- closing all volumes ---

void VolumeSet::close_all_async(Done done) {
    std::vector<RecordPtr> live;
    {
        std::lock_guard lock(m_);
        ends_ = true;
        for (auto& [name, record] : records_) {
            if (record->state != Record::State::kLive) continue;
            record->state = Record::State::kRemoving;
            live.push_back(record);
        }
        // The others are being created, reopened or removed. These changes end by closing them.
        if (!records_.empty()) all_closed_.push_back(std::exchange(done, nullptr));
    }
    if (done) return done(Status::ok());
    for (const RecordPtr& record : live)
        close_on_reactors(record, [this, record](Status) { forget(record, false); });
}

// --- read-only and access ---

// The caller keeps the volume alive, because it may be removed during the change.
Result<std::shared_ptr<Volume>> VolumeSet::hold_live(const std::string& name) const {
    std::lock_guard lock(m_);
    auto found = find_live(name);
    if (!found) return found.status();
    return (*found)->volume;
}

static VolumeSet::WritesLeft or_new(VolumeSet::WritesLeft left) {
    return left != nullptr ? std::move(left) : std::make_shared<std::atomic<uint64_t>>(0);
}

void VolumeSet::set_read_only_async(const std::string& name, bool read_only, Done done, WritesLeft left) {
    auto volume = hold_live(name);
    if (!volume) return done(volume.status());
    if ((*volume)->options_.read_only && !read_only)
        return done(failure(Code::kPermission,
                            "volume {} was opened read-only: delete it and create it again to write", name));
    (*volume)->read_only_.store(read_only, std::memory_order_relaxed);
    remember(**volume, [read_only](Known& known) { known.write_protected = read_only; });
    (*volume)->note_change();
    auto writes = read_only ? or_new(std::move(left)) : nullptr;
    notify_reactors(*volume, {.change = Change::kReadOnly, .writes = std::move(writes)}, std::move(done));
}

void VolumeSet::set_access_async(const std::string& name, const std::vector<std::string>& words, Done done,
                                 WritesLeft left) {
    auto list = AccessList::parse(words);
    if (!list) return done(list.status().within(fmt::format("volume {}", name)));
    auto access = std::make_shared<const AccessList>(std::move(*list));
    std::shared_ptr<Volume> volume;
    {
        std::lock_guard lock(m_);
        auto record = find_live(name);
        if (!record) return done(record.status());
        volume = (*record)->volume;
        (*record)->access = access;
        (*record)->options.access = words;
    }
    remember(*volume, [&words](Known& known) { known.access = words; });
    notify_reactors(volume, {.change = Change::kAccess, .access = access, .writes = or_new(std::move(left))},
                    std::move(done));
}

void VolumeSet::set_limits_async(const std::string& name, const RateLimits& limits, Done done) {
    if (Status checked = check_limits(limits); !checked)
        return done(checked.within(fmt::format("volume {}", name)));
    std::shared_ptr<Volume> volume;
    {
        std::lock_guard lock(m_);
        auto record = find_live(name);
        if (!record) return done(record.status());
        volume = (*record)->volume;
        (*record)->options.limits = limits;
    }
    remember(*volume, [&limits](Known& known) { known.limits = limits; });
    notify_reactors(volume, {.change = Change::kLimits, .limiter = limiter_of(limits)}, std::move(done));
}

// --- the blocking forms ---

std::shared_ptr<VolumeSet::Begun> VolumeSet::Begun::begin(const std::function<void(Done)>& start) {
    auto begun = std::make_shared<Begun>();
    start([begun](Status status) {
        std::lock_guard lock(begun->m);
        begun->done = true;
        begun->status = std::move(status);
        begun->changed.notify_all();
    });
    return begun;
}

bool VolumeSet::Begun::wait_for(Nanoseconds limit) {
    std::unique_lock lock(m);
    if (limit == Nanoseconds{}) return done;
    return changed.wait_for(lock, std::chrono::nanoseconds(limit.count), [this] { return done; });
}

bool VolumeSet::Begun::wait(const Options& options) {
    while (options.turn && !wait_for({}) && options.turn()) continue;
    return wait_for(options.turn ? Nanoseconds{} : options.wait);
}

bool VolumeSet::Begun::wait(const Options& options, const std::stop_token& stop) {
    while (options.turn && !wait_for({}) && !stop.stop_requested()) options.turn();
    std::unique_lock lock(m);
    return changed.wait(lock, stop, [this] { return done; });
}

// For changes that open or close volumes. Other changes do not wait for storage that is being closed.
Status VolumeSet::wait_for(const std::string& what, const std::function<void(Done)>& start) {
    const auto begun = Begun::begin(start);
    Status status = end_of(*begun, what);
    // A change that continues in the background also leaves volumes to retire, and a state to save.
    if (begun->wait_for({}))
        retire();
    else
        (void)late_ends_.begin([this, begun](const std::stop_token& stop) {
            if (!begun->wait(options_, stop)) return;
            retire(Until::kBegun);  // a stop waits for this task
            std::lock_guard changing(change_m_);
            save_again();
        });
    return status;
}

Status VolumeSet::end_of(Begun& begun, const std::string& what, const WritesLeft& left) {
    const bool in_time = begun.wait(options_);
    std::unique_lock lock(begun.m);
    Status status =
        in_time ? begun.status
                : failure(Code::kTimedOut, "{}: not finished after {} s, continuing in the background", what,
                          options_.wait.count / 1'000'000'000);
    lock.unlock();
    const uint64_t writes = in_time || left == nullptr ? 0 : left->load();
    if (writes > 0)
        status = failure(
            Code::kTimedOut,
            "{}: done, but after {} s {} earlier write{} {} still in flight and may take effect: the storage "
            "or the initiator does not answer",
            what, options_.wait.count / 1'000'000'000, writes, writes == 1 ? "" : "s",
            writes == 1 ? "is" : "are");
    return status;
}

Status VolumeSet::create(const VolumeOptions& options) {
    WSS_TRY(wait_for("creating volume " + options.name,
                     [&](Done done) { create_async(options, std::move(done)); }));
    Status saved;
    bool stays = false;
    {
        std::lock_guard changing(change_m_);
        saved = save();
        if (ends_) return ends().within(fmt::format("volume {} was not created", options.name));
        // Keep it if the file has it: a removal would also end acknowledged writes in cache engines.
        stays = !saved && is_in_file(options.name);
    }
    if (saved) return saved;
    if (stays) {
        log::warning("{}: the next start restores volume {} as it was last saved", saved.to_string(),
                     options.name);
        return Status::ok();
    }
    // Remove it, because the next start would not find it in the file.
    Status removed = wait_for("removing volume " + options.name,
                              [&](Done done) { remove_async(options.name, std::move(done)); });
    if (!removed) log::error("{}", removed.to_string());
    std::lock_guard changing(change_m_);
    save_again();
    return saved.within(fmt::format("volume {} was not created", options.name));
}

Status VolumeSet::close_all() {
    // A shrink that is still incomplete stays recorded.
    late_ends_.stop();
    {
        // The file may hold a reverted change, or a deletion that outlasted its caller.
        std::lock_guard changing(change_m_);
        save_again();
        // Set before another deletion can begin: a volume cannot be closed while its deletion is being
        // recorded.
        std::lock_guard lock(m_);
        ends_ = true;
    }
    correct_later_.end();
    const auto begun = Begun::begin([&](Done done) { close_all_async(std::move(done)); });
    constexpr Nanoseconds kLook = from_ms(100);
    bool in_time = false;
    for (const Nanoseconds limit = SystemClock().now() + options_.wait;
         !in_time && SystemClock().now() < limit;) {
        if (options_.turn) options_.turn();
        in_time = begun->wait_for(options_.turn ? Nanoseconds{} : kLook);
        // Idle volumes begin to close while others have requests in flight.
        retire(Until::kBegun);
    }
    // Each notice holds its volume, which then could not be retired.
    notices_->end();
    retire();
    if (in_time || begun->wait_for({})) {
        std::lock_guard lock(begun->m);
        return begun->status;
    }
    // Nothing continues in the background, because the program ends.
    std::string names;
    std::lock_guard lock(m_);
    for (const auto& [name, record] : records_) names += (names.empty() ? "" : ", ") + name;
    return failure(Code::kTimedOut,
                   "requests of volume {} have not completed after {} s, because storage or an initiator "
                   "does not answer; exiting without them",
                   names, options_.wait.count / 1'000'000'000);
}

}  // namespace wss::volume
