// SPDX-License-Identifier: Apache-2.0
// Blocks: an array whose elements are made some at a time, when the first of them is used. So a large one
// begins, and grows, as fast as a small one, and elements that nobody uses cost nothing.
//
// Thread-safety: none; belongs to one thread. Addresses of elements never change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace wss::cache {

template <typename T, size_t kBlock>
class Blocks {
    static_assert((kBlock & (kBlock - 1)) == 0, "a power of two, so that an index is cut in two quickly");

  public:
    static constexpr size_t kElements = kBlock;

    explicit Blocks(size_t size = 0) { grow(size); }
    size_t size() const { return blocks_.size() * kBlock; }
    // To at least `size` elements; the new ones are not made.
    void grow(size_t size) { blocks_.resize(std::max(blocks_.size(), (size + kBlock - 1) / kBlock)); }
    bool is_made(size_t at) const { return blocks_[at / kBlock] != nullptr; }
    // Of what is made.
    T& operator[](size_t at) { return blocks_[at / kBlock][at % kBlock]; }
    const T& operator[](size_t at) const { return blocks_[at / kBlock][at % kBlock]; }
    // Makes it, and its neighbours, unless they are.
    T& make(size_t at) {
        std::unique_ptr<T[]>& block = blocks_[at / kBlock];
        if (block == nullptr) block = std::make_unique<T[]>(kBlock);
        return block[at % kBlock];
    }
    // What is not made reads as one just made.
    T get(size_t at) const { return is_made(at) ? (*this)[at] : T(); }
    // The elements beside `at`: begins at a multiple of kElements; nullptr if they are not made.
    T* block_of(size_t at) { return blocks_[at / kBlock].get(); }

  private:
    std::vector<std::unique_ptr<T[]>> blocks_;
};

}  // namespace wss::cache
