// SPDX-License-Identifier: Apache-2.0
// Link: the way to one partition. Connects, greets, matches replies to calls, and connects again when the
// connection breaks, until close().
//
//   down ──▶ connecting ──▶ greeting ──▶ ready ──(lost)──▶ down, again after a growing wait
//                                 └─ the partition refuses ──▶ down, with the reason
//
// A link connects when it is wanted first. A call that is under way when the connection breaks ends with
// nullptr: the caller knows whether it may be repeated. Nothing here waits without a limit: calls are bounded
// by their users' deadlines, greeting by kGreetTimeout.
//
// Thread-safety: none; belongs to the lane's reactor. Ownership: a Call belongs to the caller, who does not
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
    // `message` is the whole reply, valid during the call; header nullptr: the connection was lost.
    void (*done)(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept = nullptr;
    void* context = nullptr;
    uint32_t index = 0;  // the caller's
    uint32_t id = 0;     // the link's; 0: not under way
};

// What the partition said when it greeted.
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
    store::IndexFacts index_facts;  // nothing: there is none, or of a layout that is not known here
    std::string map;
    bool knows_conditions = false;
};

class Link;
class LinkHandler {
  public:
    virtual ~LinkHandler() = default;
    virtual void on_ready(Link& link) noexcept = 0;
    virtual void on_lost(Link& link, const Status& why) noexcept = 0;
    // Another client has the id that was presented: options().client_id is to be another one.
    virtual void on_id_taken(Link&) noexcept {}
    virtual void on_read_done(Link&, uint64_t, fabric::CompletionStatus) noexcept {}
};

class Link final : private ChannelOwner {
  public:
    struct Options {
        fabric::Address address;
        uint32_t partition = UINT32_MAX;  // that is expected there
        uint32_t partitions = 0;          // of as many; 0: any number
        uint64_t nonce = 0;               // 0: no client, inquires about transactions only
        uint32_t client_id = 0;           // 0: wants one leased
        Transport transport = Transport::kMessage;
        uint32_t epoch = 0;
        bool one_sided = false;  // reads memory of the partition, and wants to know where its index is
    };
    Link(Lane& lane, Options options, LinkHandler& handler);
    // close() was called and over() holds, or it never started.
    ~Link() override;

    // Connects, unless it did before.
    void want() noexcept {
        if (!std::exchange(wanted_, true)) start();
    }
    bool wanted() const { return wanted_; }
    void close() noexcept;
    // Gives the connection up and makes another one.
    void reconnect(std::string why) noexcept;
    bool ready() const { return ready_; }
    const Status& why() const { return why_; }
    // kInvalid: who answers is not the partition that is expected, and never will be.
    const Status& refusal() const { return refusal_; }
    // "partition 1 (tcp://host:1)".
    std::string name() const;
    const PartitionFacts& facts() const { return facts_; }
    store::IndexFacts& index_facts() { return facts_.index_facts; }  // readers learn how it grows
    Options& options() { return options_; }
    Channel* channel() { return ready_ ? ChannelOwner::channel() : nullptr; }

    // False: not ready, or kSlotMask + 1 calls are outstanding. Else `call.done` follows.
    template <typename Body>
    bool call(Call& call, wire::KvKind kind, uint8_t flags, const Body& body) {
        if (!ready_ || is_full()) return false;
        channel()->send(register_call(call, kind, flags), body);
        return true;
    }
    // No reply is wanted.
    template <typename Body>
    void tell(wire::KvKind kind, uint8_t flags, const Body& body) {
        if (!ready_) return;
        channel()->send({.kind = kind, .flags = flags, .id = 0, .epoch = options_.epoch}, body);
        has_told_ = true;
    }
    // A caller that gives up: `done` will not be called.
    void forget(Call& call) noexcept;
    uint64_t messages() const { return messages_; }
    // A key was read without asking: told with the next ping.
    void count_one_sided() { ++one_sided_; }

  private:
    static constexpr uint32_t kSlotBits = 16;  // calls outstanding on one link
    static constexpr uint32_t kSlotMask = (1u << kSlotBits) - 1;
    static constexpr Nanoseconds kRetryMin = from_ms(5);
    static constexpr Nanoseconds kRetryMax = from_ms(500);
    static constexpr Nanoseconds kGreetTimeout = from_s(5);
    // A partition that says nothing for that long is asked; one that then says nothing for twice that long is
    // given up: a host that lost power tells nobody.
    static constexpr Nanoseconds kPingAfter = from_s(1);

    void start() noexcept;
    bool is_full() const { return free_.empty() && calls_.size() > kSlotMask; }
    wire::KvHeader register_call(Call& call, wire::KvKind kind, uint8_t flags);
    void on_up(Channel& channel) noexcept override;
    void on_message(Channel& channel, wire::Bytes message) noexcept override;
    void on_read_done(Channel& channel, uint64_t cookie, fabric::CompletionStatus status) noexcept override;
    void on_ended(const Status& why) noexcept override;
    void greeted(Channel& channel, const wire::KvHeader& header, wire::Bytes message) noexcept;
    Status accept_greeting(const wire::KvHelloReply& hello) noexcept;
    void lose(const Status& why) noexcept;
    void retry_later() noexcept;
    void ping() noexcept;
    static void on_timer(void* self) noexcept;

    Options options_;
    LinkHandler& handler_;
    bool wanted_ = false, ready_ = false, closed_ = false;
    bool has_told_ = false;  // on this channel: nobody knows whether it has arrived
    Status why_, refusal_;
    PartitionFacts facts_;
    reactor::Timer timer_;
    Nanoseconds wait_ = kRetryMin;
    Call ping_;
    uint64_t heard_ = 0, heard_at_tick_ = 0;  // messages
    uint32_t silent_ticks_ = 0;
    // By the low bits of the id; the high ones tell a slot's uses apart.
    std::vector<Call*> calls_;
    std::vector<uint32_t> free_;
    uint32_t uses_ = 0;
    uint64_t messages_ = 0;
    uint64_t one_sided_ = 0;  // since the last ping
};

}  // namespace wss::kv
