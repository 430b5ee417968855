// SPDX-License-Identifier: Apache-2.0
// Link: the connection to one partition. It connects, greets, matches replies to calls, and reconnects when
// the connection breaks, until close().
//
//   down ──▶ connecting ──▶ greeting ──▶ ready ──(lost)──▶ down, again after a growing wait
//                                 └─ the partition refuses ──▶ down, with the reason
//
// A link connects when it is first needed. A call in flight when the connection breaks ends with nullptr; the
// caller decides whether it may be repeated. No wait is unbounded: calls are bounded by their users'
// deadlines, connecting and greeting together by twice kGreetTimeout.
//
// Thread-safety: none; belongs to the lane's reactor. Ownership: a Call belongs to the caller, who must not
// move or free it until it is done.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/kv/store/index_format.h"
#include "lib/kv/transport/channel.h"
#include "lib/kv/types.h"

namespace wss::kv {

struct Call {
    // `message` is the whole reply, valid during the call. If `header` is nullptr, the connection was lost.
    void (*done)(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept = nullptr;
    void* context = nullptr;
    uint32_t index = 0;  // the caller's
    uint32_t id = 0;     // the link's; 0: not in flight
};

// The contents of the partition's greeting.
struct PartitionFacts {
    uint32_t client_id = 0;
    uint32_t partition = 0;
    uint32_t partitions = 0;
    uint64_t incarnation = 0;
    uint64_t ticks = 0;
    uint32_t window_ms = 0;
    fabric::RemoteAddress arena;
    uint64_t arena_epoch = 0;
    uint64_t arena_bytes = 0;
    fabric::RemoteAddress index;
    store::IndexFacts index_facts;  // empty: no index, or one of an unknown layout
    std::string map;
    bool knows_conditions = false;
};

class Link;
class LinkHandler {
  public:
    virtual ~LinkHandler() = default;
    virtual void on_ready(Link& link) noexcept = 0;
    virtual void on_lost(Link& link, const Status& why) noexcept = 0;
    // Another client has the presented id: the handler must change options().client_id.
    virtual void on_id_taken(Link&) noexcept {}
    virtual void on_read_done(Link&, uint64_t, fabric::CompletionStatus) noexcept {}
};

class Link final : private ChannelOwner {
  public:
    struct Options {
        fabric::Address address;
        uint32_t partition = UINT32_MAX;  // expected index of the partition
        uint32_t partitions = 0;          // expected number of partitions; 0: any
        uint64_t nonce = 0;               // 0: not a client; only inquires about transactions
        uint32_t client_id = 0;           // 0: requests a lease
        Transport transport = Transport::kMessage;
        uint32_t epoch = 0;
        bool one_sided = false;  // reads the partition's memory, and requests its index
    };
    Link(Lane& lane, Options options, LinkHandler& handler);
    // Closes the link.
    ~Link() override;

    // Connects on the first call.
    void want() noexcept {
        if (!std::exchange(wanted_, true)) start();
    }
    bool wanted() const { return wanted_; }
    void close() noexcept;
    // Closes the connection and opens a new one.
    void reconnect(std::string why) noexcept;
    bool ready() const { return ready_; }
    const Status& why() const { return why_; }
    // kInvalid: the peer is not the expected partition, and never will be. kPermission: the partition, or a
    // kind of access to it, is not for this client at present.
    const Status& refusal() const { return refusal_; }
    bool is_denied() const { return !ready_ && refusal_.code() == Code::kPermission; }
    // "partition 1 (tcp://host:1)".
    std::string name() const;
    // The error for a reply with the status "permission".
    Status denied(wire::Bytes message) const;
    const PartitionFacts& facts() const { return facts_; }
    store::IndexFacts& index_facts() { return facts_.index_facts; }  // readers update it as the index grows
    Options& options() { return options_; }
    MessageChannel* channel() { return ready_ ? ChannelOwner::channel() : nullptr; }

    // Returns false if the link is not ready or kSlotMask + 1 calls are outstanding. Otherwise `call.done`
    // follows.
    template <typename Body>
    bool call(Call& call, wire::KvKind kind, uint8_t flags, const Body& body) {
        if (!ready_ || is_full()) return false;
        channel()->send(register_call(call, kind, flags), body);
        return true;
    }
    // Sends a message that has no reply.
    template <typename Body>
    void send_only(wire::KvKind kind, uint8_t flags, const Body& body) {
        if (!ready_) return;
        channel()->send({.kind = kind, .flags = flags, .id = 0, .epoch = options_.epoch}, body);
        has_sent_only_ = true;
    }
    // For a caller that gives up: `done` will not be called.
    void forget(Call& call) noexcept;
    uint64_t messages() const { return messages_; }
    // Counts a key that was read one-sidedly; the next ping reports the count.
    void count_one_sided() { ++one_sided_; }

  private:
    static constexpr uint32_t kSlotBits = 16;  // log2 of the calls outstanding on one link
    static constexpr uint32_t kSlotMask = (1u << kSlotBits) - 1;
    static constexpr Nanoseconds kRetryMin = from_ms(5);
    static constexpr Nanoseconds kRetryMax = from_ms(500);
    static constexpr Nanoseconds kGreetTimeout = from_s(5);
    // A link pings a partition that has sent nothing for this long, and closes the connection if nothing
    // arrives for twice as long after that: a host that lost power sends no notice.
    static constexpr Nanoseconds kPingAfter = from_s(1);

    void start() noexcept;
    bool is_full() const { return free_.empty() && calls_.size() > kSlotMask; }
    wire::KvHeader register_call(Call& call, wire::KvKind kind, uint8_t flags);
    void on_up(MessageChannel& channel) noexcept override;
    void on_message(MessageChannel& channel, wire::Bytes message) noexcept override;
    void on_read_done(MessageChannel& channel, uint64_t cookie,
                      fabric::CompletionStatus status) noexcept override;
    void on_ended(const Status& why) noexcept override;
    void greeted(MessageChannel& channel, const wire::KvHeader& header, wire::Bytes message) noexcept;
    Status check_greeting(const wire::KvHelloReply& hello, uint8_t flags) const;
    void accept_greeting(const wire::KvHelloReply& hello, uint8_t flags);
    void lose(const Status& why) noexcept;
    void retry_later() noexcept;
    void ping() noexcept;
    static void on_timer(void* self) noexcept;

    Options options_;
    LinkHandler& handler_;
    bool wanted_ = false, ready_ = false, closed_ = false;
    bool has_sent_only_ = false;  // send_only() used this channel; the message may not have arrived
    Status why_, refusal_;
    PartitionFacts facts_;
    reactor::Timer timer_;
    Nanoseconds wait_ = kRetryMin;
    Call ping_;
    uint64_t heard_ = 0, heard_at_tick_ = 0;  // messages
    uint32_t silent_ticks_ = 0;
    // Indexed by the low bits of the id; the high bits distinguish the uses of a slot.
    std::vector<Call*> calls_;
    std::vector<uint32_t> free_;
    uint32_t uses_ = 0;
    uint64_t messages_ = 0;
    uint64_t one_sided_ = 0;  // keys read one-sidedly since the last ping
};

}  // namespace wss::kv
