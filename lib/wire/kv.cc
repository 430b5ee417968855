// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/kv.h"

#include <cstring>

namespace wss::wire {

std::string_view to_string(KvStatus status) {
    static constexpr std::string_view kNames[] = {
        "ok",          "prepared",          "committed",     "aborted",       "unknown transaction",
        "no memory",   "too old",           "too far ahead", "id not leased", "condition failed",
        "locked",      "wrong partition",   "malformed",     "recovering",    "log failed",
        "unsupported", "client id is taken"};
    static_assert(std::size(kNames) == kKvStatusMax + 1, "one name per status");
    auto index = static_cast<size_t>(status);
    return index < std::size(kNames) ? kNames[index] : "?";
}

namespace {

constexpr uint32_t kRingAnnounced = 1u << 31, kRingLikewise = 1u << 30;  // in a ring's length

// Between calls the buffer is a little longer than the written data: growing for each field would cost more
// than writing the fields.
class Writer {
  public:
    Writer(const KvHeader& header, KvBuffer& out) : out_(out), start_(out.size()), end_(out.size()) {
        u8(kKvVersion);
        u8(static_cast<uint8_t>(static_cast<uint8_t>(header.kind) | (header.is_reply ? kKvReply : 0)));
        u8(static_cast<uint8_t>(header.status));
        u8(header.flags);
        u32(header.id);
        u32(header.epoch);
        u32(0);
    }
    ~Writer() {
        out_.resize(end_);
        put32(out_.data() + start_ + 12, static_cast<uint32_t>(end_ - start_));
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    void u8(uint8_t value) { put8(grow(1), value); }
    void u16(size_t value) { put16(grow(2), static_cast<uint16_t>(value)); }
    void u32(size_t value) { put32(grow(4), static_cast<uint32_t>(value)); }
    void u64(uint64_t value) { put64(grow(8), value); }
    void bytes(Bytes data) {
        if (data.size() <= kSlack) {
            if (!data.empty()) std::memcpy(grow(data.size()), data.data(), data.size());
            return;
        }
        out_.resize(end_);
        out_.append(data);
        end_ = out_.size();
    }
    void text(std::string_view data) { bytes(std::as_bytes(std::span(data.data(), data.size()))); }
    void ring(const KvRing& ring) {
        u64(ring.address);
        u32(ring.rkey);
        u32(ring.bytes | (ring.announced ? kRingAnnounced : 0) | (ring.likewise ? kRingLikewise : 0));
    }
    void index(const KvIndex& index) {
        u16(index.layout);
        u32(index.rkey);
        u64(index.address);
        u64(index.bytes);
        u32(index.groups);
    }

  private:
    static constexpr size_t kSlack = 128;
    std::byte* grow(size_t count) {
        if (out_.size() - end_ < count) out_.resize(end_ + count + kSlack);
        end_ += count;
        return out_.data() + end_ - count;
    }
    KvBuffer& out_;
    const size_t start_;
    size_t end_;
};

// Reads until something does not fit; from then on all values are zero and good() is false.
class Reader {
  public:
    explicit Reader(Bytes message)
        : at_(message.data()),
          end_(message.data() + message.size()),
          good_(message.size() >= kKvHeaderBytes) {
        if (good_) at_ += kKvHeaderBytes;
    }
    uint8_t u8() { return take(1) ? get8(at_ - 1) : 0; }
    uint16_t u16() { return take(2) ? get16(at_ - 2) : 0; }
    uint32_t u32() { return take(4) ? get32(at_ - 4) : 0; }
    uint64_t u64() { return take(8) ? get64(at_ - 8) : 0; }
    Bytes bytes(size_t count, size_t limit) {
        require(count <= limit);
        return take(count) ? Bytes(at_ - count, count) : Bytes();
    }
    std::string_view text(size_t count, size_t limit) {
        Bytes found = bytes(count, limit);
        return {reinterpret_cast<const char*>(found.data()), found.size()};
    }
    // A count of objects of at least `least` bytes each. It is limited by the bytes of the message, so that a
    // peer cannot make us reserve memory for data that it does not send.
    size_t count(size_t claimed, size_t limit, size_t least) {
        require(claimed <= limit && claimed * least <= static_cast<size_t>(end_ - at_));
        return good_ ? claimed : 0;
    }
    KvRing ring() {
        KvRing ring;
        ring.address = u64();
        ring.rkey = u32();
        const uint32_t word = u32();
        ring.bytes = word & ~(kRingAnnounced | kRingLikewise);
        ring.announced = (word & kRingAnnounced) != 0;
        ring.likewise = (word & kRingLikewise) != 0;
        return ring;
    }
    KvIndex index() {
        KvIndex index;
        index.layout = u16();
        index.rkey = u32();
        index.address = u64();
        index.bytes = u64();
        index.groups = u32();
        require(index.layout != 0);
        return index;
    }
    void require(bool holds) { good_ = good_ && holds; }
    bool flag(uint8_t value) {
        require(value <= 1);
        return value == 1;
    }
    bool good() const { return good_; }
    bool finish() const { return good_ && at_ == end_; }

  private:
    bool take(size_t count) {
        require(static_cast<size_t>(end_ - at_) >= count);
        if (good_) at_ += count;
        return good_;
    }
    const std::byte* at_;
    const std::byte* const end_;
    bool good_;
};

std::string_view key_of(Reader& reader, size_t length) {
    reader.require(length > 0);
    return reader.text(length, kKvKeyMax);
}

constexpr size_t kGetItemLeast = 12 + 1;
constexpr size_t kGetReplyItemLeast = 40;
constexpr size_t kPrepareItemLeast = 16 + 1;
constexpr size_t kConditionLeast = 10 + 1;
constexpr uint16_t kRowExpires = 1;  // flag of a scan's row
constexpr size_t kScanRowLeast = 16 + 1;

void write_item(Writer& writer, const KvPrepare::Item& item) {
    writer.u16(item.key.size());
    writer.u8(item.is_deleted);
    writer.u8(0);
    writer.u32(item.value.size());
    writer.u64(item.expires);
    writer.text(item.key);
    writer.bytes(item.value);
}

KvPrepare::Item read_item(Reader& reader) {
    KvPrepare::Item item;
    size_t key = reader.u16();
    item.is_deleted = reader.flag(reader.u8());
    reader.require(reader.u8() == 0);
    size_t value = reader.u32();
    item.expires = reader.u64();
    item.key = key_of(reader, key);
    item.value = reader.bytes(value, kKvValueMax);
    reader.require(!item.is_deleted || value == 0);
    return item;
}

}  // namespace

uint32_t message_length(Bytes header) {
    if (header.size() < kKvHeaderBytes || get8(header.data()) != kKvVersion) return 0;
    uint32_t length = get32(header.data() + 12);
    return length >= kKvHeaderBytes && length <= kKvMessageMax ? length : 0;
}

bool parse_header(Bytes message, KvHeader& header) {
    if (message_length(message) != message.size()) return false;
    uint8_t kind = get8(message.data() + 1), status = get8(message.data() + 2);
    header.is_reply = (kind & kKvReply) != 0;
    kind &= static_cast<uint8_t>(~kKvReply);
    if (kind == 0 || kind > kKvKindMax || status > kKvStatusMax) return false;
    header.kind = static_cast<KvKind>(kind);
    header.status = static_cast<KvStatus>(status);
    header.flags = get8(message.data() + 3);
    header.id = get32(message.data() + 4);
    header.epoch = get32(message.data() + 8);
    return true;
}

void encode(const KvHeader& header, const KvHello& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.nonce);
    writer.u32(body.client_id);
    writer.u32(body.partition);
    writer.ring(body.ring);
}

bool parse(Bytes message, KvHello& body) {
    Reader reader(message);
    body.nonce = reader.u64();
    body.client_id = reader.u32();
    body.partition = reader.u32();
    body.ring = reader.ring();
    return reader.finish();
}

void encode(const KvHeader& header, const KvHelloReply& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u32(body.client_id);
    writer.u32(body.partition);
    writer.u32(body.partitions);
    writer.u32(body.window_ms);
    writer.u64(body.incarnation);
    writer.u64(body.ticks);
    writer.u64(body.arena_address);
    writer.u64(body.arena_bytes);
    writer.u64(body.arena_epoch);
    writer.u32(body.arena_rkey);
    writer.ring(body.ring);
    writer.u32(body.map.size());
    writer.text(body.map);
    if (body.index.layout != 0) writer.index(body.index);
}

bool parse(Bytes message, KvHelloReply& body) {
    Reader reader(message);
    body.client_id = reader.u32();
    body.partition = reader.u32();
    body.partitions = reader.u32();
    body.window_ms = reader.u32();
    body.incarnation = reader.u64();
    body.ticks = reader.u64();
    body.arena_address = reader.u64();
    body.arena_bytes = reader.u64();
    body.arena_epoch = reader.u64();
    body.arena_rkey = reader.u32();
    body.ring = reader.ring();
    size_t map = reader.u32();
    body.map = reader.text(map, kKvParticipantsMax * 256);
    // The message ends here if the partition has no index or the client did not request it.
    body.index = reader.finish() ? KvIndex{} : reader.index();
    return reader.finish();
}

void encode(const KvHeader& header, const KvGet& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.owner);
    writer.u16(body.items.size());
    writer.u16(body.among.size());
    for (const KvGet::Item& item : body.items) {
        writer.u16(item.key.size());
        writer.u8(static_cast<uint8_t>(item.select));
        writer.u8(0);
        writer.u64(item.timestamp);
        writer.text(item.key);
    }
    for (uint64_t timestamp : body.among) writer.u64(timestamp);
}

bool parse(Bytes message, KvGet& body) {
    Reader reader(message);
    body.items.clear();
    body.among.clear();
    body.owner = reader.u64();
    size_t items = reader.u16(), among = reader.u16();
    items = reader.count(items, kKvItemsMax, kGetItemLeast);
    for (size_t i = 0; i < items && reader.good(); ++i) {
        KvGet::Item& item = body.items.emplace_back();
        size_t key = reader.u16();
        uint8_t select = reader.u8();
        reader.require(select <= 2 && reader.u8() == 0);
        item.select = static_cast<KvSelect>(select);
        item.timestamp = reader.u64();
        item.key = key_of(reader, key);
    }
    among = reader.count(among, kKvTimestampsMax, 8);
    for (size_t i = 0; i < among; ++i) body.among.push_back(reader.u64());
    return reader.finish();
}

void encode(const KvHeader& header, const KvGetReply& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u16(body.items.size());
    for (const KvGetReply::Item& item : body.items) {
        writer.u8(static_cast<uint8_t>(item.found));
        writer.u8(item.is_deleted);
        writer.u16(item.metadata.size());
        writer.u32(item.value.size());
        writer.u64(item.timestamp);
        writer.u64(item.expires);
        writer.u64(item.slot);
        writer.u32(item.slot_bytes);
        writer.u32(item.slot_incarnation);
        writer.bytes(item.metadata);
        writer.bytes(item.value);
    }
}

bool parse(Bytes message, KvGetReply& body) {
    Reader reader(message);
    body.items.clear();
    size_t items = reader.u16();
    items = reader.count(items, kKvItemsMax, kGetReplyItemLeast);
    for (size_t i = 0; i < items && reader.good(); ++i) {
        KvGetReply::Item& item = body.items.emplace_back();
        uint8_t found = reader.u8();
        reader.require(found <= 3);
        item.found = static_cast<KvFound>(found);
        item.is_deleted = reader.flag(reader.u8());
        size_t metadata = reader.u16(), value = reader.u32();
        item.timestamp = reader.u64();
        item.expires = reader.u64();
        item.slot = reader.u64();
        item.slot_bytes = reader.u32();
        item.slot_incarnation = reader.u32();
        item.metadata = reader.bytes(metadata, kKvMetadataMax);
        item.value = reader.bytes(value, kKvValueMax);
    }
    return reader.finish();
}

void encode(const KvHeader& header, const KvPrepare& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.timestamp);
    writer.u64(body.owner);
    writer.u16(body.participants.size());
    writer.u16(body.metadata.size());
    writer.u16(body.items.size());
    for (uint16_t partition : body.participants) writer.u16(partition);
    writer.bytes(body.metadata);
    for (const KvPrepare::Item& item : body.items) write_item(writer, item);
    if ((header.flags & kKvPrepareIf) == 0) return;
    writer.u16(body.conditions.size());
    for (const KvPrepare::Condition& condition : body.conditions) {
        writer.u16(condition.key.size());
        writer.u64(condition.expected);
        writer.text(condition.key);
    }
}

static void read_conditions(Reader& reader, KvPrepare& body) {
    size_t conditions = reader.u16();
    conditions = reader.count(conditions, kKvItemsMax, kConditionLeast);
    for (size_t i = 0; i < conditions && reader.good(); ++i) {
        KvPrepare::Condition& condition = body.conditions.emplace_back();
        size_t key = reader.u16();
        condition.expected = reader.u64();
        condition.key = key_of(reader, key);
    }
}

bool parse(Bytes message, KvPrepare& body) {
    Reader reader(message);
    body.participants.clear();
    body.items.clear();
    body.conditions.clear();
    body.timestamp = reader.u64();
    body.owner = reader.u64();
    size_t participants = reader.u16(), metadata = reader.u16(), items = reader.u16();
    participants = reader.count(participants, kKvParticipantsMax, 2);
    for (size_t i = 0; i < participants; ++i) body.participants.push_back(reader.u16());
    body.metadata = reader.bytes(metadata, kKvMetadataMax);
    items = reader.count(items, kKvItemsMax, kPrepareItemLeast);
    reader.require(body.timestamp != 0);
    for (size_t i = 0; i < items && reader.good(); ++i) body.items.push_back(read_item(reader));
    if (reader.good() && (get8(message.data() + 3) & kKvPrepareIf) != 0) read_conditions(reader, body);
    reader.require(!body.items.empty() || !body.conditions.empty());
    return reader.finish();
}

void encode(const KvHeader& header, const KvFailedCondition& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.timestamp);
    writer.u32(body.index);
}

bool parse(Bytes message, KvFailedCondition& body) {
    Reader reader(message);
    body.timestamp = reader.u64();
    body.index = reader.u32();
    return reader.finish();
}

void encode(const KvHeader& header, const KvPutIf& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.timestamp);
    writer.u64(body.expected);
    write_item(writer, body.item);
}

bool parse(Bytes message, KvPutIf& body) {
    Reader reader(message);
    body.timestamp = reader.u64();
    body.expected = reader.u64();
    body.item = read_item(reader);
    reader.require(body.timestamp != 0);
    return reader.finish();
}

void encode(const KvHeader& header, const KvDecision& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.timestamp);
}

bool parse(Bytes message, KvDecision& body) {
    Reader reader(message);
    body.timestamp = reader.u64();
    return reader.finish();
}

void encode(const KvHeader& header, const KvScan& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u16(body.prefix.size());
    writer.u16(body.cursor.size());
    writer.u32(body.limit);
    writer.u8(body.with_values);
    writer.text(body.prefix);
    writer.text(body.cursor);
}

bool parse(Bytes message, KvScan& body) {
    Reader reader(message);
    size_t prefix = reader.u16(), cursor = reader.u16();
    body.limit = reader.u32();
    body.with_values = reader.flag(reader.u8());
    body.prefix = reader.text(prefix, kKvKeyMax);
    body.cursor = reader.text(cursor, kKvKeyMax);
    reader.require(body.limit > 0 && body.limit <= kKvScanMax);
    return reader.finish();
}

void encode(const KvHeader& header, const KvScanReply& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u16(body.rows.size());
    writer.u16(body.cursor.size());
    writer.text(body.cursor);
    for (const KvScanReply::Row& row : body.rows) {
        writer.u16(row.key.size());
        writer.u16(row.expires != 0 ? kRowExpires : 0);
        writer.u32(row.value.size());
        writer.u64(row.timestamp);
        if (row.expires != 0) writer.u64(row.expires);
        writer.text(row.key);
        writer.bytes(row.value);
    }
}

bool parse(Bytes message, KvScanReply& body) {
    Reader reader(message);
    body.rows.clear();
    size_t rows = reader.u16(), cursor = reader.u16();
    body.cursor = reader.text(cursor, kKvKeyMax);
    rows = reader.count(rows, kKvScanMax, kScanRowLeast);
    for (size_t i = 0; i < rows && reader.good(); ++i) {
        KvScanReply::Row& row = body.rows.emplace_back();
        size_t key = reader.u16();
        const uint16_t flags = reader.u16();
        reader.require((flags & ~kRowExpires) == 0);
        size_t value = reader.u32();
        row.timestamp = reader.u64();
        row.expires = 0;
        if ((flags & kRowExpires) != 0) {
            row.expires = reader.u64();
            reader.require(row.expires != 0);
        }
        row.key = key_of(reader, key);
        row.value = reader.bytes(value, kKvValueMax);
    }
    return reader.finish();
}

void encode(const KvHeader& header, const KvLock& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.owner);
    writer.u8(body.exclusive);
    writer.u8(body.wait);
    writer.u16(body.keys.size());
    for (std::string_view key : body.keys) {
        writer.u16(key.size());
        writer.text(key);
    }
}

bool parse(Bytes message, KvLock& body) {
    Reader reader(message);
    body.keys.clear();
    body.owner = reader.u64();
    body.exclusive = reader.flag(reader.u8());
    body.wait = reader.flag(reader.u8());
    size_t keys = reader.u16();
    keys = reader.count(keys, kKvItemsMax, 3);
    for (size_t i = 0; i < keys && reader.good(); ++i) {
        size_t length = reader.u16();
        body.keys.push_back(key_of(reader, length));
    }
    return reader.finish();
}

void encode(const KvHeader& header, const KvText& body, KvBuffer& out) {
    Writer writer(header, out);
    writer.u64(body.timestamp);
    writer.u32(body.text.size());
    writer.text(body.text);
}

bool parse(Bytes message, KvText& body) {
    Reader reader(message);
    body.timestamp = reader.u64();
    size_t length = reader.u32();
    body.text = reader.text(length, kKvMessageMax);
    return reader.finish();
}

}  // namespace wss::wire
