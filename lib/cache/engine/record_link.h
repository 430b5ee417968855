// SPDX-License-Identifier: Apache-2.0
// RecordLink: one end of the connection between a storage engine (SE) and a cache engine (CE): rows of
// records (lib/wire/cache.h) both ways, gathered over a turn and sent as one message, and the one-sided
// operations of the owner.
//
// Life: idle ─connect() or accept()─▶ connecting ─▶ up ─▶ closing ─▶ over, only forwards.
//
// Records wait in a row of send buffers. When all are on the way they wait in `spill_`, which grows (the one
// allocation here) up to Options::spill_max: a peer that sends and does not receive is closed.
//
// Thread-safety: belongs to the poller's thread. Ownership: the owner destroys it when it is over, not from
// within a handler. Errors: a peer that breaks the form of messages is closed.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/wire/cache.h"

namespace wss::cache {

class RecordLink;

class RecordLinkOwner {
  public:
    // `data`: what the acceptor said. False: it is not understood, the link closes.
    virtual bool link_up(RecordLink& link, std::span<const std::byte> data) noexcept = 0;
    // One record of the peer. False: it may not say this, the link closes.
    virtual bool record(RecordLink& link, const wire::Record& record) noexcept = 0;
    // An operation given to post() is over.
    virtual void operation_over(RecordLink& link, uint64_t cookie, bool good) noexcept = 0;
    // Last call; every operation was reported before.
    virtual void link_over(RecordLink& link, const Status& why) noexcept = 0;

  protected:
    ~RecordLinkOwner() = default;
};

class RecordLink final : public fabric::ConnectionHandler {
  public:
    struct Options {
        uint32_t operations = 1024;  // one-sided operations that the owner may have outstanding
        uint32_t messages = 128;     // send buffers, and receives
        // Messages that wait for a send buffer: more than the operations and clients of a link can cause.
        uint32_t spill_max = 4096;
        Nanoseconds connect_timeout = from_s(2);
    };
    static constexpr uint64_t kCookieMask = 3;  // these bits of the owner's cookies are zero
    static constexpr size_t kRecordMax = 256;

    static Result<std::unique_ptr<RecordLink>> create(fabric::Fabric& fabric, const Options& options,
                                                      RecordLinkOwner& owner);
    ~RecordLink() override;

    Status connect(fabric::Poller& poller, const fabric::Address& address, std::span<const std::byte> data);
    // On failure the link is over, without a call.
    Status accept(fabric::ConnectRequest& request, fabric::Poller& poller, std::span<const std::byte> data);

    // Room for one record; say how long it became by wrote(). One that is not `urgent` goes with the next
    // that is, or when a message is full.
    wire::MutableBytes room() noexcept;
    void wrote(size_t bytes, bool urgent = true) noexcept;
    // A one-sided operation: signalled, reported by operation_over(). False: the link is not up.
    bool post(fabric::WorkRequest work) noexcept;
    // Sends what was written. At the end of a turn.
    size_t flush() noexcept;
    void close(Status why) noexcept;

    bool is_up() const noexcept { return state_ == State::kUp; }
    bool is_over() const noexcept { return state_ == State::kOver || state_ == State::kIdle; }
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

    RecordLink(const Options& options, RecordLinkOwner& owner) : options_(options), owner_(owner) {}
    Status prepare(fabric::Fabric& fabric);
    fabric::ConnectionOptions connection_options() const;
    bool post_all_receives() noexcept;
    void seal() noexcept;
    void send(uint32_t buffer, size_t bytes) noexcept;
    void spill_one_more() noexcept;
    void refill_from_spill() noexcept;
    void received(uint32_t buffer, uint32_t length) noexcept;
    void over(const Status& why) noexcept;
    std::byte* send_buffer(uint32_t index) const noexcept {
        return sends_->bytes().data() + size_t{index} * wire::kCacheMessageMax;
    }
    std::byte* receive_buffer(uint32_t index) const noexcept {
        return receives_->bytes().data() + size_t{index} * wire::kCacheMessageMax;
    }

    // Immutable.
    const Options options_;
    RecordLinkOwner& owner_;
    std::unique_ptr<fabric::Region> sends_, receives_;

    std::unique_ptr<fabric::Connection> connection_;
    State state_ = State::kIdle;
    Status why_;
    std::vector<uint32_t> free_sends_;
    std::deque<uint32_t> sent_;   // buffers on the way, oldest first
    uint32_t unsignalled_ = 0;    // since the last that tells when it is over, and with it all before it
    uint32_t open_ = UINT32_MAX;  // the buffer that is being written; UINT32_MAX: none
    size_t open_bytes_ = 0;
    bool urgent_ = false;  // something in it is
    struct Spilled {
        std::unique_ptr<Block> block;
        size_t bytes = 0;
    };
    std::deque<Spilled> spill_;
    uint64_t messages_received_ = 0;
};

}  // namespace wss::cache
