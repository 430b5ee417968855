// SPDX-License-Identifier: Apache-2.0
// IndexLookup: finds the slot of one key in a partition's index (index_format.h) by reading buckets, one
// after the other. It says where to read and takes what was read; the caller does the reading.
//
// Every byte that was read is in doubt: offsets are within the index, slots within the arena, and the number
// of buckets that are read is bounded.
//
// Thread-safety: none; a value.
#pragma once

#include "lib/kv/store/index_format.h"

namespace wss::kv {

class IndexLookup {
  public:
    enum class Next : uint8_t {
        kRead,    // kBucketBytes at offset()
        kFound,   // a slot, perhaps the key's
        kAbsent,  // the index does not have the key
        kTorn,    // it changed whenever it was read, or no honest server writes that
    };
    // Of one key's buckets, torn ones and those of later calls of again() too.
    static constexpr uint32_t kReadsMax = 8;

    Next begin(uint64_t fingerprint, const store::IndexFacts& facts) noexcept;
    // The slot that was found is not the key's, or not any more: it is passed over from now on.
    Next again(const store::IndexFacts& facts) noexcept;
    uint64_t offset() const noexcept {
        return store::bucket_offset(group_, home() ^ distance_);
    }  // in the index
    // `facts` learn what the bucket tells of the index's growth.
    Next arrived(store::Bytes bucket, const store::ArenaView& arena, store::IndexFacts& facts,
                 store::SlotAddress& found) noexcept;

  private:
    uint32_t home() const noexcept { return store::home_of(tag_); }
    Next restart(const store::IndexFacts& facts) noexcept;
    Next go_to(uint32_t group, const store::IndexFacts& facts) noexcept;
    static bool learn(const store::BucketView& view, store::IndexFacts& facts) noexcept;

    uint64_t tag_ = 0;
    uint32_t group_ = 0;
    uint32_t distance_ = 0;  // from the home bucket
    uint32_t spilled_ = 0;   // the home bucket's
    uint32_t reads_ = 0;
    store::SlotAddress found_, refused_;
};

}  // namespace wss::kv
