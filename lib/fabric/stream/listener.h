// SPDX-License-Identifier: Apache-2.0
// Common parts of the listeners of tcp and shm. An accepted socket has kMessageWithin for each message up to
// its hello and then becomes a connect request. Time that this process loses, because the machine is busy or
// other handshakes run first, does not count: the listener closes an expired socket only after it has
// examined the data that the socket has received. Connections that send nothing take a bounded amount of
// memory and descriptors: of the older half of the sockets, a newcomer displaces the oldest one of the
// sources that hold the most (sources.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/sources.h"
#include "lib/fabric/stream/frame.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::stream {

constexpr size_t kConnectDataMax = 56;  // the same on every fabric
constexpr size_t kRejectDataMax = 148;

class StreamListener;

// An accepted socket whose hello has not arrived.
class Arrival : public Watched {
  public:
    Arrival(StreamListener& listener, Descriptor socket, std::string from)
        : listener_(listener),
          socket_(std::move(socket)),
          from_(std::move(from)),
          source_(source_of(from_)) {}

  protected:
    // kMore: a message that is not the hello arrived. A peer can send only a bounded number of them.
    enum class Progress : uint8_t { kPart, kMore, kHello, kHangUp };
    // Reads the socket's pending data.
    virtual Progress read_hello() noexcept = 0;
    // Called after kHello. Takes the socket. Fails if the hello is not valid.
    virtual Result<std::unique_ptr<ConnectRequest>> request() = 0;
    void on_ready(uint32_t epoll_events) noexcept override;

    StreamListener& listener_;
    Descriptor socket_;
    const std::string from_;
    const std::string source_;

  private:
    friend class StreamListener;
    void on_deadline() noexcept override;

    bool is_over_ = false;  // deadline passed: closed at the next check unless a message arrived
};

class StreamListener : public Listener, private Watched {
  public:
    // The derived class owns the listening socket.
    StreamListener(EventPoller& poller, ListenHandler& handler, int socket, const Address& address)
        : poller_(poller), handler_(handler), listening_(socket), address_(address) {}
    Status start();
    Address address() const override { return address_; }

  protected:
    // Returns nullptr to refuse the peer.
    virtual std::unique_ptr<Arrival> welcome(Descriptor socket) = 0;

  private:
    friend class Arrival;
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    std::unique_ptr<Arrival> take(const Arrival& arrival) noexcept;
    void admit(Descriptor socket) noexcept;
    void evict_one() noexcept;

    EventPoller& poller_;
    ListenHandler& handler_;
    const int listening_;
    const Address address_;
    std::vector<std::unique_ptr<Arrival>> arrivals_;  // oldest first
    SourceCounts sources_;                            // counts the sources of arrivals_
};

// A peer that has sent its hello and waits for the answer. It sends nothing until then, so that closing the
// socket loses no data.
class StreamConnectRequest : public ConnectRequest {
  public:
    StreamConnectRequest(const Hello& hello, std::string peer) : hello_(hello), peer_(std::move(peer)) {}

    std::span<const std::byte> data() const override { return hello_.private_data(); }
    std::string peer() const override { return peer_; }
    Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                               ConnectionHandler& handler) override;
    void reject(std::span<const std::byte> data) noexcept override;

  protected:
    virtual Result<std::unique_ptr<Connection>> connection_on(Poller& poller,
                                                              const ConnectionOptions& options,
                                                              ConnectionHandler& handler) = 0;
    // Sends `answer` and closes the socket.
    virtual void refuse(const Hello& answer) noexcept = 0;

    const Hello hello_;
    const std::string peer_;

  private:
    bool answered_ = false;
};

}  // namespace wss::fabric::stream
