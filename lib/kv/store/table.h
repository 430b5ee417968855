// SPDX-License-Identifier: Apache-2.0
// Keys and their versions, in RAM, in the arena and on disk: what the store's transactions work on.
//
// Invariants
//  KT1  The versions of an item are linked from newest to oldest timestamp; `latest` is the newest committed
//       one.
//  KT2  A committed version other than the latest is in its retirement() (or `pinned`), in the order of
//       retirement.
//  KT3  What a slot shows exists: code that changes an item's versions publishes it before the store is left.
//  KT4  A version's record is in a cell of its item's extent, or elsewhere in the arena, or nowhere (cold; on
//       disk).
//
// Thread-safety: none. Ownership: the table owns items and versions; pointers are good until erase().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/kv/store/arena.h"
#include "lib/kv/store/log.h"
#include "lib/kv/store/pool.h"
#include "lib/kv/store/slot_format.h"
#include "lib/kv/store/slot_index.h"

namespace wss::kv::store {

struct Item;
struct RetiredTag;
struct GraveTag;
struct WarmTag;

enum class VersionState : uint8_t { kPreparing, kPrepared, kCommitted };
constexpr uint8_t kNoCell = UINT8_MAX;
constexpr uint32_t kInlineCellsMax = 4;
constexpr uint32_t kInlineBytesMax = 4096;

struct Version : ListNode<RetiredTag> {
    Item* item = nullptr;
    Version* older = nullptr;
    Version* newer = nullptr;
    Version* sibling = nullptr;  // of the same undecided transaction
    Timestamp timestamp;
    Timestamp expires;
    uint64_t offset = Arena::kNowhere;
    uint64_t checksum = 0;
    Nanoseconds retired_at{};
    uint32_t length = 0;  // of the record
    VersionState state = VersionState::kPreparing;
    uint8_t cell = kNoCell;
    bool tombstone = false;
    bool logged = false;    // the log has a row of it
    bool spilling = false;  // the row is on its way
    bool alone = false;     // of a transaction of this partition only (S4)
    bool sealed = false;    // its record carries the checksum; all that a slot shows do
    bool is_cold() const { return offset == Arena::kNowhere; }
};

struct Item : ListNode<WarmTag>, ListNode<GraveTag> {
    uint64_t hash = 0;  // the key's fingerprint
    Item* hash_next = nullptr;
    std::string key;
    Version* newest = nullptr;
    Version* latest = nullptr;
    uint64_t slot = Arena::kNowhere;
    uint32_t cell_bytes = 0;  // 0: the extent has no cells
    uint32_t incarnation = 0;
    uint32_t sequence = 0;
    uint32_t prepared = 0;  // versions
    uint32_t warm = 0;      // versions with a record in the arena
    uint32_t held = 0;      // by undecided transactions with conditions (S13): it is not erased
    std::array<Version*, kInlineCellsMax> cells{};
    Timestamp collected;   // the newest version that was collected
    Timestamp shown_from;  // the slot shows no version older than this
    Nanoseconds grave_at{};
    bool referenced = false;
    bool indexed = false;  // the index has its slot
};

// A tombstone that ends a value, and may have memory of the reserve. That of a key without one only takes it.
inline bool makes_room(const Item& item, bool is_tombstone) {
    return is_tombstone && item.latest != nullptr && !item.latest->tombstone;
}

class Table {
  public:
    struct Limits {
        uint64_t epoch = 0;
        uint32_t inline_cells = 0;
        uint32_t inline_max = 0;
    };
    Table(const Limits& limits, std::span<std::byte> arena, std::span<std::byte> index);

    Item* find(std::string_view key) const;
    Item& find_or_create(std::string_view key);
    Version* find(const Item& item, Timestamp timestamp) const;

    // A new version of `item`, not visible to anybody. nullptr: no room in the arena. The item must not have
    // one of that timestamp.
    Version* add(Item& item, const RecordView& record);
    // Without a record in the arena; the log has it.
    Version& add_cold(Item& item, const RecordView& record, size_t length);
    // Removes it with its record, wherever it is linked.
    void erase(Version& version);
    void erase_if_empty(Item& item);

    void set_prepared(Version& version);
    // Returns false when it lost to a newer one.
    bool commit(Version& version, Nanoseconds now);
    // Shows the item's versions to remote readers (KT3).
    void publish(Item& item);
    // Gives the item a slot, if it has none and there is something to show and room, and enters it into the
    // index. Until somebody has asked where a key is, or slots are offered, nobody looks there, and its
    // writes need no slot, no cell and no checksum.
    void show(Item& item, bool with_cells = true);
    // Gives slots to items that were here before `offers_slots`; looks at a bounded number of items, and of
    // bytes of their records. How many got one.
    size_t show_more();

    RecordView view(const Version& version) const;  // of a cold one: no value, no metadata
    Bytes record(const Version& version) const;     // not of a cold one
    SlotAddress slot_of(const Item& item) const;

    // Drops the record of a version that the log has; the slot too when it was the last one.
    void cool(Version& version);
    // The opposite. False: no room.
    bool warm(Version& version, Bytes record);

    // Only Mutation::kCommitBeforePayload has any.
    void write_late_records();

    Arena& arena() { return arena_; }
    const Arena& arena() const { return arena_; }
    const SlotIndex& index() const { return index_; }
    uint64_t heap_used() const;

    // Owned by the upkeep (upkeep.cc).
    List<Version, RetiredTag> retired;
    List<Version, RetiredTag> retired_alone;
    size_t retired_alone_count = 0;
    List<Version, RetiredTag> pinned;
    List<Item, GraveTag> graves;  // items whose latest is a tombstone
    List<Item, WarmTag> warm_items;
    // A place in the order of expiry; what was there may be gone.
    struct Expiry {
        Timestamp expires;
        const Version* version = nullptr;
        auto operator<=>(const Expiry&) const = default;
    };
    struct BySoonest {
        using is_transparent = void;
        static Expiry of(const Version* version) { return {version->expires, version}; }
        bool operator()(const Version* a, const Version* b) const { return of(a) < of(b); }
        bool operator()(const Version* a, const Expiry& b) const { return of(a) < b; }
        bool operator()(const Expiry& a, const Version* b) const { return a < of(b); }
    };
    std::set<Version*, BySoonest> expiring;  // latest versions with an end

    struct ByKey {
        using is_transparent = void;
        bool operator()(const Item* a, const Item* b) const { return a->key < b->key; }
        bool operator()(const Item* a, std::string_view b) const { return a->key < b; }
        bool operator()(std::string_view a, const Item* b) const { return a < b->key; }
    };
    const std::set<Item*, ByKey>& ordered() const { return ordered_; }

    uint64_t versions = 0;
    uint64_t cold_versions = 0;
    // Remote readers find keys by the index: all that have a committed value in memory get slots, unless the
    // arena is about to be full.
    bool offers_slots = false;

  private:
    Version& link(Item& item, const RecordView& record, size_t length);
    void retire(Version& version, Nanoseconds now);
    bool place(Item& item, Version& version);
    bool place_in_cell(Item& item, Version& version);
    bool move_out_of_cell(Item& item);
    void move_into_cell(Item& item, Version& version);
    void make_slot(Item& item, size_t record_length);
    void offer(Item& item);
    void seal(Version& version);
    void free_slot(Item& item);
    void free_record(Version& version);
    void write_record(const Version& version, const std::byte* from);
    void became_warm(Item& item);
    std::span<std::byte> scratch() { return {scratch_.get(), kRecordMax}; }
    uint64_t cell_offset(const Item& item, uint32_t cell) const {
        return item.slot + kSlotHeaderBytes + uint64_t{cell} * item.cell_bytes;
    }
    size_t extent_bytes(const Item& item) const {
        return kSlotHeaderBytes + size_t{limits_.inline_cells} * item.cell_bytes;
    }

    const Limits limits_;
    Arena arena_;
    SlotIndex index_;
    Pool<Version> version_pool_;
    Pool<Item> item_pool_;
    HashIndex<Item> items_;
    std::set<Item*, ByKey> ordered_;
    std::unique_ptr<std::byte[]> scratch_;  // kRecordMax; untouched beyond what records need
    uint64_t key_bytes_ = 0;
    size_t offered_to_ = 0;      // the bucket of `items_` where show_more() continues
    uint64_t sealed_bytes_ = 0;  // that seal() has read
    struct Late {
        uint64_t offset = 0;
        size_t bytes = 0;
        std::vector<std::byte> record;
    };
    std::vector<Late> late_;

  public:
    size_t keys() const { return items_.size(); }
    ~Table();
};

}  // namespace wss::kv::store
