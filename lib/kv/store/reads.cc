// SPDX-License-Identifier: Apache-2.0
// Lookups: rule S5 of store.h.
#include <algorithm>

#include "lib/kv/store/parts.h"

namespace wss::kv::store {
namespace {

Found found_as(Presence presence, const Table& table, Item& item, const Version& version) {
    item.referenced = true;
    return {.presence = presence,
            .committed = version.state == VersionState::kCommitted,
            .cold = version.is_cold(),
            .bytes = version.length,
            .version = table.view(version),
            .slot = table.slot_of(item)};
}

Found not_found(Presence presence, const Table& table, const Item* item) {
    return {.presence = presence, .slot = item != nullptr ? table.slot_of(*item) : SlotAddress{}};
}

// Returns the newest version whose timestamp is in `of` and that readers may see. Both are in order, so each
// version is visited once, and none below the lowest timestamp.
const Version* newest_of(const Item& item, std::span<const Timestamp> of, size_t* looks) {
    for (const Version* at = item.newest; at != nullptr; at = at->older) {
        if (looks != nullptr && (*looks == 0 || --*looks == 0)) return nullptr;
        const auto above = std::upper_bound(of.begin(), of.end(), at->timestamp);
        of = of.first(static_cast<size_t>(above - of.begin()));
        if (of.empty()) return nullptr;
        if (of.back() == at->timestamp && at->state != VersionState::kPreparing) return at;
    }
    return nullptr;
}

// A key that is not here was never written, or was deleted and forgotten; in the second case none of its
// versions is above the floor.
Found deleted_since(std::string_view key, Timestamp asked, Timestamp floor) {
    if (asked > floor) return {.presence = Presence::kGone};
    Found found{.presence = Presence::kNewer, .committed = true};
    found.version.key = key;
    found.version.timestamp = floor;
    found.version.tombstone = true;
    return found;
}

}  // namespace

// Creates and publishes a slot before any lookup, so that views of other items stay valid. An item without
// versions is only held (S13): the key is absent.
Item* Store::Parts::find_shown(std::string_view key, bool addressed) {
    Item* item = table.find(key);
    if (item != nullptr && item->newest == nullptr) return nullptr;
    if (item != nullptr && addressed) table.show(*item);
    return item;
}

Found Store::get(std::string_view key, bool addressed) const {
    Item* item = parts_->find_shown(key, addressed);
    const Table& table = parts_->table;
    if (item == nullptr || item->latest == nullptr) return not_found(Presence::kAbsent, table, item);
    return found_as(Presence::kExact, table, *item, *item->latest);
}

Found Store::get_exact(std::string_view key, Timestamp timestamp, bool addressed, size_t* looks) const {
    Item* item = parts_->find_shown(key, addressed);
    const Table& table = parts_->table;
    if (item == nullptr) return deleted_since(key, timestamp, parts_->floor);
    const Version* version = newest_of(*item, {&timestamp, 1}, looks);
    if (version != nullptr) return found_as(Presence::kExact, table, *item, *version);
    if (item->latest != nullptr && item->latest->timestamp > timestamp)
        return found_as(Presence::kNewer, table, *item, *item->latest);
    return not_found(Presence::kGone, table, item);
}

// The newest version of the set that this key has. If a member above it may have been collected, the result
// is uncertain, and the latest version is returned instead.
Found Store::get_newest(std::string_view key, std::span<const Timestamp> of, bool addressed,
                        size_t* looks) const {
    Item* item = parts_->find_shown(key, addressed);
    const Table& table = parts_->table;
    if (item == nullptr) return not_found(Presence::kAbsent, table, nullptr);
    const Version* best = newest_of(*item, of, looks);
    const auto above = std::upper_bound(of.begin(), of.end(), item->collected);
    const Timestamp collected = above != of.begin() ? *std::prev(above) : kNoTimestamp;
    const bool unsure = !collected.is_none() && (best == nullptr || best->timestamp < collected);
    if (unsure && item->latest != nullptr && item->latest->timestamp > collected)
        return found_as(Presence::kNewer, table, *item, *item->latest);
    if (best != nullptr) return found_as(Presence::kExact, table, *item, *best);
    return not_found(Presence::kAbsent, table, item);
}

Found Store::get_at(std::string_view key, Timestamp at) const {
    const Table& table = parts_->table;
    Item* item = table.find(key);
    if (item == nullptr) return not_found(Presence::kAbsent, table, nullptr);
    const Version* version = item->newest;
    while (version != nullptr && (version->timestamp > at || version->state != VersionState::kCommitted))
        version = version->older;
    if (version == nullptr) return not_found(Presence::kAbsent, table, item);
    return found_as(Presence::kExact, table, *item, *version);
}

Scanned Store::scan(std::string_view prefix, std::string_view after, Timestamp at,
                    const std::function<bool(const Found&)>& visit, size_t looks_max) const {
    const auto& ordered = parts_->table.ordered();
    auto next = after >= prefix && !after.empty() ? ordered.upper_bound(after) : ordered.lower_bound(prefix);
    Scanned scanned{.is_over = false, .last = after};
    for (; next != ordered.end() && std::string_view((*next)->key).starts_with(prefix); ++next) {
        if (looks_max-- == 0) return scanned;
        const Found found = at.is_none() ? get((*next)->key, false) : get_at((*next)->key, at);
        const bool shown = found.presence == Presence::kExact && !found.version.tombstone;
        if (shown && !visit(found)) return scanned;
        scanned.last = (*next)->key;
    }
    scanned.is_over = true;
    return scanned;
}

}  // namespace wss::kv::store
