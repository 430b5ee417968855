// SPDX-License-Identifier: Apache-2.0
// The words of the cache.
//
//   line     a stretch of a volume, 4 to 256 KiB (64 KiB by default), aligned to its size
//   piece    4 KiB of a line: what is valid or dirty, or is not
//   engine   a cache engine (CE): memory of some node, cut into slots
//   slot     memory for one line in one engine
//   holder   an engine in which a line has a slot; the first is the primary, a second exists for dirty data
//   real storage (RS)  what the volume is stored on when the cache is empty
//
// lib/cache decides and remembers; it moves no data, sends nothing and asks for no time: the storage engine
// (SE) does, in target/cache. So all of it runs unchanged in `wssbench cache-sim` and in the simulation.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

namespace wss::cache {

constexpr uint32_t kPieceBytes = 4096;
constexpr uint32_t kPieceShift = 12;
constexpr uint32_t kPiecesMax = 64;  // of a line: its bitmaps are one word
constexpr uint32_t kEnginesMax = 64;
constexpr uint32_t kHoldersMax = 2;

// A set of pieces of one line: bit i is bytes [i * 4 KiB, (i + 1) * 4 KiB).
struct Pieces {
    uint64_t bits = 0;

    constexpr bool empty() const { return bits == 0; }
    constexpr uint32_t count() const { return static_cast<uint32_t>(std::popcount(bits)); }
    constexpr bool contains(Pieces other) const { return (other.bits & ~bits) == 0; }
    constexpr bool overlaps(Pieces other) const { return (other.bits & bits) != 0; }
    constexpr Pieces without(Pieces other) const { return {bits & ~other.bits}; }
    // Requires that there is one.
    constexpr uint32_t first() const { return static_cast<uint32_t>(std::countr_zero(bits)); }
    // The first stretch of adjacent pieces; empty if there is none.
    constexpr Pieces first_run() const {
        uint64_t carried = bits + (bits & -bits);
        return {bits & ~carried};
    }

    friend constexpr Pieces operator|(Pieces a, Pieces b) { return {a.bits | b.bits}; }
    friend constexpr Pieces operator&(Pieces a, Pieces b) { return {a.bits & b.bits}; }
    constexpr Pieces& operator|=(Pieces other) {
        bits |= other.bits;
        return *this;
    }
    constexpr Pieces& operator&=(Pieces other) {
        bits &= other.bits;
        return *this;
    }
    bool operator==(const Pieces&) const = default;
};

// Which line: `volume` is the target's own small number of it (its LUN), not what is stored in headers.
struct LineKey {
    uint32_t volume = 0;
    uint64_t line = 0;
    auto operator<=>(const LineKey&) const = default;
};

// Fibonacci and xor-shift rounds (the finaliser of splitmix64): every bit of the key reaches every bit.
constexpr uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}
constexpr uint64_t hash(LineKey key) {
    return mix(key.line + 0x9e3779b97f4a7c15u * (uint64_t{key.volume} + 1));
}

// The SE's number of an engine, below kEnginesMax; stable while the engine is joined.
struct EngineIndex {
    uint8_t value = UINT8_MAX;
    constexpr bool exists() const { return value < kEnginesMax; }
    auto operator<=>(const EngineIndex&) const = default;
};

struct Slot {
    EngineIndex engine;
    uint32_t number = 0;
    bool operator==(const Slot&) const = default;
};

}  // namespace wss::cache
