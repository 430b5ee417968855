// SPDX-License-Identifier: Apache-2.0
// SalvageQueue: the copies of lost lines that an engine returned with, each with its parsed header, in the
// order in which the engine sent them. A copy that cannot be destaged now waits in a second list for the next
// tick. So one completion checks no copy twice.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/cache/header.h"
#include "lib/cache/types.h"

namespace wss::cache {

class SalvageQueue {
  public:
    struct Item {
        ArenaSlot slot;
        uint32_t incarnation = 0;
        LineHeader header{};
        Nanoseconds not_before{};  // after a failure of real storage
    };

    // `noted`: the value of Losses::noted() before the engine sent its first copy.
    explicit SalvageQueue(uint64_t noted) : noted_(noted) {}
    uint64_t noted() const noexcept { return noted_; }

    void add(Item item) { due_.push_back(std::move(item)); }
    // Returns nothing if no copy is due.
    std::optional<Item> take() {
        if (due_.empty()) return std::nullopt;
        Item item = std::move(due_.front());
        due_.pop_front();
        return item;
    }
    void postpone(Item item) { later_.push_back(std::move(item)); }
    // Makes the postponed copies due.
    void retry() {
        for (Item& item : std::exchange(later_, {})) due_.push_back(std::move(item));
    }
    bool has_due() const noexcept { return !due_.empty(); }
    bool empty() const noexcept { return due_.empty() && later_.empty(); }

  private:
    std::deque<Item> due_, later_;
    const uint64_t noted_;
};

}  // namespace wss::cache
