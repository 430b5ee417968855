// SPDX-License-Identifier: Apache-2.0
// LineTable: the entries of lines, and how they are found by their keys.
//
// Linear hashing (Litwin 1980): each line that comes may cut one bucket in two, so that the table grows with
// its lines and never as a whole. Entries are made in blocks, as lines come; their addresses never change.
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
    // Lines that may be in it at once. Only grows.
    uint64_t capacity() const { return capacity_; }
    void allow(uint64_t lines);
    uint64_t free() const { return capacity_ - used_; }

    Line* find(LineKey key) const {
        Line* line = buckets_[bucket_of(key)];
        while (line != nullptr && line->key_ != key) line = line->hash_next_;
        return line;
    }
    // Requires that there is no such line, and free().
    Line& add(LineKey key);
    // The entry stays where it is, for another line.
    void remove(Line& line);

    // Places of entries: each line has one, in [0, places()), and keeps it.
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
    // Those up to bucket_count_ are in use; mask_ + 1 is the power of two at or above it.
    uint64_t bucket_count_ = 0, mask_ = 0;
    Blocks<Line*, 8192> buckets_;
};

}  // namespace wss::cache
