// SPDX-License-Identifier: Apache-2.0
#include "target/block/unit.h"

#include <algorithm>

#include "target/block/limits.h"

namespace wss::block {

static scsi::Device describe(const volume::Volume& volume) {
    const io::Limits& limits = volume.limits();
    scsi::Device device;
    device.name = volume.name();
    device.wwid = volume.wwid();
    device.block_size = volume.block_size();
    device.blocks = volume.blocks();
    device.physical_block = std::max(limits.physical_block, volume.block_size());
    device.max_transfer_blocks = kTransferMax / volume.block_size();
    device.optimal_transfer_blocks =
        (limits.optimal_transfer != 0 ? limits.optimal_transfer : kTransferOptimal) / volume.block_size();
    device.unmap_granularity_blocks = std::max(limits.discard_granularity / volume.block_size(), 1u);
    device.read_only = volume.read_only();
    device.volatile_cache = limits.volatile_cache;
    device.discard = limits.discard;
    device.rotational = limits.rotational;
    return device;
}

UnitTable::~UnitTable() {
    for (Unit* unit : by_lun_) {
        if (unit == nullptr) continue;
        WSS_ASSERT(unit->users == 0, "no command is in flight when the tables are destroyed");
        delete unit;
    }
}

Unit& UnitTable::add(volume::OpenVolume& volume) {
    auto unit = std::make_unique<Unit>(reactor_, volume);
    unit->regions = static_cast<const VolumeRegions*>(volume.volume().extension());
    unit->memory = unit->regions == nullptr ? nullptr : volume.volume().memory().data();
    unit->device = describe(volume.volume());
    // Reservations of a RAM volume end with the volume.
    unit->device.reservations_persist = reservations_.has_file() || !volume.volume().memory().empty();
    unit->reservations = reservations_.find(volume.volume().wwid());
    for (ShareRef& share : unit->shares) share = ShareRef::make();
    uint32_t lun = volume.volume().lun();
    if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
    WSS_ASSERT(by_lun_[lun] == nullptr, "a LUN names one volume at a time");
    luns_.insert(std::lower_bound(luns_.begin(), luns_.end(), lun), lun);
    return *(by_lun_[lun] = unit.release());
}

void UnitTable::remove(volume::OpenVolume& volume) {
    Unit* unit = find(volume.volume().lun());
    if (unit == nullptr || unit->open != &volume) return;
    by_lun_[volume.volume().lun()] = nullptr;
    std::erase(luns_, uint64_t{volume.volume().lun()});
    unit->removed = true;
    if (unit->users == 0) delete unit;
}

void UnitTable::release(Unit& unit) noexcept {
    WSS_ASSERT(unit.users > 0, "each release() has its hold()");
    unit.open->release();
    if (--unit.users == 0 && unit.removed) delete &unit;
}

}  // namespace wss::block
