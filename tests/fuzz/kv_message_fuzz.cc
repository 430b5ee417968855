// SPDX-License-Identifier: Apache-2.0
// Fuzzes every parser of key-value messages: no input may crash it, and an accepted message must be encoded
// to the same bytes. This shows that the parser has read no bytes outside the message.
#include <cstring>

#include "lib/kv/metadata.h"
#include "lib/wire/kv.h"
#include "tests/fuzz/require.h"

using namespace wss;
using namespace wss::wire;

namespace {

// The parsed body, encoded with the same header, must equal the message.
template <typename Body>
void round_trip(const KvHeader& header, Bytes message) {
    static Body body;
    if (!parse(message, body)) return;
    KvBuffer again;
    encode(header, body, again);
    FUZZ_REQUIRE(again.size() == message.size());
    FUZZ_REQUIRE(std::memcmp(again.data(), message.data(), message.size()) == 0);
}

void request(const KvHeader& header, Bytes message) {
    round_trip<KvHello>(header, message);
    round_trip<KvGet>(header, message);
    round_trip<KvPrepare>(header, message);
    round_trip<KvPutIf>(header, message);
    round_trip<KvDecision>(header, message);
    round_trip<KvScan>(header, message);
    round_trip<KvLock>(header, message);
    round_trip<KvText>(header, message);
}

void reply(const KvHeader& header, Bytes message) {
    round_trip<KvHelloReply>(header, message);
    round_trip<KvFailedCondition>(header, message);
    round_trip<KvGetReply>(header, message);
    round_trip<KvScanReply>(header, message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::vector<std::byte> message(size);
    if (size > 0) std::memcpy(message.data(), data, size);
    message_length(message);
    kv::Metadata metadata(message);
    for (size_t i = 0; i < metadata.keys(); ++i) FUZZ_REQUIRE(metadata.may_contain(metadata.key(i)));
    metadata.may_contain(size);
    // Mutations rarely have the right version and length, so these are corrected to reach the bodies.
    if (size < kKvHeaderBytes) return 0;
    put8(message.data(), kKvVersion);
    put32(message.data() + 12, static_cast<uint32_t>(size));
    KvHeader header;
    if (!parse_header(message, header)) return 0;
    request(header, message);
    reply(header, message);
    return 0;
}
