// SPDX-License-Identifier: Apache-2.0
#include "target/cache/cached_volumes.h"

#include <algorithm>

#include "lib/base/assert.h"

namespace wss::cache {

CachedVolume* CachedVolumes::find(const std::string& name) const {
    for (CachedVolume& volume : open())
        if (volume.open->volume().name() == name) return &volume;
    return nullptr;
}

CachedVolume* CachedVolumes::find(uint64_t wwid) const {
    for (CachedVolume& volume : open())
        if (volume.open->volume().wwid() == wwid) return &volume;
    return nullptr;
}

CachedVolume& CachedVolumes::add(uint64_t wwid) {
    auto lines = absent_.extract(wwid);
    const uint32_t number = lines ? lines.mapped() : free_number();
    volumes_[number] = std::make_unique<CachedVolume>();
    CachedVolume& volume = *volumes_[number];
    volume.number = number;
    volume.wwid = wwid;
    return volume;
}

void CachedVolumes::gone(CachedVolume& volume) noexcept {
    volume.gone = some_gone_ = true;
    turn_.want();
}

void CachedVolumes::free_all_gone() {
    some_gone_ = false;
    for (auto& volume : volumes_) {
        if (volume == nullptr || !volume->gone) continue;
        const Status removed = index_.remove_volume(volume->number);
        WSS_ASSERT(removed, "the lines of a removed volume are erased before it is freed");
        volume.reset();
    }
}

// True if the number is used by an open volume, or by lines that are kept or being wiped.
bool CachedVolumes::is_taken(uint32_t number) const {
    const bool open = number < volumes_.size() && volumes_[number] != nullptr;
    return open ||
           std::any_of(absent_.begin(), absent_.end(),
                       [number](const auto& absent) { return absent.second == number; }) ||
           std::any_of(dropped_.begin(), dropped_.end(),
                       [number](const Dropped& one) { return one.number == number; });
}

uint32_t CachedVolumes::free_number() {
    uint32_t number = 0;
    while (is_taken(number)) ++number;
    if (number >= volumes_.size()) volumes_.resize(number + 1);
    return number;
}

uint32_t CachedVolumes::keep_absent(uint64_t wwid) {
    const uint32_t number = free_number();
    index_.add_volume(number);
    absent_[wwid] = number;
    return number;
}

std::optional<uint32_t> CachedVolumes::drop(uint64_t wwid) {
    auto lines = absent_.extract(wwid);
    if (!lines) return std::nullopt;
    dropped_.push_back({.number = lines.mapped(), .wwid = wwid});
    return lines.mapped();
}

void CachedVolumes::lines_found(uint32_t number) noexcept {
    for (Dropped& one : dropped_)
        if (one.number == number) one.lines_found = true;
}

void CachedVolumes::free_wiped() noexcept {
    std::erase_if(dropped_, [this](const Dropped& one) {
        return one.lines_found && index_.remove_volume(one.number).is_ok();
    });
}

std::optional<uint64_t> CachedVolumes::wwid_of(uint32_t number) const {
    if (const auto& volume = volumes_[number])
        return volume->removed() ? std::nullopt : std::optional(volume->open->volume().wwid());
    for (const auto& [wwid, kept] : absent_)
        if (kept == number) return wwid;
    return std::nullopt;
}

bool CachedVolumes::being_wiped(uint64_t wwid) const {
    return std::any_of(dropped_.begin(), dropped_.end(),
                       [wwid](const Dropped& one) { return one.wwid == wwid; }) ||
           std::any_of(volumes_.begin(), volumes_.end(), [wwid](const auto& volume) {
               return volume != nullptr && volume->removed() && volume->wwid == wwid;
           });
}

}  // namespace wss::cache
