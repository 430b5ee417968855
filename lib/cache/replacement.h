// SPDX-License-Identifier: Apache-2.0
// Replacement: chooses the line of an engine to evict when a slot is needed.
//
// W-TinyLFU (Einziger, Friedman, Manes, ACM TOS 2017) with a window whose size adapts by ghost entries. A new
// line enters a small *window*. When a slot is needed, the oldest line of the window competes with the oldest
// line of the *main* part. The one with more recent uses (frequency.h) stays. So a scan passes through the
// window and disturbs nothing, and part of a loop that is larger than the cache stays cached. Where recency
// predicts better than frequency (a working set that moves), a small window is wrong. This shows in misses on
// lines that have just lost the competition:
//
//   window ghost   a line that was recently evicted from the window: a miss on it makes the window grow
//   main ghost     a line that was recently evicted from the main part: a miss on it makes the window shrink
//
// The main part has two segments: *probation*, where lines enter and leave, and *protected*, four fifths of
// it, for lines that were used while in probation. The window, both segments and both kinds of ghosts are
// lists in the order of use, oldest first.
//
// A use of a resident line only increments its counter, because it is part of every cache hit. The effect is
// applied when the line reaches the front of its list and would be evicted: its uses are added to the
// frequencies, and the line moves to the place that a use would have given it.
//
// Documentation/decisions compares the policy with LRU, ARC, S3-FIFO, LIRS and the optimum; `wssbench
// cache-sim` measures it.
//
// Memory is allocated in blocks as lines are added. Every operation is O(1): victim() and insert() look at a
// bounded number of lines.
//
// Thread-safety: belongs to the thread of its Index.
#pragma once

#include <array>
#include <cstdint>

#include "lib/cache/blocks.h"
#include "lib/cache/frequency.h"
#include "lib/cache/types.h"

namespace wss::cache {

class Replacement {
  public:
    static constexpr uint32_t kNone = UINT32_MAX;

    // Manages up to `capacity` resident lines.
    explicit Replacement(uint32_t capacity);

    // Adds a line that takes a slot. `owner` is the caller's pointer for it, not null. Requires resident() <
    // capacity().
    uint32_t insert(LineKey key, void* owner);
    // A resident line was used.
    void touch(uint32_t node) {
        uint8_t& uses = nodes_[node].uses;
        uses = static_cast<uint8_t>(uses + (uses < FrequencySketch::kMost));
        ++unaged_uses_;
    }
    // The line returns its slot. An evicted line is remembered for a while as a ghost, a forgotten one is
    // not.
    enum class Reason : uint8_t { kEvicted, kForgotten };
    void remove(uint32_t node, Reason reason);
    // The owner of the line to evict, among those for which `may_go(owner)` is true; nullptr if it is false
    // for all lines examined. Lines that were used since they were last examined move to the end of a list.
    template <typename MayGo>
    void* victim(MayGo&& may_go);

    uint32_t capacity() const { return capacity_; }
    uint32_t resident() const { return resident_; }
    uint32_t window_target() const { return window_target_; }

    // For tests: true if the lists match their counters and the nodes.
    bool consistent() const;

  private:
    enum Part : uint8_t { kWindow, kProbation, kProtected, kWindowGhost, kMainGhost, kFree };
    struct Node {
        LineKey key;
        void* owner = nullptr;  // the caller's pointer for a resident line; null in ghosts
        uint32_t previous = kNone, next = kNone;
        uint32_t hash_next = kNone;  // links ghosts only
        Part part = kFree;
        uint8_t uses = 0;  // uses since the node was last examined
    };
    struct Chain {
        uint32_t front = kNone, back = kNone, count = 0;
    };
    // Maximum number of lines of a list that a search examines. Lines that are in use or dirty block it only
    // for a while.
    static constexpr uint32_t kTried = 64;

    template <typename MayGo>
    uint32_t first_unused(Part part, MayGo&& may_go);
    template <typename MayGo>
    void* any_that_may_go(MayGo&& may_go) const;
    void make_up(uint32_t index);
    uint32_t free_node();
    void append(Part part, uint32_t index);
    void unlink(uint32_t index);
    void move(uint32_t index, Part part) {
        unlink(index);
        append(part, index);
    }
    void balance();
    void make_ghost(uint32_t index, Part part);
    void drop_ghost(uint32_t index);
    void heed_ghost(LineKey key);
    uint32_t find_ghost(LineKey key) const;
    size_t bucket_of(LineKey key) const { return hash(key) & buckets_mask_; }

    uint32_t capacity_;
    uint32_t ghosts_max_;  // limit for each of the two kinds
    uint32_t window_target_;
    uint32_t window_ghosts_in_a_row_ = 0;
    uint32_t resident_ = 0;
    uint64_t unaged_uses_ = 0;  // uses for which the frequencies have not yet been aged
    std::array<Chain, kFree + 1> chains_;
    uint32_t nodes_max_;
    uint32_t fresh_ = 0;  // nodes from this index on were never used
    Blocks<Node, 1024> nodes_;
    uint64_t buckets_mask_;
    Blocks<uint32_t, 16384> buckets_;  // hash table of ghosts: index of a node plus 1; 0: none
    FrequencySketch frequency_;
};

// Returns the oldest line of `part` that may be evicted and has not been used since it was last examined, or
// kNone if no examined line qualifies. Calls make_up() for the used lines that it skips.
template <typename MayGo>
uint32_t Replacement::first_unused(Part part, MayGo&& may_go) {
    uint32_t at = chains_[part].front;
    for (uint32_t tried = 0; at != kNone && tried < kTried; ++tried) {
        const uint32_t next = nodes_[at].next;
        if (nodes_[at].uses > 0)
            make_up(at);
        else if (may_go(nodes_[at].owner))
            return at;
        at = next;
    }
    return kNone;
}

// After many hits, every examined line may have been used. In that case, returns the oldest line that may be
// evicted.
template <typename MayGo>
void* Replacement::any_that_may_go(MayGo&& may_go) const {
    for (Part part : {kProbation, kProtected, kWindow}) {
        uint32_t at = chains_[part].front;
        for (uint32_t tried = 0; at != kNone && tried < kTried; at = nodes_[at].next, ++tried)
            if (may_go(nodes_[at].owner)) return nodes_[at].owner;
    }
    return nullptr;
}

template <typename MayGo>
void* Replacement::victim(MayGo&& may_go) {
    uint32_t main = first_unused(kProbation, may_go);
    if (main == kNone) main = first_unused(kProtected, may_go);
    // Until the window is full, none of its lines has to leave it.
    bool full = chains_[kWindow].count >= window_target_;
    uint32_t candidate = full || main == kNone ? first_unused(kWindow, may_go) : kNone;
    if (candidate == kNone && main == kNone) return any_that_may_go(may_go);
    if (candidate == kNone) return nodes_[main].owner;
    if (main == kNone) return nodes_[candidate].owner;
    // The use that brought the candidate in is not counted. Otherwise, in a loop, each new line would be one
    // use ahead of the resident ones and would evict the lines that the loop needs next.
    bool wins = frequency_.estimate(nodes_[candidate].key) > frequency_.estimate(nodes_[main].key) + 1;
    return nodes_[wins ? main : candidate].owner;
}

}  // namespace wss::cache
