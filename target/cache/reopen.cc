// SPDX-License-Identifier: Apache-2.0
// VolumeControl::reopen(): a volume is reopened after its storage had another owner. Lines in engines no
// longer match the storage and are wiped. Acknowledged data that only engines have is given up only by the
// operator's command.
//
// Unless this only looks for data that would be lost, the volume must admit no new commands when it begins.
// Commands that were admitted earlier may be in flight.
#include "lib/base/log.h"
#include "target/cache/remote.h"
#include "target/cache/volume_control.h"

namespace wss::cache {

void VolumeControl::reopen(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening) {
    if (uses_.recovery.holds(volume)) return reopening->end(recovering());
    // Changes nothing. The volume may be in use.
    if (reopening->look_only()) return drop_contents(volume, reopening);
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    if (!*place) return;
    uses_.engines.flush_completions();
    volume.gate.when_quiet([this, &volume, place, reopening = std::move(reopening)] {
        if (!volume.removed()) drop_contents(volume, reopening);
    });
}

// Whether storage may have lost writes that its former client acknowledged but did not flush.
static bool has_unflushed(const CachedVolume& volume) {
    if (volume.remote != nullptr) return volume.remote->has_unflushed();
    return volume.open->volume().limits().volatile_cache;
}

// Describes the acknowledged data that only engines have. Empty if there is none.
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
        return reopening->end(failure(
            Code::kRefused,
            "volume {}: acknowledged data is not in its storage: {}. Another owner may have written to the "
            "storage since. wssctl volume reopen {} --give-up-dirty drops the acknowledged data",
            name, unsaved, name));
    }
    // Checked only while this looks: before the contents are dropped, the awaited owner is given up, which
    // cannot be undone (VolumeSet::reopen).
    if (volume.remote != nullptr && reopening->look_only()) {
        if (Status served = uses_.nodes.may_reopen(volume); !served) return reopening->end(std::move(served));
    }
    // This must be the first change to be recorded, so that it waits for no other.
    if (!reopening->look_only()) volume.given_up = true;
    uses_.members.probe(volume, [this, &volume, reopening](const Status& status) {
        if (volume.removed()) return;
        if (status && !reopening->look_only()) return record_dropping(volume, reopening);
        if (!reopening->look_only()) volume.given_up = false;
        reopening->end(
            status.within(fmt::format("volume {} was not reopened, because the state cannot be written",
                                      volume.open->volume().name())));
    });
}

void VolumeControl::record_dropping(CachedVolume& volume,
                                    const std::shared_ptr<volume::Reopening>& reopening) {
    const volume::Volume& open = volume.open->volume();
    const std::string unsaved = unsaved_data(volume);
    if (!unsaved.empty())
        log::warning("volume {}: {} are given up, on the operator's command", open.name(), unsaved);
    // A flush must report that acknowledged data is not stable. All of this is saved at once, because a start
    // that finds only a part of it would destage lines.
    if (!unsaved.empty() || has_unflushed(volume)) uses_.members.edit().given_up.insert(open.wwid());
    uses_.losses.drop(open.wwid());
    // After this no line becomes dirty. The reopened volume takes its policy from the membership.
    volume.settings.policy = Policy::kThrough;
    note_dirty(volume, false);
    uses_.members.save();
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    // After a crash at this point, the result is the same as at the end of this operation: a flush fails, and
    // recovery destages nothing.
    uses_.members.when_recorded([this, &volume, reopening, place] {
        if (volume.removed()) return;
        const auto wipe = [this](Line& line, Lines::Ended ended) {
            uses_.eraser.cut(line, 0, 0, std::move(ended));
        };
        uses_.lines.walk(volume.number, 0, UINT64_MAX, wipe, [this, &volume, reopening, place] {
            contents_dropped(volume, reopening);
            place->release();
        });
    });
}

// An engine that was lost during the erasure may have had the only copy of a dirty line. The reopened volume
// must not inherit that loss.
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

}  // namespace wss::cache
