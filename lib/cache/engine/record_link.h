// SPDX-License-Identifier: Apache-2.0
// RecordLink: one end of the connection between a storage engine (SE) and a cache engine (CE). It sends and
// receives records (lib/wire/cache.h); those of one turn are combined into messages. It also posts the
// owner's one-sided operations.
//
// Life: idle ─connect() or accept()─▶ connecting ─▶ up ─▶ closing ─▶ over, only forward.
//
// Records are written to send buffers. When all of these are in use, records wait in `spill_`, which grows
// (the only allocation here) up to Options::spill_max. Beyond that the link closes: the peer sends but does
// not receive.
//
// Thread-safety: belongs to the poller's thread. Ownership: the owner destroys it when it is over, not from
// within a handler. Errors: a peer that sends malformed messages is disconnected.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/message_buffers.h"
#include "lib/wire/cache.h"

namespace wss::cache {

class RecordLink;

class RecordLinkOwner {
  public:
    // `data` is what the acceptor sent. If this returns false, because `data` is invalid, the link closes.
    virtual bool link_up(RecordLink& link, std::span<const std::byte> data) noexcept = 0;
    // Receives one record of the peer. If this returns false, because of a protocol violation, the link
    // closes.
    virtual bool record(RecordLink& link, const wire::Record& record) noexcept = 0;
    // An operation given to post() has completed.
    virtual void operation_over(RecordLink& link, uint64_t cookie, bool good) noexcept = 0;
    // The last call, after operation_over() for every operation.
    virtual void link_over(RecordLink& link, const Status& why) noexcept = 0;

  protected:
    ~RecordLinkOwner() = default;
};

class RecordLink final : public fabric::ConnectionHandler {
  public:
    struct Options {
        uint32_t operations = 1024;  // maximum number of outstanding one-sided operations
        // Messages that may wait for a send buffer: more than the operations and clients of a link can cause.
        uint32_t spill_max = 4096;
        Nanoseconds connect_timeout = from_s(2);
    };
    static constexpr uint64_t kCookieMask = 3;  // the owner's cookies have zeroes in these bits
    static constexpr size_t kRecordMax = 256;

    static Result<std::unique_ptr<RecordLink>> create(fabric::Fabric& fabric, const Options& options,
                                                      RecordLinkOwner& owner);
    ~RecordLink() override;

    Status connect(fabric::Poller& poller, const fabric::Address& address, std::span<const std::byte> data);
    // On failure the link is over, without a call of link_over().
    Status accept(fabric::ConnectRequest& request, fabric::Poller& poller, std::span<const std::byte> data);

    // Returns space for one record; report its length with wrote(). A record that is not `urgent` is sent
    // with the next urgent one, or when a message is full.
    wire::MutableBytes room() noexcept;
    void wrote(size_t bytes, bool urgent = true) noexcept;
    // Posts a signalled one-sided operation; operation_over() reports its completion. Returns false if the
    // link is not up.
    bool post(fabric::WorkRequest work) noexcept;
    // Sends the records written, if one of them is urgent. Call it at the end of a turn.
    size_t flush() noexcept;
    void close(Status why) noexcept;

    bool is_up() const noexcept { return state_ == State::kUp; }
    bool is_over() const noexcept { return state_ == State::kOver || state_ == State::kIdle; }
    size_t device() const noexcept { return connection_ ? connection_->device() : 0; }
    std::string peer() const { return connection_ ? connection_->peer() : std::string(); }
    std::span<const std::byte> channel_binding() const noexcept { return connection_->channel_binding(); }
    uint64_t messages_received() const noexcept { return messages_received_; }

    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

  private:
    enum class State : uint8_t { kIdle, kConnecting, kUp, kClosing, kOver };
    using Block = std::array<std::byte, wire::kCacheMessageMax>;
    static constexpr uint32_t kMessages = 128;  // send buffers, and receives

    RecordLink(const Options& options, RecordLinkOwner& owner) : options_(options), owner_(owner) {}
    Status prepare(fabric::Fabric& fabric);
    fabric::ConnectionOptions connection_options() const;
    bool post_receives(uint32_t count) noexcept;
    void seal() noexcept;
    void send(size_t bytes) noexcept;
    void spill_one_more() noexcept;
    void refill_from_spill() noexcept;
    void received(uint32_t buffer, uint32_t length) noexcept;
    void over(const Status& why) noexcept;

    // Immutable.
    const Options options_;
    RecordLinkOwner& owner_;

    fabric::SendBuffers<wire::kCacheMessageMax, kMessages, 16> sends_;
    fabric::ReceiveBuffers<wire::kCacheMessageMax, kMessages> receives_;
    std::unique_ptr<fabric::Connection> connection_;
    State state_ = State::kIdle;
    Status why_;
    bool open_ = false;  // the next send buffer is being filled
    size_t open_bytes_ = 0;
    bool urgent_ = false;  // an urgent record is in it
    struct Spilled {
        std::unique_ptr<Block> block;
        size_t bytes = 0;
    };
    std::deque<Spilled> spill_;
    uint64_t messages_received_ = 0;
};

}  // namespace wss::cache
