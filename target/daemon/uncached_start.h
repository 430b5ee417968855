// SPDX-License-Identifier: Apache-2.0
// UncachedStart: protects volumes when a target that had a cache starts without one. Cache engines may hold
// acknowledged writes that storage does not have. Without a cache those volumes stay closed. Otherwise they
// would serve old data, and a later start with a cache would destage old lines over newer writes.
//
// Thread-safety: immutable, except for its place among the observers of a table.
#pragma once

#include <map>
#include <memory>

#include "target/cache/membership.h"
#include "target/volume/volume_set.h"

namespace wss::daemon {

class UncachedStart final : public volume::Observer {
  public:
    // Returns nullptr if no volume has such writes.
    static Result<std::unique_ptr<UncachedStart>> look(const volume::StateLock::Shared& state,
                                                       reactor::Reactor& reactor);

    // Refuses to delete volumes with such writes, because only a cache can remove them from engines.
    void follow_deletions(volume::VolumeSet::Options& options) const;

    Status may_open(const volume::Volume& volume) override;
    void volume_changed(volume::Change, volume::OpenVolume&) noexcept override {}

  private:
    explicit UncachedStart(std::map<uint64_t, cache::DirtyVolume> dirty) : dirty_(std::move(dirty)) {}

    const std::map<uint64_t, cache::DirtyVolume> dirty_;  // by WWID
};

}  // namespace wss::daemon
