// SPDX-License-Identifier: Apache-2.0
// Clients of a key-value partition. The keys in their valid writes all begin with "hostile", so other clients
// can check their own keys.
#include <fmt/core.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "lib/kv/types.h"
#include "tests/hostile/messages.h"

namespace wss::hostile {

namespace {

using std::byte;
using wire::KvKind;

constexpr size_t kHeadBytes = 60;
constexpr uint32_t kFrameBytes = 16 * 1024;
constexpr uint32_t kKeys = 200;
constexpr uint64_t kMinute_ticks = 60'000'000;

class KvSource final : public MessageSource {
  public:
    using MessageSource::MessageSource;
    size_t login(std::span<byte> out) override;
    size_t next(Message& out) override;
    Receives receives() const override { return {32, kFrameBytes}; }
    void received(wire::Bytes message) override;

  private:
    void hello();
    void any();
    void get();
    void prepare();
    void put_if();
    void scan();
    void lock(KvKind kind);
    template <typename Body>
    void add(KvKind kind, uint8_t flags, const Body& body);
    uint64_t timestamp();
    std::string_view key();
    wire::Bytes value();

    std::string keys_[8];
    size_t next_key_ = 0;
    std::array<byte, 8000> value_{};
    wire::KvBuffer out_;
    bool greeted_ = false;
    uint32_t client_id_ = 1, partitions_ = 1, id_ = 0;
    uint64_t ticks_ = kMinute_ticks;
    std::vector<uint64_t> used_;  // timestamps of earlier messages
};

template <typename Body>
void KvSource::add(KvKind kind, uint8_t flags, const Body& body) {
    const bool wrong = random_.chance(100);
    wire::KvHeader header{.kind = kind,
                          .is_reply = random_.chance(200),
                          .flags = random_.chance(50) ? static_cast<uint8_t>(random_.next()) : flags,
                          .id = random_.chance(10) ? 0 : ++id_,
                          .epoch = wrong ? static_cast<uint32_t>(random_.next()) : partitions_};
    wire::encode(header, body, out_);
}

uint64_t KvSource::timestamp() {
    if (!used_.empty() && random_.chance(2)) return used_[random_.below(used_.size())];
    if (random_.chance(30)) return random_.next();
    const uint64_t ticks = ticks_ + random_.below(kMinute_ticks) - (random_.chance(4) ? kMinute_ticks : 0);
    const uint32_t client =
        random_.chance(20) ? static_cast<uint32_t>(random_.below(kv::kClientIdMax + 1)) : client_id_;
    used_.push_back(kv::Timestamp::make(ticks, client).value);
    return used_.back();
}

std::string_view KvSource::key() {
    std::string& key = keys_[next_key_++ % std::size(keys_)];
    key = fmt::format("hostile:{}", random_.below(kKeys));
    if (random_.chance(100)) key.resize(random_.below(1100), 'x');
    return key;
}

wire::Bytes KvSource::value() {
    return {value_.data(), random_.below(random_.chance(4) ? value_.size() : 100)};
}

void KvSource::hello() {
    wire::KvHello hello{
        .nonce = random_.chance(10) ? 0 : random_.next(),
        .client_id = random_.chance(3) ? static_cast<uint32_t>(random_.below(kv::kClientIdMax + 2)) : 0,
        .partition = random_.chance(2) ? UINT32_MAX : static_cast<uint32_t>(random_.below(4)),
        .ring = {}};
    if (random_.chance(4)) {
        hello.ring = {.address = memory_.address,
                      .rkey = memory_.rkey,
                      .bytes = uint32_t{1} << (6 + random_.below(14)),
                      .announced = random_.chance(2),
                      .likewise = random_.chance(2)};
        if (random_.chance(4)) hello.ring.rkey ^= static_cast<uint32_t>(random_.next());
        if (random_.chance(4)) hello.ring.address = random_.next();
        if (random_.chance(4)) hello.ring.bytes = static_cast<uint32_t>(random_.next());
    }
    add(KvKind::kHello, random_.chance(2) ? wire::kKvHelloIndex : 0, hello);
}

void KvSource::get() {
    wire::KvGet get{.owner = timestamp(), .items = {}, .among = {}};
    for (uint64_t i = 1 + random_.below(8); i > 0; --i)
        get.items.push_back({key(), static_cast<wire::KvSelect>(random_.below(3)), timestamp()});
    for (uint64_t i = random_.below(4); i > 0; --i) get.among.push_back(timestamp());
    add(KvKind::kGet, static_cast<uint8_t>(random_.below(8)), get);
}

void KvSource::prepare() {
    wire::KvPrepare prepare{.timestamp = timestamp(),
                            .owner = timestamp(),
                            .participants = {},
                            .metadata = {},
                            .items = {},
                            .conditions = {}};
    for (uint16_t i = 0; i < partitions_; ++i)
        if (random_.chance(2)) prepare.participants.push_back(i);
    if (random_.chance(50)) prepare.participants.push_back(static_cast<uint16_t>(random_.next()));
    const uint8_t flags = static_cast<uint8_t>(random_.below(8));
    for (uint64_t i = random_.below(5); i > 0; --i)
        prepare.items.push_back({key(), value(), random_.chance(4) ? timestamp() : 0, random_.chance(4)});
    if (flags & wire::kKvPrepareIf)
        for (uint64_t i = random_.below(4); i > 0; --i)
            prepare.conditions.push_back({key(), random_.chance(2) ? 0 : timestamp()});
    add(KvKind::kPrepare, flags, prepare);
}

void KvSource::put_if() {
    const uint64_t expected = random_.chance(2) ? 0 : timestamp();
    add(KvKind::kPutIf, 0, wire::KvPutIf{timestamp(), expected, {key(), value(), 0, random_.chance(4)}});
}

void KvSource::scan() {
    const std::string_view prefix = random_.chance(2) ? std::string_view() : key();
    const std::string_view cursor = random_.chance(2) ? std::string_view() : key();
    const uint32_t limit = static_cast<uint32_t>(random_.chance(20) ? random_.next() : random_.below(300));
    add(KvKind::kScan, static_cast<uint8_t>(random_.below(4)),
        wire::KvScan{prefix, cursor, limit, random_.chance(2)});
}

void KvSource::lock(KvKind kind) {
    wire::KvLock lock{
        .owner = timestamp(), .exclusive = random_.chance(2), .wait = random_.chance(2), .keys = {}};
    for (uint64_t i = random_.below(4); i > 0; --i) lock.keys.push_back(key());
    add(kind, 0, lock);
}

void KvSource::any() {
    switch (random_.below(16)) {
        case 0:
        case 1:
        case 2:
            return get();
        case 3:
        case 4:
        case 5:
        case 6:
            return prepare();
        case 7:
            return put_if();
        case 8:
            return scan();
        case 9:
            return lock(KvKind::kLock);
        case 10:
            return lock(KvKind::kUnlock);
        case 11:
            return add(random_.chance(2) ? KvKind::kInfo : KvKind::kPing, 0, wire::KvDecision{timestamp()});
        case 12:
            // Uses only names that a partition must refuse, because a snapshot takes space.
            return add(KvKind::kSnapshot, 0, wire::KvText{"../hostile", timestamp()});
        case 13:
            return random_.chance(20) ? add(KvKind::kGoodbye, 0, wire::KvDecision{timestamp()}) : hello();
        default: {
            constexpr KvKind kDecisions[] = {KvKind::kCommit, KvKind::kAbort, KvKind::kInquire};
            return add(kDecisions[random_.below(3)], 0, wire::KvDecision{timestamp()});
        }
    }
}

size_t KvSource::login(std::span<byte> out) {
    std::memcpy(out.data(), wire::kKvMagic, sizeof wire::kKvMagic);
    if (random_.chance(20)) damage(out.first(sizeof wire::kKvMagic), sizeof wire::kKvMagic);
    return random_.chance(20) ? random_.below(sizeof wire::kKvMagic) : sizeof wire::kKvMagic;
}

// Learns from a message of the partition what later messages of this connection need in order to be accepted.
void KvSource::received(wire::Bytes message) {
    wire::KvHeader header;
    wire::KvHelloReply reply;
    if (!wire::parse_header(message, header) || header.kind != KvKind::kHello || !header.is_reply ||
        !wire::parse(message, reply))
        return;
    client_id_ = reply.client_id;
    partitions_ = reply.partitions;
    ticks_ = reply.ticks;
}

// Makes a frame with one or more messages. After a damaged frame, the stream of a connection cannot be
// repaired. So only a few frames are damaged.
size_t KvSource::next(Message& out) {
    out_.clear();
    if (!greeted_ && !random_.chance(20)) hello();
    greeted_ = true;
    for (uint64_t count = random_.below(4); count > 0 || out_.size() == 0; --count) {
        any();
        if (count == 0) break;
    }
    size_t length = std::min<size_t>(out_.size(), kFrameBytes);
    std::memcpy(out.data(), out_.data(), length);
    if (random_.chance(60)) damage({out.data(), length}, kHeadBytes);
    if (random_.chance(200)) length = random_.below(random_.chance(4) ? kMessageMax : length + 1);
    return length;
}

}  // namespace

std::unique_ptr<MessageSource> make_kv_source(Random& random, Memory memory) {
    return std::make_unique<KvSource>(random, memory);
}

}  // namespace wss::hostile
