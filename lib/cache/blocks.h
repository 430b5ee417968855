// SPDX-License-Identifier: Apache-2.0
// Blocks: an array that allocates its elements in blocks, each when its first element is used. A large array
// is created and grows as fast as a small one, and unused blocks take no memory.
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
    static_assert((kBlock & (kBlock - 1)) == 0, "a power of two, so that an index is split quickly");

  public:
    static constexpr size_t kElements = kBlock;

    explicit Blocks(size_t size = 0) { grow(size); }
    size_t size() const { return blocks_.size() * kBlock; }
    // Grows to at least `size` elements and constructs none of them.
    void grow(size_t size) { blocks_.resize(std::max(blocks_.size(), (size + kBlock - 1) / kBlock)); }
    bool is_made(size_t at) const { return blocks_[at / kBlock] != nullptr; }
    // Requires is_made(at).
    T& operator[](size_t at) { return blocks_[at / kBlock][at % kBlock]; }
    const T& operator[](size_t at) const { return blocks_[at / kBlock][at % kBlock]; }
    // Constructs the element and the others of its block, if that has not been done.
    T& make(size_t at) {
        std::unique_ptr<T[]>& block = blocks_[at / kBlock];
        if (block == nullptr) block = std::make_unique<T[]>(kBlock);
        return block[at % kBlock];
    }
    // An element that has not been constructed reads as a default value.
    T get(size_t at) const { return is_made(at) ? (*this)[at] : T(); }
    // The block that contains `at`; its first element has an index that is a multiple of kElements. nullptr
    // if it has not been constructed.
    T* block_of(size_t at) { return blocks_[at / kBlock].get(); }

  private:
    std::vector<std::unique_ptr<T[]>> blocks_;
};

}  // namespace wss::cache
