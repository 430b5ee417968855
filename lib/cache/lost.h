// SPDX-License-Identifier: Apache-2.0
// LostPieces: acknowledged writes that nobody can reach. Every engine that held a dirty line is away, and
// real storage has an older state of it. Whoever reads such a piece must fail, for an acknowledged write is
// never unseen silently, until
//
//   - the piece is written again, as a whole,
//   - an engine comes back that holds a copy not older than what was acknowledged, and the copy is brought
//   home,
//   - or the operator gives the volume's lost pieces up.
//
// What a copy gives back is bounded by what a reader may have seen since:
//
//   - Each loss of a line has the generation of the newest change of its dirty data that a reader may have
//     seen. A copy of an older generation missed it and gives nothing back.
//   - A copy of a newer one has a write that was under way, if no reader can have seen the data without it. A
//     recovery decides by the copies that it finds. Later ones of that time give nothing back.
//   - A volume that was smaller since has zeroes beyond that end.
//
// What is lost must be remembered over restarts: target/cache/membership.h keeps it with the membership.
//
// Where it is not known which lines are lost, the whole volume is, which only the operator ends. So it is
// where the operator does not wait for engines after a restart, or more lines were lost than are saved. Lines
// that were lost before that can still be given back.
//
// Any number of lines may be lost: they were dirty in the index, which needs more memory for each.
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

// Of a loss: what a copy does not give back, besides what it missed.
struct LossBounds {
    uint64_t passed_over = 0;  // copies newer than the loss, up to this generation
    uint32_t end = kNoEnd;     // what lies beyond this byte of the line
};

class LostPieces {
  public:
    struct Key {
        uint64_t volume = 0;  // WWID
        uint64_t line = 0;
        uint64_t generation = 0;
        auto operator<=>(const Key&) const = default;
    };

    bool empty() const noexcept { return lines_.empty() && whole_.empty(); }
    // `since`: when the line was lost; the default for what is remembered from before a restart. Pieces that
    // are lost of a line already keep their time.
    void add(const Key& key, Pieces pieces, Nanoseconds since = {}, const LossBounds& bounds = {});
    void add_whole(uint64_t volume);
    // All of the line, if its volume is lost as a whole.
    Pieces of(uint64_t volume, uint64_t line) const noexcept;
    bool is_whole(uint64_t volume) const noexcept { return whole_.contains(volume); }
    bool any_of(uint64_t volume) const noexcept;
    uint64_t pieces_of(uint64_t volume) const noexcept;
    // The first of what is lost of these pieces of the line, and of all lines of the volume; kNever: none is.
    Nanoseconds since(uint64_t volume, uint64_t line, Pieces pieces) const noexcept;
    Nanoseconds since(uint64_t volume) const noexcept;
    // Whether something of the volume was lost later than `after`, and by `until`.
    bool any_since(uint64_t volume, Nanoseconds after, Nanoseconds until) const noexcept;
    // What a copy of `key.generation` with these dirty pieces gives back.
    Pieces in_copy(const Key& key, Pieces dirty) const noexcept;
    // … up to this byte of the line. The piece that holds it is the last.
    uint32_t end_of(uint64_t volume, uint64_t line, Pieces pieces) const noexcept;
    // They are known again: written anew, or brought home. True if any of them was lost.
    bool found(uint64_t volume, uint64_t line, Pieces pieces);
    // The volume ends in this line, of which so many bytes are left or none. True if anything beyond was
    // lost.
    bool cut(uint64_t volume, uint64_t line, uint32_t bytes);
    // Given up, or the volume is gone. True if anything of it was lost.
    bool forget(uint64_t volume);

    // Grows whenever something is not lost any more.
    uint64_t known_again() const noexcept { return known_again_; }

    struct Loss {
        Pieces pieces;
        Nanoseconds since{};
        LossBounds bounds{};
    };
    const std::map<Key, Loss>& lines() const noexcept { return lines_; }
    const std::set<uint64_t>& whole() const noexcept { return whole_; }
    struct Count {
        size_t lines = 0;  // in lines(): more than one of a line, if it was lost more than once
        uint64_t pieces = 0;
    };
    // By volume, of those that have any.
    const std::map<uint64_t, Count>& counts() const noexcept { return counts_; }

  private:
    using Lines = std::map<Key, Loss>;
    Lines::iterator erase(Lines::iterator line);
    void erase(Lines::iterator first, Lines::iterator end);
    Lines lines_;  // of one line the pieces differ
    std::map<uint64_t, Count> counts_;
    std::map<std::pair<uint64_t, Nanoseconds>, size_t> times_;  // lines by volume and time
    std::set<uint64_t> whole_;
    uint64_t known_again_ = 0;
};

}  // namespace wss::cache
