// SPDX-License-Identifier: Apache-2.0
// What the listeners of tcp and shm have in common: sockets are accepted, each has a few seconds for each
// message up to its hello, and becomes a connect request. Time that this process loses, because the machine
// is busy or handshakes of others come first, does not count: a socket whose time is over goes only after
// what it has sent was looked at. However many connect and send nothing, the memory and the descriptors that
// they take are bounded, and a newcomer displaces the oldest socket of the sources that hold most
// (sources.h).
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

// An accepted socket that has not said its hello yet.
class Arrival : public Watched {
  public:
    Arrival(StreamListener& listener, Descriptor socket, std::string from)
        : listener_(listener),
          socket_(std::move(socket)),
          from_(std::move(from)),
          source_(source_of(from_)) {}

  protected:
    // kMore: a message came that is not the hello. A peer can send only so many of them.
    enum class Heard : uint8_t { kPart, kMore, kHello, kHangUp };
    // Takes in what the socket has.
    virtual Heard hear() noexcept = 0;
    // After kHello. Takes the socket; fails when the hello is none of ours.
    virtual Result<std::unique_ptr<ConnectRequest>> request() = 0;
    void on_ready(uint32_t epoll_events) noexcept override;

    StreamListener& listener_;
    Descriptor socket_;
    const std::string from_;
    const std::string source_;

  private:
    friend class StreamListener;
    void on_deadline() noexcept override;

    bool is_over_ = false;  // its time is: unless there is news of it at the next look, it goes
};

class StreamListener : public Listener, private Watched {
  public:
    // The derived class owns the listening socket.
    StreamListener(EventPoller& poller, ListenHandler& handler, int socket, const Address& address)
        : poller_(poller), handler_(handler), listening_(socket), address_(address) {}
    Status start();
    Address address() const override { return address_; }

  protected:
    // Null: whoever it is may not come in.
    virtual std::unique_ptr<Arrival> welcome(Descriptor socket) = 0;

  private:
    friend class Arrival;
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    std::unique_ptr<Arrival> take(const Arrival& arrival) noexcept;
    void admit(Descriptor socket) noexcept;
    void evict_one() noexcept;  // the oldest of the sources that hold most

    EventPoller& poller_;
    ListenHandler& handler_;
    const int listening_;
    const Address address_;
    std::vector<std::unique_ptr<Arrival>> arrivals_;  // oldest first
    SourceCounts sources_;                            // of arrivals_
};

// A peer that has said its hello and waits for the answer. It says nothing more until then, so that hanging
// up loses nothing.
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
    // Says it and hangs up.
    virtual void refuse(const Hello& answer) noexcept = 0;

    const Hello hello_;
    const std::string peer_;

  private:
    bool answered_ = false;
};

}  // namespace wss::fabric::stream
