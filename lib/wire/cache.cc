// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/cache.h"

#include <algorithm>
#include <bit>

#include "lib/wire/srp_bytes.h"
#include "lib/wire/text.h"

namespace wss::wire {

using detail::load;
using detail::store;
using detail::swap;

bool same_token(const CacheToken& a, const CacheToken& b) noexcept {
    // Volatile, so that the compiler cannot stop at the first difference.
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < a.size(); ++i)
        difference = static_cast<uint8_t>(difference | std::to_integer<uint8_t>(a[i] ^ b[i]));
    return difference == 0;
}

// ---- Connect data ----------------------------------------------------------------------------------------

namespace {

constexpr size_t kJoinBytes = 48;
constexpr size_t kWelcomeBytes = 32;
constexpr uint8_t kWelcomeKeep = 1, kWelcomeStates = 2, kWelcomeOwners = 4, kWelcomeChains = 16;
constexpr uint32_t kJoinStorage = 1;

ParseError check_head(Bytes data, size_t bytes, uint8_t kind) {
    if (data.size() < bytes) return ParseError::kTooShort;
    if (get32(data.data()) != WSS_CACHE_MAGIC) return ParseError::kOpcode;
    if (get8(data.data() + 4) != WSS_CACHE_VERSION) return ParseError::kFormat;
    return get8(data.data() + 5) == kind ? ParseError::kNone : ParseError::kOpcode;
}

void put_connect_head(MutableBytes out, size_t bytes, uint8_t kind) {
    std::fill_n(out.begin(), bytes, std::byte{0});
    put32(out.data(), WSS_CACHE_MAGIC);
    put8(out.data() + 4, WSS_CACHE_VERSION);
    put8(out.data() + 5, kind);
}

}  // namespace

ParseError parse_cache_join(Bytes data, CacheJoin& out) {
    if (auto error = check_head(data, kJoinBytes, WSS_CACHE_LOGIN_JOIN); error != ParseError::kNone)
        return error;
    out = {.engine = get64(data.data() + 8),
           .memory = get64(data.data() + 16),
           .incarnation = get32(data.data() + 24),
           .storage = get64(data.data() + 32),
           .is_storage = (get32(data.data() + 28) & kJoinStorage) != 0};
    return out.engine == 0 ? ParseError::kContradiction : ParseError::kNone;
}

size_t encode_cache_join(const CacheJoin& join, MutableBytes out) {
    if (out.size() < kJoinBytes) return 0;
    put_connect_head(out, kJoinBytes, WSS_CACHE_LOGIN_JOIN);
    put64(out.data() + 8, join.engine);
    put64(out.data() + 16, join.memory);
    put32(out.data() + 24, join.incarnation);
    put32(out.data() + 28, join.is_storage ? kJoinStorage : 0);
    put64(out.data() + 32, join.storage);
    return kJoinBytes;
}

ParseError parse_cache_welcome(Bytes data, CacheWelcome& out) {
    if (auto error = check_head(data, kWelcomeBytes, WSS_CACHE_LOGIN_JOIN); error != ParseError::kNone)
        return error;
    out = {.storage = get64(data.data() + 8),
           .incarnation = get32(data.data() + 16),
           .line_bytes = get32(data.data() + 20),
           .operations = get32(data.data() + 24),
           .keep = (get8(data.data() + 6) & kWelcomeKeep) != 0,
           .states = (get8(data.data() + 6) & kWelcomeStates) != 0,
           .owners = (get8(data.data() + 6) & kWelcomeOwners) != 0,
           .chains = (get8(data.data() + 6) & kWelcomeChains) != 0};
    const bool whole_pages = out.line_bytes >= 4096 && (out.line_bytes & (out.line_bytes - 1)) == 0;
    const bool fits = out.line_bytes <= 256 * 1024 && out.operations > 0;
    return whole_pages && fits && out.operations <= kCacheOperationsMax ? ParseError::kNone
                                                                        : ParseError::kContradiction;
}

size_t encode_cache_welcome(const CacheWelcome& welcome, MutableBytes out) {
    if (out.size() < kWelcomeBytes) return 0;
    put_connect_head(out, kWelcomeBytes, WSS_CACHE_LOGIN_JOIN);
    put8(out.data() + 6,
         static_cast<uint8_t>((welcome.keep ? kWelcomeKeep : 0) | (welcome.states ? kWelcomeStates : 0) |
                              (welcome.owners ? kWelcomeOwners : 0) | (welcome.chains ? kWelcomeChains : 0)));
    put64(out.data() + 8, welcome.storage);
    put32(out.data() + 16, welcome.incarnation);
    put32(out.data() + 20, welcome.line_bytes);
    put32(out.data() + 24, welcome.operations);
    return kWelcomeBytes;
}

bool is_cache_prove(Bytes data) {
    return check_head(data, kWelcomeBytes, WSS_CACHE_LOGIN_PROVE) == ParseError::kNone;
}

size_t encode_cache_prove(MutableBytes out) {
    if (out.size() < kWelcomeBytes) return 0;
    put_connect_head(out, kWelcomeBytes, WSS_CACHE_LOGIN_PROVE);
    return kWelcomeBytes;
}

std::array<std::byte, 56> padded_for_proof(Bytes data) {
    std::array<std::byte, 56> padded{};
    std::copy_n(data.begin(), std::min(data.size(), padded.size()), padded.begin());
    return padded;
}

ParseError parse_cache_login(Bytes data, CacheLogin& out) {
    wss_cache_login raw;
    if (auto error = check_head(data, sizeof raw, WSS_CACHE_LOGIN_CLIENT); error != ParseError::kNone)
        return error;
    if (!load(data, raw)) return ParseError::kTooShort;
    out.handle = swap(uint64_t{raw.handle});
    std::memcpy(out.token.data(), raw.token, out.token.size());
    return out.handle == kStorageHandle ? ParseError::kContradiction : ParseError::kNone;
}

size_t encode_cache_login(const CacheLogin& login, MutableBytes out) {
    wss_cache_login raw{};
    raw.magic = swap(uint32_t{WSS_CACHE_MAGIC});
    raw.version = WSS_CACHE_VERSION;
    raw.kind = WSS_CACHE_LOGIN_CLIENT;
    raw.handle = swap(login.handle);
    std::memcpy(raw.token, login.token.data(), login.token.size());
    return store(raw, out);
}

// ---- Records ---------------------------------------------------------------------------------------------

namespace {

constexpr size_t kMoveBytes = 48;  // without the header
constexpr uint8_t kToPeer = 1, kImmediate = 2, kHasHeader = 4, kAtomic = 8, kLazy = 16;
constexpr size_t kHandleBytes = 8, kGrantBytes = 8 + WSS_CACHE_TOKEN_BYTES;
constexpr size_t kSlotBytes = 8;
constexpr size_t kStorageBytes = 64;
constexpr uint8_t kStorageOpMask = 7, kStorageFua = 8, kStorageImmediate = 16, kStorageCopy = 32,
                  kStorageBay = 64;
constexpr uint64_t kPage = 4096;
constexpr size_t kBaysBytes = 24;
constexpr size_t kVolumeBytes = 24;
constexpr size_t kVolumeNameMax = 64;  // including a zero behind the last character
constexpr size_t kVolumeStateBytes = 16;
constexpr uint8_t kVolumeSuspended = 1, kVolumeOwner = 2, kVolumeChain = 8;
constexpr size_t kVolumeOwnerBytes = 8, kVolumeChainBytes = 16;  // before the text, in this order
constexpr uint32_t kErrnoMax = 4095;

std::byte* put_head(RecordType type, uint8_t flags, uint32_t id, size_t body, MutableBytes out) {
    const size_t length = kRecordHead + body;
    if (out.size() < length) return nullptr;
    std::fill_n(out.begin(), length, std::byte{0});
    put8(out.data(), static_cast<uint8_t>(type));
    put8(out.data() + 1, flags);
    put16(out.data() + 2, static_cast<uint16_t>(length));
    put32(out.data() + 4, id);
    return out.data() + kRecordHead;
}

}  // namespace

ParseError next_record(Bytes& message, Record& out) {
    if (message.size() < kRecordHead) return ParseError::kTooShort;
    const size_t length = get16(message.data() + 2);
    if (length < kRecordHead || length % 8 != 0 || length > message.size()) return ParseError::kOutOfBounds;
    out = {.type = static_cast<RecordType>(get8(message.data())),
           .flags = get8(message.data() + 1),
           .id = get32(message.data() + 4),
           .body = message.subspan(kRecordHead, length - kRecordHead)};
    message = message.subspan(length);
    return ParseError::kNone;
}

size_t put_move(uint32_t id, const CacheMove& move, MutableBytes out) {
    const size_t body = kMoveBytes + (move.has_header ? kCacheHeaderBytes : 0);
    const uint8_t flags = static_cast<uint8_t>(
        (move.to_peer ? kToPeer : 0) | (move.immediate ? kImmediate : 0) |
        (move.has_header ? kHasHeader : 0) | (move.atomic ? kAtomic : 0) | (move.lazy ? kLazy : 0));
    std::byte* at = put_head(RecordType::kMove, flags, id, body, out);
    if (at == nullptr) return 0;
    put64(at, move.handle);
    put32(at + 8, move.slot);
    put32(at + 12, move.offset);
    put32(at + 16, move.length);
    put32(at + 20, move.immediate_value);
    put64(at + 24, move.remote.address);
    put32(at + 32, move.remote.rkey);
    if (move.has_header) std::memcpy(at + kMoveBytes, move.header.data(), kCacheHeaderBytes);
    return kRecordHead + body;
}

ParseError parse_move(const Record& record, CacheMove& out) {
    if (record.type != RecordType::kMove) return ParseError::kOpcode;
    out.to_peer = record.flags & kToPeer;
    out.immediate = record.flags & kImmediate;
    out.has_header = record.flags & kHasHeader;
    out.atomic = record.flags & kAtomic;
    out.lazy = record.flags & kLazy;
    if (record.body.size() != kMoveBytes + (out.has_header ? kCacheHeaderBytes : 0))
        return ParseError::kOutOfBounds;
    const std::byte* at = record.body.data();
    out.handle = get64(at);
    out.slot = get32(at + 8);
    out.offset = get32(at + 12);
    out.length = get32(at + 16);
    out.immediate_value = get32(at + 20);
    out.remote = {get64(at + 24), get32(at + 32), out.length};
    if (out.has_header) std::memcpy(out.header.data(), at + kMoveBytes, kCacheHeaderBytes);
    if (out.length == 0) return ParseError::kContradiction;
    if (out.to_peer ? out.has_header || out.atomic : out.immediate) return ParseError::kContradiction;
    if (out.lazy && !out.immediate) return ParseError::kContradiction;
    if (out.remote.address > UINT64_MAX - out.length) return ParseError::kAddressWraps;
    return ParseError::kNone;
}

size_t put_storage(uint32_t id, const CacheStorage& storage, MutableBytes out) {
    const uint8_t flags =
        static_cast<uint8_t>(static_cast<uint8_t>(storage.op) | (storage.fua ? kStorageFua : 0) |
                             (storage.immediate ? kStorageImmediate : 0) |
                             (storage.has_copy ? kStorageCopy : 0) | (storage.in_bay ? kStorageBay : 0));
    std::byte* at = put_head(RecordType::kStorage, flags, id, kStorageBytes, out);
    if (at == nullptr) return 0;
    put64(at, storage.handle);
    put64(at + 8, storage.offset);
    put64(at + 16, storage.length);
    put32(at + 24, storage.volume);
    put32(at + 28, storage.immediate_value);
    put64(at + 32, storage.remote.address);
    put64(at + 40, storage.in_bay ? storage.bay : storage.copy.address);
    put32(at + 48, storage.remote.rkey);
    put32(at + 52, storage.copy.rkey);
    return kRecordHead + kStorageBytes;
}

// A read has at most one destination besides the staging buffer; a write takes its data from the buffer only.
static bool fits_bay(const CacheStorage& storage) {
    if (!storage.in_bay) return true;
    const bool client = storage.handle != kStorageHandle;
    const bool alone = storage.op == CacheStorage::Op::kRead ? client || !storage.immediate : !client;
    return storage.moves() && !storage.has_copy && alone && storage.bay % kPage == 0;
}

ParseError parse_storage(const Record& record, CacheStorage& out) {
    if (record.type != RecordType::kStorage) return ParseError::kOpcode;
    if (record.body.size() != kStorageBytes) return ParseError::kOutOfBounds;
    const std::byte* at = record.body.data();
    const uint8_t op = record.flags & kStorageOpMask;
    if (op > static_cast<uint8_t>(CacheStorage::Op::kWriteZeroes)) return ParseError::kOpcode;
    out.op = static_cast<CacheStorage::Op>(op);
    out.fua = record.flags & kStorageFua;
    out.immediate = record.flags & kStorageImmediate;
    out.has_copy = record.flags & kStorageCopy;
    out.in_bay = record.flags & kStorageBay;
    out.handle = get64(at);
    out.offset = get64(at + 8);
    out.length = get64(at + 16);
    out.volume = get32(at + 24);
    out.immediate_value = get32(at + 28);
    const auto length = static_cast<uint32_t>(out.moves() ? out.length : 0);
    out.remote = {get64(at + 32), get32(at + 48), length};
    out.copy = {get64(at + 40), get32(at + 52), length};
    out.bay = out.in_bay ? out.copy.address : 0;
    if (out.op != CacheStorage::Op::kRead && (out.immediate || out.has_copy))
        return ParseError::kContradiction;
    if (!fits_bay(out)) return ParseError::kContradiction;
    if (out.moves() && (out.length == 0 || out.length > kStorageTransferMax)) return ParseError::kOutOfBounds;
    if (out.remote.address > UINT64_MAX - length || out.copy.address > UINT64_MAX - length)
        return ParseError::kAddressWraps;
    return ParseError::kNone;
}

size_t put_volume(const CacheVolume& volume, MutableBytes out) {
    if (volume.name.size() >= kVolumeNameMax) return 0;
    const size_t body = kVolumeBytes + (volume.name.size() + 7) / 8 * 8;
    std::byte* at = put_head(RecordType::kVolume, 0, 0, body, out);
    if (at == nullptr) return 0;
    put64(at, volume.bytes);
    put64(at + 8, volume.boot);
    put32(at + 16, volume.number);
    put32(at + 20, volume.logical_block);
    std::memcpy(at + kVolumeBytes, volume.name.data(), volume.name.size());
    return kRecordHead + body;
}

ParseError parse_volume(const Record& record, CacheVolume& out) {
    const Bytes body = record.body;
    if (body.size() < kVolumeBytes || body.size() > kVolumeBytes + kVolumeNameMax)
        return ParseError::kOutOfBounds;
    out = {.bytes = get64(body.data()),
           .boot = get64(body.data() + 8),
           .number = get32(body.data() + 16),
           .logical_block = get32(body.data() + 20),
           .name = {}};
    std::array<char, kVolumeNameMax + 1> text{};
    std::string_view raw{reinterpret_cast<const char*>(body.data()) + kVolumeBytes,
                         body.size() - kVolumeBytes};
    out.name.assign(text.data(), copy_printable(raw, {text.data(), text.size() - 1}));
    const bool named = !out.name.empty() && out.name.size() < kVolumeNameMax;  // as put_volume() writes it
    // The block size will be used as a divisor.
    const bool can_be = named && out.bytes != 0 && std::has_single_bit(out.logical_block);
    return can_be ? ParseError::kNone : ParseError::kContradiction;
}

static size_t fixed_bytes(bool has_owner, bool has_chain) {
    return kVolumeStateBytes + (has_owner ? kVolumeOwnerBytes : 0) + (has_chain ? kVolumeChainBytes : 0);
}

size_t put_volume_state(const CacheVolumeState& state, MutableBytes out) {
    const size_t length = std::min(state.text.size(), CacheVolumeState::kTextMax);
    const bool owned = state.owner != 0, chained = state.chain != 0;
    const size_t fixed = fixed_bytes(owned, chained);
    const size_t body = fixed + (length + 7) / 8 * 8;
    const auto flags = static_cast<uint8_t>((state.suspended ? kVolumeSuspended : 0) |
                                            (owned ? kVolumeOwner : 0) | (chained ? kVolumeChain : 0));
    std::byte* at = put_head(RecordType::kVolumeState, flags, 0, body, out);
    if (at == nullptr) return 0;
    put32(at, state.number);
    put32(at + 4, state.error);
    put64(at + 8, state.bytes);
    if (owned) put64(at + kVolumeStateBytes, state.owner);
    if (chained) {
        std::byte* const succession = at + fixed - kVolumeChainBytes;
        put64(succession, state.chain);
        put64(succession + 8, state.place);
    }
    std::memcpy(at + fixed, state.text.data(), length);
    return kRecordHead + body;
}

ParseError parse_volume_state(const Record& record, CacheVolumeState& out) {
    const Bytes body = record.body;
    if (record.type != RecordType::kVolumeState) return ParseError::kOpcode;
    const bool owned = (record.flags & kVolumeOwner) != 0, chained = (record.flags & kVolumeChain) != 0;
    const size_t fixed = fixed_bytes(owned, chained);
    if (body.size() < fixed || body.size() > fixed + CacheVolumeState::kTextMax)
        return ParseError::kOutOfBounds;
    const std::byte* const succession = body.data() + fixed - kVolumeChainBytes;
    out = {.number = get32(body.data()),
           .error = get32(body.data() + 4),
           .bytes = get64(body.data() + 8),
           .suspended = (record.flags & kVolumeSuspended) != 0,
           .owner = owned ? get64(body.data() + kVolumeStateBytes) : 0,
           .chain = chained ? get64(succession) : 0,
           .place = chained ? get64(succession + 8) : 0,
           .text = {}};
    std::array<char, CacheVolumeState::kTextMax + 1> text{};
    const std::string_view raw{reinterpret_cast<const char*>(body.data()) + fixed, body.size() - fixed};
    out.text.assign(text.data(), copy_printable(raw, text));
    const bool can_be = out.error <= kErrnoMax && (out.bytes != 0 || out.error != 0) &&
                        owned == (out.owner != 0) && chained == (out.chain != 0);
    return can_be ? ParseError::kNone : ParseError::kContradiction;
}

size_t put_bays(const CacheBays& bays, MutableBytes out) {
    std::byte* at = put_head(RecordType::kBays, 0, 0, kBaysBytes, out);
    if (at == nullptr) return 0;
    put64(at, bays.address);
    put64(at + 8, bays.bytes);
    put32(at + 16, bays.rkey);
    return kRecordHead + kBaysBytes;
}

ParseError parse_bays(const Record& record, CacheBays& out) {
    if (record.type != RecordType::kBays) return ParseError::kOpcode;
    if (record.body.size() != kBaysBytes) return ParseError::kOutOfBounds;
    out = {.address = get64(record.body.data()),
           .bytes = get64(record.body.data() + 8),
           .rkey = get32(record.body.data() + 16)};
    if (out.bytes == 0) return ParseError::kContradiction;
    return out.address > UINT64_MAX - out.bytes ? ParseError::kAddressWraps : ParseError::kNone;
}

size_t put_engine(const CacheEngineNotice& notice, MutableBytes out) {
    std::array<std::byte, sizeof(wss_srp_cache_engine)> bytes;
    encode_cache_engine(notice, bytes);
    return put_bytes(RecordType::kEngine, bytes, out);
}

size_t put_failed(uint32_t id, uint32_t error, MutableBytes out) {
    std::byte* at = put_head(RecordType::kFailed, 0, id, kSlotBytes, out);
    if (at == nullptr) return 0;
    put32(at, error);
    return kRecordHead + kSlotBytes;
}

ParseError parse_failed(const Record& record, uint32_t& error) {
    if (record.body.size() != kSlotBytes) return ParseError::kOutOfBounds;
    error = get32(record.body.data());
    return error == 0 || error > kErrnoMax ? ParseError::kContradiction : ParseError::kNone;
}

size_t put_header(RecordType type, uint32_t id, const CacheHeader& header, MutableBytes out) {
    std::byte* at = put_head(type, 0, id, kSlotBytes + kCacheHeaderBytes, out);
    if (at == nullptr) return 0;
    put32(at, header.slot);
    std::memcpy(at + kSlotBytes, header.header.data(), kCacheHeaderBytes);
    return kRecordHead + kSlotBytes + kCacheHeaderBytes;
}

ParseError parse_header(const Record& record, CacheHeader& out) {
    if (record.body.size() != kSlotBytes + kCacheHeaderBytes) return ParseError::kOutOfBounds;
    out.slot = get32(record.body.data());
    std::memcpy(out.header.data(), record.body.data() + kSlotBytes, kCacheHeaderBytes);
    return ParseError::kNone;
}

size_t put_slot(RecordType type, uint32_t id, uint32_t slot, MutableBytes out) {
    std::byte* at = put_head(type, 0, id, kSlotBytes, out);
    if (at == nullptr) return 0;
    put32(at, slot);
    return kRecordHead + kSlotBytes;
}

ParseError parse_slot(const Record& record, uint32_t& out) {
    if (record.body.size() != kSlotBytes) return ParseError::kOutOfBounds;
    out = get32(record.body.data());
    return ParseError::kNone;
}

size_t put_grant(const CacheLogin& login, MutableBytes out) {
    std::byte* at = put_head(RecordType::kGrant, 0, 0, kGrantBytes, out);
    if (at == nullptr) return 0;
    put64(at, login.handle);
    std::memcpy(at + 8, login.token.data(), login.token.size());
    return kRecordHead + kGrantBytes;
}

ParseError parse_grant(const Record& record, CacheLogin& out) {
    if (record.body.size() != kGrantBytes) return ParseError::kOutOfBounds;
    out.handle = get64(record.body.data());
    std::memcpy(out.token.data(), record.body.data() + 8, out.token.size());
    return out.handle == kStorageHandle ? ParseError::kContradiction : ParseError::kNone;
}

size_t put_handle(RecordType type, uint64_t handle, MutableBytes out) {
    std::byte* at = put_head(type, 0, 0, kHandleBytes, out);
    if (at == nullptr) return 0;
    put64(at, handle);
    return kRecordHead + kHandleBytes;
}

ParseError parse_handle(const Record& record, uint64_t& out) {
    if (record.body.size() != kHandleBytes) return ParseError::kOutOfBounds;
    out = get64(record.body.data());
    return ParseError::kNone;
}

size_t put_plain(RecordType type, uint8_t flags, uint32_t id, MutableBytes out) {
    return put_head(type, flags, id, 0, out) == nullptr ? 0 : kRecordHead;
}

size_t put_text(RecordType type, std::string_view text, MutableBytes out) {
    if (text.size() >= WSS_CACHE_URI_MAX) return 0;
    const size_t body = (text.size() + 7) / 8 * 8;
    std::byte* at = put_head(type, 0, 0, body, out);
    if (at == nullptr) return 0;
    std::memcpy(at, text.data(), text.size());
    return kRecordHead + body;
}

size_t put_bytes(RecordType type, Bytes bytes, MutableBytes out) {
    const size_t body = (bytes.size() + 7) / 8 * 8;
    std::byte* at = put_head(type, 0, 0, body, out);
    if (at == nullptr) return 0;
    std::ranges::copy(bytes, at);
    return kRecordHead + body;
}

ParseError parse_text(const Record& record, std::string& out) {
    if (record.body.size() > WSS_CACHE_URI_MAX) return ParseError::kOutOfBounds;
    std::array<char, WSS_CACHE_URI_MAX> text{};
    std::string_view raw{reinterpret_cast<const char*>(record.body.data()), record.body.size()};
    out.assign(text.data(), copy_printable(raw, {text.data(), text.size() - 1}));
    return ParseError::kNone;
}

// ---- SE → initiator --------------------------------------------------------------------------------------

bool CacheEngineNotice::set_uri(std::string_view text) noexcept {
    if (text.size() >= uri.size()) return false;
    uri.fill('\0');
    std::ranges::copy(text, uri.begin());
    return true;
}

ParseError parse_cache_engine(Bytes message, CacheEngineNotice& out) {
    wss_srp_cache_engine raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_CACHE_ENGINE) return ParseError::kOpcode;
    if (raw.event != WSS_SRP_CACHE_ENGINE_ADDED && raw.event != WSS_SRP_CACHE_ENGINE_REMOVED)
        return ParseError::kFormat;
    out.added = raw.event == WSS_SRP_CACHE_ENGINE_ADDED;
    out.index = swap(uint16_t{raw.index});
    if (out.index >= WSS_CACHE_ENGINES_MAX) return ParseError::kTooMany;
    out.handle = swap(uint64_t{raw.handle});
    std::memcpy(out.token.data(), raw.token, out.token.size());
    out.uri.fill('\0');
    copy_printable({raw.uri, sizeof raw.uri}, {out.uri.data(), out.uri.size() - 1});
    return ParseError::kNone;
}

size_t encode_cache_engine(const CacheEngineNotice& notice, MutableBytes out) {
    wss_srp_cache_engine raw{};
    raw.opcode = WSS_SRP_CACHE_ENGINE;
    raw.event = notice.added ? WSS_SRP_CACHE_ENGINE_ADDED : WSS_SRP_CACHE_ENGINE_REMOVED;
    raw.index = swap(notice.index);
    raw.handle = swap(notice.handle);
    std::memcpy(raw.token, notice.token.data(), notice.token.size());
    std::ranges::copy(notice.uri, raw.uri);
    return store(raw, out);
}

ParseError parse_do_again(Bytes message, DoAgain& out) {
    wss_srp_do_again raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_DO_AGAIN) return ParseError::kOpcode;
    out = {raw.tag, swap(uint32_t{raw.engine})};
    return out.engine > WSS_CACHE_ENGINES_MAX ? ParseError::kTooMany : ParseError::kNone;
}

size_t encode_do_again(const DoAgain& again, MutableBytes out) {
    wss_srp_do_again raw{};
    raw.opcode = WSS_SRP_DO_AGAIN;
    raw.engine = swap(again.engine);
    raw.tag = again.tag;
    return store(raw, out);
}

}  // namespace wss::wire
