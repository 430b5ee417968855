// SPDX-License-Identifier: Apache-2.0
#include "target/cache/deletions.h"

#include "lib/base/log.h"
#include "lib/base/size.h"

namespace wss::cache {

struct Deletions::Pending {
    CachedVolume& volume;
    volume::Deletion command;
    Nanoseconds until;
    Gate::Holder place;  // until the deletion has ended: keeps `volume`
    bool frozen = false, over = false;
};

void Deletions::prepare(volume::Deletion deletion) {
    CachedVolume* volume = uses_.volumes.find(deletion.wwid);
    if (deletion.give_up_dirty) {
        if (uses_.members.now().dirty.contains(deletion.wwid))
            log::warning(
                "volume {} is deleted on the operator's command, even if only cache engines have some of its "
                "acknowledged writes",
                deletion.name);
        return deletion.answer(Status::ok(), {});
    }
    const bool recovering = volume != nullptr ? uses_.recovery.holds(*volume) : uses_.recovery.holding();
    if (volume == nullptr || recovering)
        return deletion.answer(uses_.absent.may_delete(deletion, recovering), {});
    // While the volume is frozen, nothing becomes dirty either: active writes go to its storage.
    if (!volume->may_be_dirty && volume->settings.policy != Policy::kBack) {
        const bool frozen = volume->gate.freeze();
        return deletion.answer(Status::ok(), frozen ? hold_of(*volume) : nullptr);
    }
    if (uses_.losses.lost_bytes(volume->open->volume()) > 0)
        return deletion.answer(refusal(*volume, "these engines are away"), {});
    const Nanoseconds until = reactor_.clock().now() + deletion.limit;
    pending_.push_back(
        std::make_shared<Pending>(Pending{*volume, std::move(deletion), until, volume->gate.enter()}));
    destage(pending_.back());
}

Status Deletions::refusal(const CachedVolume& volume, const std::string& why) const {
    const std::string& name = volume.open->volume().name();
    const uint64_t lines = uses_.index.dirty_lines(volume.number);
    const uint64_t lost = uses_.losses.lost_bytes(volume.open->volume());
    if (lines == 0 && lost == 0)
        return failure(
            Code::kRefused,
            "volume {} was not deleted: its storage did not flush the data from cache engines: {}. wssctl "
            "volume delete {} --give-up-dirty deletes it in any case",
            name, why, name);
    return failure(
        Code::kRefused,
        "volume {} was not deleted: acknowledged writes of {} lines (at most {}) in cache engines{} are not "
        "in its storage: {}. wssctl cache drain {} tries to write them to the storage, and wssctl cache "
        "status shows the lines that are left. wssctl volume delete {} --give-up-dirty destroys them",
        name, lines, readable_size(lines * line_bytes_),
        lost > 0 ? fmt::format(", and {} that were lost with engines,", readable_size(lost)) : "", why, name,
        name);
}

// Another command removed the volume. The volume that replaced it may have dirty lines.
Status Deletions::replaced(const Pending& pending) {
    return failure(Code::kBusy, "volume {} was reopened or deleted meanwhile; try again",
                   pending.command.name);
}

void Deletions::destage(const PendingRef& pending) {
    // The callback keeps its own reference, because the list's reference may be removed during the call.
    uses_.destager.flush(
        pending->volume, [this, pending](int error) { destaged(pending, error); }, Asker::kOperator);
}

void Deletions::destaged(const PendingRef& pending, int error) {
    if (pending->over) return;
    CachedVolume& volume = pending->volume;
    if (volume.removed()) return end(pending, replaced(*pending));
    if (error != 0)
        return end(pending, refusal(volume, Status::from_errno(error, "its storage fails").to_string()));
    if (pending->frozen) return end(pending, Status::ok());
    pending->frozen = volume.gate.freeze();
    if (volume.gate.active() > 0) uses_.engines.flush_completions();
    volume.gate.when_quiet([this, pending] {
        if (!pending->over) destage(pending);
    });
}

void Deletions::end(PendingRef pending, Status status) {
    pending->over = true;
    pending_.remove(pending);
    volume::Deletion::Hold hold;
    if (pending->frozen && status)
        hold = hold_of(pending->volume);
    else if (pending->frozen)
        uses_.control.thaw(pending->volume);
    pending->place.release();
    std::exchange(pending->command.answer, nullptr)(std::move(status), std::move(hold));
}

// The freeze keeps the volume until the hold is dropped.
volume::Deletion::Hold Deletions::hold_of(CachedVolume& volume) {
    return volume::Deletion::Hold(&volume, [this](CachedVolume* frozen) {
        reactor_.post([this, frozen] { uses_.control.thaw(*frozen); });
    });
}

void Deletions::tick() {
    const Nanoseconds now = reactor_.clock().now();
    const auto all = pending_;
    for (const PendingRef& pending : all) {
        if (pending->over) continue;
        if (uses_.life.waits_are_over())
            end(pending, failure(Code::kBusy, "volume {} was not deleted: the target is stopping",
                                 pending->command.name));
        else if (now >= pending->until)
            time_is_over(pending);
    }
}

// Rejects the deletion even if nothing is dirty: an active write may wait for a read that storage has not
// answered, and engines may acknowledge that write later.
void Deletions::time_is_over(const PendingRef& pending) {
    const CachedVolume& volume = pending->volume;
    if (volume.removed()) return end(pending, replaced(*pending));
    const int64_t limit = pending->command.limit.count / 1'000'000'000;
    const bool clean =
        uses_.index.dirty_lines(volume.number) == 0 && uses_.losses.lost_bytes(volume.open->volume()) == 0;
    if (!clean)
        return end(pending,
                   refusal(volume, fmt::format("its storage did not accept them within {} s", limit)));
    const std::string& name = pending->command.name;
    end(pending,
        failure(Code::kRefused,
                "volume {} was not deleted: active commands did not end within {} s, and writes among "
                "them may still be acknowledged. Try again when its storage answers; wssctl volume delete {} "
                "--give-up-dirty deletes it in any case",
                name, limit, name));
}

}  // namespace wss::cache
