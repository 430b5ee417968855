// SPDX-License-Identifier: Apache-2.0
// Line: the index's entry of one line. LineOp: one operation on a line.
//
// States
//   absent      in no engine. The entry exists only while operations are on it
//   filling     has slots; nothing in them is valid yet
//   clean       the valid sub-blocks of the primary are also in real storage
//   dirty       some sub-blocks are newer than real storage; every copy (copies()) has them
//   destaging   dirty, and some of the dirty sub-blocks are being written to real storage
//   evicting    its copies are being erased and no part of it is valid; absent once the erasure is confirmed
//   wiping      the same as evicting, and the contents are zeroed, for example because the volume was deleted
// "Partly valid" is not a state: the bitmap shows it. Only Index::set_state() changes the state, by the table
// in line.cc.
//
// Operations
//   Every access to a line (serving a read from it, write, fill, destage, erase) is a LineOp. It names its
//   sub-blocks and its access mode. An operation waits for every earlier one that has a sub-block in common
//   with it, unless both are shared. So operations on a sub-block run in the order of their arrival, and a
//   read that arrives after the acknowledgement of a write returns the written data. A line with operations
//   is never evicted and keeps its slots: the operation pins it.
//
//   Real storage may take hours to answer the command of an operation, and meanwhile a second copy of the
//   line may have to be created. For that time the operation rests: it does not access the line's copies. The
//   operation that copies then runs alongside it, ahead of the waiting ones, and takes no longer than the
//   engines need.
//
//   L1  An operation that needs several lines enters them in ascending order and keeps those that it has
//       entered. This prevents deadlock.
//   L2  A LineOp does not move in memory between enter() and leave(). leave() is called exactly once for
//       each, granted or not (an aborted request leaves the queue).
//   L3  A resting operation must resume before it changes anything. Any shared operation must resume before
//       it changes the dirty bits of copies. Once it has resumed, nothing copies the line, and no copying
//       begins while the operation is exclusive or the line is clearing().
//
// Thread-safety: a line and its operations belong to the thread of their Index.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/cache/types.h"

namespace wss::cache {

class Line;

enum class Access : uint8_t {
    kShared,     // keeps the contents of the copies: hit, destage, copying to a second holder
    kExclusive,  // may change the contents of the sub-blocks, or which are valid: write, miss, erase
};

struct GrantOrder;
// The caller sets `sub_blocks` and `access` before enter(). `context` is the caller's own.
class LineOp : public ListNode<>, public ListNode<GrantOrder> {
  public:
    SubBlocks sub_blocks;
    Access access = Access::kShared;
    void* context = nullptr;

    Line* line() const { return line_; }  // valid from enter() to leave()
    bool granted() const { return granted_; }
    // The operation, which must be granted, does not access the line's copies until Index::resume().
    void rest() { rests_ = true; }

  private:
    friend class Index;
    friend class Line;
    bool conflicts_with(const LineOp& earlier) const {
        if (earlier.beside_ && resumes_) return true;
        return (access == Access::kExclusive || earlier.access == Access::kExclusive) &&
               sub_blocks.overlaps(earlier.sub_blocks);
    }
    Line* line_ = nullptr;
    bool granted_ = false;
    bool rests_ = false;
    bool resumes_ = false;  // waits for an operation that runs alongside it
    bool beside_ = false;
};
// Operations that a leave() has granted, in the order of their arrival. The caller continues each of them.
using Granted = List<LineOp, GrantOrder>;

enum class LineState : uint8_t { kAbsent, kFilling, kClean, kDirty, kDestaging, kEvicting, kWiping };
std::string_view to_string(LineState state);
bool may_follow(LineState from, LineState to);

constexpr uint32_t kNoEnd = UINT32_MAX;  // stands for a byte offset in a line if there is no limit

// The newest change of a line's dirty sub-blocks that a reader may have seen. After the loss of all copies, a
// returned copy with an older generation does not restore them (lost.h).
class SeenChange {
  public:
    uint64_t generation() const { return generation_; }
    // The smallest size of the volume since that change, as a byte offset in the line.
    uint32_t end() const { return end_; }
    // A remaining copy has confirmed the change. Index::written() calls this.
    void set(uint64_t generation) {
        generation_ = generation;
        end_ = kNoEnd;
    }
    // The volume was truncated at `end`: a copy that missed this restores nothing beyond it.
    void cut(uint32_t end) { end_ = std::min(end_, end); }

  private:
    uint64_t generation_ = 0;
    uint32_t end_ = kNoEnd;
};

struct DirtyOrder;
struct DestageOrder;

class Line : public ListNode<DirtyOrder>, public ListNode<DestageOrder> {
  public:
    LineKey key() const { return key_; }
    LineState state() const { return state_; }
    SubBlocks valid() const { return valid_; }
    SubBlocks dirty() const { return dirty_; }
    SubBlocks destaging() const { return destaging_; }  // a subset of dirty()
    uint64_t generation() const { return generation_; }
    // Primary first; empty when absent.
    std::span<const ArenaSlot> holders() const { return {holders_.data(), holder_count_}; }
    // The holders that have the line's data: all but one that is being copied to.
    std::span<const ArenaSlot> copies() const {
        return {holders_.data(), static_cast<size_t>(holder_count_ - copying_)};
    }
    // Index::mark_single()
    bool single() const { return single_; }
    bool copying() const { return copying_; }
    // Index::begin_clear() was called: the copies are clearing dirty bits, and no new copy may be created.
    bool clearing() const { return clearing_; }
    bool held_by(EngineIndex engine) const {
        return (holder_count_ > 0 && holders_[0].engine == engine) ||
               (holder_count_ > 1 && holders_[1].engine == engine);
    }
    Nanoseconds dirty_since() const { return dirty_since_; }
    uint64_t dirty_sequence() const { return dirty_sequence_; }
    // True if a read of these sub-blocks may go to the primary at once: they are valid, and no exclusive
    // operation is granted or waiting.
    bool serves(SubBlocks touched) const { return exclusive_count_ == 0 && valid_.contains(touched); }
    // Only an exclusive operation on all sub-blocks may call this.
    SeenChange& seen() { return seen_; }
    // No operation is granted or waiting.
    bool idle() const { return op_count_ == 0; }
    uint32_t operations() const { return op_count_; }

  private:
    friend class DirtyLines;
    friend class Index;
    friend class LineTable;
    // These implement the functions of Index with similar names.
    bool admit(LineOp& op);
    bool admit_beside(LineOp& op);
    bool readmit(LineOp& op);
    void dismiss(LineOp& op, Granted& granted);
    void grant(Granted& granted);

    // Hot: read and written by a hit.
    LineKey key_;
    Line* hash_next_ = nullptr;  // chain of the bucket, or of the free lines
    SubBlocks valid_;
    SubBlocks dirty_;
    std::array<ArenaSlot, kHoldersMax> holders_;
    uint32_t replacement_node_ = UINT32_MAX;  // index in the policy of the primary's engine
    uint16_t op_count_ = 0;
    uint16_t exclusive_count_ = 0;  // granted or waiting
    uint16_t waiting_count_ = 0;
    uint8_t holder_count_ = 0;
    LineState state_ = LineState::kAbsent;
    bool read_ahead_ = false;
    bool single_ = false;
    bool copying_ = false;   // the second holder has no data yet
    bool clearing_ = false;  // the sub-blocks being destaged are in real storage
    List<LineOp> ops_;       // granted and waiting, in order of arrival

    // Cold: used by writes and destaging.
    uint64_t generation_ = 0;
    SeenChange seen_;
    SubBlocks destaging_;
    Nanoseconds dirty_since_;
    uint64_t dirty_sequence_ = 0;    // position in the dirty list
    uint64_t destage_sequence_ = 0;  // dirty_sequence() of the sub-blocks being destaged
    Nanoseconds destage_since_;      // dirty_since() of these sub-blocks
    uint64_t destage_serial_ = 0;
};

}  // namespace wss::cache
