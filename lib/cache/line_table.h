// SPDX-License-Identifier: Apache-2.0
// LineTable: the entries of lines and the hash table that finds them by key.
//
// Linear hashing (Litwin 1980): adding a line may split one bucket, so the table grows step by step and is
// never rehashed as a whole. Entries are allocated in blocks as lines are added; their addresses never
// change.
//
// Thread-safety: belongs to the thread of its Index.
#pragma once

#include <cstdint>

#include "lib/cache/blocks.h"
#include "lib/cache/line.h"
#include "lib/cache/types.h"

namespace wss::cache {

class LineTable {
  public:
    // The maximum number of lines at one time. It only grows.
    uint64_t capacity() const { return capacity_; }
    void allow(uint64_t lines);
    uint64_t free() const { return capacity_ - used_; }

    Line* find(LineKey key) const {
        Line* line = buckets_[bucket_of(key)];
        while (line != nullptr && line->key_ != key) line = line->hash_next_;
        return line;
    }
    // Requires that no such line exists and that free() > 0.
    Line& add(LineKey key);
    // The entry keeps its address and will be reused for another line.
    void remove(Line& line);

    // Positions of entries: each line has one in [0, places()), and it does not change.
    uint64_t places() const { return places_; }
    // The entries in [first, first + count), used or not.
    template <typename Visit>
    void visit(uint64_t first, uint64_t count, Visit&& visit) {
        const uint64_t end = first + count < places_ ? first + count : places_;
        for (uint64_t at = first; at < end; ++at) visit(lines_[at]);
    }

  private:
    static constexpr uint64_t kBucketsLeast = 4096;
    size_t bucket_of(LineKey key) const {
        const uint64_t hashed = hash(key);
        const uint64_t bucket = hashed & mask_;
        return bucket < bucket_count_ ? bucket : hashed & (mask_ >> 1);
    }
    void cut_a_bucket();
    void push(Line& line);

    uint64_t capacity_ = 0, used_ = 0;
    uint64_t places_ = 0;
    Line* free_ = nullptr;
    Blocks<Line, 512> lines_;
    // Buckets below bucket_count_ are in use; mask_ + 1 is bucket_count_ rounded up to a power of two.
    uint64_t bucket_count_ = 0, mask_ = 0;
    Blocks<Line*, 8192> buckets_;
};

}  // namespace wss::cache
