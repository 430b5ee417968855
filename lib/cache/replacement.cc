// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/replacement.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/assert.h"

namespace wss::cache {

namespace {

// Shares of the capacity in percent, measured with `wssbench cache-sim` and two traces of moving working
// sets.
constexpr uint64_t kWindowLeast = 1;
constexpr uint64_t kWindowMost = 99;
constexpr uint64_t kProtectedOfMain = 80;
// Ghosts of each kind. They show what a part would gain if it were larger by a tenth of the cache.
constexpr uint64_t kGhosts = 10;
// A miss on a line that was evicted from the main part weighs more than one on a line that was rejected from
// the window, because lines of the main part were usually used more. With 1, scans alongside a zipf load cost
// up to 0.2 points of hits.
constexpr uint32_t kShrinkBy = 2;
// A moving working set causes misses on window ghosts alone. For each kStreak of them in a row, the window
// grows by one more line per miss. With 8, scans alongside a zipf load cost 0.1 points; with 16 none, and the
// moving set gains 0.6.
constexpr uint32_t kStreak = 16;
constexpr uint32_t kGrowByMost = 64;
// Maximum number of used lines that one demotion passes over. They move to the end of their list.
constexpr uint32_t kSecondChances = 8;

uint32_t percent(uint64_t share, uint32_t of) {
    return static_cast<uint32_t>(std::max<uint64_t>(share * of / 100, 1));
}

}  // namespace

Replacement::Replacement(uint32_t capacity)
    : capacity_(capacity),
      ghosts_max_(percent(kGhosts, capacity)),
      window_target_(percent(kWindowLeast, capacity)),
      nodes_max_(capacity + 2 * ghosts_max_),
      nodes_(nodes_max_),
      buckets_mask_(std::bit_ceil(2 * uint64_t{ghosts_max_}) - 1),
      buckets_(buckets_mask_ + 1),
      frequency_(capacity) {}

// Returns a node that is in no list. One always exists, because residents and ghosts are limited.
uint32_t Replacement::free_node() {
    const uint32_t index = chains_[kFree].front;
    if (index != kNone) {
        unlink(index);
        return index;
    }
    WSS_ASSERT(fresh_ < nodes_max_, "nodes for all residents and ghosts");
    nodes_.make(fresh_);
    return fresh_++;
}

uint32_t Replacement::insert(LineKey key, void* owner) {
    WSS_ASSERT(resident_ < capacity_ && owner != nullptr, "the caller has made room");
    frequency_.age(std::exchange(unaged_uses_, 0) + 1);
    frequency_.add(key, 1);
    heed_ghost(key);
    const uint32_t index = free_node();
    nodes_[index].key = key;
    nodes_[index].owner = owner;
    append(kWindow, index);
    ++resident_;
    balance();
    return index;
}

// Applies the counted uses of a line. The result is the same as if each use had been applied when it
// happened, except for the order among lines.
void Replacement::make_up(uint32_t index) {
    Node& node = nodes_[index];
    frequency_.add(node.key, std::exchange(node.uses, uint8_t{0}));
    if (node.part == kWindow) return move(index, kWindow);
    move(index, kProtected);
    uint32_t most = percent(kProtectedOfMain, capacity_ - std::min(window_target_, capacity_));
    uint32_t chances = kSecondChances;
    while (chains_[kProtected].count > most) {
        const uint32_t oldest = chains_[kProtected].front;
        Node& other = nodes_[oldest];
        const bool stays = other.uses > 0 && chances > 0;
        if (stays) frequency_.add(other.key, std::exchange(other.uses, uint8_t{0}));
        chances -= stays;
        move(oldest, stays ? kProtected : kProbation);
    }
}

void Replacement::remove(uint32_t index, Reason reason) {
    Node& node = nodes_[index];
    WSS_ASSERT(node.owner != nullptr, "only a resident line can be removed");
    node.owner = nullptr;
    node.uses = 0;
    --resident_;
    if (reason == Reason::kEvicted)
        make_ghost(index, node.part == kWindow ? kWindowGhost : kMainGhost);
    else
        move(index, kFree);
}

// Moves the excess lines of the window to the main part: they have won the competition, or there was none.
void Replacement::balance() {
    uint32_t chances = kSecondChances;
    while (chains_[kWindow].count > window_target_) {
        const uint32_t oldest = chains_[kWindow].front;
        if (nodes_[oldest].uses > 0 && chances > 0) {
            --chances;
            make_up(oldest);
        } else {
            move(oldest, kProbation);
        }
    }
}

void Replacement::make_ghost(uint32_t index, Part part) {
    move(index, part);
    uint32_t& head = buckets_.make(bucket_of(nodes_[index].key));
    nodes_[index].hash_next = head - 1;
    head = index + 1;
    if (chains_[part].count > ghosts_max_) drop_ghost(chains_[part].front);
}

void Replacement::drop_ghost(uint32_t index) {
    const uint32_t next = std::exchange(nodes_[index].hash_next, kNone);
    uint32_t& head = buckets_[bucket_of(nodes_[index].key)];
    uint32_t at = head - 1;
    if (at == index) {
        head = next + 1;
    } else {
        while (nodes_[at].hash_next != index) at = nodes_[at].hash_next;
        nodes_[at].hash_next = next;
    }
    move(index, kFree);
}

uint32_t Replacement::find_ghost(LineKey key) const {
    uint32_t at = buckets_.get(bucket_of(key)) - 1;
    while (at != kNone && nodes_[at].key != key) at = nodes_[at].hash_next;
    return at;
}

// Adjusts the size of the window after a miss on a ghost. The miss would have been a hit if the ghost's part
// were larger.
void Replacement::heed_ghost(LineKey key) {
    uint32_t ghost = find_ghost(key);
    if (ghost == kNone) return;
    if (nodes_[ghost].part == kWindowGhost) {
        const uint32_t grow = std::min(1 + ++window_ghosts_in_a_row_ / kStreak, kGrowByMost);
        window_target_ = std::min(window_target_ + grow, percent(kWindowMost, capacity_));
    } else {
        window_ghosts_in_a_row_ = 0;
        window_target_ =
            std::max(window_target_ - std::min(kShrinkBy, window_target_), percent(kWindowLeast, capacity_));
    }
    drop_ghost(ghost);
}

void Replacement::append(Part part, uint32_t index) {
    Chain& chain = chains_[part];
    Node& node = nodes_[index];
    node.part = part;
    node.previous = chain.back;
    node.next = kNone;
    (chain.back == kNone ? chain.front : nodes_[chain.back].next) = index;
    chain.back = index;
    ++chain.count;
}

void Replacement::unlink(uint32_t index) {
    Node& node = nodes_[index];
    Chain& chain = chains_[node.part];
    (node.previous == kNone ? chain.front : nodes_[node.previous].next) = node.next;
    (node.next == kNone ? chain.back : nodes_[node.next].previous) = node.previous;
    --chain.count;
}

bool Replacement::consistent() const {
    uint64_t seen = 0;
    for (uint8_t part = kWindow; part <= kFree; ++part) {
        uint32_t count = 0, before = kNone;
        for (uint32_t at = chains_[part].front; at != kNone; before = at, at = nodes_[at].next, ++count) {
            const Node& node = nodes_[at];
            bool resident = part <= kProtected, ghost = part == kWindowGhost || part == kMainGhost;
            if (node.part != part || node.previous != before || count > fresh_) return false;
            if (resident != (node.owner != nullptr) || (ghost && find_ghost(node.key) != at)) return false;
        }
        if (count != chains_[part].count || before != chains_[part].back) return false;
        seen += count;
    }
    uint32_t resident = chains_[kWindow].count + chains_[kProbation].count + chains_[kProtected].count;
    return seen == fresh_ && resident == resident_ && resident_ <= capacity_ &&
           chains_[kWindowGhost].count <= ghosts_max_ && chains_[kMainGhost].count <= ghosts_max_;
}

}  // namespace wss::cache
