// SPDX-License-Identifier: Apache-2.0
// BlockModel: which contents each block of an image may have, from what requests were answered with.
//
//  M1  What was acknowledged is there, and nothing else.
//  M2  A change that failed was made, or was not, or will be made later.
//  M3  What a read has shown stays until the next change: a reader never sees a failed change come late.
//
// Each change writes a number of its own to all of its blocks; 0 is a block of zeroes.
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
    // False: it may not show that.
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

    // Requests that overlap are not submitted at the same time: no storage promises an order for them.
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
