// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/tcp_poller.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/fabric/tcp/tcp_connection.h"

namespace wss::fabric::tcp {

using stream::Descriptor;
using stream::Hello;
using stream::HelloFault;
using stream::HelloKind;

constexpr Nanoseconds kLingerLasts = from_s(1);
constexpr size_t kLingerBytesMax = 64u << 20;  // of what a peer had under way when we closed
constexpr Nanoseconds kHelloWithin = from_s(5);
constexpr size_t kArrivalsMax = 1024;  // sockets that have said nothing yet: an idle flood is cheap for us
constexpr Nanoseconds kAcceptRetry = from_ms(100);
constexpr int kBacklog = 1024;

// --- lingering ---

void Linger::start() noexcept {
    shutdown(socket_.get(), SHUT_WR);
    poller_.set_deadline(*this, poller_.now() + kLingerLasts);
    if (!poller_.watch(*this, socket_.get(), EPOLLIN | EPOLLRDHUP)) poller_.bury(*this);
}

void Linger::on_ready(uint32_t) noexcept {
    std::span<std::byte> scratch = poller_.staging();
    for (;;) {
        ssize_t got = recv(socket_.get(), scratch.data(), scratch.size(), 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) discarded_ += static_cast<size_t>(got);
        if (got <= 0 || discarded_ > kLingerBytesMax) return poller_.bury(*this);
    }
}

void Linger::on_deadline() noexcept {
    poller_.bury(*this);
}

void TcpPoller::linger(Descriptor socket) noexcept {
    // The watch of the connection ends; the socket lives on under another token.
    epoll_ctl(fd(), EPOLL_CTL_DEL, socket.get(), nullptr);
    lingering_.push_back(std::make_unique<Linger>(*this, std::move(socket)));
    lingering_.back()->start();
}

void TcpPoller::bury(const Linger& linger) noexcept {
    std::erase_if(lingering_, [&](const auto& one) { return one.get() == &linger; });
}

// --- the poller ---

Result<std::unique_ptr<TcpPoller>> TcpPoller::create(std::shared_ptr<stream::RegionTable> table) {
    std::unique_ptr<TcpPoller> poller(new TcpPoller(std::move(table)));
    WSS_TRY(poller->start());
    return poller;
}

Result<std::unique_ptr<Connection>> TcpPoller::connect(const Address& address,
                                                       std::span<const std::byte> data,
                                                       const ConnectionOptions& options,
                                                       ConnectionHandler& handler) {
    if (address.scheme != Scheme::kTcp)
        return failure(Code::kInvalid, "the tcp fabric cannot connect to {}", address.to_string());
    if (data.size() > kConnectDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; a connect takes {}", data.size(),
                       kConnectDataMax);
    return std::unique_ptr<Connection>(
        std::make_unique<TcpConnection>(*this, table_, address, data, options, handler));
}

static Result<Descriptor> bind_one(const SocketAddress& where) {
    Descriptor socket(::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int on = 1;
    if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(socket.get(), where.get(), where.length) != 0 || ::listen(socket.get(), kBacklog) != 0)
        return Status::from_errno(errno, fmt::format("cannot listen on {}", where.to_string()));
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
    if (address.scheme != Scheme::kTcp)
        return failure(Code::kInvalid, "the tcp fabric cannot listen on {}", address.to_string());
    Result<std::vector<SocketAddress>> found = resolve(address, true);
    if (!found) return found.status();
    Result<Descriptor> socket = bind_one(found->front());
    if (!socket) return socket.status();
    Address actual = address;
    actual.port = port_of(socket->get());
    auto listener = std::make_unique<TcpListener>(*this, table_, handler, std::move(*socket), actual);
    WSS_TRY(listener->start());
    return std::unique_ptr<Listener>(std::move(listener));
}

// --- connect requests ---

namespace {

class TcpConnectRequest final : public ConnectRequest {
  public:
    TcpConnectRequest(std::shared_ptr<stream::RegionTable> table, Descriptor socket, const Hello& hello,
                      std::string peer)
        : table_(std::move(table)), socket_(std::move(socket)), hello_(hello), peer_(std::move(peer)) {}
    ~TcpConnectRequest() override {
        if (socket_) reject({});
    }

    std::span<const std::byte> data() const override { return hello_.private_data(); }
    std::string peer() const override { return peer_; }

    Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                               ConnectionHandler& handler) override {
        auto* tcp_poller = dynamic_cast<TcpPoller*>(&poller);
        if (tcp_poller == nullptr) return failure(Code::kInvalid, "a tcp connection needs a tcp poller");
        if (!socket_) return failure(Code::kInvalid, "the request of {} was answered already", peer_);
        return std::unique_ptr<Connection>(std::make_unique<TcpConnection>(
            *tcp_poller, table_, std::move(socket_), hello_, peer_, options, handler));
    }

    // The peer says nothing after its hello until it is answered: closing loses nothing.
    void reject(std::span<const std::byte> data) noexcept override {
        if (!socket_) return;
        Hello answer{.kind = HelloKind::kReject, .read_depth = 1};
        answer.set_data(data.first(std::min(data.size(), kRejectDataMax)));
        say(socket_.get(), answer);
        socket_.reset();
    }

  private:
    const std::shared_ptr<stream::RegionTable> table_;
    Descriptor socket_;
    const Hello hello_;
    const std::string peer_;
};

}  // namespace

// --- listening ---

Status TcpListener::start() {
    return poller_.watch(*this, socket_.get(), EPOLLIN);
}

void TcpListener::on_ready(uint32_t) noexcept {
    for (;;) {
        SocketAddress from;
        from.length = sizeof from.storage;
        Descriptor socket(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            // Out of descriptors or memory: the ones in the backlog wait until there are some again.
            if (errno != EAGAIN) poller_.set_deadline(*this, poller_.now() + kAcceptRetry);
            return;
        }
        if (arrivals_.size() >= kArrivalsMax || !set_socket_options(socket.get())) continue;
        auto arrival = std::make_unique<Arrival>(*this, std::move(socket), from);
        if (!poller_.watch(*arrival, arrival->socket(), EPOLLIN | EPOLLRDHUP)) continue;
        poller_.set_deadline(*arrival, poller_.now() + kHelloWithin);
        arrivals_.push_back(std::move(arrival));
    }
}

void TcpListener::on_deadline() noexcept {
    on_ready(EPOLLIN);
}

std::unique_ptr<Arrival> TcpListener::take(const Arrival& arrival) noexcept {
    auto found = std::find_if(arrivals_.begin(), arrivals_.end(),
                              [&](const auto& one) { return one.get() == &arrival; });
    WSS_ASSERT(found != arrivals_.end(), "an arrival belongs to its listener");
    std::unique_ptr<Arrival> taken = std::move(*found);
    arrivals_.erase(found);
    return taken;
}

void Arrival::on_deadline() noexcept {
    listener_.take(*this);
}

void Arrival::on_ready(uint32_t) noexcept {
    while (greeting_have_ < greeting_.size()) {
        ssize_t got = recv(socket_.get(), &greeting_[greeting_have_], greeting_.size() - greeting_have_, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            listener_.take(*this);
            return;
        }
        greeting_have_ += static_cast<size_t>(got);
    }
    Hello hello;
    HelloFault fault = stream::decode(greeting_, hello);
    std::unique_ptr<Arrival> self = listener_.take(*this);
    if (fault != HelloFault::kNone || hello.kind != HelloKind::kConnect) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::warning("{}: {} said no hello that we understand; hung up", listener_.address().to_string(),
                         from_.to_string());
        return;
    }
    epoll_ctl(listener_.poller_.fd(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    auto request =
        std::make_unique<TcpConnectRequest>(listener_.table_, std::move(socket_), hello, from_.to_string());
    ListenHandler& handler = listener_.handler_;
    self.reset();
    handler.on_connect_request(std::move(request));  // may destroy the listener
}

}  // namespace wss::fabric::tcp
