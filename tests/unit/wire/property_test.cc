// SPDX-License-Identifier: Apache-2.0
// Properties of the wire codecs: encoded messages are parsed to the same values. Every byte string either
// parses to values that keep the header's guarantees or is refused. RapidCheck prints a shrunk failing case
// and its seed.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "lib/wire/scsi.h"
#include "lib/wire/srp.h"
#include "lib/wire/text.h"

namespace wss::wire {
namespace {

using Direction = CommandRequest::Direction;

RemoteBuffer draw_buffer(uint32_t length_max) {
    RemoteBuffer buffer;
    buffer.length = *rc::gen::inRange<uint32_t>(1, length_max);
    buffer.rkey = *rc::gen::arbitrary<uint32_t>();
    buffer.address = *rc::gen::inRange<uint64_t>(0, UINT64_MAX - length_max);
    return buffer;
}

TEST(AnyWireCommand, is_parsed_as_it_was_encoded) {
    EXPECT_TRUE(rc::check([] {
        auto cdb = *rc::gen::container<std::vector<uint8_t>>(*rc::gen::inRange<size_t>(1, 269),
                                                             rc::gen::arbitrary<uint8_t>());
        std::vector<RemoteBuffer> buffers(*rc::gen::inRange<size_t>(0, 256));
        for (RemoteBuffer& buffer : buffers) buffer = draw_buffer(1 << 24);
        CommandRequest request{.tag = *rc::gen::arbitrary<uint64_t>(),
                               .lun = *rc::gen::inRange<uint64_t>(0, kLunMax + 1),
                               .cdb = std::as_bytes(std::span(cdb)),
                               .descriptors = buffers};
        if (!buffers.empty()) request.direction = *rc::gen::element(Direction::kIn, Direction::kOut);
        std::vector<std::byte> message(8192, std::byte{0xee});
        size_t length = encode_command(request, message);
        RC_ASSERT(length > 0u);

        Command back;
        RC_ASSERT(parse_command(Bytes(message).first(length), 0, back) == ParseError::kNone);
        RC_ASSERT(back.tag == request.tag);
        RC_ASSERT(back.lun == request.lun);
        RC_ASSERT(back.cdb.size() >= std::max<size_t>(16, cdb.size()));
        RC_ASSERT(std::ranges::equal(back.cdb.first(cdb.size()), request.cdb));
        for (std::byte pad : back.cdb.subspan(cdb.size())) RC_ASSERT(pad == std::byte{0});
        const DataBuffer& data = request.direction == Direction::kOut ? back.out : back.in;
        const DataBuffer& other = request.direction == Direction::kOut ? back.in : back.out;
        RC_ASSERT(other.kind == DataBuffer::Kind::kNone);
        RC_ASSERT(data.count == buffers.size());
        RC_ASSERT(!data.partial);
        for (uint32_t i = 0; i < data.count; i++) RC_ASSERT(data.descriptor(i) == buffers[i]);
    }));
}

TEST(AnyResponse, is_parsed_as_it_was_encoded) {
    EXPECT_TRUE(rc::check(
        [](const std::vector<uint8_t>& sense, uint64_t tag, bool task, uint8_t status, uint32_t residual) {
            Response response{.tag = tag,
                              .credits = *rc::gen::inRange<uint32_t>(0, INT32_MAX),
                              .status = status,
                              .has_task_status = task,
                              .task_status = task ? status : uint8_t{0}};
            response.sense = std::as_bytes(std::span(sense));
            response.out = {*rc::gen::element(Residual::Kind::kOver, Residual::Kind::kUnder), residual};
            std::vector<std::byte> message(64 + sense.size());
            size_t length = encode_response(response, message);
            Response back;
            RC_ASSERT(parse_response(Bytes(message).first(length), back) == ParseError::kNone);
            RC_ASSERT(back.tag == tag);
            RC_ASSERT(back.credits == response.credits);
            RC_ASSERT(back.status == status);
            RC_ASSERT(back.task_status == response.task_status);
            RC_ASSERT(back.out == response.out);
            RC_ASSERT(back.in == Residual{});
            RC_ASSERT(std::ranges::equal(back.sense, response.sense));
        }));
}

TEST(AnyLogin, is_parsed_as_it_was_encoded) {
    EXPECT_TRUE(rc::check([](uint64_t tag, PortId initiator, PortId target, uint32_t caps, bool multi) {
        LoginRequest request{.tag = tag,
                             .multi_channel = multi,
                             .immediate = true,
                             .initiator_port = initiator,
                             .target_port = target,
                             .extended = true,
                             .caps = caps};
        std::array<std::byte, 56> message;
        RC_ASSERT(encode_login_request(request, message) == message.size());
        LoginRequest back;
        RC_ASSERT(parse_login_request(message, back) == ParseError::kNone);
        RC_ASSERT(back.tag == tag);
        RC_ASSERT(back.initiator_port == initiator);
        RC_ASSERT(back.target_port == target);
        RC_ASSERT(back.caps == caps);
        RC_ASSERT(back.multi_channel == multi);
    }));
}

TEST(AnyText, is_printable_after_one_copy_and_not_changed_by_another) {
    EXPECT_TRUE(rc::check([](const std::string& text) {
        std::string once(text.size(), '\0');
        once.resize(copy_printable(text, once));
        std::string twice(once.size(), '\0');
        twice.resize(copy_printable(once, twice));
        RC_ASSERT(once == twice);
        for (char c : once) RC_ASSERT(uint8_t(c) >= 0x20 && uint8_t(c) != 0x7f);
    }));
}

// A command with some changed bytes, similar enough to a valid one to pass the first checks.
std::vector<std::byte> draw_mutated_command() {
    std::vector<RemoteBuffer> buffers(*rc::gen::inRange<size_t>(0, 6));
    for (RemoteBuffer& buffer : buffers) buffer = draw_buffer(1 << 16);
    Cdb cdb = make_write16(0, 1);
    CommandRequest request{.cdb = cdb, .descriptors = buffers};
    if (!buffers.empty()) request.direction = Direction::kOut;
    std::vector<std::byte> message(256);
    message.resize(encode_command(request, message));
    size_t changes = *rc::gen::inRange<size_t>(0, 4);
    for (size_t i = 0; i < changes; i++) {
        // Mostly the fields that determine how the rest is parsed.
        size_t at = *rc::gen::oneOf(rc::gen::element<size_t>(5, 6, 7, 31, 60, 61, 62, 63, 67),
                                    rc::gen::inRange<size_t>(0, message.size()));
        put8(&message[std::min(at, message.size() - 1)], *rc::gen::arbitrary<uint8_t>());
    }
    if (*rc::gen::weightedElement<bool>({{4, false}, {1, true}}))
        message.resize(*rc::gen::inRange<size_t>(0, message.size()));
    return message;
}

void check_buffer(Bytes message, const DataBuffer& buffer) {
    uint64_t sum = 0;
    if (buffer.count > 0) {
        RC_ASSERT(buffer.raw >= message.data());
        RC_ASSERT(buffer.raw + buffer.count * size_t{16} <= message.data() + message.size());
    }
    for (uint32_t i = 0; i < buffer.count; i++) {
        RemoteBuffer descriptor = buffer.descriptor(i);
        RC_ASSERT(descriptor.length > 0u);
        RC_ASSERT(descriptor.address <= UINT64_MAX - descriptor.length);
        sum += descriptor.length;
    }
    if (buffer.kind == DataBuffer::Kind::kNone) RC_ASSERT(buffer.length == 0u);
    if (buffer.partial) RC_ASSERT(sum < buffer.length);
    if (!buffer.partial && buffer.kind != DataBuffer::Kind::kImmediate) RC_ASSERT(sum == buffer.length);
    RC_ASSERT(buffer.table_count <= kDescriptorsMax);
}

TEST(AnyWireCommand, obeys_the_guarantees_or_is_refused) {
    size_t accepted = 0;
    EXPECT_TRUE(rc::check([&] {
        std::vector<std::byte> message = draw_mutated_command();
        auto offset = *rc::gen::element<uint16_t>(0, 52, 68, 200);
        Command out;
        if (parse_command(message, offset, out) != ParseError::kNone) return;
        accepted++;
        check_buffer(message, out.out);
        check_buffer(message, out.in);
        RC_ASSERT(out.cdb.data() + out.cdb.size() <= message.data() + message.size());
        RC_ASSERT(out.immediate.size() ==
                  (out.out.kind == DataBuffer::Kind::kImmediate ? out.out.length : 0));
    }));
    EXPECT_GT(accepted, 10u) << "the generator must produce enough valid commands";
}

}  // namespace
}  // namespace wss::wire
