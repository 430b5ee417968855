// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/messages.h"

#include <cstring>
#include <vector>

namespace wss::hostile {

namespace {

using std::byte;

// Opcodes of the commands that the target supports, and of some that it does not support.
constexpr uint8_t kOpcodes[] = {0x00, 0x03, 0x08, 0x0a, 0x12, 0x1a, 0x1b, 0x25, 0x28, 0x2a, 0x2f,
                                0x35, 0x41, 0x42, 0x5a, 0x5e, 0x5f, 0x88, 0x89, 0x8a, 0x8f, 0x91,
                                0x93, 0x9e, 0xa0, 0xa3, 0xa8, 0xaa, 0xaf, 0x55, 0x7f, 0xc0};
constexpr uint64_t kVolumeBlocks = 32768;  // of the attacked volumes
// Longer than any message that a target accepts.
constexpr size_t kLengthMax = WSS_SRP_MAX_IT_IU_LEN + 512;
constexpr size_t kHeadBytes = 80;

class SrpSource final : public MessageSource {
  public:
    using MessageSource::MessageSource;
    size_t login(std::span<byte> out) override;
    bool established(std::span<const byte> data) override;
    size_t next(Message& out) override;
    Receives receives() const override { return {300, 512}; }
    bool has_credit() const override { return credits_ > 0; }
    void received(wire::Bytes message) override;
    void received_immediate(uint32_t immediate) override;

  private:
    size_t any(Message& out);
    size_t command(Message& out);
    size_t immediate(Message& out);
    size_t task_management(Message& out);
    size_t small(Message& out);
    size_t table_elsewhere(Message& out);
    void fill_cdb(std::span<byte, 16> cdb);
    wire::RemoteBuffer buffer(uint32_t length);
    uint64_t lun();

    uint64_t tag_ = 0;
    int64_t credits_ = 0;
};

uint64_t SrpSource::lun() {
    // LUNs 0 and 1 exist. kGoodLun is never returned.
    return random_.chance(16) ? random_.below(1000) : random_.below(3);
}

wire::RemoteBuffer SrpSource::buffer(uint32_t length) {
    wire::RemoteBuffer made{memory_.address, memory_.rkey, length};
    if (memory_.length > length) made.address += random_.below(memory_.length - length);
    if (random_.chance(200)) made.rkey ^= static_cast<uint32_t>(random_.next());
    if (random_.chance(200)) made.address = random_.next();
    return made;
}

void SrpSource::fill_cdb(std::span<byte, 16> cdb) {
    for (byte& each : cdb) each = random_.chance(4) ? byte(random_.next()) : byte{0};
    if (random_.chance(10)) return;
    cdb[0] = byte{kOpcodes[random_.below(std::size(kOpcodes))]};
    if (random_.chance(8)) return;
    // Most commands have their LBA and length in these fields. Some values are beyond the end of the volume.
    const uint64_t lba = random_.chance(4) ? random_.next() : random_.below(kVolumeBlocks + 8);
    const uint32_t blocks = static_cast<uint32_t>(random_.chance(16) ? random_.next() : random_.below(300));
    const auto group = static_cast<uint8_t>(cdb[0]) >> 5;
    cdb[1] = byte(random_.chance(4) ? random_.next() : 0);
    if (group == 4) {
        wire::put64(cdb.data() + 2, lba);
        wire::put32(cdb.data() + 10, blocks);
    } else {
        wire::put32(cdb.data() + 2, static_cast<uint32_t>(lba));
        if (group == 5)
            wire::put32(cdb.data() + 6, blocks);
        else
            wire::put16(cdb.data() + 7, static_cast<uint16_t>(blocks));
    }
}

size_t SrpSource::command(Message& out) {
    using Direction = wire::CommandRequest::Direction;
    std::array<byte, 16> cdb;
    fill_cdb(cdb);
    std::vector<wire::RemoteBuffer> data;
    for (uint64_t count = random_.chance(3) ? 1 + random_.below(250) : random_.below(3); count > 0; --count)
        data.push_back(
            buffer(static_cast<uint32_t>(1 + random_.below(random_.chance(8) ? memory_.length : 8192))));
    wire::CommandRequest request{.tag = ++tag_, .lun = lun(), .cdb = cdb, .descriptors = data};
    request.task_attribute = static_cast<uint8_t>(random_.chance(8) ? random_.next() : 0);
    request.direction = static_cast<Direction>(data.empty() ? 0 : 1 + random_.below(2));
    return wire::encode_command(request, out);
}

// A command with immediate data, usually with the opcode of a write. The length in its CDB often differs from
// the length of the data.
size_t SrpSource::immediate(Message& out) {
    std::array<byte, 16> cdb;
    fill_cdb(cdb);
    if (!random_.chance(3)) cdb[0] = byte{0x8a};
    const auto length = static_cast<uint32_t>(1 + random_.below(16384));
    wire::CommandRequest request{.tag = ++tag_,
                                 .lun = lun(),
                                 .direction = wire::CommandRequest::Direction::kOut,
                                 .cdb = cdb,
                                 .immediate_length = length};
    if (random_.chance(2)) wire::put32(cdb.data() + 10, length / 512);
    const size_t head = wire::encode_command(request, out);
    if (head == 0) return 0;
    return head + (random_.chance(16) ? random_.below(length) : length);
}

// Most descriptors are outside the message: the target must fetch them from memory that the attacker may
// change.
size_t SrpSource::table_elsewhere(Message& out) {
    wire::RemoteBuffer one = buffer(512);
    std::array<byte, 16> cdb;
    fill_cdb(cdb);
    wire::CommandRequest request{.tag = ++tag_,
                                 .lun = lun(),
                                 .direction = wire::CommandRequest::Direction::kIn,
                                 .cdb = cdb,
                                 .descriptors = {&one, 1}};
    size_t length = wire::encode_command(request, out);
    out[5] = byte{WSS_SRP_DESC_INDIRECT};
    out[7] = byte(random_.below(3));
    wire::RemoteBuffer table = buffer(static_cast<uint32_t>(16 * (1 + random_.below(3000))));
    wire::put64(out.data() + 48, table.address);
    wire::put32(out.data() + 56, table.rkey);
    wire::put32(out.data() + 60, table.length);
    wire::put32(out.data() + 64, static_cast<uint32_t>(random_.below(1 << 20)));
    return std::max<size_t>(length, 68 + 16 * static_cast<size_t>(out[7]));
}

size_t SrpSource::task_management(Message& out) {
    static constexpr uint8_t kFunctions[] = {1, 2, 4, 8, 0x40, 0x20, 0xff};
    return wire::encode_task_management({.tag = ++tag_ | uint64_t{1} << 31,
                                         .lun = lun(),
                                         .function = kFunctions[random_.below(std::size(kFunctions))],
                                         .task_tag = tag_ - random_.below(40)},
                                        out);
}

size_t SrpSource::small(Message& out) {
    static constexpr uint8_t kSmall[] = {0x03, 0x41, 0x42, 0x80, 0x81, 0x82, 0xc0, 0xc1, 0xc2, 0x00};
    for (size_t i = 0; i < 64; ++i) out[i] = byte(random_.chance(2) ? 0 : random_.next());
    out[0] = byte{kSmall[random_.below(std::size(kSmall))]};
    return 16 + 16 * random_.below(4);
}

size_t SrpSource::login(std::span<byte> out) {
    wire::LoginRequest login{
        .tag = random_.next(), .multi_channel = random_.chance(3), .immediate = !random_.chance(4)};
    login.initiator_port[0] = static_cast<uint8_t>(random_.below(6));
    login.initiator_port[15] = 0xba;
    login.extended = !random_.chance(3);
    login.caps = static_cast<uint32_t>(random_.chance(4) ? random_.next() : WSS_CAP_ALL);
    size_t length = wire::encode_login_request(login, out);
    if (random_.chance(6)) damage(out.first(length), kHeadBytes);
    if (random_.chance(20)) length = random_.below(length + 1);
    return length;
}

bool SrpSource::established(std::span<const byte> data) {
    wire::LoginResponse login;
    if (wire::parse_login_response(data, login) != wire::ParseError::kNone) return false;
    credits_ = login.credits;
    return true;
}

void SrpSource::received_immediate(uint32_t immediate) {
    wire::FusedCompletion fused;
    if (wire::unpack_fused(immediate, fused) == wire::ParseError::kNone) credits_ += fused.credits;
}

void SrpSource::received(wire::Bytes message) {
    wire::Response response;
    wire::Done done;
    if (wire::parse_response(message, response) == wire::ParseError::kNone) credits_ += response.credits;
    if (wire::parse_done(message, done) == wire::ParseError::kNone) credits_ += done.credits;
}

size_t SrpSource::next(Message& out) {
    const size_t length = any(out);
    const int opcode = wire::opcode_of({out.data(), length});
    if (opcode == WSS_SRP_CMD || opcode == WSS_SRP_TSK_MGMT) --credits_;
    return length;
}

size_t SrpSource::any(Message& out) {
    size_t length = 0;
    switch (random_.below(16)) {
        case 0:
            length = task_management(out);
            break;
        case 1:
            length = random_.chance(8) ? small(out) : task_management(out);
            break;
        case 2:
        case 3:
            length = immediate(out);
            break;
        case 4:
            length = table_elsewhere(out);
            break;
        default:
            length = command(out);
    }
    if (random_.chance(8)) damage({out.data(), length}, kHeadBytes);
    if (random_.chance(100)) length = random_.below(random_.chance(4) ? kLengthMax : length + 1);
    return length;
}

}  // namespace

std::unique_ptr<MessageSource> make_srp_source(Random& random, Memory memory) {
    return std::make_unique<SrpSource>(random, memory);
}

void MessageSource::damage(std::span<byte> message, size_t head) {
    if (message.empty()) return;
    for (uint64_t flips = 1 + random_.below(4); flips > 0; --flips) {
        const size_t at =
            random_.below(random_.chance(4) ? message.size() : std::min<size_t>(message.size(), head));
        message[at] = random_.chance(2) ? byte(random_.next()) : message[at] ^ byte(1 << random_.below(8));
    }
}

}  // namespace wss::hostile
