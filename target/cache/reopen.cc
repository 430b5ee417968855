// SPDX-License-Identifier: Apache-2.0
// A volume is opened anew after its storage was another owner's. What engines hold of it is not what is in
// storage now: it is wiped. Acknowledged data that only engines have is given up by the operator's word
// alone.
//
// Nobody may use the volume when this begins, so that nothing comes in any more.
#include "lib/base/log.h"
#include "target/cache/volume_control.h"

namespace wss::se {

void VolumeControl::reopen(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening) {
    if (uses_.recovery.holds(volume))
        return reopening->end(failure(Code::kBusy, "dirty lines are being recovered; try again"));
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    if (!*place) return;
    uses_.engines.hurry();
    volume.gate.when_quiet([this, &volume, place, reopening = std::move(reopening)] {
        if (!volume.removed()) drop_contents(volume, reopening);
    });
}

void VolumeControl::drop_contents(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening) {
    const volume::Volume& open = volume.open->volume();
    const uint64_t dirty = uses_.lines.index().dirty_lines(volume.number);
    const uint64_t lost = uses_.losses.lost_bytes(open);
    const bool unsaved = dirty > 0 || lost > 0;
    if (unsaved && !reopening->give_up_dirty())
        return reopening->end(
            failure(Code::kRefused,
                    "volume {}: {} lines of acknowledged data that its storage does not have are in cache "
                    "engines, and {} KiB in engines that are away; another owner has written the storage "
                    "since; wssctl volume reopen {} --give-up-dirty drops that data",
                    open.name(), dirty, lost / 1024, open.name()));
    if (reopening->look_only()) return reopening->end(Status::ok());
    if (unsaved) {
        log::warning(
            "volume {}: {} dirty lines in engines and {} KiB in engines that are away are given up, "
            "by the operator's word",
            open.name(), dirty, lost / 1024);
        // Somebody must hear that what was acknowledged is not stable.
        uses_.members.edit().given_up.insert(open.wwid());
        uses_.losses.forget(open.wwid());
    }
    auto left = std::make_shared<uint64_t>(1);
    auto ended = [this, &volume, reopening, left] {
        if (--*left == 0) contents_dropped(volume, reopening);
    };
    const Gate::Holder place = volume.gate.enter();
    for (const cache::LineKey& key : uses_.lines.in_range(volume.number, 0, UINT64_MAX)) {
        cache::Line* line = uses_.lines.index().find(key);
        if (line == nullptr) continue;
        ++*left;
        uses_.eraser.cut(*line, 0, open.wwid(), place.share(), ended);
    }
    ended();
}

// A restart must not find what was given up.
void VolumeControl::contents_dropped(CachedVolume& volume,
                                     const std::shared_ptr<volume::Reopening>& reopening) {
    if (volume.removed()) return;
    note_dirty(volume, false);
    uses_.members.when_saved(volume, [&volume, reopening] {
        if (!volume.removed()) reopening->end(Status::ok());
    });
}

}  // namespace wss::se
