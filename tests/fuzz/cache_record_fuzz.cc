// SPDX-License-Identifier: Apache-2.0
// Fuzzes the records, connect data and line headers that storage engines, cache engines and initiators
// exchange. No access outside the input is allowed, and an accepted value must be encoded to the same value.
//
// Input: one byte of choices, then the message. Almost no mutation has a correct checksum or magic number, so
// one choice is to insert correct ones.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "lib/cache/engine/record_link.h"
#include "lib/cache/header.h"
#include "lib/wire/auth.h"
#include "lib/wire/cache.h"
#include "tests/fuzz/require.h"

using namespace wss;
using namespace wss::wire;

namespace {

constexpr uint8_t kSign = 1;

using Buffer = std::array<std::byte, cache::RecordLink::kRecordMax>;

// `parse` reads bytes, `encode` writes them. The first encoding may differ from the message in reserved
// fields. The second one must equal the first.
template <typename Value, typename Parse, typename Encode>
void round_trip(Parse&& parse, Encode&& encode, Bytes message) {
    Value value, again;
    if (parse(message, value) != ParseError::kNone) return;
    Buffer first{}, second{};
    const size_t length = encode(value, MutableBytes(first));
    FUZZ_REQUIRE(length > 0 && length <= first.size());
    const std::vector<std::byte> exact(first.begin(), first.begin() + static_cast<ptrdiff_t>(length));
    FUZZ_REQUIRE(parse(Bytes(exact), again) == ParseError::kNone);
    FUZZ_REQUIRE(encode(again, MutableBytes(second)) == length && second == first);
}

// The same for a whole record.
template <typename Value, typename Parse, typename Put>
void record_trip(Bytes whole, Parse&& parse, Put&& put) {
    round_trip<Value>(
        [&](Bytes bytes, Value& value) {
            Record record;
            FUZZ_REQUIRE(next_record(bytes, record) == ParseError::kNone && bytes.empty());
            return parse(record, value);
        },
        put, whole);
}

void line_header(Bytes bytes, bool sign) {
    if (bytes.size() < cache::kHeaderBytes) return;
    std::array<std::byte, cache::kHeaderBytes> header, again;
    std::copy_n(bytes.begin(), header.size(), header.begin());
    if (sign) put64(header.data() + 56, XXH3_64bits(header.data(), 56));
    const cache::ParsedHeader parsed = cache::parse_header(header);
    if (parsed.fault != cache::HeaderFault::kNone) return;
    FUZZ_REQUIRE(parsed.header.valid.contains(parsed.header.dirty));
    cache::write_header(parsed.header, again);
    FUZZ_REQUIRE(again == header);
}

void move(Bytes whole, bool sign) {
    record_trip<CacheMove>(
        whole,
        [&](const Record& record, CacheMove& move) {
            const ParseError error = parse_move(record, move);
            if (error != ParseError::kNone) return error;
            FUZZ_REQUIRE(move.length > 0 && move.remote.length == move.length);
            FUZZ_REQUIRE(move.remote.address + move.length >= move.remote.address);
            if (move.has_header) line_header(move.header, sign);
            return error;
        },
        [](const CacheMove& move, MutableBytes out) { return put_move(1, move, out); });
}

void storage(Bytes whole) {
    record_trip<CacheStorage>(
        whole,
        [](const Record& record, CacheStorage& storage) {
            const ParseError error = parse_storage(record, storage);
            if (error != ParseError::kNone) return error;
            if (!storage.moves()) return error;
            FUZZ_REQUIRE(storage.length > 0 && storage.length <= kStorageTransferMax);
            for (const RemoteBuffer& place : {storage.remote, storage.copy})
                FUZZ_REQUIRE(place.length == storage.length && place.address + place.length >= place.address);
            FUZZ_REQUIRE(!storage.staged || (storage.staging_offset % 4096 == 0 && !storage.has_copy));
            return error;
        },
        [](const CacheStorage& storage, MutableBytes out) { return put_storage(1, storage, out); });
}

void volume(Bytes whole) {
    record_trip<CacheVolume>(
        whole,
        [](const Record& record, CacheVolume& volume) {
            const ParseError error = parse_volume(record, volume);
            FUZZ_REQUIRE(error != ParseError::kNone || (volume.logical_block > 0 && volume.bytes > 0));
            return error;
        },
        put_volume);
}

void volume_state(Bytes whole) {
    record_trip<CacheVolumeState>(
        whole,
        [](const Record& record, CacheVolumeState& state) {
            const ParseError error = parse_volume_state(record, state);
            if (error != ParseError::kNone) return error;
            FUZZ_REQUIRE(state.text.size() <= CacheVolumeState::kTextMax);
            FUZZ_REQUIRE(state.error <= 4095 && (state.error != 0 || state.bytes != 0));
            return error;
        },
        put_volume_state);
}

void proof(RecordType type, Bytes body) {
    if (type == RecordType::kAuthStart)
        return round_trip<AuthStart>(parse_auth_start, encode_auth_start, body);
    if (type == RecordType::kAuthProof) return round_trip<Digest>(parse_auth_proof, encode_auth_proof, body);
    if (type == RecordType::kAuthChallenge)
        return round_trip<AuthChallenge>(parse_auth_challenge, encode_auth_challenge, body);
    round_trip<AuthResult>(parse_auth_result, encode_auth_result, body);
}

// `whole` is a copy, so that ASan detects an access beyond its end.
void record(const Record& head, Bytes whole, bool sign) {
    const RecordType type = head.type;
    auto slot = [type](uint32_t number, MutableBytes out) { return put_slot(type, 1, number, out); };
    auto handle = [type](uint64_t value, MutableBytes out) { return put_handle(type, value, out); };
    auto text = [type](const std::string& value, MutableBytes out) { return put_text(type, value, out); };
    auto header = [type](const CacheHeader& value, MutableBytes out) {
        line_header(value.header, false);
        return put_header(type, 1, value, out);
    };
    switch (type) {
        case RecordType::kMove:
            return move(whole, sign);
        case RecordType::kStorage:
            return storage(whole);
        case RecordType::kVolume:
            return volume(whole);
        case RecordType::kVolumeState:
            return volume_state(whole);
        case RecordType::kHeader:
        case RecordType::kItem:
            return record_trip<CacheHeader>(whole, parse_header, header);
        case RecordType::kWipe:
        case RecordType::kInventoryEnd:
            return record_trip<uint32_t>(whole, parse_slot, slot);
        case RecordType::kGrant:
            return record_trip<CacheLogin>(whole, parse_grant, put_grant);
        case RecordType::kStaging:
            return record_trip<CacheStaging>(whole, parse_staging, put_staging);
        case RecordType::kRevoke:
        case RecordType::kAttached:
        case RecordType::kDetached:
        case RecordType::kEngineGone:
            return record_trip<uint64_t>(whole, parse_handle, handle);
        case RecordType::kAddress:
            return record_trip<std::string>(whole, parse_text, text);
        case RecordType::kFailed:
            return record_trip<uint32_t>(whole, parse_failed, [](uint32_t error, MutableBytes out) {
                return put_failed(1, error, out);
            });
        case RecordType::kEngine:
            return round_trip<CacheEngineNotice>(parse_cache_engine, encode_cache_engine, head.body);
        case RecordType::kWelcome:
            return round_trip<CacheWelcome>(parse_cache_welcome, encode_cache_welcome, head.body);
        case RecordType::kAuthStart:
        case RecordType::kAuthProof:
        case RecordType::kAuthChallenge:
        case RecordType::kAuthResult:
            return proof(type, head.body);
        case RecordType::kPing:
        case RecordType::kPong:
        case RecordType::kDone:
        case RecordType::kGoodbye:
        case RecordType::kReady:
        case RecordType::kLeave:
            return;  // types that have only a head
    }
}

void records(Bytes message, bool sign) {
    while (!message.empty()) {
        const Bytes before = message;
        Record head;
        if (next_record(message, head) != ParseError::kNone) return;
        const size_t length = before.size() - message.size();
        FUZZ_REQUIRE(length == kRecordHead + head.body.size() && length % 8 == 0);
        const std::vector<std::byte> whole(before.begin(), before.begin() + static_cast<ptrdiff_t>(length));
        head.body = Bytes(whole).subspan(kRecordHead);
        record(head, whole, sign);
    }
}

void connect_data(std::vector<std::byte> bytes, bool sign) {
    if (sign && bytes.size() >= 5) {
        put32(bytes.data(), WSS_CACHE_MAGIC);
        put8(bytes.data() + 4, WSS_CACHE_VERSION);
    }
    round_trip<CacheJoin>(parse_cache_join, encode_cache_join, bytes);
    round_trip<CacheWelcome>(parse_cache_welcome, encode_cache_welcome, bytes);
    round_trip<CacheLogin>(parse_cache_login, encode_cache_login, bytes);
    is_cache_prove(bytes);
    padded_for_proof(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    const bool sign = data[0] & kSign;
    const auto* bytes = reinterpret_cast<const std::byte*>(data) + 1;
    const std::vector<std::byte> message(bytes, bytes + size - 1);
    records(message, sign);
    connect_data(message, sign);
    line_header(message, sign);
    round_trip<CacheEngineNotice>(parse_cache_engine, encode_cache_engine, message);
    round_trip<RetryNotice>(parse_retry, encode_retry, message);
    return 0;
}
