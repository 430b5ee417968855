// SPDX-License-Identifier: Apache-2.0
// VolumeSet: state that survives restarts, and changes that are saved before they take effect.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/specification.h"
#include "target/volume/try_volumes.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// The declared volumes, with what the state file records of them.
static std::vector<VolumeOptions> as_opened(std::vector<VolumeOptions> declared, const auto& known_volumes,
                                            TryOptions& how) {
    for (VolumeOptions& volume : declared) {
        auto known = known_volumes.find(volume.name);
        if (known == known_volumes.end()) continue;
        const RecordedSizes& sizes = known->second.sizes;
        const bool takes_all = volume.size == 0 && sizes.covered_all() && io::has_owner(volume.backend);
        if (sizes.resized() != 0 && !takes_all) {
            volume.size = sizes.resized();
            how.have_size.insert(volume.name);
        }
        if (!known->second.unmade) volume.create = false;
    }
    return declared;
}

void VolumeSet::Record::restore(const Known& known) {
    sizes = known.sizes;
    if (!keeps_size && sizes.followed()) {
        at_most = sizes.resized();
    } else if (!keeps_size && sizes.covered_all()) {
        size_if_private = sizes.resized();
        if (size_if_private != 0) grow = false;
    } else if (sizes.resized() != 0) {
        if (options.size != 0 && options.size != sizes.resized() && options.declared)
            log::info("volume {}: its size has been changed to {} while it was served; size={} has no effect",
                      options.name, readable_size(sizes.resized()), readable_size(options.size));
        // Others may have shrunk its storage. Its part stays that of the operator or of the configuration.
        if (options.declared)
            part = sizes.part() != 0 ? sizes.part() : options.size > sizes.resized() ? options.size : 0;
        options.size = sizes.resized();
        grow = false;  // its storage had that size
    }
    if (!known.unmade) options.create = false;
    write_protected = known.write_protected;
    if (known.access) options.access = *known.access;
    if (known.limits) options.limits = *known.limits;
}

Status VolumeSet::restore(const std::vector<VolumeOptions>& declared) {
    if (options_.state == nullptr) return try_volumes(declared);
    auto stored = read_state_file(*options_.state);
    if (!stored) return stored.status();
    {
        std::lock_guard changing(change_m_);
        std::lock_guard lock(m_);
        restored_ = saved_is_known_ = true;
        saved_ = *stored;
        // Until they are open, each save leaves them unchanged.
        for (const StoredVolume& volume : *stored)
            if (!volume.deleted && !volume.options.declared) unopened_.add(volume, "it is not open yet");
        for (const StoredVolume& volume : *stored) {
            if (volume.deleted) continue;
            known_[volume.options.name] = {
                .identity = volume.identity,
                .sizes = volume.sizes,
                .write_protected = volume.write_protected,
                .access = volume.access_changed ? std::optional(volume.options.access) : std::nullopt,
                .limits = volume.limits_changed ? std::optional(volume.options.limits) : std::nullopt,
                .unmade = volume.unmade};
        }
    }
    // Continue the deletions that were incomplete when the target ended. Without a cache their records stay
    // in the file for a run that has one.
    for (const StoredVolume& volume : *stored) {
        if (!volume.deleted) continue;
        {
            std::lock_guard lock(m_);
            deleting_.push_back(volume);
        }
        if (options_.forgotten) options_.forgotten(volume.identity.wwid);
        if (!options_.deleted) continue;
        options_.deleted(volume.identity.wwid, [this, wwid = volume.identity.wwid] { end_deletion(wwid); });
    }
    std::erase_if(*stored, [](const StoredVolume& volume) { return volume.deleted; });
    // Always in the same order: of two volumes that claim the same storage the first gets it.
    std::sort(stored->begin(), stored->end(),
              [](const auto& a, const auto& b) { return a.identity.lun < b.identity.lun; });
    std::vector<VolumeOptions> of_run_time;
    for (const StoredVolume& volume : *stored)
        if (!volume.options.declared) of_run_time.push_back(volume.options);
    TryOptions how;
    WSS_TRY(try_volumes(as_opened(declared, known_, how), of_run_time, how));
    for (const StoredVolume& volume : *stored) {
        if (volume.options.declared) continue;
        const std::string& name = volume.options.name;
        if (Status opened = open_again(name, false); !opened)
            log::error("{}; it stays in {} and is not served; wssctl volume reopen {} tries again",
                       opened.to_string(), options_.state->path(), name);
    }
    // The openings may have cancelled incomplete shrinks, and ended growths: save this. Otherwise a later
    // start would end them again, with the size that the storage has then.
    const bool ended = std::any_of(stored->begin(), stored->end(), [](const StoredVolume& volume) {
        return volume.sizes.cut_from() != 0 || volume.sizes.growing() != 0;
    });
    std::lock_guard changing(change_m_);
    if (ended) save_again();
    return Status::ok();
}

Status VolumeSet::declare(const std::vector<VolumeOptions>& volumes) {
    std::lock_guard changing(change_m_);
    {
        std::lock_guard lock(m_);
        for (const VolumeOptions& volume : volumes) {
            auto identity = choose_identity(volume);
            if (!identity) return identity.status();
            known_.try_emplace(volume.name, Known{.identity = *identity, .unmade = true});
        }
    }
    // If this fails, create() refuses the volumes that are not in the file.
    save_again();
    return Status::ok();
}

std::vector<StoredVolume> VolumeSet::to_store() const {
    std::lock_guard lock(m_);
    std::vector<StoredVolume> stored;
    for (const Unopened::One& one : unopened_.all()) stored.push_back(one.stored);
    auto is_doomed = [&](const Identity& identity) {
        return std::any_of(deleting_.begin(), deleting_.end(),
                           [&](const StoredVolume& doomed) { return doomed.identity == identity; });
    };
    std::erase_if(stored, [&](const StoredVolume& volume) { return is_doomed(volume.identity); });
    for (const auto& [name, known] : known_) {
        if (is_doomed(known.identity)) continue;
        if (unopened_.find(name) != nullptr) continue;
        // A volume without a record is a declared one that the current configuration lacks. Its identity is
        // kept.
        StoredVolume volume{.options = {.name = name, .declared = true},
                            .identity = known.identity,
                            .sizes = known.sizes,
                            .write_protected = known.write_protected,
                            .unmade = known.unmade};
        // A volume that is not open, during a start or a stop, keeps its stored options.
        auto in_file = std::find_if(saved_.begin(), saved_.end(), [&](const StoredVolume& one) {
            return !one.deleted && one.options.name == volume.options.name && one.identity == known.identity;
        });
        if (in_file != saved_.end()) volume.options = in_file->options;
        auto found = records_.find(name);
        if (found != records_.end() &&
            (found->second->state != Record::State::kOpening || found->second->reopening)) {
            const Volume& live = *found->second->volume;
            volume.options = live.options_;
            volume.options.create = false;
            volume.options.size = live.size();
            volume.options.access = found->second->options.access;
            volume.options.limits = found->second->options.limits;
        }
        volume.access_changed = known.access.has_value();
        if (known.access) volume.options.access = *known.access;
        volume.limits_changed = known.limits.has_value();
        if (known.limits) volume.options.limits = *known.limits;
        stored.push_back(std::move(volume));
    }
    stored.insert(stored.end(), deleting_.begin(), deleting_.end());
    return stored;
}

Status VolumeSet::save() {
    if (options_.state == nullptr || !restored_) return Status::ok();
    std::vector<StoredVolume> now = to_store();
    if (saved_is_known_ && now == saved_) return Status::ok();
    Status written = options_.write(*options_.state, now);
    saved_is_known_ = written.is_ok();
    if (written) saved_ = std::move(now);
    // The refused change may have reached the file, and after a crash the next start would apply it.
    if (!written && !ends_) correct_later_.begin();
    return written;
}

// Saves after a change was reverted, because its failed save may have reached the file. Also logs failed
// saves of changes that can no longer be refused.
void VolumeSet::save_again() {
    if (Status saved = save(); !saved) log::error("{}", saved.to_string());
}

// Forgets a volume that is not served, while the target continues. A declared volume that was refused, or a
// volume that was being reopened, is kept like one that could not be opened at the start.
void VolumeSet::forget_unserved(const RecordPtr& record, const Status& why) {
    {
        std::lock_guard lock(m_);
        const bool declared = record->options.declared;
        const bool stays = record->reopening || (declared && why.code() == Code::kRefused);
        auto found = known_.find(record->options.name);
        if (stays && found != known_.end()) {
            const Known& known = found->second;
            StoredVolume stored{.options = record->options,
                                .identity = known.identity,
                                .sizes = known.sizes,
                                .write_protected = known.write_protected,
                                .access_changed = declared && known.access.has_value(),
                                .limits_changed = declared && known.limits.has_value()};
            if (declared) stored.options.size = record->configured_size;
            unopened_.add(std::move(stored), reason_of(why, record->options.name));
        }
    }
    forget(record, false);
}

// True if the file has the volume, with its current identity.
bool VolumeSet::is_in_file(const std::string& name) {
    std::lock_guard lock(m_);
    auto known = known_.find(name);
    return known != known_.end() &&
           std::any_of(saved_.begin(), saved_.end(), [&](const StoredVolume& stored) {
               return !stored.deleted && stored.options.name == name &&
                      stored.identity == known->second.identity;
           });
}

// --- changes ---

bool VolumeSet::remember(const Volume& volume, const std::function<void(Known&)>& change) {
    std::lock_guard lock(m_);
    auto known = known_.find(volume.name());
    if (known == known_.end() || known->second.identity != volume.identity_) return false;
    change(known->second);
    return true;
}

// While it exists, other changes to the volume's settings wait, so that a change replaces the value that it
// has read. Changes run in the order of their arrival. A waiting change fails when any single change before
// it takes longer than Options::wait, however many there are.
class VolumeSet::SettingTurn {
  public:
    SettingTurn(VolumeSet& set, const std::string& name) : set_(set), name_(name) {
        std::unique_lock lock(set_.m_);
        const auto limit = std::chrono::nanoseconds(set_.options_.wait.count);
        std::deque<const SettingTurn*>& turns = set_.settings_[name_];
        turns.push_back(this);
        is_ours_ = true;
        while (is_ours_ && turns.front() != this) {
            const SettingTurn* const first = turns.front();
            is_ours_ = set_.setting_over_.wait_for(lock, limit, [&] { return turns.front() != first; });
        }
        if (!is_ours_) std::erase(turns, this);
    }
    ~SettingTurn() {
        if (!is_ours_) return;
        {
            std::lock_guard lock(set_.m_);
            auto turns = set_.settings_.find(name_);
            turns->second.pop_front();
            if (turns->second.empty()) set_.settings_.erase(turns);
        }
        set_.setting_over_.notify_all();
    }
    SettingTurn(const SettingTurn&) = delete;
    SettingTurn& operator=(const SettingTurn&) = delete;
    Status status() const {
        if (is_ours_) return Status::ok();
        return failure(Code::kBusy, "volume {}: another change is still in progress after {} s; try again",
                       name_, set_.options_.wait.count / 1'000'000'000);
    }

  private:
    VolumeSet& set_;
    const std::string name_;
    bool is_ours_ = false;
};

// Saves a change, then applies it, and reverts it if either step fails. A timeout does not count as a
// failure. Other volumes can be changed while it waits.
template <typename Value>
Status VolumeSet::save_and_do(const std::string& name, Value Known::*field, const Value& value,
                              const std::function<void(Done)>& start, const WritesLeft& left) {
    auto volume = hold_live(name);
    if (!volume) return volume.status();
    std::optional<Value> before;
    std::shared_ptr<Begun> begun;
    auto take_back = [&] {  // change_m_ held
        if (before) remember(**volume, [&](Known& known) { known.*field = *before; });
        if (before) save_again();
    };
    {
        std::lock_guard changing(change_m_);
        remember(**volume, [&](Known& known) { before = std::exchange(known.*field, value); });
        if (Status saved = save(); !saved) {
            take_back();
            return saved.within(fmt::format("volume {} was not changed", name));
        }
        begun = Begun::begin(start);
    }
    Status result = end_of(*begun, "changing volume " + name, left);
    if (result || result.code() == Code::kTimedOut) return result;
    std::lock_guard changing(change_m_);
    take_back();
    return result;
}

Status VolumeSet::set_read_only(const std::string& name, bool read_only) {
    const SettingTurn turn(*this, name);
    WSS_TRY(turn.status());
    const auto left = std::make_shared<std::atomic<uint64_t>>(0);
    return save_and_do(
        name, &Known::write_protected, read_only,
        [&](Done done) { set_read_only_async(name, read_only, std::move(done), left); }, left);
}

Status VolumeSet::set_access(const std::string& name, const std::vector<std::string>& words) {
    if (auto list = AccessList::parse(words); !list) return list.status();
    const SettingTurn turn(*this, name);
    WSS_TRY(turn.status());
    const auto left = std::make_shared<std::atomic<uint64_t>>(0);
    return save_and_do(
        name, &Known::access, std::optional(words),
        [&](Done done) { set_access_async(name, words, std::move(done), left); }, left);
}

Status VolumeSet::set_limits(const std::string& name, const LimitsChange& change) {
    const SettingTurn turn(*this, name);
    WSS_TRY(turn.status());
    RateLimits limits;
    {
        std::lock_guard lock(m_);
        auto record = find_live(name);
        if (!record) return record.status();
        limits = (*record)->options.limits;
    }
    limits.iops = change.iops.value_or(limits.iops);
    limits.bandwidth = change.bandwidth.value_or(limits.bandwidth);
    if (Status checked = check_limits(limits); !checked) return checked.within("volume " + name);
    return save_and_do(name, &Known::limits, std::optional(limits),
                       [&](Done done) { set_limits_async(name, limits, std::move(done)); });
}

bool VolumeSet::is_being_deleted(const std::string& name) const {
    auto known = known_.find(name);
    return known != known_.end() &&
           std::any_of(deleting_.begin(), deleting_.end(),
                       [&](const StoredVolume& stored) { return stored.identity == known->second.identity; });
}

void VolumeSet::end_deletion(uint64_t wwid) {
    std::lock_guard lock(m_);
    std::erase_if(deleting_, [wwid](const StoredVolume& stored) { return stored.identity.wwid == wwid; });
}

}  // namespace wss::volume
