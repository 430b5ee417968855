// SPDX-License-Identifier: Apache-2.0
// Fuzzes SRP messages of both directions. Every parser must reject a message or keep the guarantees of
// lib/wire/srp.h, and an encoded value must be parsed to the same value.
//
// Input: two bytes choose the immediate data offset, the rest is the message.
#include <algorithm>
#include <vector>

#include "lib/wire/srp.h"
#include "tests/fuzz/require.h"

namespace wss::wire {
namespace {

bool is_inside(Bytes part, Bytes whole) {
    return part.empty() ||
           (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_buffer(const DataBuffer& buffer) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < buffer.count; i++) {
        RemoteBuffer descriptor = buffer.descriptor(i);  // ASan detects a descriptor outside the message
        FUZZ_REQUIRE(descriptor.length > 0);
        FUZZ_REQUIRE(descriptor.address <= UINT64_MAX - descriptor.length);
        sum += descriptor.length;
    }
    FUZZ_REQUIRE(buffer.table_count <= kDescriptorsMax);
    FUZZ_REQUIRE(buffer.count <= buffer.table_count);
    if (buffer.partial)
        FUZZ_REQUIRE(sum < buffer.length);
    else if (buffer.kind != DataBuffer::Kind::kImmediate)
        FUZZ_REQUIRE(sum == buffer.length);
}

// Parses a descriptor table that would be in the initiator's memory. Bytes of the message are used instead.
void fetch_table(DataBuffer buffer, Bytes message) {
    if (!buffer.partial) return;
    std::vector<std::byte> table(buffer.table.length);
    std::copy_n(message.begin(), std::min(message.size(), table.size()), table.begin());
    if (parse_descriptor_table(table, buffer) == ParseError::kNone) check_buffer(buffer);
}

void fuzz_command(Bytes message, uint16_t offset) {
    Command command;
    if (parse_command(message, offset, command) != ParseError::kNone) return;
    FUZZ_REQUIRE(is_inside(command.cdb, message) && command.cdb.size() >= 16);
    FUZZ_REQUIRE(is_inside(command.immediate, message));
    check_buffer(command.out);
    check_buffer(command.in);
    fetch_table(command.out, message);
    fetch_table(command.in, message);
}

void fuzz_response(Bytes message) {
    Response response;
    if (parse_response(message, response) != ParseError::kNone) return;
    FUZZ_REQUIRE(is_inside(response.sense, message));
    std::vector<std::byte> copy(message.size() + 4);
    size_t length = encode_response(response, copy);
    Response again;
    FUZZ_REQUIRE(length > 0 && parse_response(Bytes(copy).first(length), again) == ParseError::kNone);
    FUZZ_REQUIRE(again.tag == response.tag && again.credits == response.credits && again.in == response.in);
    FUZZ_REQUIRE(again.out == response.out && std::ranges::equal(again.sense, response.sense));
    FUZZ_REQUIRE(again.has_task_status == response.has_task_status &&
                 again.task_status == response.task_status);
}

void fuzz_login(Bytes message) {
    std::array<std::byte, sizeof(wss_srp_login_rej)> copy;
    LoginRequest request;
    if (parse_login_request(message, request) == ParseError::kNone) {
        LoginRequest again;
        FUZZ_REQUIRE(encode_login_request(request, copy) > 0);
        FUZZ_REQUIRE(parse_login_request(copy, again) == ParseError::kNone);
        FUZZ_REQUIRE(again.caps == request.caps && again.max_it_iu == request.max_it_iu);
    }
    LoginResponse response;
    if (parse_login_response(message, response) == ParseError::kNone) {
        LoginResponse again;
        FUZZ_REQUIRE(encode_login_response(response, copy) > 0);
        FUZZ_REQUIRE(parse_login_response(copy, again) == ParseError::kNone);
        FUZZ_REQUIRE(again.session_epoch == response.session_epoch && again.credits == response.credits);
    }
    LoginReject reject;
    if (parse_login_reject(message, reject) == ParseError::kNone) {
        for (char c : reject.text()) FUZZ_REQUIRE(uint8_t(c) >= 0x20 && uint8_t(c) != 0x7f);
        LoginReject again;
        FUZZ_REQUIRE(encode_login_reject(reject, copy) == copy.size());
        FUZZ_REQUIRE(parse_login_reject(copy, again) == ParseError::kNone);
        FUZZ_REQUIRE(again.text() == reject.text());
    }
}

void fuzz_small(Bytes message) {
    std::array<std::byte, 48> copy;
    TaskManagement task;
    if (parse_task_management(message, task) == ParseError::kNone && task.lun != kBadLun)
        FUZZ_REQUIRE(encode_task_management(task, copy) == 48);
    ShortMessage brief;
    if (parse_short(message, brief) == ParseError::kNone) FUZZ_REQUIRE(encode_short(brief, copy) == 16);
    CreditRequest credits;
    if (parse_credit_request(message, credits) == ParseError::kNone)
        FUZZ_REQUIRE(encode_credit_request(credits, copy) == 16);
    AsyncEvent event;
    if (parse_async_event(message, event) == ParseError::kNone) FUZZ_REQUIRE(is_inside(event.sense, message));
    TargetLogout logout;
    if (parse_target_logout(message, logout) == ParseError::kNone)
        FUZZ_REQUIRE(encode_target_logout(logout, copy) == 16);
    Done done;
    if (parse_done(message, done) == ParseError::kNone)
        FUZZ_REQUIRE(done.count() > 0 && is_inside(done.tags, message));
    Notify notify;
    if (parse_notify(message, notify) == ParseError::kNone && notify.lun != kBadLun)
        FUZZ_REQUIRE(encode_notify(notify, copy) == 16);
}

}  // namespace
}  // namespace wss::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace wss::wire;
    if (size < 2) return 0;
    uint16_t offset = uint16_t(data[0] << 8 | data[1]);
    // A copy, so that ASan detects each read beyond its end.
    std::vector<std::byte> message(size - 2);
    std::copy_n(reinterpret_cast<const std::byte*>(data + 2), message.size(), message.begin());
    fuzz_command(message, offset);
    fuzz_response(message);
    fuzz_login(message);
    fuzz_small(message);
    return 0;
}
