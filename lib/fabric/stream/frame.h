// SPDX-License-Identifier: Apache-2.0
// What travels between two ends of a stream fabric (tcp, and shm's message rings): a Hello each way, then
// frames.
//
// A frame is a header of 32 bytes, big-endian, followed by `length` bytes of payload for the types that carry
// one:
//
//    0 type   1 flags   2 status   3 zero   4 length   8 address   16 rkey   20 immediate
//   24 acknowledged: how many requests of the receiver of this frame its peer has executed
//   28 credits: how many receives its peer has posted, ever
//
// Requests (kSend … kRead) are numbered by their order; `acknowledged` counts them, so that a completion
// means what it means in RDMA: placed at the peer. A SEND travels only when the peer has a receive for it; a
// frame therefore never has to wait in the receiver, and reads and acknowledgements always get through.
//
// Everything here is untrusted. decode() checks what a header can be checked for alone; what depends on the
// state of the connection is checked by Engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wss::fabric::stream {

constexpr size_t kFrameBytes = 32;
constexpr uint32_t kMessageMax = 1u << 20;     // bytes of one SEND
constexpr uint32_t kTransferMax = 16u << 20;   // bytes of one READ or WRITE
constexpr uint32_t kReadChunkMax = 64u << 10;  // a READ's data comes in pieces, so that others get a turn
constexpr uint32_t kDepthMax = 1u << 16;       // receives or requests outstanding on one connection
constexpr uint32_t kReadDepthMax = 128;        // READs outstanding, each way

enum class FrameType : uint8_t {
    kAcknowledge = 1,  // nothing but the two counts
    kSend,             // payload goes to the oldest receive
    kWrite,            // payload goes to {address, rkey}
    kWriteImmediate,   // as kWrite, then consumes a receive
    kPlacedImmediate,  // shm: `address` bytes were written by the initiator itself; consumes a receive
    kRead,             // asks for `length` bytes of {address, rkey}; carries no payload
    kReadData,         // a piece of the oldest READ's answer; `address` is its offset in it
    kReadEnd,          // the oldest READ's answer was good to its last byte
    kRefuse,           // request number `immediate` failed with `status`; the connection ends
    kGrantAsk,         // shm: how may I reach region `rkey` myself?
    kGrant,            // shm: the answer about `rkey` is in the socket
};

constexpr uint8_t kWantsAcknowledge = 1;  // flag: the initiator waits for this request's completion

struct Frame {
    FrameType type = FrameType::kAcknowledge;
    uint8_t flags = 0;
    uint8_t status = 0;
    uint32_t length = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t immediate = 0;
    uint32_t acknowledged = 0;
    uint32_t credits = 0;
};

void encode(const Frame& frame, std::byte* out) noexcept;
// False: no frame of ours looks like this.
bool decode(std::span<const std::byte, kFrameBytes> in, Frame& frame) noexcept;
// Bytes that follow the header.
uint32_t payload_bytes(const Frame& frame) noexcept;

// The first thing each end says. Always of one size, so that reading it needs no state machine.
enum class HelloKind : uint8_t { kConnect = 1, kAccept, kReject };
constexpr size_t kHelloBytes = 256;
constexpr size_t kHelloDataMax = 196;

struct Hello {
    HelloKind kind = HelloKind::kConnect;
    uint8_t read_depth = 0;  // READs that the speaker lets its peer have outstanding
    uint8_t data_bytes = 0;
    std::byte data[kHelloDataMax]{};

    std::span<const std::byte> private_data() const { return {data, data_bytes}; }
    void set_data(std::span<const std::byte> bytes) noexcept;  // at most kHelloDataMax
};

enum class HelloFault : uint8_t { kNone, kNotOurs, kVersion, kMalformed };
void encode(const Hello& hello, std::span<std::byte, kHelloBytes> out) noexcept;
HelloFault decode(std::span<const std::byte, kHelloBytes> in, Hello& hello) noexcept;

}  // namespace wss::fabric::stream
