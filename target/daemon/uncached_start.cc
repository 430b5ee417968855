// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/uncached_start.h"

namespace wss::daemon {

Result<std::unique_ptr<UncachedStart>> UncachedStart::look(const volume::StateLock::Shared& state,
                                                           reactor::Reactor& reactor) {
    if (state == nullptr) return std::unique_ptr<UncachedStart>();
    auto text = cache::open_membership_file(state, reactor)->load();
    if (!text) return text.status();
    if (text->empty()) return std::unique_ptr<UncachedStart>();
    auto membership = cache::Membership::parse(*text);
    if (!membership) return membership.status();
    if (membership->dirty.empty()) return std::unique_ptr<UncachedStart>();
    return std::unique_ptr<UncachedStart>(new UncachedStart(std::move(membership->dirty)));
}

Status UncachedStart::may_open(const volume::Volume& volume) {
    if (const cache::DirtyVolume* other = cache::other_by_storage(dirty_, volume))
        return cache::refused_for(volume, *other);
    if (!dirty_.contains(volume.wwid())) return Status::ok();
    return failure(
        Code::kRefused,
        "volume {}: cache engines may hold acknowledged writes that its storage does not have, and this "
        "target was started without a cache: start it with --cache-listen. It then destages these "
        "writes, or wssctl cache give-up {} gives them up",
        volume.name(), volume.name());
}

void UncachedStart::follow_deletions(volume::VolumeSet::Options& options) const {
    options.before_deletion = [this](const volume::Deletion& deletion) {
        if (!dirty_.contains(deletion.wwid)) return deletion.answer(Status::ok(), {});
        deletion.answer(
            failure(Code::kRefused,
                    "volume {} was not deleted: cache engines may hold acknowledged writes to it, "
                    "and this target was started without a cache; start it with --cache-listen, "
                    "then delete the volume",
                    deletion.name),
            {});
    };
}

}  // namespace wss::daemon
