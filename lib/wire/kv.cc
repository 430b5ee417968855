// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/kv.h"

#include <cstring>
#include <vector>

#include "lib/wire/fields.h"

namespace wss::wire {

std::string_view to_string(KvStatus status) {
    static constexpr std::string_view kNames[] = {"ok",
                                                  "prepared",
                                                  "committed",
                                                  "aborted",
                                                  "unknown transaction",
                                                  "no memory",
                                                  "too old",
                                                  "too far ahead",
                                                  "id not leased",
                                                  "condition failed",
                                                  "locked",
                                                  "wrong partition",
                                                  "malformed",
                                                  "recovering",
                                                  "log failed",
                                                  "unsupported",
                                                  "client id is taken",
                                                  "permission"};
    static_assert(std::size(kNames) == kKvStatusMax + 1, "one name per status");
    auto index = static_cast<size_t>(status);
    return index < std::size(kNames) ? kNames[index] : "?";
}

namespace {

using detail::Is;

// Each message is described once, by its fields(io, body). KvWriter and KvReader have the same methods. The
// reader checks values against the limits.

// Between calls the buffer is a little longer than the written data, because growing it for each field would
// cost more than writing the fields.
class KvWriter {
  public:
    static constexpr bool kReads = false;
    KvWriter(const KvHeader& header, KvBuffer& out)
        : out_(out), start_(out.size()), end_(out.size()), flags_(header.flags) {
        u8(kKvVersion);
        u8(static_cast<uint8_t>(static_cast<uint8_t>(header.kind) | (header.is_reply ? kKvReply : 0)));
        u8(static_cast<uint8_t>(header.status));
        u8(header.flags);
        u32(header.id);
        u32(header.epoch);
        u32(0);
    }
    ~KvWriter() {
        out_.resize(end_);
        put32(out_.data() + start_ + 12, static_cast<uint32_t>(end_ - start_));
    }
    KvWriter(const KvWriter&) = delete;
    KvWriter& operator=(const KvWriter&) = delete;

    void u16(uint16_t value) { put16(grow(2), value); }
    void u32(uint32_t value) { put32(grow(4), value); }
    void u64(uint64_t value) { put64(grow(8), value); }
    void flag(bool value) { u8(value); }
    template <typename Enum>
    void choice(Enum value, Enum) {
        u8(static_cast<uint8_t>(value));
    }
    void zero() { u8(0); }
    size_t size16(const auto& of) {
        u16(static_cast<uint16_t>(of.size()));
        return of.size();
    }
    size_t size32(const auto& of) {
        u32(static_cast<uint32_t>(of.size()));
        return of.size();
    }
    void bytes(Bytes data, size_t, size_t) {
        if (data.size() <= kSlack) {
            if (!data.empty()) std::memcpy(grow(data.size()), data.data(), data.size());
            return;
        }
        out_.resize(end_);
        out_.append(data);
        end_ = out_.size();
    }
    void text(std::string_view data, size_t size, size_t limit) {
        bytes(std::as_bytes(std::span(data.data(), data.size())), size, limit);
    }
    void key(std::string_view key, size_t size) { text(key, size, kKvKeyMax); }
    template <typename Item, typename Each>
    void each(const std::vector<Item>& all, size_t, size_t, size_t, Each&& fields_of) {
        for (const Item& one : all) fields_of(one);
    }
    void require(bool) {}
    template <typename Value>
    void reset(const Value&) {}
    bool goes_on(bool more) const { return more; }
    uint8_t flags() const { return flags_; }

  private:
    static constexpr size_t kSlack = 128;
    void u8(uint8_t value) { put8(grow(1), value); }
    std::byte* grow(size_t count) {
        if (out_.size() - end_ < count) out_.resize(end_ + count + kSlack);
        end_ += count;
        return out_.data() + end_ - count;
    }
    KvBuffer& out_;
    const size_t start_;
    size_t end_;
    const uint8_t flags_;
};

class KvReader : public detail::FieldReader {
  public:
    static constexpr bool kReads = true;
    // REQUIRES a header at the beginning of the message.
    explicit KvReader(Bytes message)
        : FieldReader(message.subspan(kKvHeaderBytes)), flags_(get8(message.data() + 3)) {}
    void flag(bool& value) {
        const uint8_t found = u8();
        require(found <= 1);
        value = found == 1;
    }
    template <typename Enum>
    void choice(Enum& value, Enum most) {
        const uint8_t found = u8();
        require(found <= static_cast<uint8_t>(most));
        value = static_cast<Enum>(found);
    }
    void zero() { require(u8() == 0); }
    // Reads a length or a count. The bytes or items that it counts follow later.
    size_t size16(const auto&) {
        uint16_t size = 0;
        u16(size);
        return size;
    }
    size_t size32(const auto&) {
        uint32_t size = 0;
        u32(size);
        return size;
    }
    void bytes(Bytes& data, size_t size, size_t limit) {
        require(size <= limit);
        const std::byte* at = take(size);
        data = at != nullptr ? Bytes(at, size) : Bytes();
    }
    void text(std::string_view& data, size_t size, size_t limit) {
        Bytes found;
        bytes(found, size, limit);
        data = {reinterpret_cast<const char*>(found.data()), found.size()};
    }
    void key(std::string_view& key, size_t size) {
        require(size > 0);
        text(key, size, kKvKeyMax);
    }
    // Items of at least `least` bytes each. Their number is limited by the bytes of the message, so that a
    // peer cannot make this process reserve memory for data that the peer does not send.
    template <typename Item, typename Each>
    void each(std::vector<Item>& all, size_t count, size_t limit, size_t least, Each&& fields_of) {
        all.clear();
        require(count <= limit && count * least <= left());
        for (size_t i = 0; i < count && good(); ++i) fields_of(all.emplace_back());
    }
    template <typename Value>
    void reset(Value& value) {
        value = Value{};
    }
    bool goes_on(bool) const { return good() && left() > 0; }
    uint8_t flags() const { return flags_; }

  private:
    uint8_t u8() {
        const std::byte* at = take(1);
        return at != nullptr ? get8(at) : uint8_t{0};
    }
    const uint8_t flags_;
};

// The bodies. For a writer, Body is a const type in these functions.

constexpr uint32_t kRingAnnounced = 1u << 31, kRingLikewise = 1u << 30;  // bits of a ring's length
constexpr uint16_t kRowExpires = 1;                                      // flag of a scan's row
// Minimum size in bytes of an item, a condition, a row and a key of a lock.
constexpr size_t kGetItemLeast = 12 + 1;
constexpr size_t kGetReplyItemLeast = 40;
constexpr size_t kPrepareItemLeast = 16 + 1;
constexpr size_t kConditionLeast = 10 + 1;
constexpr size_t kScanRowLeast = 16 + 1;
constexpr size_t kLockKeyLeast = 2 + 1;

void ring_fields(auto& io, auto& ring) {
    io.u64(ring.address);
    io.u32(ring.rkey);
    uint32_t word = ring.bytes | (ring.announced ? kRingAnnounced : 0) | (ring.likewise ? kRingLikewise : 0);
    io.u32(word);
    if constexpr (std::decay_t<decltype(io)>::kReads) {
        ring.bytes = word & ~(kRingAnnounced | kRingLikewise);
        ring.announced = (word & kRingAnnounced) != 0;
        ring.likewise = (word & kRingLikewise) != 0;
    }
}

void index_fields(auto& io, auto& index) {
    io.u16(index.layout);
    io.u32(index.rkey);
    io.u64(index.address);
    io.u64(index.bytes);
    io.u32(index.groups);
    io.require(index.layout != 0);
}

void item_fields(auto& io, auto& item) {
    const size_t key = io.size16(item.key);
    io.flag(item.is_deleted);
    io.zero();
    const size_t value = io.size32(item.value);
    io.u64(item.expires);
    io.key(item.key, key);
    io.bytes(item.value, value, kKvValueMax);
    io.require(!item.is_deleted || value == 0);
}

void fields(auto& io, Is<KvHello> auto& body) {
    io.u64(body.nonce);
    io.u32(body.client_id);
    io.u32(body.partition);
    ring_fields(io, body.ring);
}

void fields(auto& io, Is<KvHelloReply> auto& body) {
    io.u32(body.client_id);
    io.u32(body.partition);
    io.u32(body.partitions);
    io.u32(body.window_ms);
    io.u64(body.incarnation);
    io.u64(body.ticks);
    io.u64(body.arena_address);
    io.u64(body.arena_bytes);
    io.u64(body.arena_epoch);
    io.u32(body.arena_rkey);
    ring_fields(io, body.ring);
    io.text(body.map, io.size32(body.map), kKvParticipantsMax * 256);
    // The message ends here if the partition has no index or the client did not request it.
    if (io.goes_on(body.index.layout != 0))
        index_fields(io, body.index);
    else
        io.reset(body.index);
}

void fields(auto& io, Is<KvGet> auto& body) {
    io.u64(body.owner);
    const size_t items = io.size16(body.items), among = io.size16(body.among);
    io.each(body.items, items, kKvItemsMax, kGetItemLeast, [&io](auto& item) {
        const size_t key = io.size16(item.key);
        io.choice(item.select, KvSelect::kAmong);
        io.zero();
        io.u64(item.timestamp);
        io.key(item.key, key);
    });
    io.each(body.among, among, kKvTimestampsMax, sizeof(uint64_t), [&io](auto& time) { io.u64(time); });
}

void fields(auto& io, Is<KvGetReply> auto& body) {
    const size_t items = io.size16(body.items);
    io.each(body.items, items, kKvItemsMax, kGetReplyItemLeast, [&io](auto& item) {
        io.choice(item.found, KvFound::kGone);
        io.flag(item.is_deleted);
        const size_t metadata = io.size16(item.metadata), value = io.size32(item.value);
        io.u64(item.timestamp);
        io.u64(item.expires);
        io.u64(item.slot);
        io.u32(item.slot_bytes);
        io.u32(item.slot_incarnation);
        io.bytes(item.metadata, metadata, kKvMetadataMax);
        io.bytes(item.value, value, kKvValueMax);
    });
}

void fields(auto& io, Is<KvPrepare> auto& body) {
    io.u64(body.timestamp);
    io.u64(body.owner);
    const size_t participants = io.size16(body.participants), metadata = io.size16(body.metadata);
    const size_t items = io.size16(body.items);
    io.each(body.participants, participants, kKvParticipantsMax, sizeof(uint16_t),
            [&io](auto& partition) { io.u16(partition); });
    io.bytes(body.metadata, metadata, kKvMetadataMax);
    io.each(body.items, items, kKvItemsMax, kPrepareItemLeast, [&io](auto& item) { item_fields(io, item); });
    const bool may_fail = (io.flags() & kKvPrepareIf) != 0;
    const size_t conditions = may_fail ? io.size16(body.conditions) : 0;
    if (!may_fail)
        io.reset(body.conditions);
    else
        io.each(body.conditions, conditions, kKvItemsMax, kConditionLeast, [&io](auto& condition) {
            const size_t key = io.size16(condition.key);
            io.u64(condition.expected);
            io.key(condition.key, key);
        });
    io.require(body.timestamp != 0);
    io.require(!body.items.empty() || !body.conditions.empty());
}

void fields(auto& io, Is<KvFailedCondition> auto& body) {
    io.u64(body.timestamp);
    io.u32(body.index);
}

void fields(auto& io, Is<KvPutIf> auto& body) {
    io.u64(body.timestamp);
    io.u64(body.expected);
    item_fields(io, body.item);
    io.require(body.timestamp != 0);
}

void fields(auto& io, Is<KvDecision> auto& body) {
    io.u64(body.timestamp);
}

void fields(auto& io, Is<KvScan> auto& body) {
    const size_t prefix = io.size16(body.prefix), cursor = io.size16(body.cursor);
    io.u32(body.limit);
    io.flag(body.with_values);
    io.text(body.prefix, prefix, kKvKeyMax);
    io.text(body.cursor, cursor, kKvKeyMax);
    io.require(body.limit > 0 && body.limit <= kKvScanMax);
}

void fields(auto& io, Is<KvScanReply> auto& body) {
    const size_t rows = io.size16(body.rows), cursor = io.size16(body.cursor);
    io.text(body.cursor, cursor, kKvKeyMax);
    io.each(body.rows, rows, kKvScanMax, kScanRowLeast, [&io](auto& row) {
        const size_t key = io.size16(row.key);
        uint16_t flags = row.expires != 0 ? kRowExpires : 0;
        io.u16(flags);
        io.require((flags & ~kRowExpires) == 0);
        const size_t value = io.size32(row.value);
        io.u64(row.timestamp);
        if ((flags & kRowExpires) != 0) {
            io.u64(row.expires);
            io.require(row.expires != 0);
        }
        io.key(row.key, key);
        io.bytes(row.value, value, kKvValueMax);
    });
}

void fields(auto& io, Is<KvLock> auto& body) {
    io.u64(body.owner);
    io.flag(body.exclusive);
    io.flag(body.wait);
    const size_t keys = io.size16(body.keys);
    io.each(body.keys, keys, kKvItemsMax, kLockKeyLeast, [&io](auto& key) { io.key(key, io.size16(key)); });
}

void fields(auto& io, Is<KvText> auto& body) {
    io.u64(body.timestamp);
    io.text(body.text, io.size32(body.text), kKvMessageMax);
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

template <KvBody Body>
void encode(const KvHeader& header, const Body& body, KvBuffer& out) {
    KvWriter io(header, out);
    fields(io, body);
}

template <KvBody Body>
bool parse(Bytes message, Body& body) {
    if (message.size() < kKvHeaderBytes) return false;
    KvReader io(message);
    fields(io, body);
    return io.finish();
}

template void encode(const KvHeader&, const KvHello&, KvBuffer&);
template bool parse(Bytes, KvHello&);
template void encode(const KvHeader&, const KvHelloReply&, KvBuffer&);
template bool parse(Bytes, KvHelloReply&);
template void encode(const KvHeader&, const KvGet&, KvBuffer&);
template bool parse(Bytes, KvGet&);
template void encode(const KvHeader&, const KvGetReply&, KvBuffer&);
template bool parse(Bytes, KvGetReply&);
template void encode(const KvHeader&, const KvPrepare&, KvBuffer&);
template bool parse(Bytes, KvPrepare&);
template void encode(const KvHeader&, const KvFailedCondition&, KvBuffer&);
template bool parse(Bytes, KvFailedCondition&);
template void encode(const KvHeader&, const KvPutIf&, KvBuffer&);
template bool parse(Bytes, KvPutIf&);
template void encode(const KvHeader&, const KvDecision&, KvBuffer&);
template bool parse(Bytes, KvDecision&);
template void encode(const KvHeader&, const KvScan&, KvBuffer&);
template bool parse(Bytes, KvScan&);
template void encode(const KvHeader&, const KvScanReply&, KvBuffer&);
template bool parse(Bytes, KvScanReply&);
template void encode(const KvHeader&, const KvLock&, KvBuffer&);
template bool parse(Bytes, KvLock&);
template void encode(const KvHeader&, const KvText&, KvBuffer&);
template bool parse(Bytes, KvText&);

}  // namespace wss::wire
