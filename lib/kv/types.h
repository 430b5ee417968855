// SPDX-License-Identifier: Apache-2.0
// The words of the key-value store: timestamps, fingerprints, limits, modes.
//
// A *partition* is one server's share of the keys. A *transaction* is a set of reads (get_all) or of writes
// (put_all), never both. A *version* is one value of one key, named by the timestamp of the transaction that
// wrote it; versions are immutable. Isolation is Read Atomic (the RAMP papers' word): no reader sees a part
// of a transaction. It is not serializable: lost updates, write skew and long forks are possible. Writes may
// have conditions on what was read (PutAll of client.h).
#pragma once

#include <xxhash.h>

#include <compare>
#include <cstdint>
#include <string_view>

namespace wss::kv {

// A transaction's name and its place in the order of writes: a hybrid logical clock in microseconds since
// 2025-01-01 above, the client's leased id below. 63 bits, so that histories can print it as a signed number;
// enough until 2042.
struct Timestamp {
    uint64_t value = 0;  // 0: no version
    auto operator<=>(const Timestamp&) const = default;

    static constexpr uint32_t kClientBits = 14;
    static constexpr Timestamp make(uint64_t ticks, uint32_t client) {
        return {ticks << kClientBits | (client & ((1u << kClientBits) - 1))};
    }
    constexpr uint64_t ticks() const { return value >> kClientBits; }
    constexpr uint32_t client() const { return value & ((1u << kClientBits) - 1); }
    constexpr bool is_none() const { return value == 0; }
};
constexpr uint32_t kClientIdMax = (1u << Timestamp::kClientBits) - 1;
constexpr uint64_t kTicksMax = (uint64_t{1} << (63 - Timestamp::kClientBits)) - 1;
// 2025-01-01T00:00:00Z in microseconds of Unix time: where ticks begin.
constexpr uint64_t kTicksEpoch_us = 1'735'689'600'000'000;

// A key's fingerprint: names it in metadata and in slots. Two keys of one fingerprint cost a needless second
// round, never a wrong value: the full key is compared before a value is given out.
inline uint64_t fingerprint(std::string_view key) noexcept {
    return XXH3_64bits(key.data(), key.size());
}

// Of a partition whose address names none.
constexpr uint16_t kDefaultPort = 5557;

constexpr uint32_t kKeyMax = 1024;
constexpr uint32_t kValueMax = 1u << 20;
constexpr uint32_t kItemsMax = 1024;  // of one transaction
constexpr uint32_t kPartitionsMax = 256;
// Milliseconds that a key may live: what is added to a timestamp must not wrap around.
constexpr uint64_t kTtlMax_ms = kTicksMax / 1000;
// All keys and values of one transaction on one partition: a message must be bounded.
constexpr uint32_t kTransactionBytesMax = 16u << 20;

enum class Algorithm : uint8_t {
    kRampFast,        // metadata: the fingerprints of the transaction's keys; 1–2 rounds
    kRampSmall,       // metadata: none; always 2 rounds
    kRampHybrid,      // metadata: a Bloom filter; 1–2 rounds, sometimes a needless second
    kLockSequential,  // strict two-phase locking as the paper's baseline: key after key
    kLockParallel,    // strict two-phase locking, all partitions at once, no-wait with retry
    kNone,            // no concurrency control: fractured reads are possible
};
std::string_view to_string(Algorithm algorithm);

enum class Transport : uint8_t {
    kMessage,  // send and receive ("tcp", "verbs")
    // GET+/PUT+: messages RDMA-written into rings ("rdma"). Where the device promises the order of bytes, or
    // no device is in it, the other side polls; else each write tells it by an immediate value. The other two
    // say which.
    kRing,
    kRingPolled,
    kRingAnnounced,
};
std::string_view to_string(Transport transport);

enum class OneSided : uint8_t {
    kOff,    // every read asks the server
    kPaper,  // GET* of the paper: an invalid bit sends readers to the server while a write is prepared
    kOn,     // GET* without the invalid bit: the slot shows the latest and the prepared versions
};
std::string_view to_string(OneSided mode);

// Why a key that could be read one-sidedly is asked for by message. Travels in the flags of a get.
enum class Fallback : uint8_t {
    kNone,
    kCold,         // its address is not known
    kInvalid,      // paper mode: the invalid bit is set
    kStale,        // the slot serves another key now
    kTorn,         // it changed whenever it was read
    kLarge,        // its record is not to be had by one read
    kSecondRound,  // the version that is asked for is not shown
    kCount,
};

// Where a value came from.
enum class Path : uint8_t { kNone, kMessage, kOneSided, kCache };
std::string_view to_string(Path path);

}  // namespace wss::kv
