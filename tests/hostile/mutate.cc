// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/mutate.h"

#include <algorithm>
#include <iterator>

namespace wss::hostile {

namespace stream = fabric::stream;
using std::byte;
using stream::Frame;
using stream::FrameType;
using stream::kFrameBytes;

namespace {

using Bytes = std::vector<byte>;

uint32_t any_number(Random& random) {
    constexpr uint32_t kLimits[] = {0,         1,         stream::kMessageMax + 1, stream::kTransferMax + 1,
                                    INT32_MAX, UINT32_MAX};
    if (random.chance(3)) return static_cast<uint32_t>(random.next());
    return kLimits[random.below(std::size(kLimits))] + static_cast<uint32_t>(random.below(3));
}

Bytes noise(Random& random, size_t length) {
    Bytes bytes(length);
    for (byte& each : bytes) each = byte(random.next());
    return bytes;
}

Bytes with_payload(const Frame& frame, std::span<const byte> payload) {
    Bytes bytes(kFrameBytes);
    stream::encode(frame, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

Frame header_of(const Bytes& bytes) {
    Frame frame;
    stream::decode(std::span(bytes).first<kFrameBytes>(), frame);
    return frame;
}

void change_header(Bytes& bytes, Random& random) {
    // These types carry no message and no data of their own.
    constexpr FrameType kTypes[] = {FrameType(0),         FrameType(77),        FrameType::kReadEnd,
                                    FrameType::kRefuse,   FrameType::kGrantAsk, FrameType::kGrant,
                                    FrameType::kReadData, FrameType::kRead};
    Frame frame = header_of(bytes);
    switch (random.below(5)) {
        case 0:
            frame.type = kTypes[random.below(std::size(kTypes))];
            frame.immediate = any_number(random);
            break;
        case 1:
            frame.length += any_number(random);
            break;
        case 2:
            frame.acknowledged += 1 + any_number(random);
            break;
        case 3:
            frame.credits += any_number(random);
            break;
        default:
            frame.address = random.next();
            frame.rkey ^= any_number(random);
    }
    stream::encode(frame, bytes.data());
    if (random.chance(10)) bytes[1 + random.below(3)] = byte(random.next());  // flags, status, zero
}

// A message that is shorter than its sender made it, or that consists of random bytes.
void change_message(Bytes& bytes, Random& random) {
    Frame frame = header_of(bytes);
    if (frame.type != FrameType::kSend || frame.length < 2) return change_header(bytes, random);
    Bytes payload(bytes.begin() + kFrameBytes, bytes.end());
    if (random.chance(2)) {
        payload.resize(random.below(payload.size()));
    } else {
        payload = noise(random, 1 + random.below(600));
        payload[0] = byte{0x7f};  // no opcode
    }
    frame.length = static_cast<uint32_t>(payload.size());
    bytes = with_payload(frame, payload);
}

void flip(std::span<byte> bytes, Random& random) {
    for (uint64_t flips = 1 + random.below(4); flips > 0 && !bytes.empty(); --flips) {
        byte& one = bytes[random.below(bytes.size())];
        one = random.chance(2) ? byte(random.next()) : one ^ byte(1 << random.below(8));
    }
}

void forge(Bytes& bytes, Random& random) {
    const Bytes original = bytes;
    const auto payload = std::span(bytes).subspan(kFrameBytes);
    switch (random.below(6)) {
        case 0:  // twice
            bytes.insert(bytes.end(), original.begin(), original.end());
            break;
        case 1:
            bytes.clear();
            break;
        case 2:  // bits of the immediate
            flip(std::span(bytes).subspan(20, 4), random);
            break;
        default:  // the heads of messages, LUN lists, pages and values
            flip(payload.first(std::min<size_t>(payload.size(), random.chance(2) ? 24 : 256)), random);
    }
}

}  // namespace

Frame any_frame(Random& random, bool forges) {
    Frame frame{.type = static_cast<FrameType>(random.below(13)),
                .flags = static_cast<uint8_t>(random.below(2)),
                .status = static_cast<uint8_t>(random.below(4)),
                .length = static_cast<uint32_t>(random.below(random.chance(4) ? 100'000 : 300)),
                .address = random.next(),
                .rkey = any_number(random),
                .immediate = any_number(random),
                .acknowledged = any_number(random),
                .credits = any_number(random)};
    const bool answers =
        frame.type == FrameType::kWriteImmediate || frame.type == FrameType::kPlacedImmediate;
    if (answers && !forges) frame.type = FrameType::kReadEnd;
    return frame;
}

void damage_hello(std::span<byte> hello, Random& random) {
    flip(hello.first(random.chance(4) ? hello.size() : std::min<size_t>(hello.size(), 80)), random);
}

bool damage_frame(Bytes& bytes, Random& random, bool forges) {
    if (bytes.size() < kFrameBytes) return false;
    if (forges && random.chance(2)) {
        forge(bytes, random);
        return true;
    }
    switch (random.below(8)) {
        case 0:
            bytes.resize(random.below(bytes.size()));
            return false;
        case 1:
            bytes = noise(random, 32 + random.below(4096));
            return true;
        case 2: {
            const Frame frame = any_frame(random, forges);
            Bytes added = noise(random, random.chance(4) ? 0 : stream::payload_bytes(frame));
            if (!added.empty()) added[0] = byte{0x7f};
            added = with_payload(frame, added);
            bytes.insert(bytes.begin(), added.begin(), added.end());
            return true;
        }
        case 3:
        case 4:
            change_message(bytes, random);
            return true;
        default:
            change_header(bytes, random);
            return true;
    }
}

}  // namespace wss::hostile
