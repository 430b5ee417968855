// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/wire/cache_codec.h"
#include "lib/wire/srp_bytes.h"
#include "lib/wire/text.h"

namespace wss::wire {

using detail::Is;
using detail::load;
using detail::Reader;
using detail::Size;
using detail::store;
using detail::swap;
using detail::Writer;

bool same_token(const CacheToken& a, const CacheToken& b) noexcept {
    // It is volatile so that the compiler cannot make the loop stop at the first difference.
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < a.size(); ++i)
        difference = static_cast<uint8_t>(difference | std::to_integer<uint8_t>(a[i] ^ b[i]));
    return difference == 0;
}

// ---- Connect data ----------------------------------------------------------------------------------------

namespace {

template <typename Fields>
size_t size_of(Fields&& fields) {
    Size size;
    fields(size);
    return size.bytes();
}

// {magic, version, kind, flags, 0}, then the fields.
constexpr size_t kConnectHead = 8;
constexpr size_t kWelcomeBytes = 32;
constexpr uint8_t kWelcomeKeep = 1, kWelcomeStates = 2, kWelcomeOwners = 4, kWelcomeTerms = 32;
constexpr uint32_t kJoinStorage = 1;

void fields(auto& io, Is<CacheJoin> auto& join) {
    io.u64(join.engine);
    io.u64(join.memory);
    io.u32(join.incarnation);
    io.bit32(kJoinStorage, join.is_storage);
    io.u64(join.storage);
    io.zeroes(8);
}

void fields(auto& io, Is<CacheWelcome> auto& welcome) {
    io.bit(kWelcomeKeep, welcome.keep);
    io.bit(kWelcomeStates, welcome.states);
    io.bit(kWelcomeOwners, welcome.owners);
    io.bit(kWelcomeTerms, welcome.terms);
    io.u64(welcome.storage);
    io.u32(welcome.incarnation);
    io.u32(welcome.line_bytes);
    io.u32(welcome.operations);
    io.zeroes(4);
}

// The layout of wss_cache_login, which is also the body of a kGrant.
void fields(auto& io, Is<CacheLogin> auto& login) {
    io.u64(login.handle);
    io.raw(login.token);
}

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

template <typename Message>
size_t encode_connect(uint8_t kind, const Message& message, MutableBytes out) {
    const size_t bytes = kConnectHead + size_of([&](auto& io) { fields(io, message); });
    if (out.size() < bytes) return 0;
    put_connect_head(out, bytes, kind);
    Writer io(out.data() + kConnectHead);
    fields(io, message);
    put8(out.data() + 6, io.flags());
    return bytes;
}

// The data may be longer: RDMA/CM pads it.
template <typename Message>
ParseError parse_connect(uint8_t kind, Bytes data, Message& out) {
    if (auto error = check_head(data, kConnectHead, kind); error != ParseError::kNone) return error;
    Reader io(data.subspan(kConnectHead), get8(data.data() + 6));
    fields(io, out);
    return io.good() ? ParseError::kNone : ParseError::kTooShort;
}

}  // namespace

ParseError parse_cache_join(Bytes data, CacheJoin& out) {
    if (auto error = parse_connect(WSS_CACHE_LOGIN_JOIN, data, out); error != ParseError::kNone) return error;
    return out.engine == 0 ? ParseError::kContradiction : ParseError::kNone;
}

size_t encode_cache_join(const CacheJoin& join, MutableBytes out) {
    return encode_connect(WSS_CACHE_LOGIN_JOIN, join, out);
}

ParseError parse_cache_welcome(Bytes data, CacheWelcome& out) {
    if (auto error = parse_connect(WSS_CACHE_LOGIN_JOIN, data, out); error != ParseError::kNone) return error;
    const bool whole_pages = out.line_bytes >= 4096 && (out.line_bytes & (out.line_bytes - 1)) == 0;
    const bool fits = out.line_bytes <= 256 * 1024 && out.operations > 0;
    return whole_pages && fits && out.operations <= kCacheOperationsMax ? ParseError::kNone
                                                                        : ParseError::kContradiction;
}

size_t encode_cache_welcome(const CacheWelcome& welcome, MutableBytes out) {
    return encode_connect(WSS_CACHE_LOGIN_JOIN, welcome, out);
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

static ParseError check_login(const CacheLogin& login) {
    return login.handle == kStorageHandle ? ParseError::kContradiction : ParseError::kNone;
}

ParseError parse_cache_login(Bytes data, CacheLogin& out) {
    auto error = parse_connect(WSS_CACHE_LOGIN_CLIENT, data, out);
    return error != ParseError::kNone ? error : check_login(out);
}

size_t encode_cache_login(const CacheLogin& login, MutableBytes out) {
    return encode_connect(WSS_CACHE_LOGIN_CLIENT, login, out);
}

// ---- Records ---------------------------------------------------------------------------------------------

namespace {

constexpr uint8_t kToPeer = 1, kImmediate = 2, kHasHeader = 4, kAtomic = 8, kCoalesced = 16;
constexpr uint8_t kStorageOpMask = 7, kStorageFua = 8, kStorageImmediate = 16, kStorageCopy = 32,
                  kStorageStaged = 64;
constexpr uint8_t kVolumeReadOnly = 1;  // VOLUME
constexpr uint8_t kVolumeSuspended = 1, kVolumeOwner = 2, kVolumeTerm = 16;
constexpr uint64_t kPage = 4096;
constexpr size_t kVolumeNameMax = 64;  // including a zero after the last character
constexpr uint32_t kErrnoMax = 4095;

void fields(auto& io, Is<CacheMove> auto& move) {
    io.bit(kToPeer, move.to_peer);
    io.bit(kImmediate, move.immediate);
    io.bit(kHasHeader, move.has_header);
    io.bit(kAtomic, move.atomic);
    io.bit(kCoalesced, move.coalesced);
    io.u64(move.handle);
    io.u32(move.slot);
    io.u32(move.offset);
    io.u32(move.length);
    io.u32(move.immediate_value);
    io.u64(move.remote.address);
    io.u32(move.remote.rkey);
    io.zeroes(12);
    if (move.has_header) io.raw(move.header);
}

void fields(auto& io, Is<CacheStorage> auto& storage) {
    io.low_bits(kStorageOpMask, storage.op);
    io.bit(kStorageFua, storage.fua);
    io.bit(kStorageImmediate, storage.immediate);
    io.bit(kStorageCopy, storage.has_copy);
    io.bit(kStorageStaged, storage.staged);
    io.u64(storage.handle);
    io.u64(storage.offset);
    io.u64(storage.length);
    io.u32(storage.volume);
    io.u32(storage.immediate_value);
    io.u64(storage.remote.address);
    io.u64(storage.staged ? storage.staging_offset : storage.copy.address);
    io.u32(storage.remote.rkey);
    io.u32(storage.copy.rkey);
    io.zeroes(8);
}

void fields(auto& io, Is<CacheVolume> auto& volume) {
    io.bit(kVolumeReadOnly, volume.read_only);
    io.u64(volume.bytes);
    io.u64(volume.boot);
    io.u32(volume.number);
    io.u32(volume.logical_block);
    io.text(volume.name, kVolumeNameMax);
}

void fields(auto& io, Is<CacheVolumeState> auto& state) {
    io.bit(kVolumeSuspended, state.suspended);
    io.u32(state.number);
    io.u32(state.error);
    io.u64(state.bytes);
    if (io.has(kVolumeOwner, state.owner != 0)) io.u64(state.owner);
    if (io.has(kVolumeTerm, state.series != 0)) {
        io.u64(state.series);
        io.u64(state.term);
        io.u64(state.since);
    }
    io.text(state.text, CacheVolumeState::kTextMax);
}

void fields(auto& io, Is<CacheStaging> auto& staging) {
    io.u64(staging.address);
    io.u64(staging.bytes);
    io.u32(staging.rkey);
    io.zeroes(4);
}

void fields(auto& io, Is<CacheHeader> auto& header) {
    io.u32(header.slot);
    io.zeroes(4);
    io.raw(header.header);
}

// A slot or an errno.
void fields(auto& io, Is<uint32_t> auto& number) {
    io.u32(number);
    io.zeroes(4);
}

void fields(auto& io, Is<uint64_t> auto& handle) {
    io.u64(handle);
}

void fields(auto& io, Is<std::string> auto& text) {
    io.text(text, WSS_CACHE_URI_MAX);
}

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

template <typename Message>
size_t put_record(RecordType type, uint32_t id, const Message& message, MutableBytes out) {
    const size_t body = size_of([&](auto& io) { fields(io, message); });
    std::byte* at = put_head(type, 0, id, body, out);
    if (at == nullptr) return 0;
    Writer io(at);
    fields(io, message);
    put8(out.data() + 1, io.flags());
    return kRecordHead + body;
}

template <typename Message>
ParseError parse_record(const Record& record, Message& out) {
    Reader io(record.body, record.flags);
    fields(io, out);
    return io.finish() ? ParseError::kNone : ParseError::kOutOfBounds;
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
    return put_record(RecordType::kMove, id, move, out);
}

ParseError parse_move(const Record& record, CacheMove& out) {
    if (record.type != RecordType::kMove) return ParseError::kOpcode;
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    out.remote.length = out.length;
    if (out.length == 0) return ParseError::kContradiction;
    if (out.to_peer ? out.has_header || out.atomic : out.immediate) return ParseError::kContradiction;
    if (out.coalesced && !out.immediate) return ParseError::kContradiction;
    if (out.remote.address > UINT64_MAX - out.length) return ParseError::kAddressWraps;
    return ParseError::kNone;
}

size_t put_storage(uint32_t id, const CacheStorage& storage, MutableBytes out) {
    return put_record(RecordType::kStorage, id, storage, out);
}

// A read has at most one destination in addition to the staging buffer. A write takes its data only from the
// buffer.
static bool is_sound_staging(const CacheStorage& storage) {
    if (!storage.staged) return true;
    const bool client = storage.handle != kStorageHandle;
    const bool alone = storage.op == CacheStorage::Op::kRead ? client || !storage.immediate : !client;
    return storage.moves() && !storage.has_copy && alone && storage.staging_offset % kPage == 0;
}

ParseError parse_storage(const Record& record, CacheStorage& out) {
    if (record.type != RecordType::kStorage) return ParseError::kOpcode;
    out = {};
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    if (out.op > CacheStorage::Op::kWriteZeroes) return ParseError::kOpcode;
    const auto length = static_cast<uint32_t>(out.moves() ? out.length : 0);
    out.remote.length = out.copy.length = length;
    if (out.op != CacheStorage::Op::kRead && (out.immediate || out.has_copy))
        return ParseError::kContradiction;
    if (!is_sound_staging(out)) return ParseError::kContradiction;
    if (out.moves() && (out.length == 0 || out.length > kStorageTransferMax)) return ParseError::kOutOfBounds;
    const uint64_t last = UINT64_MAX - length;
    const bool wraps = out.remote.address > last || out.copy.address > last || out.staging_offset > last;
    return wraps ? ParseError::kAddressWraps : ParseError::kNone;
}

size_t put_volume(const CacheVolume& volume, MutableBytes out) {
    if (volume.name.size() >= kVolumeNameMax) return 0;
    return put_record(RecordType::kVolume, 0, volume, out);
}

ParseError parse_volume(const Record& record, CacheVolume& out) {
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    const bool named = !out.name.empty() && out.name.size() < kVolumeNameMax;  // as put_volume() writes it
    // The block size will be used as a divisor.
    const bool can_be = named && out.bytes != 0 && std::has_single_bit(out.logical_block);
    return can_be ? ParseError::kNone : ParseError::kContradiction;
}

size_t put_volume_state(const CacheVolumeState& state, MutableBytes out) {
    return put_record(RecordType::kVolumeState, 0, state, out);
}

ParseError parse_volume_state(const Record& record, CacheVolumeState& out) {
    if (record.type != RecordType::kVolumeState) return ParseError::kOpcode;
    out = {};
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    const bool owned = (record.flags & kVolumeOwner) != 0, placed = (record.flags & kVolumeTerm) != 0;
    const bool ordered = !placed || (out.since != 0 && out.since <= out.term);
    const bool can_be = out.error <= kErrnoMax && (out.bytes != 0 || out.error != 0) &&
                        owned == (out.owner != 0) && placed == (out.series != 0) && ordered;
    return can_be ? ParseError::kNone : ParseError::kContradiction;
}

size_t put_staging(const CacheStaging& staging, MutableBytes out) {
    return put_record(RecordType::kStaging, 0, staging, out);
}

ParseError parse_staging(const Record& record, CacheStaging& out) {
    if (record.type != RecordType::kStaging) return ParseError::kOpcode;
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    if (out.bytes == 0) return ParseError::kContradiction;
    return out.address > UINT64_MAX - out.bytes ? ParseError::kAddressWraps : ParseError::kNone;
}

size_t put_engine(const CacheEngineNotice& notice, MutableBytes out) {
    std::array<std::byte, sizeof(wss_srp_cache_engine)> bytes;
    encode_cache_engine(notice, bytes);
    return put_bytes(RecordType::kEngine, bytes, out);
}

size_t put_failed(uint32_t id, uint32_t error, MutableBytes out) {
    return put_record(RecordType::kFailed, id, error, out);
}

ParseError parse_failed(const Record& record, uint32_t& error) {
    if (auto malformed = parse_record(record, error); malformed != ParseError::kNone) return malformed;
    return error == 0 || error > kErrnoMax ? ParseError::kContradiction : ParseError::kNone;
}

size_t put_header(RecordType type, uint32_t id, const CacheHeader& header, MutableBytes out) {
    return put_record(type, id, header, out);
}

ParseError parse_header(const Record& record, CacheHeader& out) {
    return parse_record(record, out);
}

size_t put_slot(RecordType type, uint32_t id, uint32_t slot, MutableBytes out) {
    return put_record(type, id, slot, out);
}

ParseError parse_slot(const Record& record, uint32_t& out) {
    return parse_record(record, out);
}

size_t put_grant(const CacheLogin& login, MutableBytes out) {
    return put_record(RecordType::kGrant, 0, login, out);
}

ParseError parse_grant(const Record& record, CacheLogin& out) {
    auto error = parse_record(record, out);
    return error != ParseError::kNone ? error : check_login(out);
}

size_t put_handle(RecordType type, uint64_t handle, MutableBytes out) {
    return put_record(type, 0, handle, out);
}

ParseError parse_handle(const Record& record, uint64_t& out) {
    return parse_record(record, out);
}

size_t put_plain(RecordType type, uint8_t flags, uint32_t id, MutableBytes out) {
    return put_head(type, flags, id, 0, out) == nullptr ? 0 : kRecordHead;
}

size_t put_text(RecordType type, std::string_view text, MutableBytes out) {
    if (text.size() >= WSS_CACHE_URI_MAX) return 0;
    return put_bytes(type, std::as_bytes(std::span(text)), out);
}

size_t put_bytes(RecordType type, Bytes bytes, MutableBytes out) {
    const size_t body = (bytes.size() + 7) / 8 * 8;
    std::byte* at = put_head(type, 0, 0, body, out);
    if (at == nullptr) return 0;
    std::ranges::copy(bytes, at);
    return kRecordHead + body;
}

ParseError parse_text(const Record& record, std::string& out) {
    if (auto error = parse_record(record, out); error != ParseError::kNone) return error;
    return out.size() < WSS_CACHE_URI_MAX ? ParseError::kNone : ParseError::kContradiction;
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

ParseError parse_retry(Bytes message, RetryNotice& out) {
    wss_srp_retry raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_RETRY) return ParseError::kOpcode;
    out = {raw.tag, swap(uint32_t{raw.engine})};
    return out.engine > WSS_CACHE_ENGINES_MAX ? ParseError::kTooMany : ParseError::kNone;
}

size_t encode_retry(const RetryNotice& again, MutableBytes out) {
    wss_srp_retry raw{};
    raw.opcode = WSS_SRP_RETRY;
    raw.engine = swap(again.engine);
    raw.tag = again.tag;
    return store(raw, out);
}

}  // namespace wss::wire
