// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/tcp_poller.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/fabric/tcp/tcp_connection.h"

namespace wss::fabric::tcp {

using stream::Hello;
using stream::HelloFault;
using stream::HelloKind;

constexpr Nanoseconds kLingerLasts = from_s(1);
constexpr size_t kLingerBytesMax = 64u << 20;     // bytes of a peer that were in flight when we closed
constexpr size_t kLingerBytesPerTurn = 1u << 20;  // of all sockets: tens of microseconds of a turn
constexpr size_t kDiscardCost = 4096;             // minimum cost of a call: many small calls take time too
constexpr size_t kLingeringMax = 256;             // each holds a descriptor; a correct peer is done at once
constexpr int kBacklog = 1024;
// Time of a turn for handshakes: no further step begins after it. A step takes 0.1 to 1 ms, depending on keys
// and certificates.
constexpr Nanoseconds kHandshakesLast = from_us(300);

// --- lingering ---

void Linger::start() noexcept {
    poller_.set_deadline(*this, poller_.now() + kLingerLasts);
    send_last_words();
    const uint32_t writable = session_ ? uint32_t{EPOLLOUT} : 0;
    if (!poller_.watch(*this, socket_.get(), EPOLLIN | EPOLLRDHUP | writable)) poller_.retire(*this);
}

void Linger::send_last_words() noexcept {
    if (session_ && !session_->send_close_notify()) return;
    // The kernel may still have to send records, and drops them after a shutdown. The close_notify ends the
    // stream in any case.
    if (!session_ || !session_->kernel_sends()) shutdown(socket_.get(), SHUT_WR);
    session_.reset();
}

void Linger::on_ready(uint32_t) noexcept {
    if (session_) send_last_words();
    poller_.discard_later(*this);
}

void Linger::on_deadline() noexcept {
    poller_.retire(*this);
}

size_t Linger::discard(size_t bytes_max) noexcept {
    std::span<std::byte> scratch = poller_.staging();
    const size_t wanted = std::min(bytes_max, scratch.size());
    ssize_t got;
    do {  // MSG_TRUNC: TCP copies nothing
        got = recv(socket_.get(), scratch.data(), wanted, MSG_TRUNC);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return 0;
    const auto bytes = static_cast<size_t>(std::max<ssize_t>(got, 0));
    discarded_ += bytes;
    if (bytes == 0 || discarded_ > kLingerBytesMax)
        poller_.retire(*this);
    else  // the watch is edge-triggered and does not report the remaining data again
        poller_.discard_later(*this);
    return bytes;
}

void TcpPoller::linger(Descriptor socket, std::unique_ptr<tls::Session> session) noexcept {
    // The connection is no longer watched, because the socket continues under another token.
    epoll_ctl(fd(), EPOLL_CTL_DEL, socket.get(), nullptr);
    if (lingering_.size() >= kLingeringMax) lingering_.erase(lingering_.begin());
    lingering_.push_back(std::make_unique<Linger>(*this, std::move(socket), std::move(session)));
    lingering_.back()->start();
}

void TcpPoller::retire(const Linger& linger) noexcept {
    std::erase_if(lingering_, [&](const auto& one) { return one.get() == &linger; });
}

void TcpPoller::discard_later(Linger& linger) noexcept {
    if (!linger.linked()) unread_.push_back(linger);
}

void TcpPoller::shake_hands_later(Handshake& handshake) noexcept {
    if (!handshake.linked()) handshakes_.push_back(handshake);
}

size_t TcpPoller::shake_hands() noexcept {
    if (handshakes_.empty()) return 0;
    const Nanoseconds until = now() + kHandshakesLast;
    size_t steps = 0;
    do {
        handshakes_.pop_front()->go_on();
        ++steps;
    } while (!handshakes_.empty() && now() < until);
    return steps;
}

// --- the poller ---

size_t TcpPoller::poll() noexcept {
    size_t events = EventPoller::poll();
    events += shake_hands();
    for (size_t budget = kLingerBytesPerTurn; budget > 0; ++events) {
        Linger* next = unread_.pop_front();
        if (next == nullptr) break;
        budget -= std::min(budget, std::max(next->discard(budget), kDiscardCost));
    }
    return events;
}

Result<std::unique_ptr<TcpPoller>> TcpPoller::create(std::shared_ptr<stream::RegionTable> table,
                                                     std::shared_ptr<const tls::Context> context) {
    std::unique_ptr<TcpPoller> poller(new TcpPoller(std::move(table), std::move(context)));
    WSS_TRY(poller->start());
    return poller;
}

Result<std::unique_ptr<Connection>> TcpPoller::connect(const Address& address,
                                                       std::span<const std::byte> data,
                                                       const ConnectionOptions& options,
                                                       ConnectionHandler& handler) {
    if (address.scheme != scheme())
        return failure(Code::kInvalid, "the {} fabric cannot connect to {}", context_ ? "tls" : "tcp",
                       address.to_string());
    if (context_) WSS_TRY(context_->can_connect().within(address.to_string()));
    if (data.size() > stream::kConnectDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; a connect request holds {}", data.size(),
                       stream::kConnectDataMax);
    return std::unique_ptr<Connection>(
        std::make_unique<TcpConnection>(*this, table_, address, data, options, handler));
}

static std::string_view advice_on_bind(int error) {
    if (error == EADDRINUSE)
        return "; another program listens there: give another port, or stop it (ss -ltnp)";
    if (error == EADDRNOTAVAIL) return "; no interface of this machine has that address (ip address)";
    return "";
}

static Result<Descriptor> bind_one(const SocketAddress& where) {
    Descriptor socket(::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int on = 1;
    if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(socket.get(), where.get(), where.length) != 0 || ::listen(socket.get(), kBacklog) != 0)
        return Status::from_errno(
            errno, fmt::format("cannot listen on {}{}", where.to_string(), advice_on_bind(errno)));
    return socket;
}

static uint16_t port_of(int socket) {
    SocketAddress local;
    local.length = sizeof local.storage;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&local.storage), &local.length) != 0) return 0;
    if (local.storage.ss_family == AF_INET6)
        return ntohs(reinterpret_cast<sockaddr_in6*>(&local.storage)->sin6_port);
    return ntohs(reinterpret_cast<sockaddr_in*>(&local.storage)->sin_port);
}

Result<std::unique_ptr<Listener>> TcpPoller::listen(const Address& address, ListenHandler& handler) {
    if (address.scheme != scheme())
        return failure(Code::kInvalid, "the {} fabric cannot listen on {}", context_ ? "tls" : "tcp",
                       address.to_string());
    if (context_) WSS_TRY(context_->can_listen());
    Result<std::vector<SocketAddress>> found = resolve(address);
    if (!found) return found.status();
    Result<Descriptor> socket = bind_one(found->front());
    if (!socket) return socket.status();
    Address actual = address;
    actual.port = port_of(socket->get());
    auto listener = std::make_unique<TcpListener>(*this, table_, handler, std::move(*socket), actual);
    WSS_TRY(listener->start());
    return std::unique_ptr<Listener>(std::move(listener));
}

// --- arrivals and connect requests ---

namespace {

class TcpConnectRequest final : public stream::StreamConnectRequest {
  public:
    TcpConnectRequest(std::shared_ptr<stream::RegionTable> table, ByteStream stream, const Hello& hello,
                      std::string peer)
        : StreamConnectRequest(hello, std::move(peer)),
          table_(std::move(table)),
          stream_(std::move(stream)) {}
    ~TcpConnectRequest() override { reject({}); }

  private:
    Result<std::unique_ptr<Connection>> connection_on(Poller& poller, const ConnectionOptions& options,
                                                      ConnectionHandler& handler) override {
        auto* tcp_poller = dynamic_cast<TcpPoller*>(&poller);
        if (tcp_poller == nullptr) return failure(Code::kInvalid, "a tcp connection needs a tcp poller");
        return std::unique_ptr<Connection>(std::make_unique<TcpConnection>(
            *tcp_poller, table_, std::move(stream_), hello_, peer_, options, handler));
    }
    void refuse(const Hello& answer) noexcept override {
        stream_.send_hello(answer);
        stream_.hang_up();
    }

    const std::shared_ptr<stream::RegionTable> table_;
    ByteStream stream_;
};

class TcpArrival : public stream::Arrival {
  public:
    TcpArrival(stream::StreamListener& listener, std::shared_ptr<stream::RegionTable> table,
               Descriptor socket, std::string from)
        : Arrival(listener, std::move(socket), std::move(from)), table_(std::move(table)) {}

  protected:
    Progress read_hello() noexcept override;
    Result<std::unique_ptr<ConnectRequest>> request() override;

    std::unique_ptr<tls::Session> session_;

  private:
    const std::shared_ptr<stream::RegionTable> table_;
    std::array<std::byte, stream::kHelloBytes> greeting_;
    size_t greeting_have_ = 0;
};

TcpArrival::Progress TcpArrival::read_hello() noexcept {
    while (greeting_have_ < greeting_.size()) {
        iovec rest{&greeting_[greeting_have_], greeting_.size() - greeting_have_};
        const ssize_t got = session_ ? session_->read({&rest, 1}) : receive(socket_.get(), {&rest, 1});
        if (got == -EINTR) continue;
        if (got == -EAGAIN) return Progress::kPart;
        if (got <= 0) return Progress::kHangUp;
        greeting_have_ += static_cast<size_t>(got);
        if (!session_ && begins_tls(greeting_[0]))
            break;  // may be less than a hello; request() reports the reason
    }
    return Progress::kHello;
}

Result<std::unique_ptr<ConnectRequest>> TcpArrival::request() {
    if (!session_ && begins_tls(greeting_[0])) {
        send_wrong_protocol(socket_.get());
        return failure(Code::kInvalid, "uses TLS, but this address does not: connect with tcp://");
    }
    Hello hello;
    if (stream::decode(greeting_, hello) != HelloFault::kNone || hello.kind != HelloKind::kConnect)
        return failure(Code::kInvalid, "sent a greeting of a different protocol or version");
    return std::unique_ptr<ConnectRequest>(std::make_unique<TcpConnectRequest>(
        table_, ByteStream(std::move(socket_), std::move(session_)), hello, from_));
}

// An arrival under TLS. It creates its session when the peer has sent data, so that a silent peer costs no
// more than without TLS.
class TlsArrival final : public TcpArrival, private Handshake {
  public:
    TlsArrival(stream::StreamListener& listener, std::shared_ptr<stream::RegionTable> table,
               Descriptor socket, std::string from, TcpPoller& poller)
        : TcpArrival(listener, std::move(table), std::move(socket), std::move(from)), poller_(poller) {}

  private:
    void on_ready(uint32_t) noexcept override { poller_.shake_hands_later(*this); }
    void go_on() noexcept override { Arrival::on_ready(0); }
    Progress read_hello() noexcept override;
    Result<std::unique_ptr<ConnectRequest>> request() override {
        if (!failure_) return failure_;
        return TcpArrival::request();
    }

    TcpPoller& poller_;
    Status failure_;
};

TlsArrival::Progress TlsArrival::read_hello() noexcept {
    if (!session_) {
        auto session = tls::Session::accept(poller_.context(), socket_.get());
        if (!session) {
            failure_ = session.status();
            return Progress::kHello;
        }
        session_ = std::move(*session);
    }
    const uint32_t before = session_->messages();
    switch (session_->shake_hands()) {
        case tls::Session::Step::kWait:
            return session_->messages() == before ? Progress::kPart : Progress::kMore;
        case tls::Session::Step::kFailed:
            failure_ = session_->failure();
            if (session_->peer_is_plain()) send_wrong_protocol(socket_.get());
            return Progress::kHello;
        case tls::Session::Step::kDone:
            break;
    }
    const Progress progress = TcpArrival::read_hello();
    return progress == Progress::kPart && session_->messages() != before ? Progress::kMore : progress;
}

}  // namespace

std::unique_ptr<stream::Arrival> TcpListener::welcome(Descriptor socket) {
    SocketAddress from;
    from.length = sizeof from.storage;
    if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length) != 0 ||
        !set_socket_options(socket.get()))
        return nullptr;
    if (tcp_poller_.context())
        return std::make_unique<TlsArrival>(*this, table_, std::move(socket), from.to_string(), tcp_poller_);
    return std::make_unique<TcpArrival>(*this, table_, std::move(socket), from.to_string());
}

}  // namespace wss::fabric::tcp
