// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/frame.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "lib/base/assert.h"

namespace wss::fabric::stream {

constexpr uint32_t kMagic = 0x57535346;  // "WSSF"
constexpr uint16_t kVersion = 1;
// Hello: 0 magic, 4 version, 6 kind, 7 read depth, 8 data bytes, 9 zeros, 16 data, zeros up to kHelloBytes.
constexpr size_t kHelloDataOffset = 16;
static_assert(kHelloDataOffset + kHelloDataMax <= kHelloBytes, "private data fits in a hello");

static void put32(std::byte* out, uint32_t value) {
    value = htobe32(value);
    std::memcpy(out, &value, sizeof value);
}
static uint32_t get32(const std::byte* in) {
    uint32_t value;
    std::memcpy(&value, in, sizeof value);
    return be32toh(value);
}

void encode(const Frame& frame, std::byte* out) noexcept {
    out[0] = static_cast<std::byte>(frame.type);
    out[1] = std::byte{frame.flags};
    out[2] = std::byte{frame.status};
    out[3] = std::byte{0};
    put32(out + 4, frame.length);
    put32(out + 8, static_cast<uint32_t>(frame.address >> 32));
    put32(out + 12, static_cast<uint32_t>(frame.address));
    put32(out + 16, frame.rkey);
    put32(out + 20, frame.immediate);
    put32(out + 24, frame.acknowledged);
    put32(out + 28, frame.credits);
}

static uint32_t length_max(FrameType type) {
    switch (type) {
        case FrameType::kSend:
            return kMessageMax;
        case FrameType::kWrite:
        case FrameType::kWriteImmediate:
        case FrameType::kRead:
            return kTransferMax;
        case FrameType::kReadData:
            return kReadChunkMax;
        default:
            return 0;
    }
}

bool decode(std::span<const std::byte, kFrameBytes> in, Frame& frame) noexcept {
    uint8_t type = std::to_integer<uint8_t>(in[0]);
    if (type < static_cast<uint8_t>(FrameType::kAcknowledge) ||
        type > static_cast<uint8_t>(FrameType::kGrant))
        return false;
    frame.type = static_cast<FrameType>(type);
    frame.flags = std::to_integer<uint8_t>(in[1]);
    frame.status = std::to_integer<uint8_t>(in[2]);
    frame.length = get32(&in[4]);
    frame.address = uint64_t{get32(&in[8])} << 32 | get32(&in[12]);
    frame.rkey = get32(&in[16]);
    frame.immediate = get32(&in[20]);
    frame.acknowledged = get32(&in[24]);
    frame.credits = get32(&in[28]);
    if (in[3] != std::byte{0} || (frame.flags & ~kWantsAcknowledge) != 0) return false;
    if (frame.type == FrameType::kPlacedImmediate && frame.address > kTransferMax) return false;
    return frame.length <= length_max(frame.type);
}

uint32_t payload_bytes(const Frame& frame) noexcept {
    return frame.type == FrameType::kRead ? 0 : frame.length;
}

void Hello::set_data(std::span<const std::byte> bytes) noexcept {
    WSS_ASSERT(bytes.size() <= kHelloDataMax, "callers check private data against the capabilities");
    data_bytes = static_cast<uint8_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), data);
}

void encode(const Hello& hello, std::span<std::byte, kHelloBytes> out) noexcept {
    std::fill(out.begin(), out.end(), std::byte{0});
    put32(&out[0], kMagic);
    out[4] = std::byte{kVersion >> 8};
    out[5] = std::byte{kVersion & 0xff};
    out[6] = static_cast<std::byte>(hello.kind);
    out[7] = std::byte{hello.read_depth};
    out[8] = std::byte{hello.data_bytes};
    std::copy_n(hello.data, hello.data_bytes, &out[kHelloDataOffset]);
}

HelloFault decode(std::span<const std::byte, kHelloBytes> in, Hello& hello) noexcept {
    if (get32(&in[0]) != kMagic) return HelloFault::kNotOurs;
    if (in[4] != std::byte{kVersion >> 8} || in[5] != std::byte{kVersion & 0xff}) return HelloFault::kVersion;
    uint8_t kind = std::to_integer<uint8_t>(in[6]);
    if (kind < static_cast<uint8_t>(HelloKind::kConnect) || kind > static_cast<uint8_t>(HelloKind::kReject))
        return HelloFault::kMalformed;
    hello.kind = static_cast<HelloKind>(kind);
    hello.read_depth = std::to_integer<uint8_t>(in[7]);
    hello.data_bytes = std::to_integer<uint8_t>(in[8]);
    if (hello.data_bytes > kHelloDataMax || hello.read_depth == 0 || hello.read_depth > kReadDepthMax)
        return HelloFault::kMalformed;
    std::copy_n(&in[kHelloDataOffset], hello.data_bytes, hello.data);
    return HelloFault::kNone;
}

}  // namespace wss::fabric::stream
