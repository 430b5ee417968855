// SPDX-License-Identifier: Apache-2.0
// UncachedStart: what a target without a cache must know of the cache that it had before. Cache engines may
// hold acknowledged writes that storage does not have. Without a cache those volumes stay closed: they would
// show old data, and a later start with a cache would bring old lines home over newer writes.
//
// Thread-safety: immutable, but for its place among the observers of a table.
#pragma once

#include <map>
#include <memory>

#include "target/cache/membership.h"
#include "target/volume/volume_set.h"

namespace wss::daemon {

class UncachedStart final : public volume::Observer {
  public:
    // nullptr: no volume is concerned.
    static Result<std::unique_ptr<UncachedStart>> look(const volume::StateLock::Shared& state,
                                                       reactor::Reactor& reactor);

    // Only a cache can wipe what engines hold of a volume.
    void follow_deletions(volume::VolumeSet::Options& options) const;

    Status may_open(const volume::Volume& volume) override;
    void volume_changed(volume::Change, volume::OpenVolume&) noexcept override {}

  private:
    explicit UncachedStart(std::map<uint64_t, se::DirtyVolume> dirty) : dirty_(std::move(dirty)) {}

    const std::map<uint64_t, se::DirtyVolume> dirty_;  // by WWID
};

}  // namespace wss::daemon
