// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/descriptors.h"
#include "lib/base/source_limiter.h"

namespace wss::fabric::stream {

constexpr Nanoseconds kMessageWithin = from_s(5);
// The number of sockets whose hello is due. A hello directly follows the handshake, so a correct peer needs
// its place for only one round trip, or a few under TLS. Each place costs a descriptor.
constexpr size_t kArrivalsMax = 512;
constexpr size_t kArrivalsPerSource = 256;
constexpr size_t kAcceptsPerTurn = 64;
constexpr Nanoseconds kAcceptRetry = from_ms(100);

Status StreamListener::start() {
    return poller_.watch(*this, listening_, EPOLLIN);
}

void StreamListener::on_ready(uint32_t) noexcept {
    for (size_t accepted = 0; accepted < kAcceptsPerTurn; ++accepted) {
        Descriptor socket(accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            // Descriptors or memory ran out. Connections stay in the backlog until the retry.
            if (errno != EAGAIN) poller_.set_deadline(*this, poller_.now() + kAcceptRetry);
            return;
        }
        admit(std::move(socket));
    }
    poller_.set_deadline(*this, poller_.now());  // there may be more; connections get their turn first
}

void StreamListener::admit(Descriptor socket) noexcept {
    // The descriptors that the process itself opens have priority. The peer retries.
    if (!within_descriptor_budget(socket.get())) return;
    std::unique_ptr<Arrival> arrival = welcome(std::move(socket));
    if (!arrival || !poller_.watch(*arrival, arrival->socket_.get(), EPOLLIN | EPOLLRDHUP)) return;
    poller_.set_deadline(*arrival, poller_.now() + kMessageWithin);
    sources_.add(arrival->source_);
    arrivals_.push_back(std::move(arrival));
    // A source above its limit holds more than all others together, so it has sockets in the older half.
    const bool greedy = sources_.of(arrivals_.back()->source_) > kArrivalsPerSource;
    if (greedy || arrivals_.size() > kArrivalsMax) evict_one();
}

void StreamListener::evict_one() noexcept {
    const size_t most = sources_.most();
    const auto older_half = arrivals_.begin() + static_cast<ptrdiff_t>((arrivals_.size() + 1) / 2);
    auto found = std::find_if(arrivals_.begin(), older_half,
                              [&](const auto& one) { return sources_.of(one->source_) == most; });
    take(found == older_half ? *arrivals_.front() : **found);
}

void StreamListener::on_deadline() noexcept {
    on_ready(EPOLLIN);
}

std::unique_ptr<Arrival> StreamListener::take(const Arrival& arrival) noexcept {
    auto found = std::find_if(arrivals_.begin(), arrivals_.end(),
                              [&](const auto& one) { return one.get() == &arrival; });
    WSS_ASSERT(found != arrivals_.end(), "an arrival belongs to its listener");
    std::unique_ptr<Arrival> taken = std::move(*found);
    arrivals_.erase(found);
    sources_.remove(taken->source_);
    return taken;
}

void Arrival::on_deadline() noexcept {
    is_over_ = true;
    on_ready(EPOLLIN);  // may run in a later turn than the deadline
}

void Arrival::on_ready(uint32_t) noexcept {
    Progress progress = read_hello();
    if (progress == Progress::kMore) {
        is_over_ = false;
        return listener_.poller_.set_deadline(*this, listener_.poller_.now() + kMessageWithin);
    }
    if (progress == Progress::kPart && !is_over_) return;
    std::unique_ptr<Arrival> self = listener_.take(*this);
    if (progress != Progress::kHello) return;
    // The arrival is no longer watched, because the request takes over the socket.
    epoll_ctl(listener_.poller_.fd(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    Result<std::unique_ptr<ConnectRequest>> made = request();
    if (!made) {
        static log::SourceLimiter limiter(1);
        if (limiter.allow(source_))
            log::warning("{}: {}: {}; connection closed", listener_.address().to_string(), from_,
                         made.status().to_string());
        return;
    }
    ListenHandler& handler = listener_.handler_;
    self.reset();
    handler.on_connect_request(std::move(*made));  // may destroy the listener
}

Result<std::unique_ptr<Connection>> StreamConnectRequest::create(Poller& poller,
                                                                 const ConnectionOptions& options,
                                                                 ConnectionHandler& handler) {
    if (answered_) return failure(Code::kInvalid, "the request of {} was already answered", peer_);
    Result<std::unique_ptr<Connection>> connection = connection_on(poller, options, handler);
    answered_ = connection.is_ok();
    return connection;
}

void StreamConnectRequest::reject(std::span<const std::byte> data) noexcept {
    if (std::exchange(answered_, true)) return;
    Hello answer{.kind = HelloKind::kReject, .read_depth = 1};
    answer.set_data(data.first(std::min(data.size(), kRejectDataMax)));
    refuse(answer);
}

}  // namespace wss::fabric::stream
