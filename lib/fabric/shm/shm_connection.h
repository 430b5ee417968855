// SPDX-License-Identifier: Apache-2.0
// A connection of the shm fabric: the stream engine over rings, with direct access to the peer's memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/grants.h"
#include "lib/fabric/shm/ring.h"
#include "lib/fabric/shm/socket.h"
#include "lib/fabric/stream/engine.h"

namespace wss::fabric::shm {

class ShmPoller;

// Sends `hello`. A connect hello carries the descriptors of the area and of the validity page. An accept
// hello carries that of the validity page, and a reject hello carries none.
int send_hello(int socket, const stream::Hello& hello, std::span<const int> descriptors) noexcept;

struct Greeting {
    stream::Hello hello;
    Message message;
};
// Fails as receive() does. Returns -EPROTO if the message is not a hello.
ssize_t receive_hello(int socket, Greeting& greeting) noexcept;

// A peer that has requested a connection. Its hello and descriptors have been checked.
struct Visitor {
    Descriptor socket;
    stream::Hello hello;
    Peer peer;
    Mapping area;
    Mapping validity;
};

class ShmConnection final : public stream::Engine {
  public:
    ShmConnection(ShmPoller& poller, std::shared_ptr<Domain> domain, const std::string& path,
                  std::span<const std::byte> data, const ConnectionOptions& options,
                  ConnectionHandler& handler);
    ShmConnection(ShmPoller& poller, std::shared_ptr<Domain> domain, Visitor visitor,
                  const ConnectionOptions& options, ConnectionHandler& handler);

    Status accept(std::span<const std::byte> data) override;
    bool move_now(Op op, const Segment& local, RemoteAddress remote) noexcept override;

    // For the poller, once the connection is in phase kStreaming.
    void look() noexcept;   // activates the connection if the rings have data or space
    bool sleep() noexcept;  // false: the rings have data or space
    void awake() noexcept { rings_.awake(); }

  private:
    enum class Phase : uint8_t { kDialling, kGreeting, kDeciding, kStreaming };

    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    ssize_t read(std::span<const iovec> into) noexcept override;
    ssize_t write(std::span<const iovec> from) noexcept override;
    void detach(bool orderly) noexcept override;
    Reach reach(uint32_t rkey) noexcept override;
    bool move_directly(const stream::SendEntry& entry, std::span<const Segment> segments) noexcept override {
        return grants_.move(entry, segments);
    }
    bool on_grant_ask(uint32_t rkey) noexcept override;
    bool on_grant(uint32_t rkey, uint8_t status) noexcept override;

    void dial() noexcept;
    Status greet() noexcept;
    void receive_greeting() noexcept;
    void greeted(Greeting& greeting) noexcept;
    void stream(Mapping validity, uint8_t read_depth, std::span<const std::byte> data);
    void drain_socket() noexcept;
    void wake_peer() noexcept;

    ShmPoller& shm_poller_;
    const std::shared_ptr<Domain> domain_;
    Descriptor socket_;
    Phase phase_;
    Rings rings_;
    Grants grants_;
    std::optional<uint32_t> requested_;  // rkey of the outstanding kGrantAsk
    std::optional<uint32_t> skipped_;    // rkey that the peer could not grant this time
    std::optional<GrantMessage> stash_;
    Descriptor stashed_memory_;

    // Connecting side, until established.
    std::string path_;
    stream::Hello hello_;
    Nanoseconds give_up_{};
    Nanoseconds timeout_{};

    // Accepting side, until accepted.
    Mapping visitor_validity_;
    uint8_t peer_read_depth_ = 1;
};

}  // namespace wss::fabric::shm
