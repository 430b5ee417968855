// SPDX-License-Identifier: Apache-2.0
// Wire format of a stream fabric (tcp, and the message rings of shm): a Hello in each direction, then frames.
//
// A frame is a header of 32 bytes, big-endian, followed by `length` bytes of payload for the types that carry
// one:
//
//    0 type   1 flags   2 status   3 zero   4 length   8 address   16 rkey   20 immediate
//   24 acknowledged: number of the receiver's requests that the sender of this frame has executed
//   28 credits: number of receives that the sender of this frame has ever posted
//
// Requests (kSend … kRead) are numbered in the order in which they are sent, and `acknowledged` counts them.
// So a completion means the same as in RDMA: data placed at the peer. A SEND is sent only when the peer has a
// receive for it. Therefore a frame never waits in the receiver, and READs and acknowledgements are never
// delayed by SENDs.
//
// All input is untrusted. decode() checks everything that a header alone shows. Engine checks what depends on
// the state of the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wss::fabric::stream {

constexpr size_t kFrameBytes = 32;
constexpr uint32_t kMessageMax = 1u << 20;     // bytes of one SEND
constexpr uint32_t kTransferMax = 16u << 20;   // bytes of one READ or WRITE
constexpr uint32_t kReadChunkMax = 64u << 10;  // a READ is answered in parts, so that other frames get a turn
constexpr uint32_t kDepthMax = 1u << 16;       // receives or requests outstanding on one connection
constexpr uint32_t kReadDepthMax = 128;        // READs outstanding, each way

enum class FrameType : uint8_t {
    kAcknowledge = 1,  // carries only the two counts
    kSend,             // payload goes to the oldest receive
    kWrite,            // payload goes to {address, rkey}
    kWriteImmediate,   // the same as kWrite, and consumes a receive
    kPlacedImmediate,  // shm: the sender has written `address` bytes itself; consumes a receive
    kRead,             // requests `length` bytes of {address, rkey}; carries no payload
    kReadData,         // part of the answer to the oldest READ; `address` is its offset in it
    kReadEnd,          // all data of the oldest READ was valid
    kRefuse,           // request number `immediate` failed with `status`; the connection ends
    kGrantAsk,         // shm: requests direct access to region `rkey`
    kGrant,            // shm: the answer about `rkey` is in the socket if `status` is 0
};

constexpr uint8_t kWantsAcknowledge = 1;  // flag: the sender waits for this request's completion

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
// Returns false if the header is not that of a valid frame.
bool decode(std::span<const std::byte, kFrameBytes> in, Frame& frame) noexcept;
// Bytes that follow the header.
uint32_t payload_bytes(const Frame& frame) noexcept;

// The first message of each end. All hellos have one size, so that reading one needs no state machine.
enum class HelloKind : uint8_t { kConnect = 1, kAccept, kReject };
constexpr size_t kHelloBytes = 256;
constexpr size_t kHelloDataMax = 196;

struct Hello {
    HelloKind kind = HelloKind::kConnect;
    uint8_t read_depth = 0;  // READs that the sender allows its peer to have outstanding
    uint8_t data_bytes = 0;
    std::byte data[kHelloDataMax]{};

    std::span<const std::byte> private_data() const { return {data, data_bytes}; }
    void set_data(std::span<const std::byte> bytes) noexcept;  // at most kHelloDataMax
};

enum class HelloFault : uint8_t { kNone, kNotOurs, kVersion, kMalformed };
void encode(const Hello& hello, std::span<std::byte, kHelloBytes> out) noexcept;
HelloFault decode(std::span<const std::byte, kHelloBytes> in, Hello& hello) noexcept;

}  // namespace wss::fabric::stream
