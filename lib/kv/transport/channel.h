// SPDX-License-Identifier: Apache-2.0
// Channel: messages of any length over a fabric connection. Lane: one thread's channels over one fabric.
//
// Messages that a turn of the reactor queues on a channel are packed into frames (kFrameBytes) and posted
// together at its end: many requests in flight cost one doorbell. The receiver hands messages out where they
// lie in the receive buffer; only those that span frames are copied together.
//
// Two ways to carry frames, fixed when the peers greet each other:
//   message  SEND and receive. F3 of the fabric is the flow control: a peer that does not read makes us wait.
//   ring     RDMA WRITE into a ring in the peer's memory that the peer polls (ring.h); SENDs only wake it.
//
// Bounds. A channel whose peer takes nothing holds at most kBacklogMax bytes of messages: then it stops
// reading, and what the peer sends waits in the fabric. A message longer than its header may claim closes the
// channel.
//
// Thread-safety: a Lane and its channels belong to one reactor. Ownership: a channel belongs to its
// ChannelOwner, which is also its handler, then to the lane, which destroys it when its connection is over.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/kv/transport/assembler.h"
#include "lib/kv/transport/frames.h"
#include "lib/kv/transport/outbox.h"
#include "lib/kv/transport/ring.h"
#include "lib/wire/kv.h"

namespace wss::kv {

// Replies of some get_alls at the limits; beyond it a peer asks for more than it reads.
constexpr size_t kBacklogMax = 64u << 20;
// One-sided reads outstanding of one channel, beside the frames.
constexpr uint32_t kReadsMax = 256;
constexpr uint32_t kSendDepth = kSendFrames + kReadsMax + 16;

class Channel;
class Lane;

class ChannelHandler {
  public:
    virtual ~ChannelHandler() = default;
    virtual void on_up(Channel& channel) noexcept = 0;
    // `message` is whole, its header's length is right; valid during the call. The channel may be closed, not
    // destroyed, from within.
    virtual void on_message(Channel& channel, wire::Bytes message) noexcept = 0;
    virtual void on_read_done(Channel&, uint64_t, fabric::CompletionStatus) noexcept {}
    // Never connected, or closed. Last call.
    virtual void on_down(Channel& channel, const Status& why) noexcept = 0;
};

class Channel final : public fabric::ConnectionHandler, public ListNode<Lane> {
  public:
    ~Channel() override;

    // Encodes a message straight into what the end of this turn posts.
    template <typename Body>
    void send(const wire::KvHeader& header, const Body& body) {
        if (closing_) return;
        if (out_.empty()) lend_frame();
        wire::encode(header, body, out_.buffer());
        mark_dirty();
    }
    // A one-sided read into registered memory; false when too many are outstanding or the channel closes.
    //
    // `cookie`: below 2^62; posted with the frames of this turn. on_read_done() follows, once, also if the
    // channel ends before.
    bool read(const fabric::Segment& into, fabric::RemoteAddress from, uint64_t cookie) noexcept;

    // The same within the call, where the fabric can do that; no on_read_done() follows.
    bool read_now(const fabric::Segment& into, fabric::RemoteAddress from) noexcept {
        return up() && connection_->move_now(fabric::Op::kRead, into, from);
    }

    // After the greeting said so: frames go through rings from the next flush on.
    // Allocates ours; bytes 0: this memory cannot be had. `announced`: the peer shall tell of each write,
    // else we poll; where the device cannot tell we poll all the same.
    // None: as the device needs it.
    wire::KvRing offer_ring(std::optional<bool> announced = {});
    bool use_ring(const wire::KvRing& theirs, uint64_t seed);

    void close(std::string why) noexcept;
    bool over() const { return over_; }
    bool up() const { return up_ && !closing_; }
    std::string peer() const { return connection_ ? connection_->peer() : std::string(); }
    size_t backlog() const { return out_.backlog(); }
    size_t held() const { return out_.held(); }
    bool has_ring() const { return ring_.active(); }
    bool has_announced_ring() const { return ring_.active() && ring_.ours().announced; }

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
    Channel(Lane& lane, ChannelHandler& handler);
    Status prepare();
    Status connect(const fabric::Address& address);
    Status accept(fabric::ConnectRequest& request);
    void detach() noexcept;  // the handler gets no further calls
    // The same, and the channel sends a last request and closes when it is answered: the peer has then
    // handled everything that was sent before.
    void leave() noexcept;
    void mark_dirty() noexcept;
    void lend_frame() noexcept;
    void flush() noexcept;
    void flush_reads() noexcept;
    void flush_frames() noexcept;
    void flush_ring() noexcept;
    bool write_ring(std::span<const Ring::Post> posts) noexcept;
    void ring_bell() noexcept;
    bool tell_asleep(bool asleep) noexcept;
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
    SendFrames frames_;
    ReceiveFrames receives_;
    std::unique_ptr<fabric::Connection> connection_;
    bool up_ = false, closing_ = false, over_ = false;
    std::string why_;

    Outbox out_;
    Assembler in_;
    uint32_t receives_held_ = 0;  // not posted again because the backlog is full
    uint32_t reads_under_way_ = 0;
    uint32_t writes_under_way_ = 0;
    std::vector<PendingRead> reads_;  // of this turn
    std::vector<fabric::WorkRequest> batch_;
    Ring ring_;
};

// A handler that owns its channel, at most one at a time. The channel calls its handler by a plain pointer,
// and its connection may end long after the handler: so the owner alone makes channels, and whenever it gives
// one up (it is destroyed, the setup failed, retire()), it detaches itself first and leaves the channel to
// the lane.
class ChannelOwner : public ChannelHandler {
  public:
    ChannelOwner(const ChannelOwner&) = delete;
    ChannelOwner& operator=(const ChannelOwner&) = delete;
    ~ChannelOwner() override;

    Channel* channel() const { return channel_.get(); }

  protected:
    explicit ChannelOwner(Lane& lane) : lane_(lane) {}
    // on_up() or on_ended() follows, or neither when this fails.
    Status connect(const fabric::Address& address);
    Status accept(fabric::ConnectRequest& request);
    void retire() noexcept;        // closes the channel
    void retire_later() noexcept;  // closes it when the peer has handled what was sent, or after a limit
    // The channel never connected, or closed; it is gone. May destroy the owner.
    virtual void on_ended(const Status& why) noexcept = 0;
    Lane& lane() const { return lane_; }

  private:
    void on_down(Channel& channel, const Status& why) noexcept final;

    Lane& lane_;
    std::unique_ptr<Channel> channel_;
};

class Lane final : public reactor::Source {
  public:
    static Result<std::unique_ptr<Lane>> create(reactor::Reactor& reactor, fabric::Fabric& fabric);
    // No owner of a channel is left. Ends what they have left to it, which takes a moment.
    ~Lane() override;

    reactor::Reactor& reactor() { return reactor_; }
    fabric::Fabric& fabric() { return fabric_; }
    fabric::Poller& poller() { return *poller_; }

    bool empty() const { return retired_.empty(); }
    bool rings_have_frames() noexcept;  // that nobody has taken yet
    bool flush_now() noexcept;          // instead of at the end of the turn; false: there was nothing

    size_t poll() noexcept override;
    bool arm() noexcept override;

  private:
    friend class Channel;
    friend class ChannelOwner;
    static constexpr Nanoseconds kLeaveLimit = from_s(1);
    static constexpr Nanoseconds kEndLimit = from_s(30);  // a fabric has limits of its own below that
    // Keeps a channel until its connection is over.
    void retire(std::unique_ptr<Channel> channel);
    // One that leaves: it is closed when its last request is answered, or after kLeaveLimit.
    void retire_later(std::unique_ptr<Channel> channel);
    Lane(reactor::Reactor& reactor, fabric::Fabric& fabric)
        : reactor_(reactor), fabric_(fabric), leaving_(&Lane::on_leave_limit, this) {}
    static void on_leave_limit(void* self) noexcept;

    reactor::Reactor& reactor_;
    fabric::Fabric& fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    List<Channel, Lane> dirty_;
    std::vector<Channel*> ringed_;  // channels whose rings are polled
    std::vector<std::unique_ptr<Channel>> retired_;
    reactor::Timer leaving_;
};

}  // namespace wss::kv
