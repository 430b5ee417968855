// SPDX-License-Identifier: Apache-2.0
// Membership: which cache engines' contents count, on stable storage, so that a storage engine that starts
// again knows whose dirty lines to believe (lib/cache/header.h, H2), and what each volume's policy is.
//
// An engine gets an incarnation when it joins. One that was lost is struck out before any write that it
// missed is acknowledged: should it come back after our own restart, its contents do not count.
//
// Thread-safety: Membership is a value of the cache's reactor. A Store may be called from there only and
// calls back there.
#pragma once

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

namespace wss::se {

// A volume of which engines may hold dirty lines.
struct DirtyVolume {
    std::string name;       // for the operator
    uint64_t bytes = 0;     // that it has had
    std::string ownership;  // of its storage (io::Backend), then; empty: not known
    uint64_t owner = 0;     // … of its real storage elsewhere (wire::CacheVolumeState); 0: not known
    uint64_t process = 0;   // … that served it (EngineIdentity::identity), last; 0: not known
    io::Succession taken;   // … which had lost it (RemoteQueue::taken_from()); no chain: it had not
    io::StorageName storage;
    bool operator==(const DirtyVolume&) const = default;
};

// Lost lines that are saved one by one: the text is written anew each time. Of a volume that has more only
// that is saved, as lost as a whole, until fewer are lost; a restart meanwhile finds no more than that.
constexpr size_t kLostLinesSaved = 1u << 17;

struct Membership {
    uint64_t storage = 0;  // our own name for life
    uint32_t next_incarnation = 1;
    uint32_t line_bytes = cache::kLineBytesDefault;
    // Some dirty line may have one copy only: after a restart every engine is needed, not all but one.
    bool degraded = false;
    std::map<uint64_t, uint32_t> engines;  // identity → incarnation
    // Dirty data that was only in engines which are away; and those of them that may give it back. They are
    // no members: what else they hold does not count.
    cache::LostPieces lost;
    std::map<uint64_t, uint32_t> away;                   // identity → incarnation
    uint64_t generation = 0;                             // no copy in an engine that is away has a newer one
    std::map<uint64_t, cache::PolicySettings> policies;  // by WWID; of volumes that the operator set one for
    // By WWID. A volume is in it before its first dirty line is acknowledged, whoever chose write-back, and
    // until nothing of it is dirty or lost any more.
    std::map<uint64_t, DirtyVolume> dirty;
    // By WWID: the operator gave up acknowledged writes of it, and no flush has failed for that yet.
    std::set<uint64_t> given_up;
    // By WWID, each of them in `dirty`: its storage is another owner's, who may have written it. What engines
    // hold of it is older and must not be brought home, whatever owns the storage after a restart.
    std::set<uint64_t> storage_lost;

    std::string to_text() const { return to_text(engines); }
    // … with other members.
    std::string to_text(const std::map<uint64_t, uint32_t>& members) const;
    static Result<Membership> parse(const std::string& text);
    bool operator==(const Membership& other) const { return to_text() == other.to_text(); }
};

// Another volume than this, by the same storage; nullptr: none. What engines hold of it the storage does not
// have.
const DirtyVolume* other_by_storage(const std::map<uint64_t, DirtyVolume>& dirty,
                                    const volume::Volume& volume);
// The error of opening that one.
Status refused_for(const volume::Volume& volume, const DirtyVolume& other);

// Where it is kept. One save at a time.
class MembershipStore {
  public:
    virtual ~MembershipStore() = default;
    // The text last saved, empty if there is none.
    virtual Result<std::string> load() = 0;
    // `done` follows, on the reactor, once it is stable (or cannot be).
    virtual void save(std::string text, std::function<void(Status)> done) = 0;
    // False: what is saved is gone with the process.
    virtual bool is_stable() const noexcept = 0;
};

// A file beside the state file, replaced atomically; saved by a thread of its own.
std::unique_ptr<MembershipStore> open_membership_file(volume::StateLock::Shared state,
                                                      reactor::Reactor& reactor);
// Remembers nothing; for a storage engine without a state file.
std::unique_ptr<MembershipStore> open_membership_memory(reactor::Reactor& reactor);

}  // namespace wss::se
