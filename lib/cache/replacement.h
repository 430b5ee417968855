// SPDX-License-Identifier: Apache-2.0
// Replacement: which line of an engine goes when a slot is needed.
//
// W-TinyLFU (Einziger, Friedman, Manes, ACM TOS 2017) with a window whose size is led by ghosts. A new line
// enters a small *window*. When a slot is needed, the line at the window's end and the line at the end of the
// *main* part compete: the one that was used more often of late (frequency.h) stays. So a scan passes through
// the window and disturbs nothing, and of a loop that does not fit a part is kept. Where recency says more
// than frequency (a working set that moves on), a small window is wrong; that shows in misses of lines that
// have just lost the competition:
//
//   ghost of the window   a line that was refused the main part lately: its use makes the window grow
//   ghost of the main     a line that had to leave the main part lately: its use makes the window shrink
//
// The main part is in two: *probation*, where lines come in and go out, and *protected*, four fifths of it,
// for lines that were used while in probation. All five are lists in the order of use, oldest first.
//
// A use of a resident line only counts itself: it is the commonest call, and part of every cache hit. What it
// means is made up for when the line comes to the end of its list and would have to go: then its uses join
// the frequencies, and it moves to where a use brings it.
//
// Documentation/decisions compares it with LRU, ARC, S3-FIFO, LIRS and the optimum; `wssbench cache-sim`
// measures.
//
// Memory is made in blocks as lines come; every operation is O(1), victim() and insert() look at a bounded
// number of lines.
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

    // For up to `capacity` resident lines.
    explicit Replacement(uint32_t capacity);

    // The line takes a slot; `owner` is the caller's word for it, not null. Requires room: resident() <
    // capacity.
    uint32_t insert(LineKey key, void* owner);
    // A resident line was used.
    void touch(uint32_t node) {
        uint8_t& uses = nodes_[node].uses;
        uses = static_cast<uint8_t>(uses + (uses < FrequencySketch::kMost));
        ++unaged_uses_;
    }
    // The line gives its slot back. An evicted one is remembered for a while; one that is gone for good is
    // not.
    enum class Reason : uint8_t { kEvicted, kForgotten };
    void remove(uint32_t node, Reason reason);
    // The owner of the line that should go next, of those that `may_go(owner)` lets go; nullptr if that
    // refuses all that were looked at. Lines that were used since they were last looked at move on.
    template <typename MayGo>
    void* victim(MayGo&& may_go);

    uint32_t capacity() const { return capacity_; }
    uint32_t resident() const { return resident_; }
    uint32_t window_target() const { return window_target_; }

    // For tests: the lists are what their counts and the nodes say.
    bool consistent() const;

  private:
    enum Part : uint8_t { kWindow, kProbation, kProtected, kWindowGhost, kMainGhost, kFree };
    struct Node {
        LineKey key;
        void* owner = nullptr;  // of a resident line; ghosts have none
        uint32_t previous = kNone, next = kNone;
        uint32_t hash_next = kNone;  // of ghosts
        Part part = kFree;
        uint8_t uses = 0;  // since it was last looked at
    };
    struct Chain {
        uint32_t front = kNone, back = kNone, count = 0;
    };
    // How many lines of a list a search looks at: lines in use or dirty stand in the way only for a while.
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
    uint32_t ghosts_max_;  // of each kind
    uint32_t window_target_;
    uint32_t window_ghosts_in_a_row_ = 0;
    uint32_t resident_ = 0;
    uint64_t unaged_uses_ = 0;  // that the frequencies have not been aged for
    std::array<Chain, kFree + 1> chains_;
    uint32_t nodes_max_;
    uint32_t fresh_ = 0;  // nodes from here on were never used
    Blocks<Node, 1024> nodes_;
    uint64_t buckets_mask_;
    Blocks<uint32_t, 16384> buckets_;  // of ghosts; one more than the node, 0: none
    FrequencySketch frequency_;
};

// Of those that were not used since they were last looked at; others are made up for on the way.
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

// After a long time of hits all are in use: then whoever is first.
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
    // A window that is not full has nobody who would have to move on.
    bool full = chains_[kWindow].count >= window_target_;
    uint32_t candidate = full || main == kNone ? first_unused(kWindow, may_go) : kNone;
    if (candidate == kNone && main == kNone) return any_that_may_go(may_go);
    if (candidate == kNone) return nodes_[main].owner;
    if (main == kNone) return nodes_[candidate].owner;
    // The candidate's use that brought it here does not count: of a loop, whoever comes is one use ahead of
    // who is there, and would push out those that it meets next.
    bool wins = frequency_.estimate(nodes_[candidate].key) > frequency_.estimate(nodes_[main].key) + 1;
    return nodes_[wins ? main : candidate].owner;
}

}  // namespace wss::cache
