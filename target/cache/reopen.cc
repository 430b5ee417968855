// SPDX-License-Identifier: Apache-2.0
// A volume is opened anew after its storage was another owner's. What engines hold of it is not what is in
// storage now: it is wiped. Acknowledged data that only engines have is given up by the operator's word
// alone.
//
// Nobody may use the volume when this begins, so that nothing comes in any more.
#include "lib/base/log.h"
#include "target/cache/remote.h"
#include "target/cache/volume_control.h"

namespace wss::se {

void VolumeControl::reopen(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening) {
    if (uses_.recovery.holds(volume)) return reopening->end(recovering());
    // Changes nothing, and the volume may be in use.
    if (reopening->look_only()) return drop_contents(volume, reopening);
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    if (!*place) return;
    uses_.engines.hurry();
    volume.gate.when_quiet([this, &volume, place, reopening = std::move(reopening)] {
        if (!volume.removed()) drop_contents(volume, reopening);
    });
}

// Storage may have lost writes that were acknowledged and not flushed, with its former client.
static bool has_unflushed(const CachedVolume& volume) {
    if (volume.remote != nullptr) return volume.remote->has_unflushed();
    return volume.open->volume().limits().volatile_cache;
}

// Acknowledged data that engines alone have; empty: none.
std::string VolumeControl::unsaved_data(const CachedVolume& volume) const {
    const uint64_t dirty = uses_.lines.index().dirty_lines(volume.number);
    const uint64_t lost = uses_.losses.lost_bytes(volume.open->volume());
    if (dirty == 0 && lost == 0) return {};
    return fmt::format("{} dirty lines in cache engines and {} KiB in engines that are away", dirty,
                       lost / 1024);
}

void VolumeControl::drop_contents(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening) {
    const std::string unsaved = unsaved_data(volume);
    if (!unsaved.empty() && !reopening->give_up_dirty()) {
        const std::string& name = volume.open->volume().name();
        return reopening->end(
            failure(Code::kRefused,
                    "volume {}: its storage lacks acknowledged data, {}; another owner may have written the "
                    "storage since; wssctl volume reopen {} --give-up-dirty drops that data",
                    name, unsaved, name));
    }
    // Its owner that was awaited is given up by now, so that there is no way back (VolumeSet::reopen).
    if (volume.remote != nullptr && reopening->look_only()) {
        if (Status served = uses_.nodes.may_reopen(volume); !served) return reopening->end(std::move(served));
    }
    // What is dropped is recorded before anything else, which would be waited for.
    if (!reopening->look_only()) volume.given_up = true;
    uses_.members.probe(volume, [this, &volume, reopening](const Status& status) {
        if (volume.removed()) return;
        if (status && !reopening->look_only()) return record_dropping(volume, reopening);
        if (!reopening->look_only()) volume.given_up = false;
        reopening->end(status.within(fmt::format("volume {} is not reopened, the state cannot be written",
                                                 volume.open->volume().name())));
    });
}

void VolumeControl::record_dropping(CachedVolume& volume,
                                    const std::shared_ptr<volume::Reopening>& reopening) {
    const volume::Volume& open = volume.open->volume();
    const std::string unsaved = unsaved_data(volume);
    if (!unsaved.empty())
        log::warning("volume {}: {} are given up, by the operator's word", open.name(), unsaved);
    // A flush must report that what was acknowledged is not stable. All of this is saved at once: a start
    // that knew a part of it would bring lines home.
    if (!unsaved.empty() || has_unflushed(volume)) uses_.members.edit().given_up.insert(open.wwid());
    uses_.losses.drop(open.wwid());
    // Nothing becomes dirty any more. The volume that follows has the policy that the membership remembers.
    volume.settings.policy = cache::Policy::kThrough;
    note_dirty(volume, false);
    uses_.members.save();
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    // After a crash in between, a flush fails and a recovery brings nothing home: as after the end of this.
    uses_.members.when_recorded([this, &volume, reopening, place] {
        if (volume.removed()) return;
        const auto wipe = [this](cache::Line& line, Lines::Ended ended) {
            uses_.eraser.cut(line, 0, 0, std::move(ended));
        };
        uses_.lines.walk(volume.number, 0, UINT64_MAX, wipe, [this, &volume, reopening, place] {
            contents_dropped(volume, reopening);
            place->release();
        });
    });
}

// An engine that was lost during the erasure may have had the only copy of a dirty line: the volume that
// follows must not inherit that loss.
void VolumeControl::contents_dropped(CachedVolume& volume,
                                     const std::shared_ptr<volume::Reopening>& reopening) {
    volume.given_up = false;
    if (volume.removed()) return;
    uses_.losses.forget(volume.wwid);
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    uses_.members.when_recorded([&volume, reopening, place] {
        if (!volume.removed()) reopening->end(Status::ok());
    });
}

}  // namespace wss::se
