// SPDX-License-Identifier: Apache-2.0
// The messages of an initiator: SRP_CMD with its data buffers, and SRP_TSK_MGMT. This code runs for each I/O.
#include <algorithm>

#include "lib/wire/srp_bytes.h"

namespace wss::wire {

using detail::load;
using detail::store;
using detail::swap;

namespace {

constexpr size_t kDescriptorBytes = sizeof(wss_srp_direct_buf);
constexpr uint8_t kTaskAttributeMask = 0x07;
constexpr uint8_t kAddCdbMask = 0xfc;  // bits 7:2 count words of 4 bytes; the masked byte counts bytes
constexpr size_t kAddCdbMax = kAddCdbMask;
constexpr uint32_t kInlineDescriptorsMax = 255;

// A read position in the descriptors of a message.
class Cursor {
  public:
    Cursor(Bytes message, size_t position) : message_(message), position_(position) {}
    size_t position() const { return position_; }
    // The next `length` bytes, or null.
    const std::byte* take(size_t length) {
        if (length > message_.size() - position_) return nullptr;
        const std::byte* at = message_.data() + position_;
        position_ += length;
        return at;
    }

  private:
    Bytes message_;
    size_t position_;  // ≤ message_.size()
};

RemoteBuffer read_descriptor(const std::byte* at) {
    return {get64(at), get32(at + 8), get32(at + 12)};
}

void write_descriptor(const RemoteBuffer& buffer, std::byte* at) {
    put64(at, buffer.address);
    put32(at + 8, buffer.rkey);
    put32(at + 12, buffer.length);
}

bool wraps(const RemoteBuffer& buffer) {
    return buffer.address > UINT64_MAX - buffer.length;
}

// If `complete` is true, the lengths must add up to buffer.length. Otherwise there are further descriptors,
// each of at least one byte.
ParseError check_descriptors(const DataBuffer& buffer, bool complete) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < buffer.count; i++) {
        RemoteBuffer descriptor = buffer.descriptor(i);
        if (descriptor.length == 0) return ParseError::kDescriptors;
        if (wraps(descriptor)) return ParseError::kAddressWraps;
        sum += descriptor.length;
    }
    bool fits = complete ? sum == buffer.length : sum < buffer.length;
    return fits ? ParseError::kNone : ParseError::kTotal;
}

ParseError parse_direct(Cursor& cursor, DataBuffer& out) {
    const std::byte* at = cursor.take(kDescriptorBytes);
    if (!at) return ParseError::kOutOfBounds;
    RemoteBuffer descriptor = read_descriptor(at);
    if (wraps(descriptor)) return ParseError::kAddressWraps;
    if (descriptor.length == 0) return ParseError::kNone;
    out.kind = DataBuffer::Kind::kDirect;
    out.length = descriptor.length;
    out.count = out.table_count = 1;
    out.raw = at;
    return ParseError::kNone;
}

ParseError parse_indirect(Cursor& cursor, uint8_t count, DataBuffer& out) {
    const std::byte* at = cursor.take(sizeof(wss_srp_indirect_buf));
    if (!at) return ParseError::kOutOfBounds;
    RemoteBuffer table = read_descriptor(at);
    uint32_t length = get32(at + kDescriptorBytes);
    const std::byte* list = cursor.take(count * kDescriptorBytes);
    if (!list) return ParseError::kOutOfBounds;
    if (table.length % kDescriptorBytes != 0) return ParseError::kDescriptors;
    uint32_t table_count = table.length / kDescriptorBytes;
    if (table_count > kDescriptorsMax) return ParseError::kTooMany;
    if (count > table_count) return ParseError::kDescriptors;
    if (wraps(table)) return ParseError::kAddressWraps;
    if (table_count == 0) return length == 0 ? ParseError::kNone : ParseError::kTotal;
    out.kind = DataBuffer::Kind::kIndirect;
    out.partial = count < table_count;
    out.length = length;
    out.count = count;
    out.table_count = table_count;
    out.table = table;
    out.raw = list;
    return check_descriptors(out, !out.partial);
}

ParseError parse_buffer(unsigned format, uint8_t count, Cursor& cursor, DataBuffer& out) {
    switch (format) {
        case WSS_SRP_DESC_NONE:
            return ParseError::kNone;
        case WSS_SRP_DESC_DIRECT:
            return parse_direct(cursor, out);
        case WSS_SRP_DESC_INDIRECT:
            return parse_indirect(cursor, count, out);
        default:
            return ParseError::kFormat;
    }
}

ParseError parse_immediate(Bytes message, uint16_t offset, Cursor& cursor, Command& out) {
    if (offset == 0) return ParseError::kFormat;
    const std::byte* at = cursor.take(sizeof(wss_srp_imm_buf));
    if (!at || cursor.position() > offset || offset > message.size()) return ParseError::kOutOfBounds;
    uint32_t length = get32(at);
    if (length > message.size() - offset) return ParseError::kOutOfBounds;
    if (length == 0) return ParseError::kNone;
    out.out.kind = DataBuffer::Kind::kImmediate;
    out.out.length = length;
    out.immediate = message.subspan(offset, length);
    return ParseError::kNone;
}

bool is_task_attribute(uint8_t value) {
    return value <= 2 || value == 4;
}

// Writes the descriptors of a command. Returns the position after them, or 0 if they do not fit.
size_t put_indirect(const CommandRequest& request, size_t at, MutableBytes out) {
    size_t count = request.descriptors.size();
    size_t end = at + sizeof(wss_srp_indirect_buf) + count * kDescriptorBytes;
    if (count > kInlineDescriptorsMax || end > out.size()) return 0;
    uint64_t total = 0;
    std::byte* list = out.data() + at + sizeof(wss_srp_indirect_buf);
    for (const RemoteBuffer& descriptor : request.descriptors) {
        write_descriptor(descriptor, list);
        list += kDescriptorBytes;
        total += descriptor.length;
    }
    if (total > UINT32_MAX) return 0;
    RemoteBuffer table = request.table;
    table.length = uint32_t(count * kDescriptorBytes);
    write_descriptor(table, out.data() + at);
    put32(out.data() + at + kDescriptorBytes, uint32_t(total));
    return end;
}

size_t put_immediate(const CommandRequest& request, size_t at, MutableBytes out) {
    size_t offset = request.imm_data_offset;
    if (at + sizeof(wss_srp_imm_buf) > offset || offset > out.size()) return 0;
    std::fill(out.begin() + ptrdiff_t(at), out.begin() + ptrdiff_t(offset), std::byte{0});
    put32(out.data() + at, request.immediate_length);
    return offset;
}

uint8_t data_format(const CommandRequest& request) {
    if (request.immediate_length > 0) return WSS_SRP_DESC_IMM;
    if (request.descriptors.empty()) return WSS_SRP_DESC_NONE;
    return request.descriptors.size() == 1 ? WSS_SRP_DESC_DIRECT : WSS_SRP_DESC_INDIRECT;
}

bool is_expressible(const CommandRequest& request, uint8_t format) {
    using Direction = CommandRequest::Direction;
    if (request.cdb.empty() || request.cdb.size() > sizeof(wss_srp_cmd::cdb) + kAddCdbMax) return false;
    if ((request.direction == Direction::kNone) != (format == WSS_SRP_DESC_NONE)) return false;
    if (format != WSS_SRP_DESC_IMM) return true;
    return request.direction == Direction::kOut && request.descriptors.empty();
}

size_t put_data(const CommandRequest& request, uint8_t format, size_t at, MutableBytes out) {
    switch (format) {
        case WSS_SRP_DESC_NONE:
            return at;
        case WSS_SRP_DESC_IMM:
            return put_immediate(request, at, out);
        case WSS_SRP_DESC_INDIRECT:
            return put_indirect(request, at, out);
        default:
            break;
    }
    if (at + kDescriptorBytes > out.size()) return 0;
    write_descriptor(request.descriptors[0], out.data() + at);
    return at + kDescriptorBytes;
}

}  // namespace

ParseError parse_descriptor_table(Bytes table, DataBuffer& buffer) {
    if (!buffer.partial || table.size() != buffer.table.length) return ParseError::kContradiction;
    DataBuffer whole = buffer;
    whole.partial = false;
    whole.count = buffer.table_count;
    whole.raw = table.data();
    ParseError error = check_descriptors(whole, true);
    if (error == ParseError::kNone) buffer = whole;
    return error;
}

ParseError parse_command(Bytes message, uint16_t imm_data_offset, Command& out) {
    wss_srp_cmd raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_CMD) return ParseError::kOpcode;
    out = Command{};
    out.tag = raw.tag;
    out.lun = decode_lun(message.data() + offsetof(wss_srp_cmd, lun));
    out.task_attribute = raw.task_attr & kTaskAttributeMask;
    if (!is_task_attribute(out.task_attribute)) return ParseError::kReserved;
    size_t additional = raw.add_cdb_len & kAddCdbMask;
    if (additional > message.size() - sizeof(raw)) return ParseError::kOutOfBounds;
    out.cdb = message.subspan(offsetof(wss_srp_cmd, cdb), sizeof(raw.cdb) + additional);

    Cursor cursor(message, sizeof(raw) + additional);
    unsigned out_format = raw.buf_fmt >> 4;
    unsigned in_format = raw.buf_fmt & 0x0f;
    if (out_format == WSS_SRP_DESC_IMM)
        return in_format == WSS_SRP_DESC_NONE ? parse_immediate(message, imm_data_offset, cursor, out)
                                              : ParseError::kFormat;
    ParseError error = parse_buffer(out_format, raw.data_out_desc_cnt, cursor, out.out);
    if (error != ParseError::kNone) return error;
    return parse_buffer(in_format, raw.data_in_desc_cnt, cursor, out.in);
}

size_t encode_command(const CommandRequest& request, MutableBytes out) {
    uint8_t format = data_format(request);
    wss_srp_cmd raw{};
    if (!is_expressible(request, format)) return 0;
    if (!encode_lun(request.lun, reinterpret_cast<std::byte*>(raw.lun))) return 0;
    bool is_out = request.direction == CommandRequest::Direction::kOut;
    size_t base_cdb = std::min(request.cdb.size(), sizeof(raw.cdb));
    size_t additional = (request.cdb.size() - base_cdb + 3) & ~size_t{3};
    raw.opcode = WSS_SRP_CMD;
    raw.buf_fmt = is_out ? uint8_t(format << 4) : format;
    if (format == WSS_SRP_DESC_INDIRECT) {
        uint8_t count = uint8_t(request.descriptors.size());
        (is_out ? raw.data_out_desc_cnt : raw.data_in_desc_cnt) = count;
    }
    raw.tag = request.tag;
    raw.task_attr = request.task_attribute;
    raw.add_cdb_len = uint8_t(additional);
    std::memcpy(raw.cdb, request.cdb.data(), base_cdb);
    size_t at = sizeof(raw) + additional;
    if (out.size() < at) return 0;
    store(raw, out);
    if (additional > 0) {
        std::fill_n(out.begin() + sizeof(raw), additional, std::byte{0});
        std::ranges::copy(request.cdb.subspan(base_cdb), out.begin() + sizeof(raw));
    }
    return put_data(request, format, at, out);
}

ParseError parse_task_management(Bytes message, TaskManagement& out) {
    wss_srp_tsk_mgmt raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_TSK_MGMT) return ParseError::kOpcode;
    out.tag = raw.tag;
    out.lun = decode_lun(message.data() + offsetof(wss_srp_tsk_mgmt, lun));
    out.function = raw.tsk_mgmt_func;
    out.task_tag = raw.task_tag;
    return ParseError::kNone;
}

size_t encode_task_management(const TaskManagement& request, MutableBytes out) {
    wss_srp_tsk_mgmt raw{};
    raw.opcode = WSS_SRP_TSK_MGMT;
    raw.tag = request.tag;
    if (!encode_lun(request.lun, reinterpret_cast<std::byte*>(raw.lun))) return 0;
    raw.tsk_mgmt_func = request.function;
    raw.task_tag = request.task_tag;
    return store(raw, out);
}

}  // namespace wss::wire
