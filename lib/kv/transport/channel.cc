// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/transport/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "lib/fabric/open.h"
#include "lib/kv/mutation.h"

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not support fences. The fences here order memory shared with other processes, which
// ThreadSanitizer does not track.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace wss::kv {

namespace {

// The kind of a completion, in the top bits of its cookie.
constexpr uint64_t kOfFrame = uint64_t{1} << 62;  // | frames posted so far
constexpr uint64_t kOfWrite = uint64_t{2} << 62;  // | position in the ring
constexpr uint64_t kOfSignal = uint64_t{3} << 62;
constexpr uint64_t kOfMask = uint64_t{3} << 62;     // 0: a one-sided read of the user
constexpr uint64_t kOfReceive = uint64_t{1} << 61;  // | buffer; marks receives that were flushed

constexpr uint32_t kRingWrites = 16;    // outstanding ring posts
constexpr uint32_t kReadsPerPost = 64;  // reads of one post()

fabric::ConnectionOptions connection_options() {
    fabric::ConnectionOptions options;
    options.send_depth = kSendDepth;
    options.receive_depth = kReceiveFrames;
    options.send_segments = 1;
    options.inline_bytes = 0;
    return options;
}

}  // namespace

MessageChannel::MessageChannel(Lane& lane, ChannelHandler& handler) : lane_(lane), handler_(&handler) {}

MessageChannel::~MessageChannel() {
    WSS_ASSERT(over_ || connection_ == nullptr, "a channel is destroyed after its connection");
    unlink();
}

Status MessageChannel::prepare() {
    WSS_TRY(frames_.open(lane_.fabric_));
    WSS_TRY(receives_.open(lane_.fabric_));
    reads_.reserve(kReadsMax);
    batch_.reserve(std::max<size_t>(kReadsPerPost, kSendFrames) + 4);
    return Status::ok();
}

Status MessageChannel::connect(const fabric::Address& address) {
    WSS_TRY(prepare());
    auto connection = lane_.poller_->connect(address, std::as_bytes(std::span(wire::kKvMagic)),
                                             connection_options(), *this);
    if (!connection) return connection.status();
    connection_ = std::move(*connection);
    return Status::ok();
}

Status MessageChannel::accept(fabric::ConnectRequest& request) {
    WSS_TRY(prepare());
    auto connection = request.create(*lane_.poller_, connection_options(), *this);
    if (!connection) return connection.status();
    connection_ = std::move(*connection);
    post_receives(kReceiveFrames);
    return connection_->accept({});
}

void MessageChannel::mark_dirty() noexcept {
    if (!linked()) lane_.dirty_.push_back(*this);
}

void MessageChannel::close(std::string why) noexcept {
    if (closing_ || over_) return;
    closing_ = true;
    why_ = std::move(why);
    connection_->close();
}

namespace {

class Nobody : public ChannelHandler {
    void on_up(MessageChannel&) noexcept override {}
    void on_message(MessageChannel&, wire::Bytes) noexcept override {}
    void on_down(MessageChannel&, const Status&) noexcept override {}
};

constexpr uint32_t kLastWord = 1;  // an id that no call has: those of Link begin at 1 << 16

class Leaver final : public Nobody {
    void on_message(MessageChannel& channel, wire::Bytes message) noexcept override {
        wire::KvHeader header;
        if (!wire::parse_header(message, header) || header.id == kLastWord) channel.close("no longer needed");
    }
};

}  // namespace

void MessageChannel::detach() noexcept {
    static Nobody nobody;
    handler_ = &nobody;
}

void MessageChannel::leave() noexcept {
    static Leaver leaver;
    handler_ = &leaver;
    send({.kind = wire::KvKind::kPing, .id = kLastWord}, wire::KvDecision{});
}

// --- connection events ---

void MessageChannel::on_established(fabric::Connection&, std::span<const std::byte>) noexcept {
    up_ = true;
    if (receives_.are_all_free()) post_receives(kReceiveFrames);
    mark_dirty();
    if (!closing_) handler_->on_up(*this);
}

void MessageChannel::on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept {
    ended(why);
}

void MessageChannel::on_closed(fabric::Connection&, const Status& why) noexcept {
    ended(why_.empty() ? why : Status(Code::kClosed, why_));
}

void MessageChannel::ended(const Status& why) noexcept {
    over_ = closing_ = true;
    unlink();
    std::erase(lane_.ringed_, this);
    // Reads that were not posted have no completion.
    for (const PendingRead& read : std::exchange(reads_, {}))
        handler_->on_read_done(*this, read.cookie, fabric::CompletionStatus::kFlushed);
    handler_->on_down(*this, why.is_ok() ? Status(Code::kClosed, "the connection was closed") : why);
}

void MessageChannel::on_completions(fabric::Connection&,
                                    std::span<const fabric::Completion> completions) noexcept {
    for (const fabric::Completion& completion : completions) {
        const bool good = completion.status == fabric::CompletionStatus::kOk;
        if (completion.kind == fabric::CompletionKind::kReceiveImmediate && good) {
            write_announced(static_cast<uint32_t>(completion.cookie & ~kOfReceive), completion.immediate);
            continue;
        }
        if (completion.kind == fabric::CompletionKind::kReceive && good) {
            auto index = static_cast<uint32_t>(completion.cookie & ~kOfReceive);
            ring_.active() ? signal_arrived(index, completion.length)
                           : frame_arrived(index, completion.length);
            continue;
        }
        if (completion.cookie & kOfReceive && (completion.cookie & kOfMask) == 0) continue;  // flushed
        switch (completion.cookie & kOfMask) {
            case 0:
                --reads_under_way_;
                handler_->on_read_done(*this, completion.cookie, completion.status);
                break;
            case kOfFrame:
                if (good) frames_.done(completion.cookie & ~kOfMask);
                break;
            case kOfWrite:
                --writes_under_way_;
                if (good) ring_.posted_done(completion.cookie & ~kOfMask);
                // The frame is visible only now, and the reader may have gone to sleep meanwhile.
                if (good && !closing_ && ring_.peer_says_asleep() && !mutated(Mutation::kLooksOnce))
                    wake_peer();
                break;
        }
    }
    if (closing_ || (backlog() == 0 && reads_.empty() && receives_held_ == 0)) return;
    // Flush here, not at the end of the turn: replies leave together with the fabric's own messages for these
    // requests.
    flush();
    if (!closing_ && (backlog() > 0 || !reads_.empty())) mark_dirty();
}

// --- receiving ---

void MessageChannel::post_receives(uint32_t count) noexcept {
    if (closing_) return;
    if (connection_->post_receives(
            receives_.take(count, [](uint32_t index) { return kOfReceive | index; })) != Code::kOk)
        close("receives could not be posted");
}

void MessageChannel::frame_arrived(uint32_t index, uint32_t length) noexcept {
    if (!closing_) take({receives_.buffer(index), length});
    receives_.give_back(index);
    // Do not read from a peer that does not accept its replies.
    if (backlog() > kBacklogMax)
        ++receives_held_;
    else
        post_receives(1);
}

void MessageChannel::take(wire::Bytes bytes) noexcept {
    while (!bytes.empty() && !closing_) {
        const wire::Bytes message = in_.next(bytes, handler_->message_max());
        if (in_.is_malformed()) return close("the peer sent a malformed message");
        if (message.empty()) return;
        handler_->on_message(*this, message);
        in_.release();
    }
}

// --- sending ---

bool MessageChannel::read(const fabric::Segment& into, fabric::RemoteAddress from, uint64_t cookie) noexcept {
    if (!up() || reads_under_way_ + reads_.size() >= kReadsMax) return false;
    reads_.push_back({into, from, cookie});
    mark_dirty();
    return true;
}

void MessageChannel::flush() noexcept {
    if (closing_ || !up_) return;
    if (!reads_.empty()) flush_reads();
    if (receives_held_ > 0 && backlog() <= kBacklogMax / 2) post_receives(std::exchange(receives_held_, 0));
    if (backlog() > 0) ring_.active() ? flush_ring() : flush_frames();
    out_.drop_posted();
}

// The next message is encoded directly in a frame, if it fits and nothing is queued before it.
void MessageChannel::lend_frame() noexcept {
    if (!ring_.active() && frames_.has_room()) out_.lend({frames_.next(), kFrameBytes});
}

void MessageChannel::flush_reads() noexcept {
    size_t at = 0;
    while (at < reads_.size()) {
        size_t count = std::min<size_t>(reads_.size() - at, kReadsPerPost);
        batch_.clear();
        for (size_t i = at; i < at + count; ++i)
            batch_.push_back({.op = fabric::Op::kRead,
                              .cookie = reads_[i].cookie,
                              .segments = {&reads_[i].into, 1},
                              .remote = reads_[i].from});
        Code code = connection_->post(batch_);
        if (code == Code::kExhausted) break;  // the next completion tries again
        if (code != Code::kOk) {
            close("one-sided reads could not be posted");
            break;
        }
        reads_under_way_ += static_cast<uint32_t>(count);
        at += count;
    }
    reads_.erase(reads_.begin(), reads_.begin() + static_cast<ptrdiff_t>(at));
}

void MessageChannel::flush_frames() noexcept {
    fabric::Segment segments[kSendFrames];
    batch_.clear();
    while (backlog() > 0 && frames_.has_room()) {
        const size_t slot = frames_.posted() % kSendFrames;
        auto length = static_cast<uint32_t>(std::min<size_t>(backlog(), kFrameBytes));
        if (!out_.is_lent()) std::memcpy(frames_.next(), out_.front(), length);
        out_.posted(length);
        segments[slot] = frames_.post(length);
        batch_.push_back({.op = fabric::Op::kSend,
                          .signalled = frames_.is_signalled(),
                          .cookie = kOfFrame | frames_.posted(),
                          .segments = {&segments[slot], 1}});
    }
    if (batch_.empty()) return;
    if (connection_->post(batch_) != Code::kOk) close("a message could not be posted");
}

// --- rings ---

wire::KvRing MessageChannel::offer_ring(std::optional<bool> announced) {
    const bool is_wanted = announced.value_or(!fabric::writes_in_order(*connection_));
    const bool announce = is_wanted && lane_.fabric_.caps().write_immediate;
    const size_t device = connection_->device();
    const bool offered = ring_.ours(device).bytes != 0 || ring_.offer(lane_.fabric_, announce);
    return offered ? ring_.ours(device) : wire::KvRing{};
}

bool MessageChannel::use_ring(const wire::KvRing& theirs, uint64_t seed) {
    if (ring_.active() || !ring_.begin(theirs, seed)) return false;
    out_.leave_lent();  // rings use the frames for signals
    lane_.ringed_.push_back(this);
    return true;
}

void MessageChannel::flush_ring() noexcept {
    Ring::Post posts[4];
    while (backlog() > 0 && writes_under_way_ < kRingWrites) {
        auto length = static_cast<uint32_t>(std::min<size_t>(backlog(), kRingBodyMax));
        if (!ring_.room(length)) return;  // the peer's credit is polled
        uint32_t count = ring_.credit(posts[0], true);
        count += ring_.put({out_.front(), length}, posts + count);
        out_.posted(length);
        if (!write_ring({posts, count})) return;
    }
    wake_peer();
}

// Writes synchronously where possible, and posts the rest.
bool MessageChannel::write_ring(std::span<const Ring::Post> posts) noexcept {
    while (!posts.empty() && !posts[0].announce &&
           connection_->move_now(fabric::Op::kWrite, posts[0].segment, posts[0].remote))
        posts = posts.subspan(1);
    if (posts.empty()) {
        ring_.posted_done(ring_.written());
        return true;
    }
    batch_.clear();
    for (const Ring::Post& post : posts)
        batch_.push_back({.op = post.announce ? fabric::Op::kWriteImmediate : fabric::Op::kWrite,
                          .signalled = &post == &posts.back(),
                          .cookie = kOfWrite | ring_.written(),
                          .segments = {&post.segment, 1},
                          .remote = post.remote,
                          .immediate = post.announce.value_or(0)});
    if (connection_->post(batch_) != Code::kOk) {
        close("a ring could not be written");
        return false;
    }
    ++writes_under_way_;
    return true;
}

void MessageChannel::wake_peer() noexcept {
    if (ring_.announces()) return;  // the write itself notifies the peer
    // The frames must be visible before this side checks whether the reader sleeps. The reader announces its
    // sleep before it checks for frames.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_.wake_up_owed = false;
    if (!ring_.peer_asleep && !ring_.peer_says_asleep()) return;
    if (!send_signal(RingSignal::kWakeUp)) {
        ring_.wake_up_owed = true;  // remains set until a frame is free
        return;
    }
    ring_.peer_asleep = false;
    ring_.forget_peer_says();
}

// Signals use the send frames, which a ring channel does not need otherwise.
bool MessageChannel::send_signal(RingSignal signal) noexcept {
    if (!frames_.has_room()) return false;
    std::byte* frame = frames_.next();
    frame[0] = std::byte{static_cast<uint8_t>(signal)};
    wire::put64(frame + 1, ring_.read_position());
    const fabric::Segment segment = frames_.post(9);
    fabric::WorkRequest request{.op = fabric::Op::kSend,
                                .signalled = frames_.is_signalled(),
                                .cookie = kOfFrame | frames_.posted(),
                                .segments = {&segment, 1}};
    if (connection_->post({&request, 1}) == Code::kOk) return true;
    close("a signal could not be posted");
    return false;
}

void MessageChannel::signal_arrived(uint32_t index, uint32_t length) noexcept {
    const std::byte* frame = receives_.buffer(index);
    const auto signal = length == 9 ? static_cast<RingSignal>(wire::get8(frame)) : RingSignal{};
    const uint64_t position = length == 9 ? wire::get64(frame + 1) : 0;
    receives_.give_back(index);
    post_receives(1);
    if (signal == RingSignal::kWakeUp) {
        ring_.announced = false;
    } else if (signal == RingSignal::kAsleep) {
        ring_.peer_asleep = true;
        if (position < ring_.written() && !mutated(Mutation::kLostWakeUp)) wake_peer();
    } else if (!closing_) {
        close("the peer sent an unknown signal");
    }
}

// The peer's WRITE has arrived as a whole: a frame, or only credit.
void MessageChannel::write_announced(uint32_t index, uint32_t immediate) noexcept {
    receives_.give_back(index);
    post_receives(1);
    if (closing_) return;
    if (!ring_.active() || !ring_.is_announced()) return close("the peer announced an unexpected write");
    ring_.heard += immediate != Ring::kCreditOnly;
}

size_t MessageChannel::poll_ring() noexcept {
    if (ring_.announced_sleep) announce_sleep(false);
    const bool announced = ring_.is_announced();
    size_t count = 0;
    for (; count < 16 && !closing_; ++count) {
        if (backlog() > kBacklogMax || (announced && ring_.heard == 0)) break;
        wire::Bytes body = ring_.peek();
        if (ring_.claims_nonsense()) close("the peer's ring holds a malformed frame");
        if (announced && body.empty()) close("the peer announced a frame that is not there");
        if (body.empty()) break;
        ring_.heard -= announced;
        take(body);
        ring_.consumed();
    }
    if (closing_ || !up_) return count;
    Ring::Post post;
    // A writer that waits for room may be asleep.
    if (writes_under_way_ < kRingWrites && ring_.credit(post, false) && write_ring({&post, 1})) wake_peer();
    if (ring_.wake_up_owed) wake_peer();
    // Without announcements, the peer's credit causes no event, so retry here.
    if (backlog() > 0) {
        size_t before = backlog();
        flush();
        count += backlog() != before;
    }
    return count;
}

// Returns false if there is something to do. The caller must then not sleep.
bool MessageChannel::prepare_sleep() noexcept {
    if (closing_ || !up_) return true;
    if (ring_.is_announced()) return ring_.heard == 0 || backlog() > kBacklogMax;
    if (announce_sleep(true)) {
        std::atomic_thread_fence(std::memory_order_seq_cst);  // see wake_peer()
        return ring_.peek().empty() || mutated(Mutation::kLostWakeUp);
    }
    if (!ring_.announced && send_signal(RingSignal::kAsleep)) ring_.announced = true;
    return (ring_.peek().empty() || mutated(Mutation::kLostWakeUp)) && ring_.announced;
}

// Sets the asleep word in the peer's memory, if this side can write it directly and both see it at once.
// Costs no message and wakes no process.
bool MessageChannel::announce_sleep(bool asleep) noexcept {
    // Write `asleep` each time: a peer that sent a wake-up has cleared the word, even if this side could not
    // clear it.
    if (!asleep && !ring_.announced_sleep) return false;
    if (asleep && ring_.announced_sleep && mutated(Mutation::kToldOnce)) return true;
    Ring::Post post = ring_.asleep_word(asleep);
    if (!connection_->move_now(fabric::Op::kWrite, post.segment, post.remote)) return false;
    ring_.announced_sleep = asleep;
    return true;
}

// --- ChannelOwner ---

ChannelOwner::~ChannelOwner() {
    retire();
}

Status ChannelOwner::connect(const fabric::Address& address) {
    WSS_ASSERT(channel_ == nullptr, "an owner has one channel at a time");
    channel_.reset(new MessageChannel(lane_, *this));
    Status status = channel_->connect(address);
    if (!status) retire();
    return status;
}

// A connection that cannot be accepted still ends in a later turn of the reactor.
Status ChannelOwner::accept(fabric::ConnectRequest& request) {
    WSS_ASSERT(channel_ == nullptr, "an owner has one channel at a time");
    channel_.reset(new MessageChannel(lane_, *this));
    Status status = channel_->accept(request);
    if (!status) retire();
    return status;
}

void ChannelOwner::retire() noexcept {
    if (channel_ == nullptr) return;
    channel_->detach();
    lane_.retire(std::move(channel_));
}

void ChannelOwner::retire_later() noexcept {
    if (channel_ == nullptr) return;
    channel_->leave();
    lane_.retire_later(std::move(channel_));
}

void ChannelOwner::on_down(MessageChannel&, const Status& why) noexcept {
    lane_.retire(std::move(channel_));
    on_ended(why);
}

// --- Lane ---

Result<std::unique_ptr<Lane>> Lane::create(reactor::Reactor& reactor, fabric::Fabric& fabric) {
    std::unique_ptr<Lane> lane(new Lane(reactor, fabric));
    auto poller = fabric.create_poller();
    if (!poller) return poller.status();
    lane->poller_ = std::move(*poller);
    reactor.add(*lane->poller_);
    reactor.add(*lane);
    return lane;
}

// A fabric ends connections only within poll(). The reactor may already have stopped.
Lane::~Lane() {
    for (auto& channel : retired_) channel->close("no longer needed");
    const auto is_over = [](const auto& channel) { return channel->over(); };
    const Nanoseconds limit = SystemClock().now() + kEndLimit;
    while (std::erase_if(retired_, is_over), !retired_.empty()) {
        WSS_ASSERT(SystemClock().now() < limit, "the fabric ends connections that are closed");
        if (poller_->poll() == 0) std::this_thread::yield();
    }
    reactor_.cancel(leaving_);
    reactor_.remove(*this);
    if (poller_) reactor_.remove(*poller_);
}

void Lane::retire(std::unique_ptr<MessageChannel> channel) {
    if (channel->connection_ == nullptr) return;  // there is nothing to wait for
    channel->close("no longer needed");
    retired_.push_back(std::move(channel));
}

void Lane::retire_later(std::unique_ptr<MessageChannel> channel) {
    retired_.push_back(std::move(channel));
    reactor_.set(leaving_, reactor_.now() + kLeaveLimit);
}

void Lane::on_leave_limit(void* self) noexcept {
    for (auto& channel : static_cast<Lane*>(self)->retired_) channel->close("no longer needed");
}

bool Lane::flush_now() noexcept {
    bool any = !dirty_.empty();
    while (MessageChannel* channel = dirty_.pop_front()) channel->flush();
    return any;
}

size_t Lane::poll() noexcept {
    size_t events = 0;
    // The loop uses an index, because a message may close its channel, which then leaves the list.
    for (size_t i = 0; i < ringed_.size(); ++i) events += ringed_[i]->poll_ring();
    flush_now();
    if (!retired_.empty()) std::erase_if(retired_, [](const auto& channel) { return channel->over(); });
    return events;
}

bool Lane::rings_have_frames() noexcept {
    return std::any_of(ringed_.begin(), ringed_.end(), [](MessageChannel* channel) {
        return channel->up() && !channel->ring_.peek().empty();
    });
}

bool Lane::arm() noexcept {
    for (MessageChannel* channel : ringed_)
        if (!channel->prepare_sleep()) return false;
    return true;
}

}  // namespace wss::kv
