// SPDX-License-Identifier: Apache-2.0
// Line: what the index remembers of one line, and LineOp: one operation on it.
//
// States
//   absent      in no engine. The entry exists only while operations are on it
//   filling     has slots; nothing in them counts yet
//   clean       what is valid in the primary is also in real storage
//   dirty       some pieces are newer than real storage; they are in every holder
//   destaging   dirty, and some of the dirty pieces are being written to real storage
//   evicting    its copies are being erased, nothing of it counts any more; absent when that is confirmed
//   wiping      as evicting, for a volume that is gone: the contents are zeroed too
// "Partly valid" is no state: the bitmap says it. Index::set_state() is the only place where the state
// changes, by the table in line.cc.
//
// Operations
//   Whoever touches a line (serves a read from it, writes, fills, destages, evicts) does so as a LineOp: it
//   names the pieces and whether it shares them. An operation waits for every earlier one that has a piece in
//   common with it unless both share; so operations on a piece happen in the order of their arrival, and a
//   read that arrives after a write was acknowledged sees it. A line with operations on it is never evicted,
//   and its slots stay its own: the operation is the pin.
//
//   Real storage may take hours to answer one that has a line, or one before it, and a copy of the line is
//   made meanwhile: such an operation rests while it leaves the line's copies alone, and the copying goes
//   beside it, ahead of those that wait, and takes no longer than engines do.
//
//   L1  An operation that needs several lines enters them in ascending order and keeps what it has: so none
//       waits in a circle.
//   L2  Between enter() and leave() the LineOp stays where it is. leave() is called exactly once for each,
//       granted or not (a request that is aborted leaves the queue).
//   L3  An operation that has rested, and a shared one that is to change what copies claim, resumes before it
//       changes anything: then nobody copies the line, nor begins to while it is exclusive or clearing().
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
    kShared,     // reads: of the copies (hit, destage) or of real storage (miss)
    kExclusive,  // changes what the pieces are: write, fill, evict, wipe
};

struct GrantOrder;
// Set by the caller before enter(): pieces, access. `context` is the caller's own.
class LineOp : public ListNode<>, public ListNode<GrantOrder> {
  public:
    Pieces pieces;
    Access access = Access::kShared;
    void* context = nullptr;

    Line* line() const { return line_; }  // from enter() to leave()
    bool granted() const { return granted_; }
    // It was let in, and leaves the line's copies alone until Index::resume().
    void rest() { rests_ = true; }

  private:
    friend class Index;
    friend class Line;
    bool conflicts_with(const LineOp& earlier) const {
        if (earlier.beside_ && resumes_) return true;
        return (access == Access::kExclusive || earlier.access == Access::kExclusive) &&
               pieces.overlaps(earlier.pieces);
    }
    Line* line_ = nullptr;
    bool granted_ = false;
    bool rests_ = false;
    bool resumes_ = false;  // waits for what went beside it
    bool beside_ = false;
};
// Operations that a leave() has let in, in order of their arrival: the caller goes on with each.
using Granted = List<LineOp, GrantOrder>;

enum class LineState : uint8_t { kAbsent, kFilling, kClean, kDirty, kDestaging, kEvicting, kWiping };
std::string_view to_string(LineState state);
bool may_follow(LineState from, LineState to);

constexpr uint32_t kNoEnd = UINT32_MAX;  // instead of a byte of a line at which something ends

// The newest change of a line's dirty pieces that a reader may have seen. If all copies of the line are lost,
// an older one gives nothing back (lost.h).
class SeenChange {
  public:
    uint64_t generation() const { return generation_; }
    // The smallest end that the volume had since, as a byte of the line.
    uint32_t end() const { return end_; }
    // A copy that is left has confirmed it. Index::written() implies this.
    void set(uint64_t generation) {
        generation_ = generation;
        end_ = kNoEnd;
    }
    // A copy that missed this gives back no more.
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
    Pieces valid() const { return valid_; }
    Pieces dirty() const { return dirty_; }
    Pieces destaging() const { return destaging_; }  // a part of dirty()
    uint64_t generation() const { return generation_; }
    // Primary first; empty when absent.
    std::span<const Slot> holders() const { return {holders_.data(), holder_count_}; }
    // Those that have what the line has: not one that is being copied to.
    std::span<const Slot> copies() const {
        return {holders_.data(), static_cast<size_t>(holder_count_ - copying_)};
    }
    // Index::mark_single()
    bool single() const { return single_; }
    bool copying() const { return copying_; }
    // Index::begin_clear(): what a copy that is being made holds will not be dirty.
    bool clearing() const { return clearing_; }
    bool held_by(EngineIndex engine) const {
        return (holder_count_ > 0 && holders_[0].engine == engine) ||
               (holder_count_ > 1 && holders_[1].engine == engine);
    }
    Nanoseconds dirty_since() const { return dirty_since_; }
    uint64_t dirty_sequence() const { return dirty_sequence_; }
    // A read of these pieces may go to the primary at once: they are there, and nobody changes the line or
    // waits to do so.
    bool serves(Pieces touched) const { return exclusive_count_ == 0 && valid_.contains(touched); }
    // Of an exclusive operation on all pieces.
    SeenChange& seen() { return seen_; }
    // No operation is on it or waits for it.
    bool idle() const { return op_count_ == 0; }
    uint32_t operations() const { return op_count_; }

  private:
    friend class DirtyLines;
    friend class Index;
    friend class LineTable;
    // Index's functions of these names.
    bool admit(LineOp& op);
    bool admit_beside(LineOp& op);
    bool readmit(LineOp& op);
    void dismiss(LineOp& op, Granted& granted);
    void grant(Granted& granted);

    // Hot: what a hit reads and writes.
    LineKey key_;
    Line* hash_next_ = nullptr;  // chain of the bucket; of the free lines when unused
    Pieces valid_;
    Pieces dirty_;
    std::array<Slot, kHoldersMax> holders_;
    uint32_t replacement_node_ = UINT32_MAX;  // of the primary's policy
    uint16_t op_count_ = 0;
    uint16_t exclusive_count_ = 0;  // granted or waiting
    uint16_t waiting_count_ = 0;
    uint8_t holder_count_ = 0;
    LineState state_ = LineState::kAbsent;
    bool brought_ahead_ = false;
    bool single_ = false;
    bool copying_ = false;   // the second holder has nothing yet
    bool clearing_ = false;  // what is being destaged is stable
    List<LineOp> ops_;       // granted and waiting, in order of arrival

    // Cold: writes and destaging.
    uint64_t generation_ = 0;
    SeenChange seen_;
    Pieces destaging_;
    Nanoseconds dirty_since_;
    uint64_t dirty_sequence_ = 0;    // in the order of the dirty list
    uint64_t destage_sequence_ = 0;  // the dirty_sequence() of what is being destaged
    Nanoseconds destage_since_;      // and its dirty_since()
    uint64_t destage_serial_ = 0;
};

}  // namespace wss::cache
