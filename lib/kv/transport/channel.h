// SPDX-License-Identifier: Apache-2.0
// MessageChannel: messages of any length over a fabric connection. Lane: one thread's channels over one
// fabric.
//
// Messages that are queued on a channel during one turn of the reactor are packed into frames (kFrameBytes)
// and posted together, at the end of a batch of completions or of the turn: many requests in flight cost one
// doorbell. The receiver handles messages in place in the receive buffer; only those that span frames are
// copied.
//
// There are two ways to carry frames; the greeting selects one:
//   message  SEND and receive. F3 of the fabric is the flow control: a peer that does not read blocks the
//            sender.
//   ring     RDMA WRITE into a ring in the peer's memory that the peer polls (ring.h). SENDs carry only
//            signals about sleep.
//
// Bounds. If the peer does not accept its messages and the channel holds more than kBacklogMax bytes of them,
// the channel handles no further frame. Messages from the peer then wait in the fabric. A message whose
// header states more than the maximum length closes the channel.
//
// Thread-safety: a Lane and its channels belong to one reactor. Ownership: a channel belongs to its
// ChannelOwner, which is also its handler, and then to the lane, which destroys it when its connection has
// ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/message_buffers.h"
#include "lib/kv/transport/assembler.h"
#include "lib/kv/transport/outbox.h"
#include "lib/kv/transport/ring.h"
#include "lib/wire/kv.h"

namespace wss::kv {

constexpr uint32_t kFrameBytes = 16 * 1024;
constexpr uint32_t kSendFrames = 16;
constexpr uint32_t kReceiveFrames = 16;
// Fits the replies of several get_alls of maximum size. A larger backlog means that the peer requests more
// than it reads.
constexpr size_t kBacklogMax = 64u << 20;
// Limit of outstanding one-sided reads of one channel, in addition to the frames.
constexpr uint32_t kReadsMax = 256;
constexpr uint32_t kSendDepth = kSendFrames + kReadsMax + 16;

class MessageChannel;
class Lane;

class ChannelHandler {
  public:
    virtual ~ChannelHandler() = default;
    virtual void on_up(MessageChannel& channel) noexcept = 0;
    // The channel closes if the peer announces a longer message.
    virtual size_t message_max() const noexcept { return wire::kKvMessageMax; }
    // `message` is complete and has the length that its header states; it is valid during the call. The
    // handler may close the channel, but not destroy it.
    virtual void on_message(MessageChannel& channel, wire::Bytes message) noexcept = 0;
    virtual void on_read_done(MessageChannel&, uint64_t, fabric::CompletionStatus) noexcept {}
    // The channel could not connect, or has closed. The last call.
    virtual void on_down(MessageChannel& channel, const Status& why) noexcept = 0;
};

class MessageChannel final : public fabric::ConnectionHandler, public ListNode<Lane> {
  public:
    ~MessageChannel() override;

    // Encodes a message directly into the buffer that is posted at the end of this turn.
    template <typename Body>
    void send(const wire::KvHeader& header, const Body& body) {
        if (closing_) return;
        if (out_.empty()) lend_frame();
        wire::encode(header, body, out_.buffer());
        mark_dirty();
    }
    // A one-sided read into registered memory. False if too many are outstanding or the channel is not up.
    //
    // `cookie` must be below 2^61. The read is posted with the frames of this turn. on_read_done() follows
    // exactly once, even if the channel ends first.
    bool read(const fabric::Segment& into, fabric::RemoteAddress from, uint64_t cookie) noexcept;

    // The same, synchronously, if the fabric supports that; on_read_done() is not called.
    bool read_now(const fabric::Segment& into, fabric::RemoteAddress from) noexcept {
        return up() && connection_->move_now(fabric::Op::kRead, into, from);
    }

    // Allocates this side's ring. The result has 0 bytes if there is no memory for it. `announced` states
    // whether the peer's writes must notify this side; otherwise this side polls. If it is nullopt, the
    // device decides. A device without immediate values always polls.
    wire::KvRing offer_ring(std::optional<bool> announced = {});
    bool use_ring(const wire::KvRing& theirs, uint64_t seed);

    void close(std::string why) noexcept;
    bool over() const { return over_; }
    bool up() const { return up_ && !closing_; }
    size_t device() const { return connection_->device(); }
    // The connection of this channel; nullptr: none was created.
    fabric::Connection* connection() const { return connection_.get(); }
    size_t backlog() const { return out_.backlog(); }
    size_t held() const { return out_.held(); }
    const Ring& ring() const { return ring_; }

    void on_established(fabric::Connection&, std::span<const std::byte>) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

  private:
    friend class Lane;
    friend class ChannelOwner;
    struct PendingRead {
        fabric::Segment into;
        fabric::RemoteAddress from;
        uint64_t cookie;
    };
    MessageChannel(Lane& lane, ChannelHandler& handler);
    Status prepare();
    Status connect(const fabric::Address& address);
    Status accept(fabric::ConnectRequest& request);
    void detach() noexcept;  // the handler gets no further calls
    // The same, but the channel sends a last request and closes when that is answered: the peer has then
    // handled all earlier messages.
    void leave() noexcept;
    void mark_dirty() noexcept;
    void lend_frame() noexcept;
    void flush() noexcept;
    void flush_reads() noexcept;
    void flush_frames() noexcept;
    void flush_ring() noexcept;
    bool write_ring(std::span<const Ring::Post> posts) noexcept;
    void wake_peer() noexcept;
    bool announce_sleep(bool asleep) noexcept;
    size_t poll_ring() noexcept;
    void post_receives(uint32_t count) noexcept;
    void frame_arrived(uint32_t index, uint32_t length) noexcept;
    void signal_arrived(uint32_t index, uint32_t length) noexcept;
    void write_announced(uint32_t index, uint32_t immediate) noexcept;
    void take(wire::Bytes bytes) noexcept;
    bool send_signal(RingSignal signal) noexcept;
    bool prepare_sleep() noexcept;
    void ended(const Status& why) noexcept;

    Lane& lane_;
    ChannelHandler* handler_;
    fabric::SendBuffers<kFrameBytes, kSendFrames, 8> frames_;
    fabric::ReceiveBuffers<kFrameBytes, kReceiveFrames> receives_;
    std::unique_ptr<fabric::Connection> connection_;
    bool up_ = false, closing_ = false, over_ = false;
    std::string why_;

    Outbox out_;
    Assembler in_;
    uint32_t receives_held_ = 0;  // receives not reposted because the backlog is full
    uint32_t reads_under_way_ = 0;
    uint32_t writes_under_way_ = 0;
    std::vector<PendingRead> reads_;  // reads to post in this turn
    std::vector<fabric::WorkRequest> batch_;
    Ring ring_;
};

// A handler that owns its channel, at most one at a time. The channel has a plain pointer to its handler, and
// its connection may end long after the handler. So only the owner creates channels. When it gives one up (it
// is destroyed, setup failed, or retire()), it first detaches itself and passes the channel to the lane.
class ChannelOwner : public ChannelHandler {
  public:
    ChannelOwner(const ChannelOwner&) = delete;
    ChannelOwner& operator=(const ChannelOwner&) = delete;
    ~ChannelOwner() override;

    MessageChannel* channel() const { return channel_.get(); }

  protected:
    explicit ChannelOwner(Lane& lane) : lane_(lane) {}
    // on_up() or on_ended() follows; neither if this fails.
    Status connect(const fabric::Address& address);
    Status accept(fabric::ConnectRequest& request);
    void retire() noexcept;        // closes the channel
    void retire_later() noexcept;  // closes it when the peer has handled all messages, or after a limit
    // The channel could not connect, or has closed, and is gone. May destroy the owner.
    virtual void on_ended(const Status& why) noexcept = 0;
    Lane& lane() const { return lane_; }

  private:
    void on_down(MessageChannel& channel, const Status& why) noexcept final;

    Lane& lane_;
    std::unique_ptr<MessageChannel> channel_;
};

class Lane final : public reactor::Source {
  public:
    static Result<std::unique_ptr<Lane>> create(reactor::Reactor& reactor, fabric::Fabric& fabric);
    // All owners must be gone. Ends the channels that they left, which takes a moment.
    ~Lane() override;

    reactor::Reactor& reactor() { return reactor_; }
    fabric::Fabric& fabric() { return fabric_; }
    fabric::Poller& poller() { return *poller_; }

    bool empty() const { return retired_.empty(); }
    bool rings_have_frames() noexcept;  // true if a frame is not yet taken
    bool flush_now() noexcept;          // instead of at the end of the turn; false: nothing to flush

    size_t poll() noexcept override;
    bool arm() noexcept override;

  private:
    friend class MessageChannel;
    friend class ChannelOwner;
    static constexpr Nanoseconds kLeaveLimit = from_s(1);
    static constexpr Nanoseconds kEndLimit = from_s(30);  // a fabric's own limits are lower
    // Keeps a channel until its connection has ended.
    void retire(std::unique_ptr<MessageChannel> channel);
    // Keeps a leaving channel, which is closed when its last request is answered, or after kLeaveLimit.
    void retire_later(std::unique_ptr<MessageChannel> channel);
    Lane(reactor::Reactor& reactor, fabric::Fabric& fabric)
        : reactor_(reactor), fabric_(fabric), leaving_(&Lane::on_leave_limit, this) {}
    static void on_leave_limit(void* self) noexcept;

    reactor::Reactor& reactor_;
    fabric::Fabric& fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    List<MessageChannel, Lane> dirty_;
    std::vector<MessageChannel*> ringed_;  // channels whose rings are polled
    std::vector<std::unique_ptr<MessageChannel>> retired_;
    reactor::Timer leaving_;
};

}  // namespace wss::kv
