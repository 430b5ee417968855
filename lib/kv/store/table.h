// SPDX-License-Identifier: Apache-2.0
// Keys and their versions in RAM, in the arena and on disk. The store's transactions work on this table.
//
// Invariants
//  KT1  The versions of an item are linked from newest to oldest timestamp; `latest` is the newest committed
//       one.
//  KT2  A committed version other than the latest is in `retired`, `retired_alone` or `pinned`. The first two
//       are in order of retirement.
//  KT3  What a slot shows exists: code that changes an item's versions publishes the item before it leaves
//       the store.
//  KT4  A version's record is in a cell of its item's extent, or elsewhere in the arena, or nowhere (cold; on
//       disk).
//
// Thread-safety: none. Ownership: the table owns items and versions; pointers are valid until erase().
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
    Version* sibling = nullptr;  // next version of the same undecided transaction
    Timestamp timestamp;
    Timestamp expires;
    uint64_t offset = Arena::kNowhere;
    uint64_t checksum = 0;
    Nanoseconds retired_at{};
    uint32_t length = 0;  // length of the record
    VersionState state = VersionState::kPreparing;
    uint8_t cell = kNoCell;
    bool tombstone = false;
    bool logged = false;    // the log has its row
    bool spilling = false;  // its row is being written
    bool alone = false;     // its transaction is on this partition only (S4)
    bool sealed = false;    // its record has its checksum; required if a slot shows it
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
    uint32_t held = 0;      // undecided transactions with conditions that hold it (S13); prevents erasure
    std::array<Version*, kInlineCellsMax> cells{};
    Timestamp collected;   // the newest collected version
    Timestamp shown_from;  // the slot shows no older version; none without a slot
    Nanoseconds grave_at{};
    bool referenced = false;
    bool indexed = false;  // its slot is in the index
};

// True for a tombstone that ends a value: it may use reserved memory. A tombstone for a key without a value
// frees nothing.
inline bool makes_room(const Item& item, bool is_tombstone) {
    return is_tombstone && item.latest != nullptr && !item.latest->tombstone;
}

class Table {
  public:
    struct Limits {
        uint64_t epoch = 0;
        uint64_t secret = 0;  // Options::secret
        uint32_t inline_cells = 0;
        uint32_t inline_max = 0;
    };
    Table(const Limits& limits, std::span<std::byte> arena, std::span<std::byte> index);

    Item* find(std::string_view key) const;
    Item& find_or_create(std::string_view key);
    Version* find(const Item& item, Timestamp timestamp) const;

    // Adds a version to `item`, not visible to readers. nullptr: no room in the arena. The item must not have
    // a version of that timestamp.
    Version* add(Item& item, const RecordView& record);
    // The same without a record in the arena; the log has it.
    Version& add_cold(Item& item, const RecordView& record, size_t length);
    // Unlinks the version from all lists and frees its record.
    void erase(Version& version);
    void erase_if_empty(Item& item);

    void set_prepared(Version& version);
    // Returns false if a newer version has already been committed.
    bool commit(Version& version, Nanoseconds now);
    // Makes the item's versions visible to remote readers (KT3).
    void publish(Item& item);
    // Gives the item a slot, if it has none, has a version in memory and there is room, and enters it into
    // the index. Until a reader has requested the address of a key, or slots are offered, its writes need no
    // slot, cell or checksum.
    void show(Item& item, bool with_cells = true);
    // Gives slots to items that were written before `offers_slots` was set. Visits a bounded number of items,
    // and of bytes of their records. Returns the number of items that got one.
    size_t show_more();

    RecordView view(const Version& version) const;  // a cold version has no value and no metadata
    Bytes record(const Version& version) const;     // must not be cold
    SlotAddress slot_of(const Item& item) const;

    // Drops the record of a version that the log has, and the slot if this was the item's last record.
    void cool(Version& version);
    // Puts the record of a cold version into the arena. Returns false if there is no room, or `record` has
    // the wrong size.
    bool warm(Version& version, Bytes record);

    // For Mutation::kCommitBeforePayload only.
    void write_late_records();

    Arena& arena() { return arena_; }
    const Arena& arena() const { return arena_; }
    const SlotIndex& index() const { return index_; }
    uint64_t heap_used() const;

    // Maintained by upkeep.cc.
    List<Version, RetiredTag> retired;
    List<Version, RetiredTag> retired_alone;
    size_t retired_alone_count = 0;
    List<Version, RetiredTag> pinned;
    List<Item, GraveTag> graves;  // items whose latest is a tombstone
    List<Item, WarmTag> warm_items;
    // A position in the order of expiry; its version may be gone.
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
    std::set<Version*, BySoonest> expiring;  // latest versions that expire

    struct ByKey {
        using is_transparent = void;
        bool operator()(const Item* a, const Item* b) const { return a->key < b->key; }
        bool operator()(const Item* a, std::string_view b) const { return a->key < b; }
        bool operator()(std::string_view a, const Item* b) const { return a < b->key; }
    };
    const std::set<Item*, ByKey>& ordered() const { return ordered_; }

    uint64_t versions = 0;
    uint64_t cold_versions = 0;
    // Remote readers find keys by the index. All items with a committed value in memory then get slots,
    // unless the arena is nearly full.
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
    std::unique_ptr<std::byte[]> scratch_;  // kRecordMax; pages are used only as far as records need
    uint64_t key_bytes_ = 0;
    size_t offered_to_ = 0;      // the bucket of `items_` where show_more() continues
    uint64_t sealed_bytes_ = 0;  // read by seal()
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
