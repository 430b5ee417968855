// SPDX-License-Identifier: Apache-2.0
// Messages of the distributed cache: bytes from the wire ↔ checked values.
//
// Three exchanges (Documentation/protocol.md §5.6, §8):
//   storage engine (SE) ↔ cache engine (CE): connect data, then messages of *records* in both directions
//   initiator → CE: connect data; afterwards the CE moves data and the initiator only receives
//   SE → initiator: two messages in addition to those of SRP (CacheEngineNotice, RetryNotice)
//
// A message is a sequence of records. Each begins with eight bytes {type, flags, length of the whole record,
// id} and is a multiple of eight bytes long. Integers are big-endian.
//
// The rules W1 to W5 of srp.h apply here too.
#pragma once

#include <array>
#include <string>

#include "lib/wire/endian.h"
#include "lib/wire/srp.h"

namespace wss::wire {

using CacheToken = std::array<std::byte, WSS_CACHE_TOKEN_BYTES>;

// Compares two tokens in a time that does not depend on where they differ.
bool same_token(const CacheToken& a, const CacheToken& b) noexcept;

// ---- Connect data ----------------------------------------------------------------------------------------

// CE → SE.
struct CacheJoin {
    uint64_t engine = 0;       // identity of the engine for the life of its process
    uint64_t memory = 0;       // bytes that it lends
    uint32_t incarnation = 0;  // that of its contents, from the last CacheWelcome; 0: it has no contents
    uint64_t storage = 0;      // identity of the SE that the contents belong to
    bool is_storage = false;   // a storage process (RS): it has volumes and lends no lines
    bool operator==(const CacheJoin&) const = default;
};
ParseError parse_cache_join(Bytes data, CacheJoin& out);
size_t encode_cache_join(const CacheJoin& join, MutableBytes out);

// SE → CE, with the accept.
struct CacheWelcome {
    uint64_t storage = 0;      // identity of the SE for life
    uint32_t incarnation = 0;  // incarnation of the contents from now on, unless `keep`
    uint32_t line_bytes = 0;
    uint32_t operations = 0;  // bound on operation ids
    bool keep = false;        // true: the contents are valid, send the inventory; false: discard them
    bool states = false;      // an RS must send kVolumeState
    bool owners = false;      // kVolumeState must contain the owner
    bool terms = false;       // kVolumeState must contain the term (io::Succession)
    bool operator==(const CacheWelcome&) const = default;
};
ParseError parse_cache_welcome(Bytes data, CacheWelcome& out);
size_t encode_cache_welcome(const CacheWelcome& welcome, MutableBytes out);

// SE → CE, with the accept, instead of a CacheWelcome. It requests authentication (lib/wire/auth.h); the
// welcome then follows as a record. This message is as long as a welcome.
bool is_cache_prove(Bytes data);
size_t encode_cache_prove(MutableBytes out);

// Connect data in the form that an AuthTranscript takes: padded with zeroes.
std::array<std::byte, 56> padded_for_proof(Bytes data);

// Initiator → CE.
struct CacheLogin {
    uint64_t handle = 0;
    CacheToken token{};
};
ParseError parse_cache_login(Bytes data, CacheLogin& out);
size_t encode_cache_login(const CacheLogin& login, MutableBytes out);

// ---- Records ---------------------------------------------------------------------------------------------

constexpr size_t kRecordHead = 8;
constexpr size_t kCacheMessageMax = 4096;  // bytes of one message of records
constexpr size_t kCacheHeaderBytes = 64;   // header of a line, see lib/cache/header.h; opaque here
constexpr uint32_t kCacheOperationsMax = 4096;
constexpr uint64_t kStorageHandle = 0;  // as a `handle`: the SE itself

enum class RecordType : uint8_t {
    // SE → CE; answered by kDone with the same id
    kMove = 1,  // CacheMove
    kHeader,    // CacheHeader: store it, or erase
    kWipe,      // a slot: zero the contents, erase the header
    // SE → CE; not answered
    kGrant,    // CacheLogin: this client may connect
    kRevoke,   // handle: this client may no longer connect
    kPing,     // answered by kPong
    kGoodbye,  // the CE may leave: its contents are no longer needed
    // SE → CE, in a join with authentication: a message of lib/wire/auth.h, or an encoded CacheWelcome
    kAuthChallenge,
    kAuthResult,
    kWelcome,
    // SE → RS; answered by kDone or kFailed
    kStorage,  // CacheStorage
    // SE → RS with staging buffers: an encoded CacheEngineNotice. Connect to this engine, or disconnect.
    // Either ends an earlier connection with this index. For each notice with a handle, one kEngineGone
    // follows when its connection has ended and no more data can arrive over it.
    kEngine,
    // CE → SE
    kDone = 32,     // id, status in flags
    kAttached,      // handle: the client is connected
    kDetached,      // handle: the client is no longer connected; all its operations were answered before
    kItem,          // CacheHeader: a slot that is not empty
    kInventoryEnd,  // number of slots: end of the inventory
    kAddress,       // text: URI where clients connect
    kReady,         // all addresses were sent
    kLeave,         // the CE requests to be drained, in order to leave
    kPong,
    kAuthStart,  // message of lib/wire/auth.h, as in kAuthChallenge
    kAuthProof,
    // RS → SE
    kVolume,   // CacheVolume, before kReady
    kFailed,   // instead of kDone: storage failed with this errno; no data of a read has reached the client
    kStaging,  // CacheStaging (staging buffers), before kReady
    kEngineGone,  // handle: the connection to the engine has ended or was never established
    // CacheVolumeState, if CacheWelcome::states is set: for each volume before kReady, and after each change.
    kVolumeState,
};

// Result of an operation.
enum class CacheStatus : uint8_t {
    kOk = 0,
    kNoClient,  // the client is not connected, or was lost meanwhile
    kFailed,    // the fabric refused
    kRefused,   // slot, range or peer does not exist
};

struct Record {
    RecordType type = RecordType::kPing;
    uint8_t flags = 0;
    uint32_t id = 0;
    Bytes body;
};
// Takes the next record from `message`. kTooShort, kOutOfBounds: the message is malformed.
ParseError next_record(Bytes& message, Record& out);

// Moves bytes between a slot and a peer's memory.
struct CacheMove {
    bool to_peer = true;      // false: from it
    bool immediate = false;   // to_peer: the last bytes arrive with `immediate_value`
    bool has_header = false;  // from a peer: store `header` when the bytes are in the slot
    bool atomic = false;      // from a peer: the slot changes only when all bytes have arrived, or not at all
    bool coalesced = false;   // immediate: kDone may be coalesced with a later message, or wait for kPing
    uint64_t handle = kStorageHandle;
    uint32_t slot = 0;
    uint32_t offset = 0;
    uint32_t length = 0;
    uint32_t immediate_value = 0;
    RemoteBuffer remote;  // has the length `length`
    std::array<std::byte, kCacheHeaderBytes> header{};
};
struct CacheHeader {
    uint32_t slot = 0;
    std::array<std::byte, kCacheHeaderBytes> header{};
};

// An operation of an RS on a volume. Reads move data from storage to the peer, writes from the peer to
// storage.
struct CacheStorage {
    enum class Op : uint8_t { kRead, kWrite, kFlush, kDiscard, kWriteZeroes };
    Op op = Op::kRead;
    bool fua = false;        // kWrite, kWriteZeroes
    bool immediate = false;  // kRead: the last bytes arrive at the peer with `immediate_value`
    bool has_copy = false;   // kRead: the data also goes to `copy`, in memory of the SE
    // kRead: the data stays in the RS's staging buffers, and goes to the client if one is named. kWrite: it
    // is already there.
    bool staged = false;
    uint32_t volume = 0;  // the RS's number of the volume
    uint32_t immediate_value = 0;
    uint64_t offset = 0;
    uint64_t length = 0;  // kRead, kWrite: at most kStorageTransferMax
    uint64_t handle = kStorageHandle;
    RemoteBuffer remote, copy;    // both have the length `length`
    uint64_t staging_offset = 0;  // staged: offset in the staging memory; a multiple of the page size
    bool moves() const noexcept { return op == Op::kRead || op == Op::kWrite; }
};
constexpr uint32_t kStorageTransferMax = 2 << 20;

// Staging memory of an RS, which the SE manages: engines read and write it over the RS's connections to them.
struct CacheStaging {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t rkey = 0;
};

struct CacheVolume {
    uint64_t bytes = 0;
    uint64_t boot = 0;  // boot id of the RS's machine; 0: a restart of the machine loses no completed write
    uint32_t number = 0;
    uint32_t logical_block = 512;
    bool read_only = false;
    std::string name;
};

// Current state of the storage of an RS's volume.
struct CacheVolumeState {
    static constexpr size_t kTextMax = 120;
    uint32_t number = 0;     // number of a CacheVolume
    uint32_t error = 0;      // errno: the storage is lost to another owner; no data of the volume may be used
    uint64_t bytes = 0;      // not 0, unless the storage is lost
    bool suspended = false;  // another owner may have the storage: cached contents must not be used now
    uint64_t owner = 0;      // equal values: no other owner had the storage in between; 0: not known
    uint64_t series = 0;     // io::Succession
    uint64_t term = 0;       // …
    uint64_t since = 0;      // …
    std::string text;        // reason for the loss, or what requests wait for, for the operator; printable
    bool operator==(const CacheVolumeState&) const = default;
};

struct CacheEngineNotice;

// Each function writes one record and returns its length, or 0 if there is no room.
size_t put_storage(uint32_t id, const CacheStorage& storage, MutableBytes out);
size_t put_volume(const CacheVolume& volume, MutableBytes out);
size_t put_volume_state(const CacheVolumeState& state, MutableBytes out);
size_t put_staging(const CacheStaging& staging, MutableBytes out);
size_t put_engine(const CacheEngineNotice& notice, MutableBytes out);
size_t put_failed(uint32_t id, uint32_t error, MutableBytes out);
size_t put_move(uint32_t id, const CacheMove& move, MutableBytes out);
size_t put_header(RecordType type, uint32_t id, const CacheHeader& header, MutableBytes out);
size_t put_slot(RecordType type, uint32_t id, uint32_t slot, MutableBytes out);
size_t put_grant(const CacheLogin& login, MutableBytes out);
size_t put_handle(RecordType type, uint64_t handle, MutableBytes out);
size_t put_plain(RecordType type, uint8_t flags, uint32_t id, MutableBytes out);
size_t put_text(RecordType type, std::string_view text, MutableBytes out);
// Writes a message of another kind unchanged, padded with zeroes.
size_t put_bytes(RecordType type, Bytes bytes, MutableBytes out);

ParseError parse_move(const Record& record, CacheMove& out);
ParseError parse_header(const Record& record, CacheHeader& out);
ParseError parse_storage(const Record& record, CacheStorage& out);
ParseError parse_volume(const Record& record, CacheVolume& out);
ParseError parse_volume_state(const Record& record, CacheVolumeState& out);
ParseError parse_staging(const Record& record, CacheStaging& out);
ParseError parse_failed(const Record& record, uint32_t& error);
ParseError parse_slot(const Record& record, uint32_t& out);
ParseError parse_grant(const Record& record, CacheLogin& out);
ParseError parse_handle(const Record& record, uint64_t& out);
// The text is printable and has at most WSS_CACHE_URI_MAX - 1 bytes.
ParseError parse_text(const Record& record, std::string& out);

// ---- SE → initiator --------------------------------------------------------------------------------------

struct CacheEngineNotice {
    bool added = true;
    uint16_t index = 0;
    uint64_t handle = 0;
    CacheToken token{};
    std::array<char, WSS_CACHE_URI_MAX> uri{};  // zero-terminated
    std::string_view uri_text() const { return uri.data(); }
    bool set_uri(std::string_view text) noexcept;
};
ParseError parse_cache_engine(Bytes message, CacheEngineNotice& out);
size_t encode_cache_engine(const CacheEngineNotice& notice, MutableBytes out);

struct RetryNotice {
    uint64_t tag = 0;
    uint32_t engine = 0;  // WSS_CACHE_ENGINES_MAX: all
};
ParseError parse_retry(Bytes message, RetryNotice& out);
size_t encode_retry(const RetryNotice& again, MutableBytes out);

}  // namespace wss::wire
