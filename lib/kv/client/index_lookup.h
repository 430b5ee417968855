// SPDX-License-Identifier: Apache-2.0
// IndexLookup: finds the slot of one key in a partition's index (index_format.h) by reading buckets, one
// after the other. It computes where to read and parses the bytes; the caller does the reading.
//
// The bytes read are untrusted: offsets are checked to be within the index, slots within the arena, and the
// number of buckets read is bounded.
//
// Thread-safety: none; a value.
#pragma once

#include "lib/kv/store/index_format.h"

namespace wss::kv {

class IndexLookup {
  public:
    enum class Next : uint8_t {
        kRead,    // kBucketBytes at offset()
        kFound,   // a slot; it may be another key's
        kAbsent,  // the index does not have the key
        kTorn,    // the bucket changed during every read, or its contents are invalid
    };
    // Limit of bucket reads for one key, including torn ones and those after again().
    static constexpr uint32_t kReadsMax = 8;

    Next begin(uint64_t fingerprint, const store::IndexFacts& facts) noexcept;
    // The found slot is not, or no longer, the key's: it is skipped from now on.
    Next again(const store::IndexFacts& facts) noexcept;
    // The offset in the index at which to read.
    uint64_t offset() const noexcept { return store::bucket_offset(group_, home() ^ distance_); }
    // Updates `facts` with the bucket's information about the growth of the index.
    Next arrived(store::Bytes bucket, const store::ArenaView& arena, store::IndexFacts& facts,
                 store::SlotAddress& found) noexcept;

  private:
    uint32_t home() const noexcept { return store::home_of(tag_); }
    Next restart(const store::IndexFacts& facts) noexcept;
    Next go_to(uint32_t group, const store::IndexFacts& facts) noexcept;
    static bool learn(const store::BucketView& view, store::IndexFacts& facts) noexcept;

    uint64_t tag_ = 0;
    uint32_t group_ = 0;
    uint32_t distance_ = 0;  // distance from the home bucket
    uint32_t spilled_ = 0;   // the home bucket's
    uint32_t reads_ = 0;
    store::SlotAddress found_, refused_;
};

}  // namespace wss::kv
