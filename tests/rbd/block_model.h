// SPDX-License-Identifier: Apache-2.0
// BlockModel: the possible contents of each block of an image, derived from the results of requests.
//
//  M1  After an acknowledged change a block has the contents of that change only.
//  M2  A failed change was carried out, or was not, or will be carried out later.
//  M3  Contents that a read has returned stay until the next change: a failed change never appears later.
//
// Each change writes a unique number to all of its blocks. The number 0 stands for a block of zeroes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace wss::test {

class BlockModel {
  public:
    explicit BlockModel(uint64_t blocks) : blocks_(blocks) {}
    uint64_t size() const { return blocks_.size(); }

    void acknowledged(uint64_t block, uint32_t number) { blocks_[block].may_be = {number}; }
    void failed(uint64_t block, uint32_t number) { blocks_[block].may_be.insert(number); }
    // Records that a read returned `number`. Returns false if the block cannot have these contents.
    bool shows(uint64_t block, uint32_t number) {
        const bool right = may_be(block, number);
        blocks_[block].may_be = {number};
        return right;
    }
    bool may_be(uint64_t block, uint32_t number) const { return blocks_[block].may_be.contains(number); }
    std::string text(uint64_t block) const {
        std::string all;
        for (const uint32_t number : blocks_[block].may_be) all += " " + std::to_string(number);
        return all;
    }

    // Overlapping requests are not submitted at the same time: no storage guarantees an order for them.
    bool is_free(uint64_t first, uint64_t count) const {
        for (uint64_t i = first; i < first + count; ++i)
            if (blocks_[i].in_use) return false;
        return true;
    }
    void use(uint64_t first, uint64_t count, bool in_use) {
        for (uint64_t i = first; i < first + count; ++i) blocks_[i].in_use = in_use;
    }

  private:
    struct Block {
        std::set<uint32_t> may_be{0};
        bool in_use = false;
    };
    std::vector<Block> blocks_;
};

}  // namespace wss::test
