// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/shm_connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lib/fabric/shm/shm_poller.h"

namespace wss::fabric::shm {

using stream::Hello;
using stream::HelloFault;
using stream::HelloKind;
using stream::SendEntry;
using stream::State;

constexpr Nanoseconds kDialAgain = from_ms(5);
// Wake-up messages are one byte long. At most one is in flight unless the peer floods the socket.
constexpr int kMessagesPerTurn = 256;
constexpr uint8_t kGrantInSocket = 0;
constexpr uint8_t kGrantNotNow = 1;

// --- greetings ---

int send_hello(int socket, const Hello& hello, std::span<const int> descriptors) noexcept {
    std::array<std::byte, stream::kHelloBytes> bytes;
    stream::encode(hello, bytes);
    return send(socket, bytes, descriptors);
}

ssize_t receive_hello(int socket, Greeting& greeting) noexcept {
    std::array<std::byte, stream::kHelloBytes> bytes;
    greeting.message = receive(socket, bytes);
    if (greeting.message.bytes <= 0) return greeting.message.bytes;
    if (greeting.message.bytes != static_cast<ssize_t>(bytes.size())) return -EPROTO;
    if (stream::decode(bytes, greeting.hello) != HelloFault::kNone) return -EPROTO;
    return greeting.message.bytes;
}

// --- connecting ---

ShmConnection::ShmConnection(ShmPoller& poller, std::shared_ptr<Domain> domain, const std::string& path,
                             std::span<const std::byte> data, const ConnectionOptions& options,
                             ConnectionHandler& handler)
    : Engine({poller, domain->table(), options, handler, State::kConnecting}),
      shm_poller_(poller),
      domain_(std::move(domain)),
      phase_(Phase::kDialling),
      path_(path),
      hello_(hello(HelloKind::kConnect)),
      timeout_(options.connect_timeout) {
    peer_ = "shm://" + path;
    hello_.set_data(data);
    give_up_ = poller_.now() + timeout_;
    dial();
}

void ShmConnection::dial() noexcept {
    Result<Descriptor> socket = connect_to(path_);
    if (!socket && socket.status().code() == Code::kBusy)
        return poller_.set_deadline(*this, std::min(give_up_, poller_.now() + kDialAgain));
    if (!socket) return refuse_connect(socket.status(), {});
    socket_ = std::move(*socket);
    if (Status status = greet(); !status) return refuse_connect(std::move(status), {});
    phase_ = Phase::kGreeting;
    poller_.set_deadline(*this, give_up_);
}

Status ShmConnection::greet() noexcept {
    if (Result<Peer> peer = check_peer(socket_.get()); !peer) return peer.status().within(peer_);
    Result<SharedMemory> area = make_shared("wss-rings", sizeof(Area), false);
    if (!area) return area.status();
    std::array descriptors{area->fd.get(), domain_->validity_fd()};
    rings_.attach(std::move(area->mapping), 0);
    if (int error = send_hello(socket_.get(), hello_, descriptors); error != 0)
        return Status::from_errno(-error, fmt::format("cannot connect to {}", peer_));
    return poller_.watch(*this, socket_.get(), EPOLLIN | EPOLLRDHUP);
}

void ShmConnection::receive_greeting() noexcept {
    Greeting greeting;
    ssize_t got = receive_hello(socket_.get(), greeting);
    if (got == -EAGAIN) return;
    if (got == 0 || got == -ECONNRESET)
        return refuse_connect(failure(Code::kRefused, "{} closed the connection without an answer", peer_),
                              {});
    if (got < 0)
        return refuse_connect(failure(Code::kInvalid, "{} does not answer as a WSS endpoint", peer_), {});
    greeted(greeting);
}

void ShmConnection::greeted(Greeting& greeting) noexcept {
    const Hello& answer = greeting.hello;
    if (answer.kind == HelloKind::kReject)
        return refuse_connect(failure(Code::kRefused, "{} refused the connection", peer_),
                              answer.private_data());
    if (answer.kind != HelloKind::kAccept || greeting.message.descriptor_count != 1)
        return refuse_connect(failure(Code::kInvalid, "{} does not answer as a WSS endpoint", peer_), {});
    Result<Mapping> validity = map_shared(greeting.message.descriptors[0].get(), kValidityBytes, false);
    if (!validity) return refuse_connect(validity.status().within(peer_), {});
    poller_.set_deadline(*this, kNever);
    stream(std::move(*validity), answer.read_depth, answer.private_data());
    drain_socket();
}

void ShmConnection::stream(Mapping validity, uint8_t read_depth, std::span<const std::byte> data) {
    phase_ = Phase::kStreaming;
    grants_.attach(std::move(validity));
    direct_ = true;
    shm_poller_.add(*this);
    establish(read_depth, data);
}

void ShmConnection::on_deadline() noexcept {
    if (phase_ == Phase::kStreaming) return Engine::on_deadline();
    if (phase_ == Phase::kDeciding) return;
    if (poller_.now() >= give_up_) {
        int64_t ms = timeout_.count / 1'000'000;
        return refuse_connect(failure(Code::kTimedOut, "{}: no answer within {} ms", peer_, ms), {});
    }
    dial();
}

// --- accepting ---

ShmConnection::ShmConnection(ShmPoller& poller, std::shared_ptr<Domain> domain, Visitor visitor,
                             const ConnectionOptions& options, ConnectionHandler& handler)
    : Engine({poller, domain->table(), options, handler, State::kRequested}),
      shm_poller_(poller),
      domain_(std::move(domain)),
      socket_(std::move(visitor.socket)),
      phase_(Phase::kDeciding),
      visitor_validity_(std::move(visitor.validity)),
      peer_read_depth_(visitor.hello.read_depth) {
    peer_ = visitor.peer.to_string();
    rings_.attach(std::move(visitor.area), 1);
    if (Status status = poller_.watch(*this, socket_.get(), EPOLLIN | EPOLLRDHUP); !status)
        fail(std::move(status));
}

Status ShmConnection::accept(std::span<const std::byte> data) {
    if (data.size() > stream::kHelloDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; an accept holds {}", data.size(),
                       stream::kHelloDataMax);
    if (state() >= State::kClosing) return failure(Code::kClosed, "{}: the connection is closed", peer_);
    if (phase_ != Phase::kDeciding) return failure(Code::kInvalid, "{} was already accepted", peer_);
    Hello answer = hello(HelloKind::kAccept);
    answer.set_data(data);
    std::array descriptors{domain_->validity_fd()};
    if (send_hello(socket_.get(), answer, descriptors) != 0) {
        phase_ = Phase::kGreeting;  // no reject is sent from here on
        fail(failure(Code::kUnavailable, "{} closed the connection before it was accepted", peer_));
        return failure(Code::kClosed, "{}: the connection is closed", peer_);
    }
    stream(std::move(visitor_validity_), peer_read_depth_, {});
    return Status::ok();
}

// --- the stream ---

void ShmConnection::on_ready(uint32_t epoll_events) noexcept {
    if (state() >= State::kClosing) return;
    switch (phase_) {
        case Phase::kDialling:
            return;
        case Phase::kGreeting:
            return receive_greeting();
        case Phase::kDeciding:
            if (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                fail(failure(Code::kUnavailable, "{} closed the connection before it was accepted", peer_));
            return;
        case Phase::kStreaming:
            drain_socket();
            if (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hung_up_ = readable_ = true;
            activate();
    }
}

// Receives the peer's messages outside the rings: wake-ups and grants.
void ShmConnection::drain_socket() noexcept {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
        std::array<std::byte, sizeof(GrantMessage)> bytes;
        Message message = shm::receive(socket_.get(), bytes);
        if (message.bytes == -EAGAIN) return;
        if (message.bytes == 0 || message.bytes == -ECONNRESET) {
            hung_up_ = readable_ = true;
            return activate();
        }
        if (message.bytes == 1) continue;
        bool grant = message.bytes == static_cast<ssize_t>(sizeof(GrantMessage)) && !stash_ && requested_;
        if (!grant)
            return fail(failure(Code::kInvalid, "{} broke the protocol: an unexpected message", peer_));
        std::memcpy(&stash_.emplace(), bytes.data(), bytes.size());
        stashed_memory_ = std::move(message.descriptors[0]);
    }
    fail(failure(Code::kInvalid, "{} broke the protocol: too many messages on the socket", peer_));
}

void ShmConnection::wake_peer() noexcept {
    if (!rings_.peer_needs_waking()) return;
    std::byte one{1};
    send(socket_.get(), {&one, 1}, {});  // a full socket already holds a wake-up
}

ssize_t ShmConnection::read(std::span<const iovec> into) noexcept {
    ssize_t got = rings_.read(into);
    wake_peer();
    return got == -EAGAIN && hung_up_ ? 0 : got;
}

ssize_t ShmConnection::write(std::span<const iovec> from) noexcept {
    if (hung_up_) return -EPIPE;
    ssize_t put = rings_.write(from);
    wake_peer();
    return put;
}

void ShmConnection::look() noexcept {
    bool data = rings_.has_data();
    bool space = rings_.has_space();
    if (data) readable_ = true;
    if (space) writable_ = true;
    if (data || space) activate();
}

bool ShmConnection::sleep() noexcept {
    return rings_.sleep();
}

void ShmConnection::detach(bool) noexcept {
    if (phase_ == Phase::kDeciding) send_hello(socket_.get(), hello(HelloKind::kReject), {});
    if (phase_ == Phase::kStreaming) shm_poller_.remove(*this);
    grants_.detach();
    rings_.detach();
    visitor_validity_.reset();
    stashed_memory_.reset();
    socket_.reset();  // the peer reads the ring to its end, then gets the hang-up
}

// --- direct access ---

bool ShmConnection::move_now(Op op, const Segment& local, RemoteAddress remote) noexcept {
    if (!direct_ || !nothing_under_way() || !grants_.is_mapped(remote.rkey)) return false;
    SendEntry entry{.remote = remote, .length = local.length, .op = op};
    return grants_.move(entry, {&local, 1});
}

stream::Engine::Reach ShmConnection::reach(uint32_t rkey) noexcept {
    if (requested_) return Reach::kWait;
    if (skipped_ == rkey) {
        skipped_.reset();
        return Reach::kFrames;
    }
    if (!grants_.knows(rkey)) {
        requested_ = rkey;
        return Reach::kAsk;
    }
    return grants_.is_mapped(rkey) ? Reach::kDirect : Reach::kFrames;
}

// The peer requests direct access to a region. For a region that it may not access at all the answer is
// "frames" too: the frame is then refused in its place among the requests.
bool ShmConnection::on_grant_ask(uint32_t rkey) noexcept {
    GrantMessage message{.rkey = rkey};
    Descriptor nothing;
    int memory = -1;
    stream::RegionTable::Guard guard = table_->guard();
    const stream::RegionTable::Entry* entry = table_->find(rkey);
    auto* shared = entry != nullptr ? static_cast<SharedRegion*>(entry->owner) : nullptr;
    if (shared != nullptr && shared->validity().slot != kNoSlot) {
        message.kind = GrantKind::kMapped;
        message.access = entry->access;
        message.validity = shared->validity();
        message.address = shared->remote_address();
        message.length = entry->bytes.size();
        memory = shared->fd();
    }
    auto* bytes = reinterpret_cast<const std::byte*>(&message);
    std::span<const int> descriptors(&memory, memory >= 0 ? 1 : 0);
    int error = send(socket_.get(), {bytes, sizeof message}, descriptors);
    answer_grant(rkey, error == 0 ? kGrantInSocket : kGrantNotNow);
    return true;
}

bool ShmConnection::on_grant(uint32_t rkey, uint8_t status) noexcept {
    if (requested_ != rkey) return false;
    if (status == kGrantInSocket && !stash_) drain_socket();
    requested_.reset();
    activate();
    if (status != kGrantInSocket) {
        skipped_ = rkey;
        return true;
    }
    if (!stash_ || stash_->rkey != rkey) return false;
    GrantMessage message = *stash_;
    stash_.reset();
    return grants_.take(message, std::move(stashed_memory_));
}

}  // namespace wss::fabric::shm
