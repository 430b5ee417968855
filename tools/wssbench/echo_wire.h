// SPDX-License-Identifier: Apache-2.0
// The protocol between an echo client and the echo server, over lib/fabric. Both are wssbench of the same
// build, so native byte order is sufficient.
//
// A request is a SEND of Ask. The server's answer depends on the kind:
//   kRead    a WRITE of `length` bytes of its memory to {address, rkey}, with `slot` as immediate value, like
//            a target's answer to a read, but without SRP and storage. If the device has no WRITE with
//            immediate (iWARP), a WRITE and a SEND
//   kWrite   a SEND; the client has WRITten the data to the server's region before the Ask
//   kPing    a SEND of as many bytes as received
//
// For the client, a kWrite with its WRITE is one operation, just as a kRead is. Pure RDMA READs and WRITEs
// need no Ask.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/fabric/tls/credentials.h"

namespace wss::wssbench {

enum class AskKind : uint32_t { kRead = 1, kWrite, kPing };

struct Ask {
    AskKind kind;
    uint32_t slot;
    uint64_t address;
    uint32_t rkey;
    uint32_t length;
};
static_assert(sizeof(Ask) == 24);

// Private data of the server's accept: describes its memory, which clients may read and write.
struct Offer {
    uint64_t address;
    uint64_t bytes;
    uint32_t rkey;
    uint32_t zero;
};

constexpr uint32_t kEchoDepthMax = 256;      // requests in flight of one connection
constexpr uint64_t kEchoMemory = 64 << 20;   // of the server
constexpr uint32_t kEchoBytesMax = 1 << 20;  // of one request
constexpr uint32_t kPingBytesMax = 64 << 10;
constexpr uint16_t kEchoPort = 5557;

// A secret that every wssbench contains. With it TLS has its usual cost, but protects nothing.
inline fabric::tls::Credentials echo_credentials() {
    const NamedSecret known{.name = "wssbench", .secret = Secret("known to everybody")};
    return {.files = {},
            .identity = known,
            .known = std::make_shared<fabric::tls::KnownPeers>(std::vector{known})};
}

}  // namespace wss::wssbench
