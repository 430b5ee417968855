// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/policy.h"

#include <array>

#include "lib/base/suggest.h"

namespace wss::cache {

namespace {

struct Name {
    Policy policy;
    std::string_view name, brief;
};
constexpr std::array<Name, 4> kNames = {{{Policy::kNone, "none", "none"},
                                         {Policy::kAround, "write-around", "around"},
                                         {Policy::kThrough, "write-through", "through"},
                                         {Policy::kBack, "write-back", "back"}}};

// The touched sub-blocks that are whole in the line after the write: all but those that were not valid and
// are written in part. They form a single run, because only the first and the last sub-block of a write can
// be covered in part.
SubBlocks whole_after(const WriteFacts& facts) {
    return facts.touched & (facts.covered | facts.valid);
}

WritePlan to_storage(const WriteFacts& facts) {
    WritePlan plan;
    plan.storage = true;
    plan.storage_fua = facts.fua;
    return plan;
}

WritePlan write_through(const WriteFacts& facts) {
    WritePlan plan = to_storage(facts);
    if (facts.holders == 0) return plan;
    plan.update = whole_after(facts);
    plan.copies = facts.holders;
    // Dirty sub-blocks were newer than storage. This write makes the written bytes equal, but perhaps not the
    // rest of these sub-blocks, so they stay dirty.
    plan.dirty_after = facts.touched & facts.dirty;
    return plan;
}

WritePlan write_around(const WriteFacts& facts) {
    if (facts.touched.overlaps(facts.dirty)) return write_through(facts);
    WritePlan plan = to_storage(facts);
    plan.invalidate = facts.touched & facts.valid;
    return plan;
}

WritePlan write_back(const WriteFacts& facts) {
    uint32_t copies = copies_wanted(facts.settings);
    WritePlan plan;
    plan.update = facts.touched;
    plan.copies = copies;
    plan.dirty_after = facts.touched;
    // The second copy has only dirty sub-blocks. A clean one that is written in part must be copied there
    // first.
    plan.fetch = facts.touched.without(facts.covered).without(copies > 1 ? facts.dirty : facts.valid);
    return plan;
}

bool can_write_back(const WriteFacts& facts) {
    uint32_t copies = copies_wanted(facts.settings);
    // A line that has lost its second copy accepts no new dirty data before the old data is safe.
    bool degraded = !facts.dirty.empty() && facts.holders < copies;
    return !facts.fua && !degraded && (facts.engines >= copies || facts.holders >= copies);
}

}  // namespace

std::string_view to_string(Policy policy) {
    return kNames[static_cast<size_t>(policy)].name;
}

Result<Policy> parse_policy(std::string_view text) {
    for (const Name& name : kNames)
        if (text == name.name || text == name.brief) return name.policy;
    return failure(Code::kInvalid, "unknown cache policy '{}'{}", text,
                   suggestion(text, {kNames[0].name, kNames[1].name, kNames[2].name, kNames[3].name}));
}

Status check_policy(const PolicySettings& settings, uint32_t engines) {
    if (settings.policy != Policy::kBack || settings.unsafe || engines >= kHoldersMax) return Status::ok();
    return failure(Code::kRefused,
                   "write-back keeps each write in the memory of {} cache engines, but only {} {} joined: "
                   "add engines, or "
                   "use 'unsafe' to accept that one failure loses acknowledged writes",
                   kHoldersMax, engines, engines == 1 ? "is" : "are");
}

WritePlan plan_write(const WriteFacts& facts) {
    switch (facts.settings.policy) {
        case Policy::kNone:
        case Policy::kAround:
            return write_around(facts);
        case Policy::kThrough:
            return write_through(facts);
        case Policy::kBack:
            return can_write_back(facts) ? write_back(facts) : write_through(facts);
    }
    return to_storage(facts);
}

WritePlan without_room(const WriteFacts& facts) {
    return facts.settings.policy == Policy::kNone || facts.settings.policy == Policy::kAround
               ? write_around(facts)
               : write_through(facts);
}

ReadPlan plan_read(const ReadFacts& facts) {
    const bool may_serve = facts.settings.policy != Policy::kNone;
    const bool dirty = facts.touched.overlaps(facts.dirty);
    const SubBlocks missing = facts.touched.without(facts.valid);
    if ((may_serve || dirty) && missing.empty()) return {ReadFrom::kEngine, {}};
    return {ReadFrom::kStorage, dirty || (may_serve && facts.engines != 0) ? missing : SubBlocks{}};
}

bool forgets_lines(Policy from, Policy to) {
    return from != Policy::kNone && to == Policy::kNone;
}

}  // namespace wss::cache
