// SPDX-License-Identifier: Apache-2.0
// Pool: reuses objects without heap allocations. Objects stay constructed, so that the memory that they own
// (such as a string's) is reused too; the taker must set every field.
//
// HashIndex: an intrusive hash table over objects with `uint64_t hash` and `T* hash_next`. It doubles when
// full, the only case in which an insertion takes a long time.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

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
    HashIndex() : buckets_(kBucketsMin) {}

    template <typename Same>
    T* find(uint64_t hash, Same&& same) const {
        for (T* at = buckets_[hash & (buckets_.size() - 1)]; at != nullptr; at = at->hash_next)
            if (at->hash == hash && same(*at)) return at;
        return nullptr;
    }
    void insert(T* object) {
        if (size_++ == buckets_.size()) grow();
        push(object);
    }
    void erase(T* object) {
        T** link = &buckets_[object->hash & (buckets_.size() - 1)];
        while (*link != object) link = &(*link)->hash_next;
        *link = object->hash_next;
        object->hash_next = nullptr;
        size_--;
    }
    // Iteration by bucket. When the table grows, an object's bucket number does not decrease.
    size_t buckets() const { return buckets_.size(); }
    template <typename Visit>
    void for_each(size_t bucket, Visit&& visit) {
        for (T* at = buckets_[bucket]; at != nullptr; at = at->hash_next) visit(*at);
    }
    size_t size() const { return size_; }
    size_t bytes() const { return buckets_.size() * sizeof(T*); }

  private:
    static constexpr size_t kBucketsMin = 64;

    void push(T* object) {
        T*& bucket = buckets_[object->hash & (buckets_.size() - 1)];
        object->hash_next = bucket;
        bucket = object;
    }
    void grow() {
        std::vector<T*> old(buckets_.size() * 2);
        old.swap(buckets_);
        for (T* at : old)
            while (at != nullptr) {
                T* next = at->hash_next;
                push(at);
                at = next;
            }
    }

    std::vector<T*> buckets_;
    size_t size_ = 0;
};

}  // namespace wss::kv::store
