// SPDX-License-Identifier: Apache-2.0
// Membership: the cache engines whose contents count, and the policy of each volume, on stable storage. A
// restarted storage engine uses it to determine which engines' dirty lines are valid (lib/cache/header.h,
// H2).
//
// An engine gets an incarnation when it joins. A lost engine is removed before any write that it missed is
// acknowledged: if it returns after a restart of the storage engine, its contents do not count.
//
// Thread-safety: Membership is a value of the cache's reactor. A MembershipStore may be called only on that
// reactor, and calls back there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "lib/base/status.h"
#include "lib/cache/lost.h"
#include "lib/cache/policy.h"
#include "lib/io/specification.h"
#include "lib/reactor/reactor.h"
#include "target/volume/state_lock.h"
#include "target/volume/volume.h"

namespace wss::cache {

// A volume for which engines may hold dirty lines.
struct DirtyVolume {
    std::string name;       // for the operator
    uint64_t bytes = 0;     // size when it was recorded last
    std::string ownership;  // ownership of its storage at that time (io::Backend); empty: unknown
    uint64_t owner = 0;     // owner of its real storage on another node (wire::CacheVolumeState); 0: unknown
    uint64_t process = 0;   // RS that served it last (EngineLink::Identity); 0: unknown
    io::Succession taken;   // the RS that has lost it (RemoteQueue::taken_from()), as a place in the
                            // succession; unknown: not lost
    io::StorageName storage;
    bool operator==(const DirtyVolume&) const = default;
};

// The storage processes (RS) that have served a volume. A target that starts again must not use a former
// process that has not noticed that it lost the storage.
struct ServedBy {
    io::Succession last;       // place of the one that served the volume last
    uint64_t latest_term = 0;  // highest term in the series of `last` that any of them has shown
    // True if the process at this place is known to have lost the storage to a later one.
    bool is_former(const io::Succession& place) const noexcept {
        return place.is_known() && place.series == last.series && place.term < latest_term;
    }
    // The process at this place serves the volume from now on.
    void serve(const io::Succession& place) noexcept {
        latest_term = place.series == last.series ? std::max(latest_term, place.term) : place.term;
        last = place;
    }
    void see(const io::Succession& place) noexcept {
        if (place.is_known() && place.series == last.series) latest_term = std::max(latest_term, place.term);
    }
    bool operator==(const ServedBy&) const = default;
};

// Maximum number of lost lines that are saved individually. Each save writes all of them. A volume whose lost
// lines exceed the rest of this limit is saved as lost as a whole, until fewer are lost. A restart in the
// meantime finds only that.
constexpr size_t kLostLinesSaved = 1u << 17;

struct Membership {
    uint64_t storage = 0;  // identity of this storage engine, which never changes
    uint32_t next_incarnation = 1;
    uint32_t line_bytes = kLineBytesDefault;
    // Some dirty line may have only one copy. A restart then needs every engine, not all but one.
    bool degraded = false;
    std::map<uint64_t, uint32_t> engines;  // identity → incarnation
    // Dirty data whose copies are all in engines that are away. `away` lists those engines that may return
    // it. They are not members, so their other contents do not count.
    LostSubBlocks lost;
    std::map<uint64_t, uint32_t> away;  // identity → incarnation
    // Upper bound of the generations of copies in engines that are away.
    uint64_t generation = 0;
    // By WWID: the volumes for which the operator set a policy.
    std::map<uint64_t, PolicySettings> policies;
    // By WWID. A volume is added before its first dirty line is acknowledged, whether the operator or the
    // default chose write-back, and stays until none of its data is dirty or lost.
    std::map<uint64_t, DirtyVolume> dirty;
    // By WWID.
    std::map<uint64_t, ServedBy> served;
    // By WWID: the operator gave up acknowledged writes of the volume, and no flush has failed for that yet.
    std::set<uint64_t> given_up;
    // By WWID, each also in `dirty`: volumes whose storage has had another owner, which may have written to
    // it. Lines of these volumes in engines are older, and must not be destaged, whichever process owns the
    // storage after a restart.
    std::set<uint64_t> storage_lost;

    std::string to_text() const { return to_text(engines); }
    // The text of the file. It contains `members` in place of `engines`.
    std::string to_text(const std::map<uint64_t, uint32_t>& members) const;
    static Result<Membership> parse(const std::string& text);
    bool operator==(const Membership& other) const { return to_text() == other.to_text(); }
};

// Another volume in `dirty` that has the same storage, or nullptr. The storage may lack writes of that volume
// that engines hold.
const DirtyVolume* other_by_storage(const std::map<uint64_t, DirtyVolume>& dirty,
                                    const volume::Volume& volume);
// The error for opening `volume` while engines may hold writes of `other`.
Status refused_for(const volume::Volume& volume, const DirtyVolume& other);

// Stores the membership. Only one save may be in progress.
class MembershipStore {
  public:
    virtual ~MembershipStore() = default;
    // The text last saved, empty if there is none.
    virtual Result<std::string> load() = 0;
    // `done` is called on the reactor when the text is stable, or with an error.
    virtual void save(std::string text, std::function<void(Status)> done) = 0;
    // Returns false if the saved text is lost when the process ends.
    virtual bool is_stable() const noexcept = 0;
};

// A file next to the state file. A thread of its own replaces it atomically.
std::unique_ptr<MembershipStore> open_membership_file(volume::StateLock::Shared state,
                                                      reactor::Reactor& reactor);
// A store for a storage engine without a state file. It remembers nothing.
std::unique_ptr<MembershipStore> open_membership_memory(reactor::Reactor& reactor);

}  // namespace wss::cache
