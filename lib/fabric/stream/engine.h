// SPDX-License-Identifier: Apache-2.0
// Engine: a connection over a byte stream. It gives a socket (tcp) or a pair of rings (shm) the semantics of
// lib/fabric/fabric.h. The derived class moves bytes. The engine manages requests, receives and regions.
//
// Life of a WRITE: post() copies the request into the send queue and activates the connection. The next turn
// of the poller places its frame in the outbox, and one gathering write sends all frames of the turn. The
// peer's engine places the payload in the region and counts the request as executed. The count returns with
// the next frame of the peer, or in a frame of its own if the WRITE is signalled, and completes the request.
//
// Invariants
//  E1  A request is complete only when the peer has counted it. A READ is complete when the peer has
//      confirmed its last byte, and a transfer that this side executes itself (shm) when it is done.
//  E2  A SEND is built only when the peer has a receive for it. So nothing waits in the receiver, the stream
//      always drains, and the state that one side keeps for the other is bounded by the queues.
//  E3  Every length, offset, key and count from the peer is checked before use. An invalid value closes the
//      connection as a protocol violation. A forbidden request is refused (F4): neither it nor any later
//      request is executed, and the peer receives the number of the refused request.
//  E4  The engine executes one-sided operations of the peer only under the region table's guard, and calls no
//      handler under it.
//  E5  No handler is called after on_closed() or on_refused(). Each is the last step of a turn, because the
//      handler may destroy the connection.
//
// After refusing a request, the engine continues reading, answers the READs before the refused request, sends
// kRefuse and closes. This takes at most kRefusalLasts.
//
// Thread-safety: none. An engine belongs to its poller's thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/stream/frame.h"
#include "lib/fabric/stream/outbox.h"
#include "lib/fabric/stream/poller.h"
#include "lib/fabric/stream/queues.h"
#include "lib/fabric/stream/region_table.h"

namespace wss::fabric::stream {

constexpr uint32_t kInlineMax = 256;

// Capabilities of every fabric that uses this engine.
Caps caps(std::string_view name, uint32_t dead_peer_ms);

// States only increase. Every state before kClosing may change to kClosing.
enum class State : uint8_t {
    kConnecting,  // connecting side: no answer received yet
    kRequested,   // accepting side: accept() not yet called; receives may be posted
    kAccepted,    // the answer was sent (or received); on_established() is due
    kOpen,
    kClosing,  // no more data is moved; flushing and on_closed() are due
    kClosed,   // may be destroyed
};

class Engine : public Connection, public ListNode<ActiveTag>, protected Watched {
  public:
    ~Engine() override;

    Code post(std::span<const WorkRequest> requests) noexcept final;
    Code post_receives(std::span<const Receive> receives) noexcept final;
    void close() noexcept final;
    std::string peer() const final { return peer_; }

    // Executes one turn of this connection. The connection may be destroyed when it returns.
    size_t progress() noexcept;

  protected:
    struct Setup {
        EventPoller& poller;
        std::shared_ptr<RegionTable> table;
        const ConnectionOptions& options;
        ConnectionHandler& handler;
        State state;
    };
    // How this side accesses a region of the peer.
    enum class Reach : uint8_t {
        kFrames,  // the peer executes requests
        kDirect,  // move_directly()
        kWait,    // not yet known; activate() is called when it is known
        kAsk,     // the same, and a kGrantAsk must be sent
    };
    explicit Engine(const Setup& setup);

    // Return the bytes moved, 0 at the end of the stream (read() only) or a negative errno. -EAGAIN: none can
    // be moved now.
    virtual ssize_t read(std::span<const iovec> into) noexcept = 0;
    virtual ssize_t write(std::span<const iovec> from) noexcept = 0;
    // Releases descriptors and mappings. If `orderly` is true, data already written should still reach the
    // peer.
    virtual void detach(bool orderly) noexcept = 0;
    virtual Reach reach(uint32_t /*rkey*/) noexcept { return Reach::kFrames; }
    // Called after kDirect. Returns false if nothing was done. The peer then gets the request, and executes
    // or refuses it.
    virtual bool move_directly(const SendEntry&, std::span<const Segment>) noexcept { return false; }
    // Return false if the peer may not send the frame.
    virtual bool on_grant_ask(uint32_t /*rkey*/) noexcept { return false; }
    virtual bool on_grant(uint32_t /*rkey*/, uint8_t /*status*/) noexcept { return false; }

    void on_deadline() noexcept override;

    // `read_depth` is the limit from the peer's hello, and `data` goes to on_established().
    void establish(uint8_t read_depth, std::span<const std::byte> data) noexcept;
    // Connecting failed: on_refused() with `data` follows.
    void refuse_connect(Status why, std::span<const std::byte> data) noexcept;
    // Closes the connection. The oldest incomplete request completes with `cause`.
    void fail(Status why, CompletionStatus cause = CompletionStatus::kFlushed) noexcept;
    void stream_failed(int error) noexcept;
    void activate() noexcept { poller_.activate(*this); }
    void answer_grant(uint32_t rkey, uint8_t status) noexcept;  // shm: queues a kGrant
    State state() const { return state_; }
    void set_serves_memory(bool serves) noexcept { serves_memory_ = serves; }
    // True if the stream has accepted every frame, and the peer has executed every WRITE that it executes
    // itself. So a transfer that is executed now overtakes no other (F1).
    bool nothing_under_way() const noexcept {
        return state_ == State::kOpen && !refusing_ && !sends_.has_unbuilt() && outbox_.empty() &&
               static_cast<int32_t>(acked_ - last_write_end_) >= 0;
    }
    Hello hello(HelloKind kind) const noexcept;

    EventPoller& poller_;
    const std::shared_ptr<RegionTable> table_;
    std::string peer_;
    bool readable_ = true;
    bool writable_ = true;
    bool hung_up_ = false;  // the stream has ended after the data that is still unread
    bool direct_ = false;   // call reach() for each request

  private:
    enum class Settled : uint8_t { kByFrame, kDone, kLater };
    enum class SinkKind : uint8_t { kNone, kDiscard, kReceive, kRegion, kReadData };
    // Destination of the payload of the current frame.
    struct Sink {
        SinkKind kind = SinkKind::kNone;
        Frame frame;
        uint32_t done = 0;
        uint32_t remaining() const { return frame.length - done; }
    };
    // A READ of the peer that is not yet completely answered.
    struct PendingRead {
        RemoteAddress where;
        uint32_t length = 0;
        uint32_t offset = 0;
        uint32_t number = 0;
    };
    template <typename T>
    struct Fifo {
        explicit Fifo(size_t capacity) : items(capacity) {}
        std::vector<T> items;
        size_t head = 0;
        size_t count = 0;
        void clear() { count = 0; }
        bool full() const { return count == items.size(); }
        T& front() { return items[head]; }
        void push(const T& item) { items[(head + count++) % items.size()] = item; }
        void pop() {
            head = (head + 1) % items.size();
            --count;
        }
    };

    void set_state(State next) noexcept;
    Code check(const WorkRequest& request) const noexcept;

    // RegionTable::remote() for a request of this peer.
    std::byte* remote(RemoteAddress where, uint32_t length, Access need) const noexcept {
        return serves_memory_ ? table_->remote(where, length, need) : nullptr;
    }

    // engine_in.cc
    size_t receive() noexcept;
    void consume(std::span<const std::byte> bytes) noexcept;
    size_t sink_vecs(std::span<iovec> out) noexcept;
    void place(std::span<const std::byte> bytes) noexcept;
    bool sink_region_valid() noexcept;
    void begin_frame() noexcept;
    bool take_counts(const Frame& frame) noexcept;
    void begin_message(const Frame& frame) noexcept;
    void begin_write(const Frame& frame) noexcept;
    void begin_read_data(const Frame& frame) noexcept;
    void take_read_end() noexcept;
    void take_read(const Frame& frame) noexcept;
    void take_refusal(const Frame& frame) noexcept;
    void end_payload() noexcept;
    void end_message(const Frame& frame, uint32_t length) noexcept;
    void count_executed(const Frame& frame) noexcept;
    bool has_receive_for(const Frame& frame) noexcept;
    void refuse(uint32_t number, CompletionStatus status, Status why) noexcept;
    void violation(std::string_view what) noexcept;

    // engine_out.cc
    size_t transmit() noexcept;
    void build() noexcept;
    void build_answers() noexcept;
    void refuse_read(uint32_t number) noexcept;
    void build_requests() noexcept;
    bool build_request(uint32_t position) noexcept;
    Settled settle(SendEntry& entry, uint32_t position) noexcept;
    void build_acknowledge() noexcept;
    bool owes_counts() const noexcept;
    Frame counted(Frame frame) noexcept;
    bool write_outbox() noexcept;

    size_t reap() noexcept;
    bool is_done(const SendEntry& entry) const noexcept;
    size_t deliver() noexcept { return poller_.deliver(*this, handler_); }
    void finish() noexcept;
    void flush() noexcept;

    ConnectionHandler& handler_;
    State state_;
    SendQueue sends_;
    ReceiveQueue receives_;
    Outbox outbox_;
    RegionTable::Memo sent_from_;
    RegionTable::Memo received_to_;

    // Our requests.
    uint32_t next_number_ = 0;    // number of the next request on the wire
    uint32_t acked_ = 0;          // requests that the peer has counted
    uint32_t messages_sent_ = 0;  // requests that consumed a receive of the peer
    uint32_t peer_credits_ = 0;
    uint32_t last_write_end_ = 0;  // number after the last WRITE that the peer executes
    Fifo<uint32_t> reads_out_;     // positions of READs whose data is outstanding
    int64_t direct_budget_ = 0;    // bytes that this side may still move itself in this turn
    bool local_fault_ = false;     // a segment of the request at built() is not registered here
    std::optional<uint32_t> ask_;  // rkey of a kGrantAsk to send
    std::optional<Frame> answer_;  // our answer to the peer's kGrantAsk

    // The peer's requests.
    uint32_t executed_ = 0;
    uint32_t executed_told_ = 0;
    uint32_t credits_told_ = 0;
    uint32_t messages_taken_ = 0;
    bool acknowledge_wanted_ = false;
    bool serves_memory_ = true;  // Connection::let_peer_access_memory()
    Fifo<PendingRead> reads_in_;
    std::array<std::byte, kFrameBytes> header_;
    size_t header_have_ = 0;
    Sink sink_;
    bool refusing_ = false;
    bool refusal_built_ = false;
    uint32_t refused_number_ = 0;
    CompletionStatus refused_status_ = CompletionStatus::kOther;

    // State of closing.
    Status why_;
    CompletionStatus cause_ = CompletionStatus::kFlushed;
    std::optional<uint32_t> cause_position_;  // default: the oldest incomplete request
    bool connecting_failed_ = false;
    bool orderly_ = false;
    std::vector<std::byte> hello_data_;  // private data of the answer, until a handler gets it
};

}  // namespace wss::fabric::stream
