// SPDX-License-Identifier: Apache-2.0
// ReadSet: the keys that a get_all reads, what is known of each, and which versions there must at least be:
// the RAMP algorithms.
//
// Thread-safety: none; belongs to its job. Keeps its memory from one transaction to the next.
#pragma once

#include <vector>

#include "lib/kv/client/index_lookup.h"
#include "lib/kv/client/landing.h"
#include "lib/kv/store/slot_format.h"
#include "lib/kv/types.h"
#include "lib/wire/kv.h"

namespace wss::kv {

class ReadSet {
  public:
    enum class Reading : uint8_t { kNone, kBucket, kSlot, kRecord };
    // What is known of one key.
    struct Slot {
        uint64_t fingerprint = 0;
        uint32_t partition = 0;
        Timestamp timestamp;  // of what we have; none: no version
        Timestamp required;   // what we must at least have
        uint64_t expires = 0;
        Timestamp floor;  // session order: what this session has seen of the key
        bool deleted = false;
        bool settled = false;  // the answer for `required` is as good as it gets
        std::vector<std::byte> metadata;
        // One-sided.
        Reading reading = Reading::kNone;
        uint32_t cookie = 0;
        uint32_t chunk = Landing::kNone;
        uint32_t torn = 0;
        Fallback fallback = Fallback::kNone;
        bool has_view = false;            // `view` is of this transaction's first read
        bool has_cells = false;           // and so is the chunk
        Reading wanted = Reading::kNone;  // a bucket of the index, or the slot at `address`
        bool by_index = false;            // `address` comes from the index, and may be another key's
        IndexLookup lookup;
        store::SlotAddress address;
        store::SlotView view;
        store::Entry entry;  // whose record is being read
    };

    // The next transaction's keys: that many slots are in use.
    void begin(size_t count);
    size_t size() const { return count_; }
    Slot& operator[](size_t index) { return slots_[index]; }
    const Slot& operator[](size_t index) const { return slots_[index]; }
    std::vector<Slot>& all() { return slots_; }  // those of earlier, larger transactions too
    void sort();                                 // when all fingerprints are known

    // RAMP-Fast: each returned version names the keys that were written with it.
    void require_by_keys() noexcept;
    // RAMP-Hybrid: the filters of newer versions say whether they may have written a key.
    void require_by_filters() noexcept;
    void require_anew() noexcept;  // nothing, and nothing is settled
    // RAMP-Small: whatever has the highest of the timestamps that were seen.
    void require_among_all() noexcept;

    // The timestamps that were returned: the set that the next round asks with.
    const std::vector<uint64_t>& among() const { return among_; }
    void collect_among();
    // A version that was not in that set (a partition had collected one that was): its siblings have not been
    // looked for.
    bool has_learnt_new() const noexcept;
    Timestamp latest() const noexcept;

  private:
    static void require(Slot& slot, Timestamp timestamp) noexcept;

    std::vector<Slot> slots_;
    size_t count_ = 0;
    std::vector<uint32_t> by_fingerprint_;
    std::vector<uint64_t> among_;
};

}  // namespace wss::kv
