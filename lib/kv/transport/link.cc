// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/transport/link.h"

#include <algorithm>
#include <utility>

namespace wss::kv {

Link::Link(Lane& lane, Options options, LinkHandler& handler)
    : ChannelOwner(lane), options_(std::move(options)), handler_(handler), timer_(&Link::on_timer, this) {}

Link::~Link() {
    close();
}

void Link::start() noexcept {
    if (closed_ || ChannelOwner::channel() != nullptr) return;
    if (Status status = connect(options_.address); !status) {
        why_ = std::move(status);
        return retry_later();
    }
    // One limit is for connecting, and one for greeting.
    lane().reactor().set(timer_, lane().reactor().now() + kGreetTimeout + kGreetTimeout);
}

void Link::reconnect(std::string why) noexcept {
    if (MessageChannel* channel = ChannelOwner::channel()) channel->close(std::move(why));
}

std::string Link::name() const {
    const std::string address = options_.address.to_string();
    return options_.partition == UINT32_MAX ? address
                                            : fmt::format("partition {} ({})", options_.partition, address);
}

void Link::close() noexcept {
    if (std::exchange(closed_, true)) return;
    lane().reactor().cancel(timer_);
    // A lost unlock message blocks other clients until the lock's lease ends.
    const bool leaves = ready_ && has_sent_only_;
    lose(Status(Code::kClosed, "the client is closing"));
    leaves ? retire_later() : retire();
}

void Link::on_timer(void* self) noexcept {
    Link& link = *static_cast<Link*>(self);
    if (link.ready_)
        link.ping();
    else if (MessageChannel* channel = link.ChannelOwner::channel())
        channel->close("the partition sent no greeting in time");
    else
        link.start();
}

void Link::retry_later() noexcept {
    if (closed_) return;
    lane().reactor().set(timer_, lane().reactor().now() + wait_);
    wait_ = std::min(Nanoseconds{wait_.count * 2}, kRetryMax);
}

// --- greeting ---

void Link::on_up(MessageChannel& channel) noexcept {
    wire::KvHello hello{
        .nonce = options_.nonce, .client_id = options_.client_id, .partition = options_.partition};
    const bool forced = options_.transport == Transport::kRingPolled ||  //
                        options_.transport == Transport::kRingAnnounced;
    if (options_.transport != Transport::kMessage)
        hello.ring = forced ? channel.offer_ring(options_.transport == Transport::kRingAnnounced)
                            : channel.offer_ring();
    hello.ring.likewise = forced;
    const uint8_t flags = options_.one_sided ? wire::kKvHelloIndex : 0;
    channel.send({.kind = wire::KvKind::kHello, .flags = flags, .id = 0, .epoch = options_.epoch}, hello);
}

void Link::greeted(MessageChannel& channel, const wire::KvHeader& header, wire::Bytes message) noexcept {
    wire::KvText text;
    if (header.status != wire::KvStatus::kOk) {
        std::string why(wire::parse(message, text) ? text.text : std::string_view());
        if (header.status == wire::KvStatus::kPermission) refusal_ = denied(message);
        if (header.status == wire::KvStatus::kIdTaken) handler_.on_id_taken(*this);
        return channel.close(fmt::format("{}: {}", wire::to_string(header.status), why.substr(0, 200)));
    }
    wire::KvHelloReply hello;
    if (!wire::parse(message, hello)) return channel.close("the partition's greeting is malformed");
    refusal_ = check_greeting(hello, header.flags);
    if (!refusal_) return channel.close(refusal_.text());
    accept_greeting(hello, header.flags);
    if (options_.transport != Transport::kMessage && !channel.use_ring(hello.ring, options_.nonce))
        return channel.close("the partition offers no ring: use another transport");
    lane().reactor().set(timer_, lane().reactor().now() + kPingAfter);
    silent_ticks_ = 0;
    wait_ = kRetryMin;
    ready_ = true;
    why_ = Status();
    handler_.on_ready(*this);
}

Status Link::denied(wire::Bytes message) const {
    wire::KvText text;
    const bool says_why = wire::parse(message, text) && !text.text.empty();
    return failure(Code::kPermission, "{} refuses the request: {}", name(),
                   says_why ? text.text.substr(0, 200) : "this client has no right to it");
}

Status Link::check_greeting(const wire::KvHelloReply& hello, uint8_t flags) const {
    if (options_.partitions != 0 && hello.partitions != options_.partitions)
        return failure(
            Code::kInvalid,
            "{} reports a store of {} partitions, but the client's map has {}: check the addresses",
            options_.address.to_string(), hello.partitions, options_.partitions);
    if (options_.partition != UINT32_MAX && hello.partition != options_.partition)
        return failure(Code::kInvalid, "{} is partition {}, not {}: check the order of the addresses",
                       options_.address.to_string(), hello.partition, options_.partition);
    if (hello.partitions == 0 || hello.partitions > kPartitionsMax || hello.partition >= hello.partitions ||
        hello.client_id > kClientIdMax || hello.ticks > kTicksMax / 2)
        return Status(Code::kInvalid, "invalid values in the partition's greeting");
    const bool has_memory = (flags & wire::kKvHelloNoMemory) == 0;
    if (!has_memory && options_.one_sided)
        return failure(Code::kPermission,
                       "{} permits one-sided reads only to clients that may read every key (--kv-access): "
                       "turn one-sided reads off (kvctl --one-sided off)",
                       name());
    if (!has_memory && options_.transport != Transport::kMessage)
        return failure(Code::kPermission,
                       "{} permits rings only to clients that may read every key (--kv-access): send "
                       "messages (kvctl --transport message)",
                       name());
    return Status::ok();
}

void Link::accept_greeting(const wire::KvHelloReply& hello, uint8_t flags) {
    facts_ = {.client_id = hello.client_id,
              .partition = hello.partition,
              .partitions = hello.partitions,
              .incarnation = hello.incarnation,
              .ticks = hello.ticks,
              .window_ms = hello.window_ms,
              .arena = {.address = hello.arena_address, .rkey = hello.arena_rkey},
              .arena_epoch = hello.arena_epoch,
              .arena_bytes = hello.arena_bytes,
              .index = {.address = hello.index.address, .rkey = hello.index.rkey},
              .index_facts = {},
              .map = std::string(hello.map),
              .knows_conditions = (flags & wire::kKvHelloConditions) != 0};
    if (hello.index.layout == store::kIndexLayout)
        facts_.index_facts = {.bytes = hello.index.bytes, .groups = hello.index.groups};
}

void Link::ping() noexcept {
    lane().reactor().set(timer_, lane().reactor().now() + kPingAfter);
    silent_ticks_ = heard_ == std::exchange(heard_at_tick_, heard_) ? silent_ticks_ + 1 : 0;
    // A full link needs no ping, and has no room for one: its calls must be answered.
    if (silent_ticks_ > 2 && (ping_.id != 0 || is_full()))
        return channel()->close("the partition has stopped responding");
    if ((silent_ticks_ == 0 && one_sided_ == 0) || ping_.id != 0 || is_full()) return;
    ping_.done = [](Call&, const wire::KvHeader*, wire::Bytes) noexcept {};
    call(ping_, wire::KvKind::kPing, 0, wire::KvDecision{.timestamp = std::exchange(one_sided_, 0)});
}

// --- calls ---

wire::KvHeader Link::register_call(Call& call, wire::KvKind kind, uint8_t flags) {
    uint32_t slot;
    if (free_.empty()) {
        slot = static_cast<uint32_t>(calls_.size());
        calls_.push_back(nullptr);
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    // Never 0, which means "no reply wanted".
    uses_ = uses_ % ((1u << (32 - kSlotBits)) - 1) + 1;
    calls_[slot] = &call;
    call.id = uses_ << kSlotBits | slot;
    ++messages_;
    return {.kind = kind, .flags = flags, .id = call.id, .epoch = options_.epoch};
}

void Link::forget(Call& call) noexcept {
    if (call.id == 0) return;
    uint32_t slot = call.id & kSlotMask;
    call.id = 0;
    calls_[slot] = nullptr;
    free_.push_back(slot);
}

void Link::on_message(MessageChannel& channel, wire::Bytes message) noexcept {
    wire::KvHeader header;
    ++heard_;
    if (!wire::parse_header(message, header) || !header.is_reply)
        return channel.close("the partition sent a malformed reply");
    if (!ready_) {
        if (header.kind != wire::KvKind::kHello) return channel.close("the partition sent no greeting");
        return greeted(channel, header, message);
    }
    uint32_t slot = header.id & kSlotMask;
    // Late replies to abandoned calls are not an error.
    if (slot >= calls_.size() || calls_[slot] == nullptr || calls_[slot]->id != header.id) return;
    Call& call = *calls_[slot];
    forget(call);
    call.done(call, &header, message);
}

void Link::on_read_done(MessageChannel&, uint64_t cookie, fabric::CompletionStatus status) noexcept {
    handler_.on_read_done(*this, cookie, status);
}

void Link::on_ended(const Status& why) noexcept {
    lose(why.within(options_.address.to_string()));
    retry_later();
}

void Link::lose(const Status& why) noexcept {
    why_ = why;
    bool was_ready = std::exchange(ready_, false);
    has_sent_only_ = false;
    for (size_t slot = 0; slot < calls_.size(); ++slot) {
        Call* call = calls_[slot];
        if (call == nullptr) continue;
        forget(*call);
        call->done(*call, nullptr, {});
    }
    if (was_ready) handler_.on_lost(*this, why_);
}

}  // namespace wss::kv
