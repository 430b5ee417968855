// SPDX-License-Identifier: Apache-2.0
// Terms of the version store: timestamps, limits, writes, answers.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/kv/types.h"

namespace wss::kv::store {

// The store only compares timestamps.
using kv::Timestamp;
constexpr Timestamp kNoTimestamp{};

using Bytes = std::span<const std::byte>;

constexpr size_t kMetadataMax = size_t{16} << 10;      // a key list of 2000 siblings, or a Bloom filter
constexpr size_t kParticipantsMax = size_t{16} << 10;  // the partitions to inquire of when the writer is gone
constexpr size_t kScanLooksMax = 2048;                 // keys that one scan() visits, including deleted ones
constexpr size_t kWritesMax = kItemsMax;               // writes of one transaction on one partition
constexpr size_t kConditionsMax = kItemsMax;           // conditions of one transaction on one partition

// The required latest committed version of a key when a transaction is prepared. A key is absent if it is
// deleted, or has expired by the later of the transaction's timestamp and the partition's clock.
struct Condition {
    std::string_view key;
    Timestamp expected;  // none: the key must be absent
};

struct Write {
    std::string_view key;
    Bytes value;
    bool tombstone = false;  // delete; value is empty
    Timestamp expires;       // readers treat it as deleted from then on; none: never
};

// The part of a transaction on one partition. Everything is copied during the call.
struct Transaction {
    Timestamp timestamp;
    std::span<const Write> writes;  // distinct keys
    Bytes metadata;                 // opaque; readers get it with each version (sibling keys, Bloom filter)
    Bytes participants;             // opaque; returned by Store::overdue()
    bool alone = false;             // no other partition has a part of it (S4)
    bool locked = false;    // a put under exclusive locks, granted while the floor was below its timestamp
    uint64_t owner = 0;     // owner of its locks; 0: none
    bool in_order = false;  // kTooOld if a later version of one of its keys is committed (S11)
    std::span<const Condition> conditions = {};  // distinct keys; may also be written
    bool conditional = false;                    // it has conditions, here or on another partition (S13)
};

enum class Answer : uint8_t {
    kOk,
    kPending,    // the continuation is called later
    kCommitted,  // inquire: committed here. abort: too late, it is committed
    kPrepared,   // inquire: prepared here, and durable
    kAborted,    // aborted here; this is final
    kUnknown,    // no such transaction. commit: remembered, so that a later prepare commits
    kTooOld,     // at or below the floor: a decision, if any, is forgotten; or S11
    kConflict,   // a condition does not hold
    kBusy,       // the key is locked, or held by an undecided transaction with conditions, or the prepare
                 // is not durable yet, or a limit is reached: try again
    kNoMemory,   // writes are refused, reads still work
    kInvalid,    // malformed: beyond a limit, empty, no timestamp, a repeated key, an expiry that is not
                 // after the timestamp, a tombstone with a value or an expiry
    kIo,         // the log failed: nothing is visible now, but a restart may find it committed
};
std::string_view to_string(Answer answer);

// Called at most once, from within Store::poll(), if the call that it was passed to returned kPending.
struct Continuation {
    void (*run)(void* context, Answer answer) noexcept = nullptr;
    void* context = nullptr;
};

}  // namespace wss::kv::store
