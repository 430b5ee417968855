// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/line_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/assert.h"

namespace wss::cache {

void LineTable::allow(uint64_t lines) {
    capacity_ = std::max(capacity_, lines);
    lines_.grow(capacity_);
    buckets_.grow(std::bit_ceil(std::max(capacity_, kBucketsLeast)));
    if (bucket_count_ != 0) return;
    for (uint64_t bucket = 0; bucket < kBucketsLeast; ++bucket) buckets_.make(bucket);
    bucket_count_ = kBucketsLeast;
    mask_ = kBucketsLeast - 1;
}

void LineTable::push(Line& line) {
    Line*& bucket = buckets_[bucket_of(line.key_)];
    line.hash_next_ = bucket;
    bucket = &line;
}

// Splits one bucket: adds a bucket and moves to it the lines whose hashes belong there.
void LineTable::cut_a_bucket() {
    if (bucket_count_ > mask_) mask_ = 2 * mask_ + 1;
    buckets_.make(bucket_count_);
    Line* line = std::exchange(buckets_[bucket_count_ & (mask_ >> 1)], nullptr);
    ++bucket_count_;
    while (line != nullptr) {
        Line* const next = line->hash_next_;
        push(*line);
        line = next;
    }
}

Line& LineTable::add(LineKey key) {
    WSS_ASSERT(free() > 0, "the caller has checked free()");
    if (free_ == nullptr) {
        Line* const block = &lines_.make(places_);
        for (size_t i = lines_.kElements; i-- > 0;) {
            block[i].hash_next_ = free_;
            free_ = &block[i];
        }
        places_ += lines_.kElements;
    }
    Line& line = *free_;
    free_ = line.hash_next_;
    ++used_;
    line.key_ = key;
    push(line);
    if (used_ > bucket_count_) cut_a_bucket();
    return line;
}

void LineTable::remove(Line& line) {
    Line** link = &buckets_[bucket_of(line.key_)];
    while (*link != &line) link = &(*link)->hash_next_;
    *link = line.hash_next_;
    line.hash_next_ = free_;
    free_ = &line;
    --used_;
}

}  // namespace wss::cache
