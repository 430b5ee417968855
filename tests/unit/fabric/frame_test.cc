// SPDX-License-Identifier: Apache-2.0
// Frames and hellos of the stream fabrics: encoded messages are decoded to the same values, and invalid ones
// are refused.
#include "lib/fabric/stream/frame.h"

#include <gtest/gtest.h>

#include <array>

#include "lib/base/clock.h"

namespace wss::fabric::stream {
namespace {

TEST(Frame, keeps_every_field_through_encoding) {
    Frame frame{.type = FrameType::kWriteImmediate,
                .flags = kWantsAcknowledge,
                .status = 3,
                .length = 0x00abcdef,
                .address = 0x0123456789abcdef,
                .rkey = 0xdeadbeef,
                .immediate = 0xcafef00d,
                .acknowledged = 0xfffffffe,
                .credits = 7};
    std::array<std::byte, kFrameBytes> bytes;
    encode(frame, bytes.data());
    Frame back;
    ASSERT_TRUE(decode(bytes, back));
    EXPECT_EQ(back.type, frame.type);
    EXPECT_EQ(back.flags, frame.flags);
    EXPECT_EQ(back.status, frame.status);
    EXPECT_EQ(back.length, frame.length);
    EXPECT_EQ(back.address, frame.address);
    EXPECT_EQ(back.rkey, frame.rkey);
    EXPECT_EQ(back.immediate, frame.immediate);
    EXPECT_EQ(back.acknowledged, frame.acknowledged);
    EXPECT_EQ(back.credits, frame.credits);
    EXPECT_EQ(bytes[8], std::byte{0x01}) << "big-endian";
}

TEST(Frame, that_is_impossible_is_refused) {
    std::array<std::byte, kFrameBytes> good;
    encode({.type = FrameType::kSend, .length = kMessageMax}, good.data());
    Frame frame;
    ASSERT_TRUE(decode(good, frame));
    auto refused = [&](size_t at, uint8_t value) {
        auto bytes = good;
        bytes[at] = std::byte{value};
        return !decode(bytes, frame);
    };
    EXPECT_TRUE(refused(0, 0)) << "no type";
    EXPECT_TRUE(refused(0, 200)) << "unknown type";
    EXPECT_TRUE(refused(1, 2)) << "unknown flag";
    EXPECT_TRUE(refused(3, 1)) << "reserved byte";
    EXPECT_TRUE(refused(7, 1)) << "longer than a message may be";
    encode({.type = FrameType::kAcknowledge, .length = 1}, good.data());
    EXPECT_FALSE(decode(good, frame)) << "payload in a frame without payload";
    encode({.type = FrameType::kPlacedImmediate, .address = kTransferMax + 1ull}, good.data());
    EXPECT_FALSE(decode(good, frame)) << "more bytes placed than transferred";
}

TEST(Frame, of_random_bytes_never_has_a_length_beyond_the_limits) {
    Random random(1);
    std::array<std::byte, kFrameBytes> bytes;
    for (int i = 0; i < 200'000; ++i) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
        bytes[0] = static_cast<std::byte>(random.below(14));
        bytes[1] = bytes[3] = std::byte{0};
        Frame frame;
        if (decode(bytes, frame)) {
            EXPECT_LE(payload_bytes(frame), kTransferMax);
        }
    }
}

TEST(Hello, keeps_private_data_through_encoding_and_recognizes_other_protocols) {
    Hello hello{.kind = HelloKind::kAccept, .read_depth = 16};
    std::array<std::byte, kHelloDataMax> data;
    data.fill(std::byte{0x42});
    hello.set_data(data);
    std::array<std::byte, kHelloBytes> bytes;
    encode(hello, bytes);
    Hello back;
    ASSERT_EQ(decode(bytes, back), HelloFault::kNone);
    EXPECT_EQ(back.kind, HelloKind::kAccept);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), back.private_data().begin(), back.private_data().end()));
    auto fault = [&](size_t at, uint8_t value) {
        auto changed = bytes;
        changed[at] = std::byte{value};
        return decode(changed, back);
    };
    EXPECT_EQ(fault(0, 'G'), HelloFault::kNotOurs);
    EXPECT_EQ(fault(5, 99), HelloFault::kVersion);
    EXPECT_EQ(fault(6, 0), HelloFault::kMalformed);
    EXPECT_EQ(fault(7, 0), HelloFault::kMalformed) << "READs could never be sent";
    EXPECT_EQ(fault(8, 255), HelloFault::kMalformed) << "more data than fits";
}

}  // namespace
}  // namespace wss::fabric::stream
