// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/assert.h"
#include "lib/kv/mutation.h"

namespace wss::kv::store {
namespace {

constexpr size_t whole_words(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}
constexpr size_t kTreeNodeBytes = 48;  // a node of the ordered index, with the allocator's overhead

// Offered slots were not requested. With cells they take twice the memory of their values, and their pages
// never serve another size, so offered slots get cells only in a nearly empty arena. Above the second limit
// no slots are offered: values will soon need the memory.
constexpr uint64_t kOfferCellsBelow_percent = 25;
constexpr uint64_t kOfferBelow_percent = 75;
// Limits of one turn. The checksum reads the whole record.
constexpr size_t kOfferLooks = 512;
constexpr uint64_t kOfferBytes = uint64_t{512} << 10;

}  // namespace

Table::Table(const Limits& limits, std::span<std::byte> arena, std::span<std::byte> index)
    : limits_(limits),
      arena_(arena),
      index_(index, limits.epoch),
      items_(limits.secret),
      scratch_(new std::byte[whole_words(kRecordMax)]) {}

Table::~Table() {
    // The pools are destroyed before the lists: unlink all elements first.
    while (retired.pop_front() != nullptr) {
    }
    while (retired_alone.pop_front() != nullptr) {
    }
    while (pinned.pop_front() != nullptr) {
    }
    while (graves.pop_front() != nullptr) {
    }
    while (warm_items.pop_front() != nullptr) {
    }
}

Item* Table::find(std::string_view key) const {
    return items_.find(fingerprint(key), [key](const Item& item) { return item.key == key; });
}

Item& Table::find_or_create(std::string_view key) {
    const uint64_t hash = fingerprint(key);
    if (Item* item = items_.find(hash, [key](const Item& at) { return at.key == key; })) return *item;
    Item& item = *item_pool_.take();
    item.hash = hash;
    item.key = key;
    item.newest = item.latest = nullptr;
    item.slot = Arena::kNowhere;
    item.cell_bytes = item.incarnation = item.sequence = item.prepared = item.warm = item.held = 0;
    item.cells.fill(nullptr);
    item.collected = item.shown_from = kNoTimestamp;
    item.grave_at = {};
    item.referenced = true;
    item.indexed = false;
    items_.insert(&item);
    ordered_.insert(&item);
    key_bytes_ += key.size();
    return item;
}

Version* Table::find(const Item& item, Timestamp timestamp) const {
    for (Version* at = item.newest; at != nullptr && at->timestamp >= timestamp; at = at->older)
        if (at->timestamp == timestamp) return at;
    return nullptr;
}

Version& Table::link(Item& item, const RecordView& record, size_t length) {
    Version& version = *version_pool_.take();
    version.item = &item;
    version.sibling = nullptr;
    version.timestamp = record.timestamp;
    version.expires = record.expires;
    version.tombstone = record.tombstone;
    version.offset = Arena::kNowhere;
    version.checksum = 0;
    version.retired_at = {};
    version.length = static_cast<uint32_t>(length);
    version.state = VersionState::kPreparing;
    version.cell = kNoCell;
    version.logged = version.spilling = version.alone = version.sealed = false;
    Version* newer = nullptr;
    Version* older = item.newest;
    while (older != nullptr && older->timestamp > record.timestamp) {
        newer = older;
        older = older->older;
    }
    version.newer = newer;
    version.older = older;
    (newer != nullptr ? newer->older : item.newest) = &version;
    if (older != nullptr) older->newer = &version;
    versions++;
    cold_versions++;
    return version;
}

Version* Table::add(Item& item, const RecordView& record) {
    const size_t length = record_bytes(record.key.size(), record.metadata.size(), record.value.size());
    fill_record(record, scratch().first(length));
    std::memset(scratch_.get() + length, 0, whole_words(length) - length);
    Version& version = link(item, record, length);
    if (item.slot != Arena::kNowhere) {
        version.checksum = seal_record(limits_.epoch, scratch().first(length));
        version.sealed = true;
    }
    if (!place(item, version)) {
        erase(version);
        return nullptr;
    }
    if (mutated(Mutation::kCommitBeforePayload)) {
        late_.push_back(
            {version.offset, whole_words(length), {scratch_.get(), scratch_.get() + whole_words(length)}});
        return &version;
    }
    write_record(version, scratch_.get());
    return &version;
}

void Table::write_late_records() {
    for (const Late& late : late_) copy_to_shared(arena_.at(late.offset), late.record.data(), late.bytes);
    late_.clear();
}

Version& Table::add_cold(Item& item, const RecordView& record, size_t length) {
    Version& version = link(item, record, length);
    version.logged = true;
    return version;
}

void Table::write_record(const Version& version, const std::byte* from) {
    copy_to_shared(arena_.at(version.offset), from, whole_words(version.length));
}

void Table::became_warm(Item& item) {
    cold_versions--;
    if (item.warm++ == 0) warm_items.push_back(item);
}

bool Table::place(Item& item, Version& version) {
    if (place_in_cell(item, version)) {
        became_warm(item);
        return true;
    }
    version.offset = arena_.allocate_record(whole_words(version.length), makes_room(item, version.tombstone)
                                                                             ? Arena::Use::kTombstone
                                                                             : Arena::Use::kValue);
    if (version.is_cold()) return false;
    became_warm(item);
    return true;
}

bool Table::place_in_cell(Item& item, Version& version) {
    if (whole_words(version.length) > item.cell_bytes) return false;
    for (int round = 0; round < 2; round++) {
        for (uint32_t cell = 0; cell < limits_.inline_cells; cell++) {
            if (item.cells[cell] != nullptr) continue;
            item.cells[cell] = &version;
            version.cell = static_cast<uint8_t>(cell);
            version.offset = cell_offset(item, cell);
            return true;
        }
        if (!move_out_of_cell(item)) return false;
    }
    return false;
}

// Frees a cell by moving a superseded version, which remote readers rarely need. A reader gets either its old
// bytes or bytes that fail the checksum.
bool Table::move_out_of_cell(Item& item) {
    Version* victim = nullptr;
    for (Version* version : item.cells) {
        if (version == nullptr || version->state != VersionState::kCommitted || version == item.latest)
            continue;
        if (victim == nullptr || version->timestamp < victim->timestamp) victim = version;
    }
    if (victim == nullptr) return false;
    const uint64_t offset = arena_.allocate_record(whole_words(victim->length));
    if (offset == Arena::kNowhere) return false;
    copy_to_shared(arena_.at(offset), arena_.at(victim->offset), whole_words(victim->length));
    item.cells[victim->cell] = nullptr;
    victim->cell = kNoCell;
    victim->offset = offset;
    return true;
}

// Moves the latest version to where one READ fetches it too.
void Table::move_into_cell(Item& item, Version& version) {
    if (version.cell != kNoCell || version.is_cold()) return;
    const uint64_t from = version.offset;
    if (!place_in_cell(item, version)) return;
    copy_to_shared(arena_.at(version.offset), arena_.at(from), whole_words(version.length));
    arena_.free_record(from, whole_words(version.length));
}

void Table::show(Item& item, bool with_cells) {
    if (item.slot == Arena::kNowhere) {
        if (item.warm == 0) return;
        const Version* first = item.latest;
        if (first == nullptr || first->is_cold()) first = item.newest;
        make_slot(item, with_cells ? first->length : SIZE_MAX);
        if (item.slot == Arena::kNowhere) return;
        if (item.latest != nullptr) move_into_cell(item, *item.latest);
        publish(item);
    }
    if (!item.indexed) item.indexed = index_.insert(item.hash, slot_of(item));
}

// If the hash table grows meanwhile, items move only to higher buckets.
size_t Table::show_more() {
    size_t shown = 0;
    const size_t end = offers_slots ? std::min(items_.buckets(), offered_to_ + kOfferLooks) : 0;
    const uint64_t sealed_end = sealed_bytes_ + kOfferBytes;
    for (; offered_to_ < end && sealed_bytes_ < sealed_end; offered_to_++)
        items_.for_each(offered_to_, [&](Item& item) {
            const bool hidden = item.slot == Arena::kNowhere;
            offer(item);
            shown += hidden && item.slot != Arena::kNowhere;
        });
    return shown;
}

void Table::offer(Item& item) {
    if (!offers_slots || item.slot != Arena::kNowhere) return;
    if (item.latest == nullptr || item.latest->is_cold() || item.latest->tombstone) return;
    const uint64_t percent = arena_.used_pages_percent();
    if (percent < kOfferBelow_percent) show(item, percent < kOfferCellsBelow_percent);
}

void Table::make_slot(Item& item, size_t record_length) {
    item.cell_bytes = 0;
    if (limits_.inline_cells > 0 && record_length <= limits_.inline_max)
        item.cell_bytes = static_cast<uint32_t>(Arena::class_bytes(whole_words(record_length)));
    item.slot = arena_.allocate_extent(extent_bytes(item));
    if (item.slot == Arena::kNowhere) {
        item.cell_bytes = 0;  // readers use RPC
        return;
    }
    std::array<std::byte, kSlotHeaderBytes> old;
    std::memcpy(old.data(), arena_.at(item.slot), old.size());
    item.incarnation = incarnation_of(old) + 1;
    item.sequence = 0;
}

void Table::free_slot(Item& item) {
    if (item.slot == Arena::kNowhere) return;
    if (std::exchange(item.indexed, false)) index_.erase(item.hash, slot_of(item));
    std::array<std::byte, kSlotHeaderBytes> image;
    encode_free_slot(item.incarnation, limits_.epoch, image);
    copy_to_shared(arena_.at(item.slot), image.data(), image.size());
    arena_.free_extent(item.slot, extent_bytes(item));
    item.slot = Arena::kNowhere;
    item.cell_bytes = 0;
    item.shown_from = kNoTimestamp;
}

void Table::free_record(Version& version) {
    if (version.is_cold()) return;
    Item& item = *version.item;
    if (version.cell != kNoCell)
        item.cells[version.cell] = nullptr;
    else
        arena_.free_record(version.offset, whole_words(version.length));
    version.cell = kNoCell;
    version.offset = Arena::kNowhere;
    cold_versions++;
    if (--item.warm == 0) static_cast<ListNode<WarmTag>&>(item).unlink();
}

void Table::erase(Version& version) {
    Item& item = *version.item;
    if (!version.expires.is_none()) expiring.erase(&version);
    free_record(version);
    static_cast<ListNode<RetiredTag>&>(version).unlink();
    (version.newer != nullptr ? version.newer->older : item.newest) = version.older;
    if (version.older != nullptr) version.older->newer = version.newer;
    if (version.state == VersionState::kPrepared) item.prepared--;
    if (item.latest == &version) item.latest = nullptr;  // KT2: only if the item ends too
    versions--;
    cold_versions--;
    version_pool_.give(&version);
}

void Table::erase_if_empty(Item& item) {
    if (item.newest != nullptr || item.held > 0) return;
    free_slot(item);
    static_cast<ListNode<GraveTag>&>(item).unlink();
    ordered_.erase(&item);
    items_.erase(&item);
    key_bytes_ -= item.key.size();
    item_pool_.give(&item);
}

void Table::set_prepared(Version& version) {
    version.state = VersionState::kPrepared;
    version.item->prepared++;
}

void Table::retire(Version& version, Nanoseconds now) {
    if (!version.expires.is_none()) expiring.erase(&version);
    version.retired_at = now;
    (version.alone ? retired_alone : retired).push_back(version);
    retired_alone_count += version.alone;
}

bool Table::commit(Version& version, Nanoseconds now) {
    Item& item = *version.item;
    if (version.state == VersionState::kPrepared) item.prepared--;
    version.state = VersionState::kCommitted;
    version.sibling = nullptr;
    Version* before = item.latest;
    if (before != nullptr && before->timestamp > version.timestamp) {
        retire(version, now);
        return false;
    }
    item.latest = &version;
    if (before != nullptr) retire(*before, now);
    if (!version.expires.is_none()) expiring.insert(&version);
    auto& grave = static_cast<ListNode<GraveTag>&>(item);
    if (version.tombstone && !grave.linked()) {
        item.grave_at = now;
        graves.push_back(item);
    }
    move_into_cell(item, version);
    return true;
}

void Table::publish(Item& item) {
    if (item.slot == Arena::kNowhere) return offer(item);
    // Prepared versions are among the newest. The walk misses a version that a stalled writer prepared
    // thousands of versions ago; `incomplete` makes readers that need this version ask the server.
    constexpr uint32_t kWalk = 32;
    SlotView view{.fingerprint = item.hash, .incarnation = item.incarnation, .sequence = ++item.sequence};
    const auto show = [&](Version& version, EntryState state) {
        if (!version.sealed && !version.is_cold()) seal(version);
        view.entries[view.entry_count++] = {.timestamp = version.timestamp,
                                            .offset = version.is_cold() ? 0 : version.offset,
                                            .length = version.is_cold() ? 0 : version.length,
                                            .state = state,
                                            .tombstone = version.tombstone,
                                            .checksum = version.checksum,
                                            .expires = version.expires};
    };
    if (item.latest != nullptr) show(*item.latest, EntryState::kLatest);
    uint32_t shown = 0;
    uint32_t steps = 0;
    for (Version* at = item.newest; at != nullptr && shown < item.prepared && steps < kWalk;
         at = at->older, steps++) {
        if (at->state != VersionState::kPrepared || view.entry_count == kEntries) continue;
        show(*at, EntryState::kPrepared);
        shown++;
    }
    steps = 0;
    for (Version* at = item.latest != nullptr ? item.latest->older : nullptr;
         at != nullptr && view.entry_count < kEntries && steps < kWalk; at = at->older, steps++)
        if (at->state == VersionState::kCommitted && !at->is_cold()) show(*at, EntryState::kSuperseded);
    // The last entry of a full slot is its oldest. Prepared versions, which may be older, are not collected.
    item.shown_from = view.entry_count == kEntries && view.entries.back().state == EntryState::kSuperseded
                          ? view.entries.back().timestamp
                          : Timestamp{};
    view.invalid = item.prepared > 0;
    view.incomplete = shown < item.prepared;
    std::array<std::byte, kSlotHeaderBytes> image;
    encode_slot(view, limits_.epoch, image);
    copy_to_shared(arena_.at(item.slot), image.data(), image.size());
}

// Stores the checksum in place, as one word: remote readers may still read the previous contents of this
// memory.
void Table::seal(Version& version) {
    version.checksum = checksum_of_record(limits_.epoch, record(version));
    version.sealed = true;
    sealed_bytes_ += version.length;
    std::array<std::byte, sizeof version.checksum> word;
    std::memcpy(word.data(), &version.checksum, word.size());
    copy_to_shared(arena_.at(version.offset), word.data(), word.size());
}

Bytes Table::record(const Version& version) const {
    return {arena_.at(version.offset), version.length};
}

RecordView Table::view(const Version& version) const {
    RecordView view;
    if (!version.is_cold()) {
        const bool whole = parse_record(record(version), view);
        WSS_ASSERT(whole || mutated(Mutation::kCommitBeforePayload), "a record in the arena is unchanged");
    }
    view.key = version.item->key;
    view.timestamp = version.timestamp;
    view.expires = version.expires;
    view.tombstone = version.tombstone;
    return view;
}

SlotAddress Table::slot_of(const Item& item) const {
    if (item.slot == Arena::kNowhere) return {};
    return {.offset = item.slot,
            .bytes = static_cast<uint32_t>(extent_bytes(item)),
            .incarnation = item.incarnation};
}

void Table::cool(Version& version) {
    WSS_ASSERT(version.logged, "a value that is dropped from RAM is on disk");
    free_record(version);
    if (version.item->warm == 0) free_slot(*version.item);
}

bool Table::warm(Version& version, Bytes record) {
    if (record.size() != version.length) return false;
    std::memcpy(scratch_.get(), record.data(), record.size());
    std::memset(scratch_.get() + record.size(), 0, whole_words(record.size()) - record.size());
    version.checksum = seal_record(limits_.epoch, scratch().first(record.size()));
    version.sealed = true;
    if (!place(*version.item, version)) return false;
    write_record(version, scratch_.get());
    return true;
}

uint64_t Table::heap_used() const {
    return versions * sizeof(Version) + items_.size() * (sizeof(Item) + kTreeNodeBytes) + key_bytes_ +
           items_.bytes();
}

}  // namespace wss::kv::store
