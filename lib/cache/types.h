// SPDX-License-Identifier: Apache-2.0
// Basic types of the cache.
//
//   line       an aligned part of a volume, 4 to 256 KiB (64 KiB by default)
//   sub-block  4 KiB of a line, with a valid bit and a dirty bit (SubBlocks)
//   engine     a cache engine (CE): memory of some node, cut into arena slots
//   slot       an arena slot: memory for one line in one engine
//   holder     an engine in which a line has a slot; the first is the primary, a second exists for dirty data
//   real storage  the storage of the volume behind the cache
//
// lib/cache makes the decisions and keeps the state of the cache. Except for engine/, which is the cache
// engine, it moves no data, sends no messages and reads no clock: the storage engine (SE) in target/cache
// does that. So `wssbench cache-sim` and the simulation run the same code.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

namespace wss::cache {

constexpr uint32_t kSubBlockBytes = 4096;
constexpr uint32_t kSubBlockShift = 12;
constexpr uint32_t kSubBlocksMax = 64;  // limit per line: a bitmap is one word
constexpr uint32_t kEnginesMax = 64;
constexpr uint32_t kHoldersMax = 2;

// A set of sub-blocks of one line: bit i stands for bytes [i * 4 KiB, (i + 1) * 4 KiB).
struct SubBlocks {
    uint64_t bits = 0;

    constexpr bool empty() const { return bits == 0; }
    constexpr uint32_t count() const { return static_cast<uint32_t>(std::popcount(bits)); }
    constexpr bool contains(SubBlocks other) const { return (other.bits & ~bits) == 0; }
    constexpr bool overlaps(SubBlocks other) const { return (other.bits & bits) != 0; }
    constexpr SubBlocks without(SubBlocks other) const { return {bits & ~other.bits}; }
    // Requires that the set is not empty.
    constexpr uint32_t first() const { return static_cast<uint32_t>(std::countr_zero(bits)); }
    // The first run of adjacent sub-blocks; empty if the set is empty.
    constexpr SubBlocks first_run() const {
        uint64_t carried = bits + (bits & -bits);
        return {bits & ~carried};
    }

    friend constexpr SubBlocks operator|(SubBlocks a, SubBlocks b) { return {a.bits | b.bits}; }
    friend constexpr SubBlocks operator&(SubBlocks a, SubBlocks b) { return {a.bits & b.bits}; }
    constexpr SubBlocks& operator|=(SubBlocks other) {
        bits |= other.bits;
        return *this;
    }
    constexpr SubBlocks& operator&=(SubBlocks other) {
        bits &= other.bits;
        return *this;
    }
    bool operator==(const SubBlocks&) const = default;
};

// Identifies a line. `volume` is the cache's number of the volume, which is reused, unlike the WWID that
// headers contain.
struct LineKey {
    uint32_t volume = 0;
    uint64_t line = 0;
    auto operator<=>(const LineKey&) const = default;
};

// Multiplications and xor-shifts (the finalizer of splitmix64): every bit of the input affects every bit of
// the result.
constexpr uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}
constexpr uint64_t hash(LineKey key) {
    return mix(key.line + 0x9e3779b97f4a7c15u * (uint64_t{key.volume} + 1));
}

// The SE's number of an engine, below kEnginesMax. It does not change while the engine is joined.
struct EngineIndex {
    uint8_t value = UINT8_MAX;
    constexpr bool exists() const { return value < kEnginesMax; }
    auto operator<=>(const EngineIndex&) const = default;
};

struct ArenaSlot {
    EngineIndex engine;
    uint32_t number = 0;
    bool operator==(const ArenaSlot&) const = default;
};

}  // namespace wss::cache
