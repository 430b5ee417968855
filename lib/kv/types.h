// SPDX-License-Identifier: Apache-2.0
// Terms of the key-value store: timestamps, fingerprints, limits, modes.
//
// A *partition* is one server's share of the keys. A *transaction* is a set of reads (get_all) or of writes
// (put_all), never both. A *version* is one value of one key, named by the timestamp of the transaction that
// wrote it; versions are immutable. Isolation is Read Atomic (RAMP papers): no reader sees a part of a
// transaction. It is not serializable: lost updates, write skew and long forks are possible. Writes may have
// conditions on the versions that were read (PutAll of client.h).
#pragma once

#include <xxhash.h>

#include <compare>
#include <cstdint>
#include <string_view>

namespace wss::kv {

// Names a transaction and gives its place in the order of writes. The upper bits are a hybrid logical clock
// in microseconds since 2025-01-01, the lower ones the client's leased id. It has 63 bits, so that histories
// can print it as a signed number. That suffices until 2042.
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
// Start of the ticks: 2025-01-01T00:00:00Z in microseconds of Unix time.
constexpr uint64_t kTicksEpoch_us = 1'735'689'600'000'000;

// Names a key in metadata and in slots. Two keys with the same fingerprint never lead to a wrong value,
// because the full key is compared before a value is returned. They can cause an unnecessary second round,
// and with RAMP-Fast the failure of a read (GetJob::take_reply()).
inline uint64_t fingerprint(std::string_view key) noexcept {
    return XXH3_64bits(key.data(), key.size());
}

// Port of a partition whose address has none.
constexpr uint16_t kDefaultPort = 5557;

constexpr uint32_t kKeyMax = 1024;
constexpr uint32_t kValueMax = 1u << 20;
constexpr uint32_t kItemsMax = 1024;  // keys of one transaction
constexpr uint32_t kPartitionsMax = 256;
// Longest time to live in milliseconds: its sum with a timestamp must not overflow.
constexpr uint64_t kTtlMax_ms = kTicksMax / 1000;
// Bytes of all keys and values of one transaction on one partition; bounds the size of a message.
constexpr uint32_t kTransactionBytesMax = 16u << 20;

enum class Algorithm : uint8_t {
    kRampFast,        // metadata: the fingerprints of the transaction's keys; 1–2 rounds, rarely more
    kRampSmall,       // metadata: none; 2 rounds or more, 1 if all keys are on one partition
    kRampHybrid,      // metadata: a Bloom filter; 1–2 rounds, sometimes an unnecessary second
    kLockSequential,  // the paper's baseline: strict two-phase locking, key after key
    kLockParallel,    // strict two-phase locking, all partitions at once, no-wait with retry
    kNone,            // no concurrency control: fractured reads are possible
};
std::string_view to_string(Algorithm algorithm);

enum class Transport : uint8_t {
    kMessage,  // send and receive
    // GET+/PUT+: messages are RDMA-written into rings. If the device guarantees the order of bytes, or no
    // device is involved, the receiver polls. Otherwise each write carries an immediate value that notifies
    // it. kRingPolled and kRingAnnounced force one of the two.
    kRing,
    kRingPolled,
    kRingAnnounced,
};
std::string_view to_string(Transport transport);

enum class OneSided : uint8_t {
    kOff,    // every read is a message to the server
    kPaper,  // GET* of the paper: while a write is prepared, an invalid bit sends readers to the server
    kOn,     // GET* without the invalid bit: the slot shows the latest and the prepared versions
};
std::string_view to_string(OneSided mode);

// Why a key that could be read one-sidedly is read by message. Sent in the flags of a get.
enum class Fallback : uint8_t {
    kNone,
    kNoAddress,    // address-cache miss: the slot's address is not known
    kInvalid,      // paper mode: the invalid bit is set
    kStale,        // the slot belongs to another key now, is free, or is invalid
    kTorn,         // slot or record changed during every read
    kLarge,        // its record cannot be read by one READ, or is only on disk
    kSecondRound,  // the slot does not show the required version
    kCount,
};

// Where a value came from.
enum class Path : uint8_t { kNone, kMessage, kOneSided, kCache };
std::string_view to_string(Path path);

}  // namespace wss::kv
