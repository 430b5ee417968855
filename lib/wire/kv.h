// SPDX-License-Identifier: Apache-2.0
// Key-value messages: bytes ↔ checked values. Documentation/kv-protocol.md has the tables.
//
// Every message begins with a KvHeader (16 bytes). Integers are big-endian. A request carries an id that its
// reply repeats. Replies may come in any order. Parsers check every length and count against the limits below
// and against the bytes of the message. They reject a message with further bytes at its end. Views in parsed
// structures point into the message. The structures keep the memory of their vectors, so parsing into a
// structure that was used before allocates nothing if that memory suffices.
//
// Thread-safety: the structures are values.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/wire/buffer.h"
#include "lib/wire/endian.h"

namespace wss::wire {

constexpr uint8_t kKvVersion = 1;
constexpr size_t kKvHeaderBytes = 16;
constexpr uint32_t kKvKeyMax = 1024;
constexpr uint32_t kKvValueMax = 1u << 20;
constexpr uint32_t kKvItemsMax = 1024;
constexpr uint32_t kKvTimestampsMax = 1024;
constexpr uint32_t kKvParticipantsMax = 256;
// One fingerprint for each of kKvItemsMax keys, and one byte for the kind of the metadata.
constexpr uint32_t kKvMetadataMax = kKvItemsMax * 8 + 1;
constexpr uint32_t kKvMessageMax = 20u << 20;
constexpr uint32_t kKvScanMax = 1000;

// Private data of the connect request. Distinguishes these peers from those of SRP.
constexpr uint8_t kKvMagic[8] = {'W', 'S', 'S', '-', 'K', 'V', 0, kKvVersion};

enum class KvKind : uint8_t {
    kHello = 1,
    kGet = 2,
    kPrepare = 3,
    kCommit = 4,
    kAbort = 5,
    kInquire = 6,  // inquiry: state of a transaction, for its termination
    kPutIf = 7,
    kScan = 8,
    kLock = 9,
    kUnlock = 10,
    kInfo = 11,
    kSnapshot = 12,
    kPing = 13,
    kGoodbye = 14,  // the client ends and its id becomes free; no reply
};
constexpr uint8_t kKvKindMax = 14;
constexpr uint8_t kKvReply = 0x80;  // added to the kind

enum class KvStatus : uint8_t {
    kOk = 0,
    kPrepared = 1,
    kCommitted = 2,
    kAborted = 3,
    kUnknown = 4,      // transaction not known here
    kNoMemory = 5,     // writes are refused until old versions are collected
    kTooOld = 6,       // at or below the floor, below a key's version, or used by a former client of this id
    kTooFarAhead = 7,  // the client's clock is too far ahead
    kNotLeased = 8,    // the timestamp's client id is not leased to this connection
    kConditionFailed = 9,
    kLockConflict = 10,
    kWrongPartition = 11,  // the key belongs to another partition, or the client has another map
    kMalformed = 12,
    kNotReady = 13,  // recovering, or busy: repeat the request later
    kIo = 14,        // the log could not be written
    kUnsupported = 15,
    kIdTaken = 16,     // hello: another client has the id
    kPermission = 17,  // the client lacks a right; a text follows
};
constexpr uint8_t kKvStatusMax = 17;
std::string_view to_string(KvStatus status);

struct KvHeader {
    KvKind kind = KvKind::kPing;
    bool is_reply = false;
    KvStatus status = KvStatus::kOk;
    uint8_t flags = 0;
    uint32_t id = 0;
    uint32_t epoch = 0;  // epoch of the sender's partition map
};
// The ring into which the peer writes messages with RDMA WRITEs (transport "ring"). If `bytes` is 0, there is
// none.
struct KvRing {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t bytes = 0;      // less than 2^30
    bool announced = false;  // each write needs an immediate value: the owner does not poll the ring
    bool likewise = false;   // hello: the partition's ring must be of the same kind
};

// Flag of a hello: the client reads one-sidedly and supports layout 1 of the index.
constexpr uint8_t kKvHelloIndex = 1;
// The index in which one-sided readers look up the locations of keys.
struct KvIndex {
    uint16_t layout = 0;  // 0: no index, or the client did not request it
    uint32_t rkey = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t groups = 0;  // groups in use
};

struct KvHello {
    uint64_t nonce = 0;               // identifies the client, the owner of the id, on all its connections
    uint32_t client_id = 0;           // 0: lease an id
    uint32_t partition = UINT32_MAX;  // expected partition; UINT32_MAX: any
    KvRing ring;
};
constexpr uint8_t kKvHelloConditions = 1;  // flag of the reply: prepares may have conditions
// Flag of the reply: the client lacks the right to read every key, and therefore may not access the
// partition's memory. The reply has no arena, no index and no ring.
constexpr uint8_t kKvHelloNoMemory = 2;
struct KvHelloReply {
    uint32_t client_id = 0;
    uint32_t partition = 0;
    uint32_t partitions = 0;
    uint64_t incarnation = 0;
    uint64_t ticks = 0;  // the server's clock
    uint32_t window_ms = 0;
    uint32_t arena_rkey = 0;
    uint64_t arena_address = 0;
    uint64_t arena_bytes = 0;
    uint64_t arena_epoch = 0;  // epoch of the arena's contents
    KvRing ring;
    std::string_view map;  // URIs of all partitions, separated by commas
    KvIndex index;
};

enum class KvSelect : uint8_t { kLatest = 0, kExact = 1, kAmong = 2 };
constexpr uint8_t kKvGetValues = 1;     // flag of a get: return values, not only timestamps
constexpr uint8_t kKvGetAddresses = 2;  // return the address for one-sided reads of the key
constexpr uint8_t kKvFallbackShift =
    4;  // the bits above it: why the key is not read one-sidedly (kv::Fallback), for statistics
constexpr uint8_t kKvGetLocked = 4;  // take a shared lock on each key first, as `owner`
struct KvGet {
    struct Item {
        std::string_view key;
        KvSelect select = KvSelect::kLatest;
        uint64_t timestamp = 0;  // kExact
    };
    uint64_t owner = 0;
    std::vector<Item> items;
    std::vector<uint64_t> among;  // kAmong: shared by all items
};

enum class KvFound : uint8_t { kAbsent = 0, kExact = 1, kNewer = 2, kGone = 3 };
struct KvGetReply {
    struct Item {
        KvFound found = KvFound::kAbsent;
        bool is_deleted = false;
        uint64_t timestamp = 0;
        uint64_t expires = 0;  // ticks; 0: never
        // Location of the key for one-sided reads, as an offset in the arena. There is none if slot_bytes is
        // 0.
        uint64_t slot = 0;
        uint32_t slot_bytes = 0;
        uint32_t slot_incarnation = 0;
        Bytes metadata;
        Bytes value;
    };
    std::vector<Item> items;
};

constexpr uint8_t kKvPrepareCommit = 1;  // commit at once: no other participant, or no atomicity
constexpr uint8_t kKvPrepareUnlock = 2;  // a write under the locks of `owner`; it releases them
// The transaction has conditions, here or on another partition. Allowed only for a partition whose hello
// reply has kKvHelloConditions.
constexpr uint8_t kKvPrepareIf = 4;
struct KvPrepare {
    struct Item {
        std::string_view key;
        Bytes value;
        uint64_t expires = 0;
        bool is_deleted = false;
    };
    struct Condition {
        std::string_view key;
        uint64_t expected = 0;  // the version that must be the latest; 0: the key must be absent
    };
    uint64_t timestamp = 0;
    uint64_t owner = 0;                  // kKvPrepareUnlock
    std::vector<uint16_t> participants;  // partitions, for termination
    Bytes metadata;
    std::vector<Item> items;            // may be empty with kKvPrepareIf and conditions
    std::vector<Condition> conditions;  // kKvPrepareIf
};
// Reply to a prepare whose condition does not hold.
struct KvFailedCondition {
    uint64_t timestamp = 0;  // timestamp of the current version; 0: none
    uint32_t index = 0;      // among the prepare's conditions
};

struct KvPutIf {
    uint64_t timestamp = 0;
    uint64_t expected = 0;  // 0: the key must be absent
    KvPrepare::Item item;
};
// The body of a commit, abort and inquiry, and of the replies to these and to prepare, put-if and lock. The
// header's status has the transaction's state. In a goodbye, `timestamp` is the client's latest timestamp; in
// a ping, it is the number of one-sided reads.
struct KvDecision {
    // In a request: the timestamp of the transaction. In a reply: a timestamp that the client's clock must
    // pass. This is the partition's time or the timestamp of the conflicting version. If the condition of a
    // put-if fails, it is exactly the timestamp of the conflicting version.
    uint64_t timestamp = 0;
};

// Flags of a scan.
constexpr uint8_t kKvScanExpires = 1;  // return the expiry of each row
constexpr uint8_t kKvScanGoesOn = 2;   // the client continues after a page without rows
struct KvScan {
    std::string_view prefix;
    std::string_view cursor;
    uint32_t limit = 0;
    bool with_values = false;
};
struct KvScanReply {
    struct Row {
        std::string_view key;
        uint64_t timestamp = 0;
        uint64_t expires = 0;  // 0: never, or not requested
        Bytes value;
    };
    std::vector<Row> rows;
    std::string_view cursor;
};

struct KvLock {
    uint64_t owner = 0;
    bool exclusive = false;
    bool wait = false;  // false: answer a conflict at once
    std::vector<std::string_view> keys;
};
struct KvText {  // reply of info and of errors; request of snapshot
    std::string_view text;
    uint64_t timestamp = 0;
};

template <typename Body>
concept KvBody = (std::same_as<Body, KvHello> || std::same_as<Body, KvHelloReply> ||
                  std::same_as<Body, KvGet> || std::same_as<Body, KvGetReply> ||
                  std::same_as<Body, KvPrepare> || std::same_as<Body, KvFailedCondition> ||
                  std::same_as<Body, KvPutIf> || std::same_as<Body, KvDecision> ||
                  std::same_as<Body, KvScan> || std::same_as<Body, KvScanReply> ||
                  std::same_as<Body, KvLock> || std::same_as<Body, KvText>);

// Appends a message to `out`, which keeps its capacity, and fills in the header's length field.
template <KvBody Body>
void encode(const KvHeader& header, const Body& body, KvBuffer& out);

// parse_header() and parse() return false if the message is malformed. `message` is the whole message.
[[nodiscard]] bool parse_header(Bytes message, KvHeader& header);
// Parses the body after a parsed header. The body of a prepare depends on the header's flags.
template <KvBody Body>
[[nodiscard]] bool parse(Bytes message, Body& body);

// Returns the length of a message, from its first kKvHeaderBytes, or 0 if they are malformed.
uint32_t message_length(Bytes header);

}  // namespace wss::wire
