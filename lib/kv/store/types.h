// SPDX-License-Identifier: Apache-2.0
// The words of the version store: timestamps, limits, what is written, what is answered.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/kv/types.h"

namespace wss::kv::store {

// The store compares timestamps and nothing else.
using kv::Timestamp;
constexpr Timestamp kNoTimestamp{};

using Bytes = std::span<const std::byte>;

constexpr size_t kMetadataMax = size_t{16} << 10;      // a key list of 2000 siblings, or a Bloom filter
constexpr size_t kParticipantsMax = size_t{16} << 10;  // whom to ask when the writer is gone
constexpr size_t kScanLooksMax = 2048;                 // keys that one scan() looks at, deleted ones too
constexpr size_t kWritesMax = kItemsMax;               // of one transaction on one partition
constexpr size_t kConditionsMax = kItemsMax;           // likewise

// What must be a key's latest committed version when a transaction is prepared. A key that is deleted, or has
// expired by the later of the transaction's timestamp and the partition's clock, is absent.
struct Condition {
    std::string_view key;
    Timestamp expected;  // none: the key must be absent
};

struct Write {
    std::string_view key;
    Bytes value;
    bool tombstone = false;  // delete; value is empty
    Timestamp expires;       // from this time on readers treat it as deleted; none: never
};

// The part of a transaction that one partition holds. Everything is copied during the call.
struct Transaction {
    Timestamp timestamp;
    std::span<const Write> writes;  // distinct keys
    Bytes metadata;         // opaque; handed to readers with each version (sibling keys, Bloom filter)
    Bytes participants;     // opaque; handed back by Store::overdue()
    bool alone = false;     // no other partition has a part of it: no reader elsewhere is told of it (S4)
    bool locked = false;    // a put under exclusive locks, granted when the floor was below its timestamp
    uint64_t owner = 0;     // of the locks that it was sent under; 0: none
    bool in_order = false;  // refused as kTooOld where a later version of one of its keys is committed (S11)
    std::span<const Condition> conditions = {};  // distinct keys, perhaps written ones
    bool conditional = false;                    // it has conditions, here or on another partition (S13)
};

enum class Answer : uint8_t {
    kOk,
    kPending,    // the continuation tells, later
    kCommitted,  // inquire: committed here. abort: too late, it is committed
    kPrepared,   // inquire: prepared here, and durable
    kAborted,    // it was aborted here, and never can be anything else
    kUnknown,    // no such transaction. commit: remembered; should its prepare come, it commits
    kTooOld,     // at or below the floor: its decision, if there was one, is forgotten; or S11
    kConflict,   // a condition does not hold
    kBusy,      // somebody holds a lock of the key, an undecided transaction with conditions holds it, or the
                // prepare is not durable yet: try again
    kNoMemory,  // writes are refused, reads go on
    kInvalid,   // limits above, no writes, no timestamp, one key twice
    kIo,        // the log failed: nothing is visible now, and a restart may find it done
    kClosed,
};
std::string_view to_string(Answer answer);

// Called at most once, from within Store::poll(), when the call it was passed to answered kPending.
struct Continuation {
    void (*run)(void* context, Answer answer) noexcept = nullptr;
    void* context = nullptr;
};

}  // namespace wss::kv::store
