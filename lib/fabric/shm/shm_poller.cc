// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/shm_poller.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"

namespace wss::fabric::shm {

using stream::Descriptor;
using stream::Hello;
using stream::HelloKind;

constexpr Nanoseconds kHelloWithin = from_s(5);
constexpr size_t kArrivalsMax = 1024;  // peers that have said nothing yet
constexpr Nanoseconds kAcceptRetry = from_ms(100);
// While it is busy with its rings a poller asks the kernel only now and then: for hang-ups, new peers and
// deadlines, none of which is in a hurry. Asking costs about as much as ten messages.
constexpr uint32_t kTurnsPerKernelLook = 32;

Result<std::unique_ptr<ShmPoller>> ShmPoller::create(std::shared_ptr<Domain> domain) {
    std::unique_ptr<ShmPoller> poller(new ShmPoller(std::move(domain)));
    WSS_TRY(poller->start());
    return poller;
}

bool ShmPoller::kernel_may_have_news() noexcept {
    bool look = slept_ || ++turns_ % kTurnsPerKernelLook == 0 || streaming_.empty();
    if (slept_)
        for (ShmConnection* connection : streaming_) connection->awake();
    slept_ = false;
    return look;
}

void ShmPoller::look_around() noexcept {
    for (ShmConnection* connection : streaming_) connection->look();
}

bool ShmPoller::arm() noexcept {
    if (has_active()) return false;
    slept_ = true;
    for (ShmConnection* connection : streaming_)
        if (!connection->sleep()) return false;
    return true;
}

Result<std::unique_ptr<Connection>> ShmPoller::connect(const Address& address,
                                                       std::span<const std::byte> data,
                                                       const ConnectionOptions& options,
                                                       ConnectionHandler& handler) {
    if (address.scheme != Scheme::kShm)
        return failure(Code::kInvalid, "the shm fabric cannot connect to {}", address.to_string());
    if (data.size() > kConnectDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; a connect takes {}", data.size(),
                       kConnectDataMax);
    return std::unique_ptr<Connection>(
        std::make_unique<ShmConnection>(*this, domain_, address.host, data, options, handler));
}

Result<std::unique_ptr<Listener>> ShmPoller::listen(const Address& address, ListenHandler& handler) {
    if (address.scheme != Scheme::kShm)
        return failure(Code::kInvalid, "the shm fabric cannot listen on {}", address.to_string());
    Result<Descriptor> socket = listen_at(address.host);
    if (!socket) return socket.status();
    auto listener = std::make_unique<ShmListener>(*this, domain_, handler, std::move(*socket), address);
    WSS_TRY(listener->start());
    return std::unique_ptr<Listener>(std::move(listener));
}

// --- connect requests ---

namespace {

class ShmConnectRequest final : public ConnectRequest {
  public:
    ShmConnectRequest(std::shared_ptr<Domain> domain, Visitor visitor)
        : domain_(std::move(domain)), visitor_(std::move(visitor)), peer_(visitor_.peer.to_string()) {}
    ~ShmConnectRequest() override {
        if (visitor_.socket) reject({});
    }

    std::span<const std::byte> data() const override { return visitor_.hello.private_data(); }
    std::string peer() const override { return peer_; }

    Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                               ConnectionHandler& handler) override {
        auto* shm_poller = dynamic_cast<ShmPoller*>(&poller);
        if (shm_poller == nullptr) return failure(Code::kInvalid, "a shm connection needs a shm poller");
        if (!visitor_.socket) return failure(Code::kInvalid, "the request of {} was answered already", peer_);
        return std::unique_ptr<Connection>(
            std::make_unique<ShmConnection>(*shm_poller, domain_, std::move(visitor_), options, handler));
    }

    void reject(std::span<const std::byte> data) noexcept override {
        if (!visitor_.socket) return;
        Hello answer{.kind = HelloKind::kReject, .read_depth = 1};
        answer.set_data(data.first(std::min(data.size(), kRejectDataMax)));
        say(visitor_.socket.get(), answer, {});
        visitor_.socket.reset();
    }

  private:
    const std::shared_ptr<Domain> domain_;
    Visitor visitor_;
    const std::string peer_;
};

}  // namespace

// --- listening ---

static uint64_t inode_of(const std::string& path) {
    struct stat status {};
    return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

ShmListener::ShmListener(ShmPoller& poller, std::shared_ptr<Domain> domain, ListenHandler& handler,
                         Descriptor socket, const Address& address)
    : poller_(poller),
      domain_(std::move(domain)),
      handler_(handler),
      socket_(std::move(socket)),
      address_(address),
      inode_(inode_of(address.host)) {}

ShmListener::~ShmListener() {
    if (inode_ != 0 && inode_of(address_.host) == inode_) unlink(address_.host.c_str());
}

Status ShmListener::start() {
    return poller_.watch(*this, socket_.get(), EPOLLIN);
}

void ShmListener::on_ready(uint32_t) noexcept {
    static log::Limiter limiter(1);
    for (;;) {
        Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            // Out of descriptors or memory: the ones in the backlog wait until there are some again.
            if (errno != EAGAIN) poller_.set_deadline(*this, poller_.now() + kAcceptRetry);
            return;
        }
        Result<Peer> peer = check_peer(socket.get());
        if (!peer && limiter.allow()) log::warning("{}: {}", address_.to_string(), peer.status().to_string());
        if (!peer || arrivals_.size() >= kArrivalsMax) continue;
        auto arrival = std::make_unique<Arrival>(*this, std::move(socket), *peer);
        if (!poller_.watch(*arrival, arrival->socket(), EPOLLIN | EPOLLRDHUP)) continue;
        poller_.set_deadline(*arrival, poller_.now() + kHelloWithin);
        arrivals_.push_back(std::move(arrival));
    }
}

void ShmListener::on_deadline() noexcept {
    on_ready(EPOLLIN);
}

std::unique_ptr<Arrival> ShmListener::take(const Arrival& arrival) noexcept {
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

Result<Visitor> Arrival::check(Greeting& greeting) noexcept {
    if (greeting.hello.kind != HelloKind::kConnect || greeting.message.descriptor_count != 2)
        return failure(Code::kInvalid, "said no hello that we understand");
    Result<Mapping> area = map_shared(greeting.message.descriptors[0].get(), sizeof(Area), true);
    if (!area) return area.status();
    Result<Mapping> validity = map_shared(greeting.message.descriptors[1].get(), kValidityBytes, false);
    if (!validity) return validity.status();
    Visitor visitor{.socket = std::move(socket_),
                    .hello = greeting.hello,
                    .peer = peer_,
                    .area = std::move(*area),
                    .validity = std::move(*validity)};
    // See ShmConnection::stream().
    if (greeting.pid != peer_.pid) visitor.peer.pid = 0;
    return visitor;
}

void Arrival::on_ready(uint32_t) noexcept {
    Greeting greeting;
    ssize_t got = hear(socket_.get(), greeting);
    if (got == -EAGAIN) return;
    std::unique_ptr<Arrival> self = listener_.take(*this);
    if (got == 0) return;
    int socket = socket_.get();
    Result<Visitor> visitor =
        got < 0 ? Status::from_errno(EPROTO, "said no hello that we understand") : check(greeting);
    if (!visitor) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::warning("{}: {}: {}; hung up", listener_.address().to_string(), peer_.to_string(),
                         visitor.status().to_string());
        return;
    }
    epoll_ctl(listener_.poller_.fd(), EPOLL_CTL_DEL, socket, nullptr);
    auto request = std::make_unique<ShmConnectRequest>(listener_.domain_, std::move(*visitor));
    ListenHandler& handler = listener_.handler_;
    self.reset();
    handler.on_connect_request(std::move(request));  // may destroy the listener
}

}  // namespace wss::fabric::shm
