// SPDX-License-Identifier: Apache-2.0
#include "target/cache/absent_volumes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/ownership.h"
#include "target/cache/remote.h"

namespace wss::cache {

// Returns true even if the target did not notice the other owner.
bool AbsentVolumes::had_another_owner(const volume::Volume& volume) const {
    auto known = members_.now().dirty.find(volume.wwid());
    if (known == members_.now().dirty.end() || known->second.ownership.empty()) return false;
    // An empty ownership now means that no owner has written a new one.
    return !io::is_same_ownership(known->second.ownership, volume.backend().ownership());
}

// Lines for a storage process must not go to storage of the target itself, nor the other way round, because
// the owners of the two cannot be compared.
Status AbsentVolumes::may_move(const volume::Volume& volume) const {
    auto known = members_.now().dirty.find(volume.wwid());
    if (known == members_.now().dirty.end()) return Status::ok();
    const std::string& name = known->second.storage.name;
    const bool was_elsewhere = known->second.process != 0 || name.starts_with("rs:");
    const bool is_elsewhere = dynamic_cast<const RemoteBackend*>(&volume.backend()) != nullptr;
    // Older files of the membership do not name the storage.
    if (was_elsewhere == is_elsewhere || (!was_elsewhere && name.empty())) return Status::ok();
    // The process that opened the storage is its owner now.
    const char* undo =
        is_elsewhere
            ? "stop the storage process, undo the change of owner if its log shows one "
              "(another owner had the image last), then "
            : "undo the change of owner if the log shows one (another owner had the image last), then ";
    return failure(Code::kRefused,
                   "volume {}: cache engines may hold acknowledged writes for {}, its former backend: "
                   "{}serve the volume with that backend until the writes are destaged (wssctl cache drain "
                   "{}), or give them up (wssctl cache give-up {}); then wssctl volume reopen {}",
                   volume.name(), name.empty() ? "a storage process (rs:NAME)" : name, undo, volume.name(),
                   volume.name(), volume.name());
}

Status AbsentVolumes::may_open(const volume::Volume& volume) const {
    WSS_TRY(may_move(volume));
    if (members_.now().storage_lost.contains(volume.wwid()) || had_another_owner(volume))
        return failure(Code::kRefused,
                       "the storage of volume {} was taken by another owner, or deleted, while cache engines "
                       "held writes that were not in the storage. Since then, the storage may have been "
                       "replaced, or another owner may have written to it. Give up the writes (wssctl cache "
                       "give-up {}), then wssctl volume reopen {}",
                       volume.name(), volume.name(), volume.name());
    if (const DirtyVolume* other = other_by_storage(members_.now().dirty, volume))
        return refused_for(volume, *other);
    auto known = members_.now().dirty.find(volume.wwid());
    if (known == members_.now().dirty.end() || known->second.bytes <= volume.size()) return Status::ok();
    // Lines beyond the end of a shrink that was cut off must be dropped. Lines before it must not.
    const uint64_t drops_from = volume.drops_from();
    if (drops_from != 0 && drops_from <= volume.size()) return Status::ok();
    return failure(Code::kRefused,
                   "volume {} has {} but had {} when it was last served, and cache engines may hold writes "
                   "beyond its present end: restore its size ({} bytes), or give up these writes (wssctl "
                   "cache give-up {}); then wssctl volume reopen {}",
                   volume.name(), readable_size(volume.size()), readable_size(known->second.bytes),
                   known->second.bytes, volume.name(), volume.name());
}

void AbsentVolumes::keep(Recovery& recovery) {
    for (const auto& [wwid, dirty] : members_.now().dirty) {
        if (volumes_.find(wwid) != nullptr) continue;
        recovery.add_volume(wwid, volumes_.keep_absent(wwid), UINT64_MAX);
    }
}

void AbsentVolumes::settle() {
    const auto absent = volumes_.absent();
    for (const auto& [wwid, number] : absent) {
        // Some engine that is a member has a dirty copy: the line was written after the loss, but the
        // membership that records this was not saved.
        index_.dirty(number).for_each([&, wwid = wwid](Line& line) {
            members_.edit().lost.found(wwid, line.key().line, line.dirty());
            return true;
        });
        if (index_.dirty_lines(number) > 0) {
            log::warning("volume {} is not open: cache engines keep {} dirty lines of it",
                         members_.now().dirty.at(wwid).name, index_.dirty_lines(number));
            continue;
        }
        volumes_.drop(wwid);
        volumes_.lines_found(number);
        if (members_.now().lost.any_of(wwid)) continue;
        members_.edit().dirty.erase(wwid);
        members_.edit().storage_lost.erase(wwid);
    }
}

bool AbsentVolumes::any_lines() const {
    return std::any_of(volumes_.absent().begin(), volumes_.absent().end(),
                       [&](const auto& absent) { return index_.dirty_lines(absent.second) > 0; });
}

Status AbsentVolumes::all_home(const std::string& name) const {
    std::vector<std::string> left;
    for (const auto& [wwid, known] : members_.now().dirty) {
        if (volumes_.find(wwid) != nullptr || (!name.empty() && known.name != name)) continue;
        auto kept = volumes_.absent().find(wwid);
        const uint64_t lines = kept == volumes_.absent().end() ? 0 : index_.dirty_lines(kept->second);
        const bool lost = members_.now().lost.any_of(wwid);
        if (lines > 0 || lost)
            left.push_back(fmt::format("{} ({} lines{})", known.name, lines,
                                       lost ? ", others are lost with engines that are away" : ""));
    }
    if (left.empty()) return Status::ok();
    return failure(Code::kRefused,
                   "cache engines hold acknowledged writes that are not in real storage, of volumes that are "
                   "not open: {}. These writes are destaged when the volumes are open (wssctl volume reopen)",
                   fmt::join(left, ", "));
}

Status AbsentVolumes::may_delete(const volume::Deletion& deletion, bool recovering) const {
    if (!members_.now().dirty.contains(deletion.wwid)) return Status::ok();
    const std::string& name = deletion.name;
    if (recovering)
        return failure(Code::kBusy,
                       "volume {} was not deleted: dirty lines are being recovered (wssctl cache status), "
                       "and some of them may belong to this volume; try again, or destroy its lines: wssctl "
                       "volume delete {} --give-up-dirty",
                       name, name);
    auto kept = volumes_.absent().find(deletion.wwid);
    const uint64_t lines = kept == volumes_.absent().end() ? 0 : index_.dirty_lines(kept->second);
    const bool lost = members_.now().lost.any_of(deletion.wwid);
    if (lines == 0 && !lost) return Status::ok();
    return failure(Code::kRefused,
                   "volume {} was not deleted: it is not open, and cache engines hold {} lines of "
                   "acknowledged writes that its storage does not have{}. Open it (wssctl volume reopen {}), "
                   "so that they are destaged, or destroy them: wssctl volume delete {} --give-up-dirty",
                   name, lines, lost ? "; others are lost with engines that are away" : "", name, name);
}

Result<uint64_t> AbsentVolumes::to_give_up(const std::string& which) const {
    std::vector<uint64_t> closed;
    for (const auto& [wwid, known] : members_.now().dirty) {
        const CachedVolume* volume = volumes_.find(wwid);
        const bool something = volume == nullptr || members_.now().lost.any_of(wwid);
        if (something && volume::wwid_text(wwid) == which) return wwid;
        if (known.name != which) continue;
        if (volume != nullptr && something) return wwid;
        if (volume == nullptr) closed.push_back(wwid);
    }
    const bool is_open = volumes_.find(which) != nullptr;
    if (closed.size() == 1 && !is_open) return closed.front();
    if (closed.empty() && is_open)
        return failure(
            Code::kNotFound,
            "no data of volume {} is lost: it is open, and its data in cache engines is destaged; if "
            "destaging waits because another owner has the storage, wssctl volume reopen {} --give-up-dirty "
            "discards the data",
            which, which);
    if (closed.empty())
        return failure(Code::kNotFound, "no data of volume {} is lost, and cache engines keep nothing for it",
                       which);
    std::string wwids;
    for (uint64_t wwid : closed) wwids += (wwids.empty() ? "" : ", ") + volume::wwid_text(wwid);
    return failure(
        Code::kInvalid,
        "{}{} volume{} with lines in cache engines {} named {}; repeat the command with a WWID instead: {}",
        is_open ? "no data of the open volume is lost; " : "", closed.size(), closed.size() == 1 ? "" : "s",
        closed.size() == 1 ? "was also" : "were", which, wwids);
}

void AbsentVolumes::give_up(uint64_t wwid) {
    auto lines = volumes_.absent().find(wwid);
    log::warning(
        "volume {} ({}), which is not open: {} dirty lines in cache engines{} are destroyed, on the "
        "operator's command",
        members_.now().dirty.at(wwid).name, volume::wwid_text(wwid),
        lines == volumes_.absent().end() ? 0 : index_.dirty_lines(lines->second),
        members_.now().lost.any_of(wwid) ? " and its lost data" : "");
    members_.edit().given_up.insert(wwid);
    drop(wwid);
}

void AbsentVolumes::drop(uint64_t wwid) {
    members_.edit().dirty.erase(wwid);
    members_.edit().storage_lost.erase(wwid);
    losses_.drop(wwid);
    members_.save();
    const std::optional<uint32_t> number = volumes_.drop(wwid);
    if (!number) return;
    members_.when_recorded(
        [this, number] { eraser_.wipe(*number, {}, [this, number] { volumes_.lines_found(*number); }); });
}

void AbsentVolumes::deleted(uint64_t wwid, std::function<void()> recorded) {
    if (volumes_.find(wwid) != nullptr) return recorded();  // VolumeControl::remove() does it
    members_.edit().policies.erase(wwid);
    members_.edit().served.erase(wwid);
    members_.edit().given_up.erase(wwid);
    drop(wwid);
    members_.when_recorded(std::move(recorded));
}

void AbsentVolumes::list(CacheInfo& info) const {
    for (const auto& [wwid, dirty] : members_.now().dirty) {
        if (volumes_.find(wwid) != nullptr) continue;
        auto lines = volumes_.absent().find(wwid);
        info.absent.push_back(
            {.wwid = wwid,
             .name = dirty.name,
             .dirty_lines = lines == volumes_.absent().end() ? 0 : index_.dirty_lines(lines->second),
             .lost = members_.now().lost.any_of(wwid)});
    }
}

}  // namespace wss::cache
