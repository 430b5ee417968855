// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/tcp_connection.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/fabric/tcp/tcp_poller.h"

namespace wss::fabric::tcp {

using stream::Hello;
using stream::HelloFault;
using stream::HelloKind;
using stream::State;

constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP;

// A silent peer is probed after 2 s and then every second. TCP_USER_TIMEOUT bounds both the probing and the
// time that data stays unacknowledged. This includes a peer whose buffers stay full because its process is
// stopped. Such a peer counts as dead. kDeadPeerMs is the sum of the 2 s and TCP_USER_TIMEOUT.
constexpr int kKeepAliveIdleSeconds = 2;
constexpr int kKeepAliveIntervalSeconds = 1;
constexpr int kKeepAliveProbes = 4;
constexpr unsigned kUserTimeoutMs = 6000;
static_assert(kUserTimeoutMs + 2000 <= kDeadPeerMs, "the socket options detect a dead peer in time");

Status set_socket_options(int socket) noexcept {
    int on = 1;
    bool ok = setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
              setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0 &&
              setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdleSeconds, sizeof(int)) == 0 &&
              setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveIntervalSeconds, sizeof(int)) == 0 &&
              setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof(int)) == 0 &&
              setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(int)) == 0;
    return ok ? Status() : Status::from_errno(errno, "cannot set the options of a socket");
}

// --- connecting ---

TcpConnection::TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table,
                             const Address& address, std::span<const std::byte> data,
                             const ConnectionOptions& options, ConnectionHandler& handler)
    : Engine({poller, std::move(table), options, handler, State::kConnecting}),
      tcp_poller_(poller),
      phase_(Phase::kResolving),
      timeout_(options.connect_timeout),
      host_(address.host),
      hello_(hello(HelloKind::kConnect)) {
    peer_ = address.to_string();
    hello_.set_data(data);
    connect_by_ = poller_.now() + timeout_;
    poller_.set_deadline(*this, connect_by_);
    addresses_ = parse_numeric(address);
    if (addresses_.empty())
        look_up(address);
    else
        dial();
}

void TcpConnection::look_up(const Address& address) noexcept {
    Result<std::shared_ptr<Resolution>> resolution = start_resolving(address);
    if (!resolution) return refuse_connect(resolution.status(), {});
    resolution_ = *resolution;
    if (Status status = poller_.watch(*this, resolution_->done.get(), EPOLLIN); !status)
        refuse_connect(std::move(status), {});
}

void TcpConnection::resolved() noexcept {
    if (!resolution_->finished.load(std::memory_order_acquire)) return;
    std::shared_ptr<Resolution> resolution = std::move(resolution_);
    if (!resolution->status.is_ok()) return refuse_connect(resolution->status, {});
    addresses_ = resolution->addresses;
    // The resolver returns the preferred address first, and dial() takes from the back.
    std::reverse(addresses_.begin(), addresses_.end());
    dial();
}

// Tries the addresses one after the other. One that fails at once is skipped. One that does not answer may
// use its share of the remaining time, so that the others get theirs.
void TcpConnection::dial() noexcept {
    while (!addresses_.empty()) {
        const Nanoseconds now = poller_.now();
        const auto left = static_cast<int64_t>(addresses_.size());
        poller_.set_deadline(*this, now + Nanoseconds{(connect_by_ - now).count / left});
        SocketAddress address = addresses_.back();
        addresses_.pop_back();
        stream_ = ByteStream(
            Descriptor(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
        if (!stream_) {
            last_failure_ = Status::from_errno(errno, fmt::format("{}: cannot create a socket", peer_));
            continue;
        }
        last_failure_ = set_socket_options(stream_.socket());
        if (!last_failure_) continue;
        if (connect(stream_.socket(), address.get(), address.length) == 0 || errno == EINPROGRESS) {
            phase_ = Phase::kDialling;
            last_failure_ = poller_.watch(*this, stream_.socket(), kSocketEvents);
            if (last_failure_) return;
            continue;
        }
        last_failure_ = Status::from_errno(errno, fmt::format("cannot connect to {}", peer_));
    }
    refuse_connect(std::move(last_failure_), {});
}

void TcpConnection::dialled() noexcept {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(stream_.socket(), SOL_SOCKET, SO_ERROR, &error, &length);
    sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    bool connected = getpeername(stream_.socket(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
    if (error == 0 && !connected) return;  // not yet
    if (error == 0) return tcp_poller_.context() ? secure() : greet();
    last_failure_ = Status::from_errno(error, fmt::format("cannot connect to {}", peer_));
    dial();
}

void TcpConnection::secure() noexcept {
    phase_ = Phase::kSecuring;
    poller_.set_deadline(*this, connect_by_);
    auto session = tls::Session::connect(tcp_poller_.context(), stream_.socket(), host_);
    if (!session) return refuse_connect(session.status().within(peer_), {});
    stream_.set_session(std::move(*session));
    shake_hands();
}

void TcpConnection::shake_hands() noexcept {
    switch (stream_.session()->shake_hands()) {
        case tls::Session::Step::kWait:
            return;
        case tls::Session::Step::kFailed:
            return refuse_connect(stream_.session()->failure().within(peer_), {});
        case tls::Session::Step::kDone:
            return greet();
    }
}

void TcpConnection::greet() noexcept {
    phase_ = Phase::kGreeting;
    poller_.set_deadline(*this, connect_by_);
    if (!stream_.send_hello(hello_))
        return refuse_connect(failure(Code::kUnavailable, "{} closed the connection at once", peer_), {});
    receive_greeting();
}

// A target that requires a certificate reports a missing one only after the handshake.
Status TcpConnection::explain_silence(int error) const {
    if (stream_.session() != nullptr && !stream_.session()->failure())
        return stream_.session()->failure().within(peer_);
    return Status::from_errno(error, fmt::format("cannot connect to {}", peer_));
}

void TcpConnection::receive_greeting() noexcept {
    // After a long certificate chain the socket may have had no room for the hello.
    if (stream_.session() != nullptr) stream_.session()->flush();
    while (greeting_have_ < greeting_.size()) {
        // This reads no byte beyond the hello: frames follow, which the stream engine reads.
        iovec rest{&greeting_[greeting_have_], greeting_.size() - greeting_have_};
        ssize_t got = stream_.read({&rest, 1});
        if (got == -EINTR) continue;
        if (got == -EAGAIN) return;
        if (got < 0) return refuse_connect(explain_silence(static_cast<int>(-got)), {});
        if (got == 0)
            return refuse_connect(
                failure(Code::kRefused, "{} closed the connection without an answer", peer_), {});
        greeting_have_ += static_cast<size_t>(got);
        if (stream_.session() == nullptr && begins_tls(greeting_[0]))
            return refuse_connect(failure(Code::kRefused, "{} uses TLS: connect with tls://", peer_), {});
    }
    greeted();
}

static std::string_view explain(HelloFault fault) {
    if (fault == HelloFault::kVersion)
        return "uses a different version of this protocol: upgrade the older end";
    return "is not a WSS tcp endpoint: check host and port";
}

void TcpConnection::greeted() noexcept {
    Hello answer;
    HelloFault fault = stream::decode(greeting_, answer);
    if (fault != HelloFault::kNone || answer.kind == HelloKind::kConnect)
        return refuse_connect(failure(Code::kInvalid, "{} {}", peer_, explain(fault)), {});
    if (answer.kind == HelloKind::kReject)
        return refuse_connect(failure(Code::kRefused, "{} refused the connection", peer_),
                              answer.private_data());
    phase_ = Phase::kStreaming;
    poller_.set_deadline(*this, kNever);
    establish(answer.read_depth, answer.private_data());
}

void TcpConnection::on_deadline() noexcept {
    if (phase_ == Phase::kStreaming) return Engine::on_deadline();
    if (phase_ == Phase::kDeciding) return;
    if (phase_ == Phase::kDialling && !addresses_.empty()) return dial();
    const char* who = phase_ == Phase::kResolving ? " from a name server" : "";
    int64_t ms = timeout_.count / 1'000'000;
    refuse_connect(failure(Code::kTimedOut, "{}: no answer{} within {} ms", peer_, who, ms), {});
}

// --- accepting ---

TcpConnection::TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, ByteStream stream,
                             const Hello& hello, std::string peer, const ConnectionOptions& options,
                             ConnectionHandler& handler)
    : Engine({poller, std::move(table), options, handler, State::kRequested}),
      tcp_poller_(poller),
      stream_(std::move(stream)),
      phase_(Phase::kDeciding),
      timeout_(options.connect_timeout),
      peer_read_depth_(hello.read_depth) {
    peer_ = std::move(peer);
    if (Status status = poller_.watch(*this, stream_.socket(), kSocketEvents); !status)
        fail(std::move(status));
}

Status TcpConnection::accept(std::span<const std::byte> data) {
    if (data.size() > stream::kHelloDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; an accept holds {}", data.size(),
                       stream::kHelloDataMax);
    if (state() >= State::kClosing) return failure(Code::kClosed, "{}: the connection is closed", peer_);
    if (phase_ != Phase::kDeciding) return failure(Code::kInvalid, "{} was already accepted", peer_);
    Hello answer = hello(HelloKind::kAccept);
    answer.set_data(data);
    phase_ = Phase::kStreaming;
    if (!stream_.send_hello(answer)) {
        fail(failure(Code::kUnavailable, "{} closed the connection before it was accepted", peer_));
        return failure(Code::kClosed, "{}: the connection is closed", peer_);
    }
    establish(peer_read_depth_, {});
    return Status::ok();
}

// --- the stream ---

void TcpConnection::on_ready(uint32_t epoll_events) noexcept {
    if (state() >= State::kClosing) return;
    switch (phase_) {
        case Phase::kResolving:
            return resolved();
        case Phase::kDialling:
            return dialled();
        case Phase::kSecuring:
            return shake_hands();
        case Phase::kGreeting:
            return receive_greeting();
        case Phase::kDeciding:
            // Before it is accepted, the peer can only hang up.
            if (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                fail(failure(Code::kUnavailable, "{} closed the connection before it was accepted", peer_));
            return;
        case Phase::kStreaming:
            if (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hung_up_ = readable_ = true;
            if (epoll_events & EPOLLIN) readable_ = true;
            if (epoll_events & EPOLLOUT) {
                writable_ = true;
                if (stream_.session() != nullptr) stream_.session()->flush();
            }
            activate();
    }
}

ssize_t TcpConnection::read(std::span<const iovec> into) noexcept {
    const ssize_t got = stream_.read(into);
    // The session may have reached the end after this data. The engine must continue reading, because the
    // socket reports nothing new.
    if (stream_.session() != nullptr && stream_.session()->ended()) hung_up_ = true;
    return got;
}

ssize_t TcpConnection::write(std::span<const iovec> from) noexcept {
    return stream_.write(from);
}

void TcpConnection::detach(bool orderly) noexcept {
    resolution_.reset();
    if (!stream_) return;
    if (phase_ == Phase::kDeciding) stream_.send_hello(hello(HelloKind::kReject));
    if (!orderly) return stream_.abandon();
    std::unique_ptr<tls::Session> session = stream_.take_session();
    tcp_poller_.linger(stream_.take_socket(), std::move(session));
}

}  // namespace wss::fabric::tcp
