// SPDX-License-Identifier: Apache-2.0
// Channel: one connection to a target: login, commands on the wire, credits, responses.
//
// A channel is used once: connect(), up, over. A session that reconnects creates a new one.
//
//   idle ──connect()──▶ connecting ──login granted──▶ up ──close() or loss──▶ closing ──▶ over
//                            │           └▶ proving ─▶ ┘
//                            └──────── refused, wrong response ─────────────▶ closing ──▶ over
//
// With a secret, both ends prove in `proving` that they know it (channel_auth.cc), before the channel is up.
//
// Invariants
//  C1  At most `credits` commands are outstanding, never more than the target granted.
//  C2  A tag is used once: it has the slot number in the low ten bits, and a use count above. A response must
//      carry the tag of a command on the wire. Any other tag closes the connection.
//  C3  A command's slot is reused only when its response has arrived and its SEND, if that reads the slot's
//      memory, has completed.
//  C4  The send queue never overflows: every work request counts until it or a later one completes with a
//      signal, and at least one in kSignalEvery is signalled.
//
// Thread-safety: belongs to the poller's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/initiator/engine_link.h"
#include "lib/initiator/options.h"
#include "lib/initiator/payload.h"
#include "lib/wire/auth_initiator.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

class Request;
class Channel;

// A command on the wire. Its channel owns and reuses it.
struct Command : ListNode<> {
    enum class State : uint8_t { kFree, kTaken, kOnWire, kAnswered };

    Channel* channel = nullptr;
    uint64_t tag = 0;
    uint16_t slot = 0;
    State state = State::kFree;
    bool send_pending = false;  // the fabric still reads the slot's memory
    // The owner of the channel sets `request`, `covered_length` and `payload`. The channel sets the others.
    Request* request = nullptr;
    uint32_t arrived = 0;         // bytes that cache engines have written
    bool again = false;           // RETRY received: a cache engine will not answer this command
    uint32_t again_engine = 0;    // the engine that RETRY named
    uint64_t covered_length = 0;  // bytes of the request that this command covers
    Payload payload;
};

class ChannelOwner {
  public:
    virtual void channel_up(Channel& channel) noexcept = 0;
    // Commands on the wire have been abandoned. Last call; the channel may be destroyed after this turn of
    // the poller. `was_up` means that channel_up() was called.
    virtual void channel_over(Channel& channel, const Status& why, bool was_up) noexcept = 0;
    virtual void command_answered(Command& command, const wire::Response& response) noexcept = 0;
    virtual void command_abandoned(Command& command) noexcept = 0;
    // The name that the target must prove; empty: any. Used only in sessions with a secret.
    virtual std::string_view target_name() const noexcept = 0;
    // The target reported a change of its volumes.
    virtual void notified(const wire::Notify& notify) noexcept = 0;

  protected:
    ~ChannelOwner() = default;
};

class Channel final : private fabric::ConnectionHandler, private EngineLinkOwner {
  public:
    static Result<std::unique_ptr<Channel>> create(fabric::Fabric& fabric, const Options& options,
                                                   ChannelOwner& owner);
    ~Channel() override;

    // With `multi`, the channel joins the session that another channel with the same ports has opened.
    Status connect(fabric::Poller& poller, bool multi, const wire::PortId& initiator_port);
    // Begins to close with reason `why`; channel_over() follows. No effect when closing or over.
    void close(Status why) noexcept;
    bool is_up() const noexcept { return state_ == State::kUp; }
    bool is_over() const noexcept { return state_ == State::kOver; }
    size_t device() const noexcept { return connection_->device(); }
    std::string peer() const { return connection_ ? connection_->peer() : std::string(); }
    // During channel_up(): the name that the target has proven; empty without a secret.
    std::string target_name() const { return auth_ ? auth_->target_name() : std::string(); }

    // True when one more command may be sent.
    bool has_room() const noexcept {
        return state_ == State::kUp && credits_ > 0 && !free_.empty() &&
               queued_sends_ < send_depth_ - kShortSlots;
    }
    Command& take() noexcept;                  // REQUIRES: has_room()
    void put_back(Command& command) noexcept;  // returns a command that was taken but not sent
    // Encodes and queues the command; flush() sends it. Sets `words.tag`.
    bool send(Command& command, wire::CommandRequest& words) noexcept;
    void flush() noexcept;
    // Bytes of write data that fit in a command as immediate data.
    uint32_t immediate_room() const noexcept { return immediate_room_; }

    // Keep-alive: sends a request when this side has sent nothing for a third of keepalive(), and closes the
    // channel when nothing arrives for keepalive() after that. Also limits the time of authentication.
    void tick(Nanoseconds now) noexcept;
    Nanoseconds keepalive() const noexcept { return keepalive_; }
    const wire::LoginResponse& login() const noexcept { return login_; }
    uint32_t outstanding() const noexcept { return outstanding_; }

  private:
    enum class State : uint8_t { kIdle, kConnecting, kProving, kUp, kClosing, kOver };
    static constexpr uint32_t kShortSlots = 4;
    static constexpr uint32_t kShortBytes = 16;
    // Messages START and PROOF; their slots follow those of the short messages.
    static constexpr uint32_t kAuthSlots = 2;
    static constexpr uint32_t kAuthBytes = 128;
    static_assert(sizeof(wss_srp_auth_start) <= kAuthBytes && sizeof(wss_srp_auth_proof) <= kAuthBytes);
    static constexpr uint32_t kSpareReceives = 16;  // unsolicited: keep-alive answers, notifications
    static constexpr uint32_t kSignalEvery = 16;
    static constexpr uint32_t kInlineWish = 64;
    static constexpr uint32_t kBatch = 32;
    static constexpr size_t kEnginesMax = 16;  // further ones are not used

    Channel(const Options& options, ChannelOwner& owner, const fabric::Caps& caps)
        : options_(options), owner_(owner), caps_(caps) {}
    Status prepare(fabric::Fabric& fabric);
    void on_established(fabric::Connection& connection, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection& connection, const Status& why,
                    std::span<const std::byte> data) noexcept override;
    void on_completions(fabric::Connection& connection,
                        std::span<const fabric::Completion> completions) noexcept override;
    void on_closed(fabric::Connection& connection, const Status& why) noexcept override;

    Status take_login(std::span<const std::byte> data);
    Status post_all_receives();
    // channel_engines.cc
    void engine_named(const wire::CacheEngineNotice& notice) noexcept;
    void retire_engine(uint32_t index) noexcept;
    void retry(const wire::RetryNotice& again) noexcept;
    void retry_when_fenced() noexcept;
    bool engines_quiet() const noexcept;
    bool part_arrived(EngineLink& link, uint32_t immediate, uint32_t bytes) noexcept override;
    void link_over(EngineLink& link, const Status& why) noexcept override;
    // channel_auth.cc
    void begin_proving(std::span<const std::byte> login_response);
    void auth_message(wire::Bytes bytes) noexcept;
    void logged_out_unproven(wire::Bytes bytes) noexcept;
    void take_challenge(wire::Bytes bytes);
    void take_result(wire::Bytes bytes);
    void auth_failed(const Status& why);
    std::byte* auth_memory(uint32_t index) const noexcept;
    void set_up() noexcept;
    bool talking() const noexcept { return state_ == State::kUp || state_ == State::kProving; }
    void finish(const Status& why);
    void completed(const fabric::Completion& completion) noexcept;
    void send_completed(uint64_t cookie) noexcept;
    void received(const fabric::Completion& completion) noexcept;
    void message(wire::Bytes bytes) noexcept;
    void answered(Command* command, const wire::Response& response) noexcept;
    void fused(uint32_t immediate) noexcept;
    void several_done(wire::Bytes message) noexcept;
    void answer_target(uint8_t opcode, uint64_t tag) noexcept;
    bool send_short(uint8_t opcode, uint64_t tag) noexcept;
    void queue_send(std::byte* address, size_t length, uint32_t slot) noexcept;
    void repost(uint32_t receive) noexcept;
    void flush_receives() noexcept;
    void add_credits(uint32_t credits) noexcept;
    void violation(const char* what) noexcept;
    Command* find(uint64_t tag, uint64_t mask) noexcept;
    void free_command(Command& command) noexcept;
    std::byte* slot_memory(uint32_t slot) const noexcept {
        return sends_->bytes().data() + size_t{slot} * slot_bytes_;
    }
    std::byte* receive_memory(uint32_t index) const noexcept {
        return receives_->bytes().data() + size_t{index} * WSS_SRP_MAX_TI_IU_LEN;
    }

    const Options& options_;
    ChannelOwner& owner_;
    const fabric::Caps caps_;
    std::unique_ptr<fabric::Connection> connection_;
    std::unique_ptr<fabric::Region> sends_;  // slots of commands, then of short messages
    std::unique_ptr<fabric::Region> receives_;
    std::vector<Command> commands_;
    List<Command> free_;
    State state_ = State::kIdle;
    bool was_up_ = false;
    Status why_;  // set together with kClosing
    wire::LoginResponse login_;
    Nanoseconds keepalive_{};
    uint32_t iu_bytes_ = 0;    // size of the longest message sent
    uint32_t slot_bytes_ = 0;  // distance between slots
    uint32_t receive_count_ = 0;
    uint32_t send_depth_ = 0;
    uint32_t immediate_room_ = 0;
    uint32_t inline_max_ = 0;

    uint32_t credits_ = 0;
    uint32_t outstanding_ = 0;
    uint64_t uses_ = 0;          // number of commands so far: the upper bits of tags
    uint32_t queued_sends_ = 0;  // C4
    uint32_t unsignalled_ = 0;   // sends since the last signalled one
    std::array<fabric::WorkRequest, kBatch> batch_;
    std::array<fabric::Segment, kBatch> batch_segments_;
    uint32_t batched_ = 0;
    std::array<uint32_t, kBatch> reposts_;
    uint32_t reposted_ = 0;
    std::array<bool, kShortSlots + kAuthSlots> short_busy_{};

    // Used in state kProving.
    std::array<std::byte, sizeof(wss_srp_login_req)> login_request_{};
    std::unique_ptr<wire::AuthInitiator> auth_;
    Nanoseconds proving_since_ = kNever;

    fabric::Poller* poller_ = nullptr;
    std::vector<std::unique_ptr<EngineLink>> engines_;  // connected or connecting
    std::vector<std::unique_ptr<EngineLink>> retired_;  // closing
    bool finishing_ = false;  // the target's connection has ended, not those to engines

    bool received_ = false;  // a message arrived since the last tick
    bool sent_ = false;
    Nanoseconds last_sent_{};
    Nanoseconds unanswered_since_ = kNever;
};

}  // namespace wss::initiator
