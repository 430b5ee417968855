// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/lock_info.h"

#include "lib/io/rbd/encoding.h"

namespace wss::io {

namespace {

constexpr uint8_t kVersion = 1;

void put(std::string& out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

}  // namespace

std::string lock_info_request(std::string_view lock) {
    std::string request;
    put(request, kVersion, 1);
    put(request, kVersion, 1);
    put(request, sizeof(uint32_t) + lock.size(), 4);
    put(request, lock.size(), 4);
    return request.append(lock);
}

// The reply is a map {holder: {name, cookie}, {expiry, address, description}}, then the lock's type and tag.
LockHolder lock_holder(std::span<const char> answer, uint64_t client) noexcept {
    Decoder all(answer);
    Decoder reply(all.structure());
    const uint64_t count = reply.number(4);
    if (all.failed() || reply.failed()) return LockHolder::kUnreadable;
    if (count == 0) return LockHolder::kNobody;
    Decoder who(reply.structure());
    who.number(1);  // entity type: always a client, because nothing else locks images
    const uint64_t number = who.number(8);
    if (reply.failed() || who.failed()) return LockHolder::kUnreadable;
    return count == 1 && number == client ? LockHolder::kOurs : LockHolder::kOther;
}

}  // namespace wss::io
