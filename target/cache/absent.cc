// SPDX-License-Identifier: Apache-2.0
// Dirty lines of volumes that are not open: after a restart a volume's storage may not be there yet, its
// option may be missing, or it may be refused since it became smaller. What engines hold of it stays there,
// dirty, and is served and brought home when the volume is opened. Only a command destroys it: the volume is
// deleted, or given up.
#include <algorithm>

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/size.h"
#include "target/cache/cache.h"

namespace wss::se {

CachedVolume* Cache::opened(uint64_t wwid) const {
    for (const auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && volume->open->volume().wwid() == wwid)
            return volume.get();
    return nullptr;
}

// By a volume that is open, or by lines that are kept or being wiped.
bool Cache::is_taken(uint32_t number) const {
    const bool open = number < volumes_.size() && volumes_[number] != nullptr;
    return open ||
           std::any_of(absent_.begin(), absent_.end(),
                       [number](const auto& absent) { return absent.second == number; }) ||
           std::any_of(dropped_.begin(), dropped_.end(),
                       [number](const Dropped& one) { return one.number == number; });
}

uint32_t Cache::free_number() {
    uint32_t number = 0;
    while (is_taken(number)) ++number;
    if (number >= volumes_.size()) volumes_.resize(number + 1);
    return number;
}

std::optional<uint64_t> Cache::wwid_of(uint32_t number) const {
    if (const auto& volume = volumes_[number])
        return volume->removed() ? std::nullopt : std::optional(volume->open->volume().wwid());
    for (const auto& [wwid, kept] : absent_)
        if (kept == number) return wwid;
    return std::nullopt;
}

Status Cache::may_open(const volume::Volume& volume) const {
    auto known = membership_.dirty.find(volume.wwid());
    if (known == membership_.dirty.end() || known->second.bytes <= volume.size() || volume.shrinking())
        return Status::ok();
    return failure(Code::kRefused,
                   "volume {} has {} and had {} when it was served last, and cache engines may hold writes "
                   "beyond its present end: restore its size, or give them up (wssctl cache give-up {}) and "
                   "start again",
                   volume.name(), readable_size(volume.size()), readable_size(known->second.bytes),
                   volume.name());
}

// ---- Recovery --------------------------------------------------------------------------------------------

void Cache::keep_absent(cache::Recovery& recovery) {
    for (const auto& [wwid, dirty] : membership_.dirty) {
        if (opened(wwid) != nullptr) continue;
        const uint32_t number = free_number();
        index_->add_volume(number);
        absent_[wwid] = number;
        recovery.add_volume(wwid, number, UINT64_MAX);
    }
}

// What was found is kept. A volume of which nothing was is not waited for any more.
void Cache::settle_absent() {
    for (auto at = absent_.begin(); at != absent_.end();) {
        const auto [wwid, number] = *at;
        // Dirty in a member: written after the loss, the word of that had not come to stable storage.
        index_->for_each_dirty(number, [&, wwid = wwid](cache::Line& line) {
            membership_.lost.found(wwid, line.key().line, line.dirty());
            return true;
        });
        if (index_->dirty_lines(number) > 0) {
            log::warning("volume {} is not open: cache engines keep {} dirty lines of it",
                         membership_.dirty[wwid].name, index_->dirty_lines(number));
            ++at;
            continue;
        }
        dropped_.push_back({.number = number, .wwid = wwid, .lines_found = true});  // none
        if (!membership_.lost.any_of(wwid)) membership_.dirty.erase(wwid);
        at = absent_.erase(at);
    }
}

bool Cache::absent_is_home(uint64_t mark) {
    return std::all_of(absent_.begin(), absent_.end(),
                       [&](const auto& absent) { return index_->flushed(absent.second, mark); });
}

bool Cache::has_absent_lines() const {
    return std::any_of(absent_.begin(), absent_.end(),
                       [&](const auto& absent) { return index_->dirty_lines(absent.second) > 0; });
}

// ---- By the operator's word ------------------------------------------------------------------------------

void Cache::drop_absent(uint64_t wwid) {
    membership_.dirty.erase(wwid);
    membership_.lost.forget(wwid);
    if (membership_.lost.empty()) membership_.away.clear();
    save_membership();
    auto lines = absent_.extract(wwid);
    if (!lines) return;
    const uint32_t number = lines.mapped();
    dropped_.push_back({.number = number, .wwid = wwid});
    when_recorded([this, number] {
        wipe_lines(number, {});
        for (Dropped& one : dropped_)
            if (one.number == number) one.lines_found = true;
    });
}

void Cache::free_dropped() noexcept {
    std::erase_if(dropped_, [this](const Dropped& one) {
        return one.lines_found && index_->remove_volume(one.number).is_ok();
    });
}

// Headers of an older volume with this WWID may claim dirty data: a restart would take them for this one's.
bool Cache::being_wiped(uint64_t wwid) const {
    return std::any_of(dropped_.begin(), dropped_.end(),
                       [wwid](const Dropped& one) { return one.wwid == wwid; }) ||
           std::any_of(volumes_.begin(), volumes_.end(), [wwid](const auto& volume) {
               return volume != nullptr && volume->removed() && volume->wwid == wwid;
           });
}

void Cache::give_up_absent(uint64_t wwid) {
    auto lines = absent_.find(wwid);
    log::warning(
        "volume {} ({}), which is not open: {} dirty lines in cache engines{} are destroyed, by the "
        "operator's "
        "word",
        membership_.dirty[wwid].name, volume::wwid_text(wwid),
        lines == absent_.end() ? 0 : index_->dirty_lines(lines->second),
        membership_.lost.any_of(wwid) ? " and what was lost of it" : "");
    membership_.given_up.insert(wwid);
    drop_absent(wwid);
}

void Cache::volume_deleted(uint64_t wwid, std::function<void()> recorded) {
    if (opened(wwid) != nullptr) return recorded();  // remove_volume() does it
    membership_.policies.erase(wwid);
    membership_.given_up.erase(wwid);
    drop_absent(wwid);
    when_recorded(std::move(recorded));
}

void Cache::list_absent(CacheInfo& info) const {
    for (const auto& [wwid, dirty] : membership_.dirty) {
        if (opened(wwid) != nullptr) continue;
        auto lines = absent_.find(wwid);
        info.absent.push_back({.wwid = wwid,
                               .name = dirty.name,
                               .dirty_lines = lines == absent_.end() ? 0 : index_->dirty_lines(lines->second),
                               .lost = membership_.lost.any_of(wwid)});
    }
}

}  // namespace wss::se
