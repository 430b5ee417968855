// SPDX-License-Identifier: Apache-2.0
// Key-value messages: bytes ↔ validated values. Documentation/protocol.md has the tables.
//
// Every message begins with a KvHeader (16 bytes); integers are big-endian. A request carries an id that its
// reply repeats; replies come in any order. Parsers check every length and count against the limits below and
// against the bytes that are there, and that nothing follows; the views they yield point into the message.
// The structures keep their vectors: parsing into one that was used before allocates nothing.
//
// Thread-safety: none needed; values.
#pragma once

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
// The fingerprints of a transaction of kKvItemsMax keys and the byte that says so.
constexpr uint32_t kKvMetadataMax = kKvItemsMax * 8 + 1;
constexpr uint32_t kKvMessageMax = 20u << 20;
constexpr uint32_t kKvScanMax = 1000;

// The private data of a connect request, before anything else: what tells our peers from SRP's.
constexpr uint8_t kKvMagic[8] = {'W', 'S', 'S', '-', 'K', 'V', 0, kKvVersion};

enum class KvKind : uint8_t {
    kHello = 1,
    kGet = 2,
    kPrepare = 3,
    kCommit = 4,
    kAbort = 5,
    kCheck = 6,  // termination: what became of this transaction?
    kPutIf = 7,
    kScan = 8,
    kLock = 9,
    kUnlock = 10,
    kInfo = 11,
    kSnapshot = 12,
    kPing = 13,
    kGoodbye = 14,  // the client comes no more: its id is free; no reply
};
constexpr uint8_t kKvKindMax = 14;
constexpr uint8_t kKvReply = 0x80;  // added to the kind

enum class KvStatus : uint8_t {
    kOk = 0,
    kPrepared = 1,
    kCommitted = 2,
    kAborted = 3,
    kUnknown = 4,      // no such transaction here
    kNoMemory = 5,     // writes are refused until versions are collected
    kTooOld = 6,       // below the mark under which transactions are forgotten
    kTooFarAhead = 7,  // the client's clock is wrong
    kNotLeased = 8,    // the timestamp's client id is not this connection's
    kConditionFailed = 9,
    kLockConflict = 10,
    kWrongPartition = 11,  // this key belongs elsewhere: the map has changed
    kMalformed = 12,
    kNotReady = 13,  // recovering
    kIo = 14,        // the log could not be written
    kUnsupported = 15,
    kIdTaken = 16,  // hello: the id belongs to somebody else
};
constexpr uint8_t kKvStatusMax = 16;
std::string_view to_string(KvStatus status);

struct KvHeader {
    KvKind kind = KvKind::kPing;
    bool is_reply = false;
    KvStatus status = KvStatus::kOk;
    uint8_t flags = 0;
    uint32_t id = 0;
    uint32_t epoch = 0;  // of the partition map, as the sender knows it
};
// Where to RDMA-write messages (transport "rdma"); bytes == 0: nowhere.
struct KvRing {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t bytes = 0;      // less than 2^30
    bool announced = false;  // each write with an immediate value: its owner does not look by itself
    bool likewise = false;   // hello: yours shall be as mine
};

// Flag of a hello: the client reads one-sidedly and knows the index of layout 1.
constexpr uint8_t kKvHelloIndex = 1;
// Where a one-sided read finds the locations of keys.
struct KvIndex {
    uint16_t layout = 0;  // 0: there is none, or the client has not asked for it
    uint32_t rkey = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t groups = 0;  // in use
};

struct KvHello {
    uint64_t nonce = 0;               // the client's, for all its connections: who may use the id
    uint32_t client_id = 0;           // 0: lease me one
    uint32_t partition = UINT32_MAX;  // that is expected here
    KvRing ring;
};
constexpr uint8_t kKvHelloConditions = 1;  // flag of the reply: prepares may have conditions
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
    uint64_t arena_epoch = 0;  // of the arena's contents
    KvRing ring;
    std::string_view map;  // URIs of all partitions, separated by commas
    KvIndex index;
};

enum class KvSelect : uint8_t { kLatest = 0, kExact = 1, kAmong = 2 };
constexpr uint8_t kKvGetValues = 1;     // flags of a get: timestamps alone without it
constexpr uint8_t kKvGetAddresses = 2;  // say where a one-sided read finds the key
constexpr uint8_t kKvFallbackShift =
    4;  // above it: why the key is not read one-sidedly (kv::Fallback), for statistics
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
        // Where a one-sided read finds the key: offset into the arena; bytes 0: nowhere.
        uint64_t slot = 0;
        uint32_t slot_bytes = 0;
        uint32_t slot_incarnation = 0;
        Bytes metadata;
        Bytes value;
    };
    std::vector<Item> items;
};

constexpr uint8_t kKvPrepareCommit = 1;  // the only partition taking part: commit at once
constexpr uint8_t kKvPrepareUnlock = 2;  // and release the locks of this owner
// The transaction has conditions, here or on another partition. Only where the greeting has said that the
// partition knows them.
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
    std::vector<Item> items;            // none is possible with kKvPrepareIf and conditions
    std::vector<Condition> conditions;  // kKvPrepareIf
};
// Of a prepare whose condition does not hold.
struct KvFailedCondition {
    uint64_t timestamp = 0;  // of the version that is there; 0: none
    uint32_t index = 0;      // among the prepare's conditions
};

struct KvPutIf {
    uint64_t timestamp = 0;
    uint64_t expected = 0;  // 0: must be absent
    KvPrepare::Item item;
};
// Of prepare, commit, abort, check, put-if: the state is the header's status.
struct KvDecision {
    // commit, …: the transaction. Replies: what the client's clock must pass: the partition's time, or the
    // version in the way; of a conditional put whose condition fails exactly that version.
    uint64_t timestamp = 0;
};

// Flags of a scan.
constexpr uint8_t kKvScanExpires = 1;  // each row has its expiry
constexpr uint8_t kKvScanGoesOn = 2;   // the client continues from the cursor of a page without rows
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
        uint64_t expires = 0;  // 0: never, or not asked for
        Bytes value;
    };
    std::vector<Row> rows;
    std::string_view cursor;
};

struct KvLock {
    uint64_t owner = 0;
    bool exclusive = false;
    bool wait = false;  // else a conflict is answered at once
    std::vector<std::string_view> keys;
};
struct KvText {  // info's and errors' reply; snapshot's request
    std::string_view text;
    uint64_t timestamp = 0;
};

// Appends a message to `out`, whose capacity stays. The header's length field is filled in.
void encode(const KvHeader& header, const KvHello& body, KvBuffer& out);
void encode(const KvHeader& header, const KvHelloReply& body, KvBuffer& out);
void encode(const KvHeader& header, const KvGet& body, KvBuffer& out);
void encode(const KvHeader& header, const KvGetReply& body, KvBuffer& out);
void encode(const KvHeader& header, const KvPrepare& body, KvBuffer& out);
void encode(const KvHeader& header, const KvFailedCondition& body, KvBuffer& out);
void encode(const KvHeader& header, const KvPutIf& body, KvBuffer& out);
void encode(const KvHeader& header, const KvDecision& body, KvBuffer& out);
void encode(const KvHeader& header, const KvScan& body, KvBuffer& out);
void encode(const KvHeader& header, const KvScanReply& body, KvBuffer& out);
void encode(const KvHeader& header, const KvLock& body, KvBuffer& out);
void encode(const KvHeader& header, const KvText& body, KvBuffer& out);

// False: not a message of ours. `message` is the whole of it.
[[nodiscard]] bool parse_header(Bytes message, KvHeader& header);
// The body behind a header that was parsed. That of a prepare depends on the header's flags.
[[nodiscard]] bool parse(Bytes message, KvHello& body);
[[nodiscard]] bool parse(Bytes message, KvHelloReply& body);
[[nodiscard]] bool parse(Bytes message, KvGet& body);
[[nodiscard]] bool parse(Bytes message, KvGetReply& body);
[[nodiscard]] bool parse(Bytes message, KvPrepare& body);
[[nodiscard]] bool parse(Bytes message, KvFailedCondition& body);
[[nodiscard]] bool parse(Bytes message, KvPutIf& body);
[[nodiscard]] bool parse(Bytes message, KvDecision& body);
[[nodiscard]] bool parse(Bytes message, KvScan& body);
[[nodiscard]] bool parse(Bytes message, KvScanReply& body);
[[nodiscard]] bool parse(Bytes message, KvLock& body);
[[nodiscard]] bool parse(Bytes message, KvText& body);

// The length that a header claims: of the first kKvHeaderBytes of a message; 0: not one of ours.
uint32_t message_length(Bytes header);

}  // namespace wss::wire
