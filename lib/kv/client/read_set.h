// SPDX-License-Identifier: Apache-2.0
// ReadSet: the keys that a get_all reads, the state of each, and the minimum version that each must have. It
// implements the reads of the RAMP algorithms.
//
// Thread-safety: none; belongs to its job. Keeps its memory from one transaction to the next.
#pragma once

#include <vector>

#include "lib/kv/client/index_lookup.h"
#include "lib/kv/client/read_buffers.h"
#include "lib/kv/store/slot_format.h"
#include "lib/kv/types.h"
#include "lib/wire/kv.h"

namespace wss::kv {

class ReadSet {
  public:
    enum class Reading : uint8_t { kNone, kBucket, kSlot, kRecord };
    // State of one key.
    struct KeyRead {
        uint64_t fingerprint = 0;
        uint32_t partition = 0;
        Timestamp timestamp;  // the version read; none: no version
        Timestamp required;   // the version must be at least this new
        uint64_t expires = 0;
        Timestamp floor;  // session order: newest version of the key that this session has seen
        bool deleted = false;
        bool settled = false;  // no better version for `required` can be obtained
        std::vector<std::byte> metadata;
        // One-sided.
        Reading reading = Reading::kNone;
        uint32_t cookie = 0;
        uint32_t chunk = ReadBuffers::kNone;
        uint32_t torn = 0;
        Fallback fallback = Fallback::kNone;
        bool has_view = false;            // `view` was read in this transaction
        bool has_cells = false;           // the cells in the chunk were read in this transaction, too
        Reading wanted = Reading::kNone;  // a bucket of the index, or the slot at `address`
        bool by_index = false;            // `address` comes from the index, and may be another key's
        IndexLookup lookup;
        store::SlotAddress address;
        store::SlotView view;
        store::Entry entry;  // the entry whose record is being read
    };

    // Starts a transaction with `count` keys.
    void begin(size_t count);
    size_t size() const { return count_; }
    KeyRead& operator[](size_t index) { return keys_[index]; }
    const KeyRead& operator[](size_t index) const { return keys_[index]; }
    std::vector<KeyRead>& all() { return keys_; }  // including those of earlier, larger transactions
    void sort();                                   // call it when all fingerprints are set

    // RAMP-Fast: each returned version names the keys that were written with it.
    void require_by_keys() noexcept;
    // RAMP-Hybrid: the filters of newer versions determine whether their transactions may have written a key.
    void require_by_filters() noexcept;
    void require_anew() noexcept;  // clears all requirements and `settled`
    // RAMP-Small: requires the highest of the timestamps seen.
    void require_among_all() noexcept;

    // The returned timestamps: the set that the next round sends.
    const std::vector<uint64_t>& among() const { return among_; }
    void collect_among();
    // True if a version is not in that set (a partition had collected a member): its siblings have not been
    // checked.
    bool has_learnt_new() const noexcept;
    Timestamp latest() const noexcept;

  private:
    static void require(KeyRead& key, Timestamp timestamp) noexcept;

    std::vector<KeyRead> keys_;
    size_t count_ = 0;
    std::vector<uint32_t> by_fingerprint_;
    std::vector<uint64_t> among_;
};

}  // namespace wss::kv
