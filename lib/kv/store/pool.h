// SPDX-License-Identifier: Apache-2.0
// Pool: reuses objects without heap allocations. Objects stay constructed, so that the memory that they own
// (such as a string's) is reused too; the taker must set every field.
//
// HashIndex: an intrusive hash table over objects with `uint64_t hash` and `T* hash_next`. An insertion
// divides at most one bucket, so it takes as little time in a large table as in a small one. The buckets
// depend on a secret, because peers choose the hashes.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "lib/kv/store/keyed_hash.h"

namespace wss::kv::store {

template <typename T>
class Pool {
  public:
    T* take() {
        if (free_.empty()) return &objects_.emplace_back();
        T* object = free_.back();
        free_.pop_back();
        return object;
    }
    void give(T* object) { free_.push_back(object); }

  private:
    std::deque<T> objects_;  // a deque never moves its elements
    std::vector<T*> free_;
};

template <typename T>
class HashIndex {
  public:
    explicit HashIndex(uint64_t secret = 0) : keyed_(secret) { blocks_.push_back(std::make_unique<Block>()); }

    template <typename Same>
    T* find(uint64_t hash, Same&& same) const {
        for (T* object = first(bucket_of(hash)); object != nullptr; object = object->hash_next)
            if (object->hash == hash && same(*object)) return object;
        return nullptr;
    }
    void insert(T* object) {
        if (size_++ == buckets()) grow();
        push(object);
    }
    void erase(T* object) {
        T** link = &first(bucket_of(object->hash));
        while (*link != object) link = &(*link)->hash_next;
        *link = object->hash_next;
        object->hash_next = nullptr;
        size_--;
    }
    // Iteration by bucket. When the table grows, an object's bucket number does not decrease.
    size_t buckets() const { return round_ + divided_; }
    template <typename Visit>
    void for_each(size_t bucket, Visit&& visit) {
        for (T* object = first(bucket); object != nullptr; object = object->hash_next) visit(*object);
    }
    size_t size() const { return size_; }
    size_t bytes() const { return buckets() * sizeof(T*); }

  private:
    static constexpr size_t kBucketsMin = 64;
    static constexpr size_t kBlock = 1024;
    using Block = std::array<T*, kBlock>;

    // Linear hashing: each round divides its `round_` buckets in order, one for each insertion. About half of
    // a bucket's objects move to a new bucket, whose number is higher by `round_`.
    size_t bucket_of(uint64_t hash) const {
        const uint64_t keyed = keyed_(hash);
        const size_t bucket = keyed & (round_ - 1);
        return bucket < divided_ ? keyed & (2 * round_ - 1) : bucket;
    }
    T*& first(size_t bucket) const { return (*blocks_[bucket / kBlock])[bucket % kBlock]; }
    void push(T* object) {
        T*& bucket = first(bucket_of(object->hash));
        object->hash_next = bucket;
        bucket = object;
    }
    void grow() {
        if (buckets() == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<Block>());
        T* object = std::exchange(first(divided_), nullptr);
        if (++divided_ == round_) {
            round_ *= 2;
            divided_ = 0;
        }
        while (object != nullptr) {
            T* next = object->hash_next;
            push(object);
            object = next;
        }
    }

    const KeyedHash keyed_;
    std::vector<std::unique_ptr<Block>> blocks_;
    size_t round_ = kBucketsMin;
    size_t divided_ = 0;
    size_t size_ = 0;
};

}  // namespace wss::kv::store
