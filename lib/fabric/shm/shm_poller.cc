// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/shm_poller.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/log.h"

namespace wss::fabric::shm {

using stream::Hello;
using stream::HelloKind;

// A poller that is busy with its rings polls epoll only occasionally, for hang-ups, new peers and deadlines,
// none of which is urgent. A poll costs about as much as ten messages.
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
    if (data.size() > stream::kConnectDataMax)
        return failure(Code::kInvalid, "{} bytes of private data; a connect request holds {}", data.size(),
                       stream::kConnectDataMax);
    return std::unique_ptr<Connection>(
        std::make_unique<ShmConnection>(*this, domain_, address.host, data, options, handler));
}

Result<std::unique_ptr<Listener>> ShmPoller::listen(const Address& address, ListenHandler& handler) {
    if (address.scheme != Scheme::kShm)
        return failure(Code::kInvalid, "the shm fabric cannot listen on {}", address.to_string());
    Result<UnixListener> socket = listen_at(address.host);
    if (!socket) return socket.status();
    auto listener = std::make_unique<ShmListener>(*this, domain_, handler, std::move(*socket), address);
    WSS_TRY(listener->start());
    return std::unique_ptr<Listener>(std::move(listener));
}

// --- arrivals and connect requests ---

namespace {

class ShmConnectRequest final : public stream::StreamConnectRequest {
  public:
    ShmConnectRequest(std::shared_ptr<Domain> domain, Visitor visitor)
        : StreamConnectRequest(visitor.hello, visitor.peer.to_string()),
          domain_(std::move(domain)),
          visitor_(std::move(visitor)) {}
    ~ShmConnectRequest() override { reject({}); }

  private:
    Result<std::unique_ptr<Connection>> connection_on(Poller& poller, const ConnectionOptions& options,
                                                      ConnectionHandler& handler) override {
        auto* shm_poller = dynamic_cast<ShmPoller*>(&poller);
        if (shm_poller == nullptr) return failure(Code::kInvalid, "a shm connection needs a shm poller");
        return std::unique_ptr<Connection>(
            std::make_unique<ShmConnection>(*shm_poller, domain_, std::move(visitor_), options, handler));
    }
    void refuse(const Hello& answer) noexcept override {
        send_hello(visitor_.socket.get(), answer, {});
        visitor_.socket.reset();
    }

    const std::shared_ptr<Domain> domain_;
    Visitor visitor_;
};

class ShmArrival final : public stream::Arrival {
  public:
    ShmArrival(stream::StreamListener& listener, std::shared_ptr<Domain> domain, Descriptor socket,
               const Peer& peer)
        : Arrival(listener, std::move(socket), peer.to_string()), domain_(std::move(domain)), peer_(peer) {}

  private:
    Progress read_hello() noexcept override;
    Result<std::unique_ptr<ConnectRequest>> request() override;

    const std::shared_ptr<Domain> domain_;
    const Peer peer_;
    Greeting greeting_;
    bool understood_ = false;
};

ShmArrival::Progress ShmArrival::read_hello() noexcept {
    ssize_t got = shm::receive_hello(socket_.get(), greeting_);
    if (got == -EAGAIN) return Progress::kPart;
    understood_ = got > 0;
    return got == 0 ? Progress::kHangUp : Progress::kHello;
}

Result<std::unique_ptr<ConnectRequest>> ShmArrival::request() {
    if (!understood_ || greeting_.hello.kind != HelloKind::kConnect ||
        greeting_.message.descriptor_count != 2)
        return failure(Code::kInvalid, "sent a greeting of a different protocol or version");
    Result<Mapping> area = map_shared(greeting_.message.descriptors[0].get(), sizeof(Area), true);
    if (!area) return area.status();
    Result<Mapping> validity = map_shared(greeting_.message.descriptors[1].get(), kValidityBytes, false);
    if (!validity) return validity.status();
    Visitor visitor{.socket = std::move(socket_),
                    .hello = greeting_.hello,
                    .peer = peer_,
                    .area = std::move(*area),
                    .validity = std::move(*validity)};
    return std::unique_ptr<ConnectRequest>(std::make_unique<ShmConnectRequest>(domain_, std::move(visitor)));
}

}  // namespace

ShmListener::ShmListener(ShmPoller& poller, std::shared_ptr<Domain> domain, ListenHandler& handler,
                         UnixListener socket, const Address& address)
    : StreamListener(poller, handler, socket.get(), address),
      domain_(std::move(domain)),
      socket_(std::move(socket)) {}

std::unique_ptr<stream::Arrival> ShmListener::welcome(Descriptor socket) {
    static log::Limiter limiter(1);
    Result<Peer> peer = check_peer(socket.get());
    if (!peer) {
        if (limiter.allow()) log::warning("{}: {}", address().to_string(), peer.status().to_string());
        return nullptr;
    }
    return std::make_unique<ShmArrival>(*this, domain_, std::move(socket), *peer);
}

}  // namespace wss::fabric::shm
