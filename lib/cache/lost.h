// SPDX-License-Identifier: Apache-2.0
// LostSubBlocks: lost sub-blocks, which are acknowledged writes that cannot be read at present. Every engine
// that held the dirty line is away, and real storage has an older state of it. A read of such a sub-block
// must fail, because the loss of an acknowledged write must never be silent. The sub-block stays lost until
//
//   - it is overwritten as a whole,
//   - an engine returns with a copy that is not older than the acknowledged data, and the copy is destaged,
//   - the volume is truncated before it or deleted,
//   - or the operator gives up the volume's lost sub-blocks.
//
// What a copy may restore is limited by what a reader may have seen since:
//
//   - Each loss of a line records the generation of the newest change of its dirty data that a reader may
//     have seen. A copy of an older generation missed that change and restores nothing.
//   - A newer copy contains a write that was in flight. The copy is valid only if no reader can have seen the
//     line without that write. A recovery chooses among the copies that it finds. Copies from that time that
//     return later restore nothing (LossBounds::passed_over).
//   - If the volume has been smaller since, the data beyond that end is zeroes (LossBounds::end).
//
// Losses must be remembered across restarts: target/cache/membership.h saves them with the membership.
//
// If it is not known which lines are lost, the whole volume counts as lost, and only the operator can end
// that. This happens if the operator does not wait for engines after a restart, or if more lines were lost
// than are saved. Lines that were lost before that can still be restored.
//
// The number of lost lines needs no limit: each was a dirty line of the index, which took more memory for it.
//
// Thread-safety: a value of one thread. Control plane: allocates; empty() and of() are for the datapath.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "lib/base/clock.h"
#include "lib/cache/line.h"

namespace wss::cache {

// What a copy does not restore after a loss, in addition to what it missed.
struct LossBounds {
    uint64_t passed_over = 0;  // copies newer than the loss up to this generation restore nothing
    uint32_t end = kNoEnd;     // nothing is restored beyond this byte of the line
};

class LostSubBlocks {
  public:
    struct Key {
        uint64_t volume = 0;  // WWID
        uint64_t line = 0;
        uint64_t generation = 0;
        auto operator<=>(const Key&) const = default;
    };

    bool empty() const noexcept { return lines_.empty() && whole_.empty(); }
    // `since` is the time of the loss; the default is for losses from before a restart. Adding to an existing
    // loss keeps its time, and the stricter bounds apply. No effect if the volume is lost as a whole.
    void add(const Key& key, SubBlocks sub_blocks, Nanoseconds since = {}, const LossBounds& bounds = {});
    void add_whole(uint64_t volume);
    // The lost sub-blocks of the line: all, if its volume is lost as a whole.
    SubBlocks of(uint64_t volume, uint64_t line) const noexcept;
    bool is_whole(uint64_t volume) const noexcept { return whole_.contains(volume); }
    bool any_of(uint64_t volume) const noexcept;
    uint64_t sub_blocks_of(uint64_t volume) const noexcept;
    // Both return the time of the earliest loss, of these sub-blocks of the line or of any line of the
    // volume, or kNever if there is none. They ignore volumes that are lost as a whole.
    Nanoseconds since(uint64_t volume, uint64_t line, SubBlocks sub_blocks) const noexcept;
    Nanoseconds since(uint64_t volume) const noexcept;
    // True if any part of the volume was lost later than `after` and not later than `until`.
    bool any_since(uint64_t volume, Nanoseconds after, Nanoseconds until) const noexcept;
    // The lost sub-blocks that a copy of `key.generation` with these dirty sub-blocks restores.
    SubBlocks in_copy(const Key& key, SubBlocks dirty) const noexcept;
    // The byte of the line up to which in_copy() restores; it lies in the last of these sub-blocks. kNoEnd:
    // no limit.
    uint32_t end_of(uint64_t volume, uint64_t line, SubBlocks sub_blocks) const noexcept;
    // The sub-blocks were overwritten or destaged and are no longer lost. True if any of them was.
    bool found(uint64_t volume, uint64_t line, SubBlocks sub_blocks);
    // The volume now ends in this line, after `bytes` of it (0: before the line). True if a recorded loss
    // changes.
    bool cut(uint64_t volume, uint64_t line, uint32_t bytes);
    // The volume was given up or deleted. True if any part of it was lost.
    bool forget(uint64_t volume);

    // Grows whenever something stops being lost.
    uint64_t known_again() const noexcept { return known_again_; }

    struct Loss {
        SubBlocks sub_blocks;
        Nanoseconds since{};
        LossBounds bounds{};
    };
    const std::map<Key, Loss>& lines() const noexcept { return lines_; }
    const std::set<uint64_t>& whole() const noexcept { return whole_; }
    struct Count {
        size_t lines = 0;  // entries of lines(): several for a line that was lost several times
        uint64_t sub_blocks = 0;
    };
    // The counts of each volume that has lost lines.
    const std::map<uint64_t, Count>& counts() const noexcept { return counts_; }

  private:
    using Lines = std::map<Key, Loss>;
    Lines::iterator erase(Lines::iterator line);
    void erase(Lines::iterator first, Lines::iterator end);
    Lines lines_;  // entries of the same line have no sub-block in common
    std::map<uint64_t, Count> counts_;
    std::map<std::pair<uint64_t, Nanoseconds>, size_t> times_;  // number of lines by volume and time
    std::set<uint64_t> whole_;
    uint64_t known_again_ = 0;
};

}  // namespace wss::cache
