// SPDX-License-Identifier: Apache-2.0
// Policies: the steps of a write or a read, given the index's state of the line. Each function is pure: it
// maps facts to a plan. So every combination can be tested, and a policy can change at run time between any
// two operations.
//
//   none      the volume is not cached
//   around    writes go to real storage and invalidate the cached data; reads fill
//   through   writes go to real storage and to the cached copies before they are acknowledged; reads fill
//   back      writes go to the memory of two engines and are acknowledged; they are destaged later
//
// Whatever the current policy, sub-blocks may be dirty from an earlier one. A plan never leaves an older
// dirty sub-block behind a newer write, since destaging would restore the older data.
//
// FLUSH and FUA mean stable storage under each policy, because engines are memory.
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
    // Allows write-back without a second copy. Set only if the operator requests it.
    bool unsafe = false;
};
// Ok if `settings` can be set for a volume now; otherwise the reason.
Status check_policy(const PolicySettings& settings, uint32_t engines);

// The number of copies that a dirty line needs.
constexpr uint32_t copies_wanted(const PolicySettings& settings) {
    return settings.policy == Policy::kBack && !settings.unsafe ? 2 : 1;
}

struct WriteFacts {
    PolicySettings settings;
    bool fua = false;
    SubBlocks touched;  // written at least in part
    SubBlocks covered;  // written as a whole
    SubBlocks valid, dirty;
    uint32_t holders = 0;  // engines that hold the line now
    uint32_t engines = 0;  // engines that accept new lines
};
struct WritePlan {
    // The data goes to real storage before the acknowledgement, and to stable storage if `storage_fua`.
    bool storage = false;
    bool storage_fua = false;
    // The touched sub-blocks in `update` go to every holder before the acknowledgement. The line needs
    // `copies` holders: place it first. If that fails, use the plan of without_room().
    SubBlocks update;
    uint32_t copies = 0;
    // The sub-blocks of `update` that are dirty afterwards. In the second copy only these are valid
    // afterwards.
    SubBlocks dirty_after;
    // Sub-blocks to read from real storage into the line first: the write covers only a part of each, and the
    // rest must be valid. target/cache uses the plan of without_room() instead, which needs no such read.
    SubBlocks fetch;
    // Sub-blocks to invalidate before the acknowledgement.
    SubBlocks invalidate;
    bool operator==(const WritePlan&) const = default;
};
WritePlan plan_write(const WriteFacts& facts);
// The plan for the same write if place() found no room for it. Dirty sub-blocks always have their slots, so
// this never needs new ones.
WritePlan without_room(const WriteFacts& facts);

struct ReadFacts {
    PolicySettings settings;
    SubBlocks touched;
    SubBlocks valid, dirty;
    uint32_t engines = 0;
};
enum class ReadFrom : uint8_t {
    kEngine,   // the primary answers the client
    kStorage,  // real storage answers the client, with the dirty sub-blocks on top
};
struct ReadPlan {
    ReadFrom from = ReadFrom::kStorage;
    SubBlocks fill_afterwards;  // filled with the data of the answer, outside the critical path
    bool operator==(const ReadPlan&) const = default;
};
ReadPlan plan_read(const ReadFacts& facts);

// True if this change of policy drops the volume's lines, none of which is dirty at that point.
bool forgets_lines(Policy from, Policy to);

}  // namespace wss::cache
