// SPDX-License-Identifier: Apache-2.0
// Policies: what has to be done for a write or a read, given what the index knows. Pure decisions:
// each is a function from facts to a plan, so that every combination can be tested, and a policy can change
// at run time between any two operations.
//
//   none      the cache does not know the volume
//   around    writes go to real storage and end what is cached of them; reads fill
//   through   writes go to real storage and to what is cached before they are acknowledged; reads fill
//   back      writes go to the memory of two engines and are acknowledged; real storage follows
//
// Whatever the policy says today, dirty pieces may be there from yesterday: a plan never leaves an older
// dirty piece behind a newer write, since destaging would bring it back to life.
//
// FLUSH and FUA mean stable storage under each policy: engines are memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/status.h"
#include "lib/cache/geometry.h"
#include "lib/cache/line.h"
#include "lib/cache/types.h"

namespace wss::cache {

enum class Policy : uint8_t { kNone, kAround, kThrough, kBack };
std::string_view to_string(Policy policy);           // "none", "write-around", "write-through", "write-back"
Result<Policy> parse_policy(std::string_view text);  // these, or their short forms

struct PolicySettings {
    Policy policy = Policy::kThrough;
    // Write-back with one engine is write-back with no second copy: only for who says so.
    bool unsafe = false;
};
// Whether `settings` may be set for a volume now, and why not.
Status check_policy(const PolicySettings& settings, uint32_t engines);

// Copies that a dirty line needs.
constexpr uint32_t copies_wanted(const PolicySettings& settings) {
    return settings.policy == Policy::kBack && !settings.unsafe ? 2 : 1;
}

struct WriteFacts {
    PolicySettings settings;
    bool fua = false;
    Pieces touched;  // by the write
    Pieces covered;  // wholly
    Pieces valid, dirty;
    uint32_t holders = 0;  // that the line has now
    uint32_t engines = 0;  // that can take new lines
};
struct WritePlan {
    // To real storage before the acknowledgement; stable there too if `storage_fua`.
    bool storage = false;
    bool storage_fua = false;
    // To every holder before the acknowledgement: the touched pieces of `update`. `copies` holders are
    // needed: place the line first; if that fails, `without_room()` says what to do.
    Pieces update;
    uint32_t copies = 0;
    // Of these, the pieces that are dirty afterwards. In the second copy these, and no others, are valid
    // afterwards.
    Pieces dirty_after;
    // Pieces that must be read from real storage into the line first: the write covers them in part only, and
    // what is left of them has to be valid.
    Pieces fetch;
    // Not valid any more, before the acknowledgement.
    Pieces invalidate;
    bool operator==(const WritePlan&) const = default;
};
WritePlan plan_write(const WriteFacts& facts);
// The same write when place() found no room for it. Dirty pieces always have their slots, so this never needs
// any.
WritePlan without_room(const WriteFacts& facts);

struct ReadFacts {
    PolicySettings settings;
    Pieces touched;
    Pieces valid, dirty;
    uint32_t engines = 0;
};
enum class ReadFrom : uint8_t {
    kEngine,   // the primary answers the client
    kStorage,  // real storage answers the client, with dirty pieces on top of it
};
struct ReadPlan {
    ReadFrom from = ReadFrom::kStorage;
    Pieces fill_afterwards;  // after the answer, off the critical path
    bool operator==(const ReadPlan&) const = default;
};
ReadPlan plan_read(const ReadFacts& facts);

// A volume whose policy changes, and of which nothing is dirty: the cache forgets it.
bool forgets_lines(Policy from, Policy to);

}  // namespace wss::cache
