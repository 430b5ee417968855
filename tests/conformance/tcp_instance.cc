// SPDX-License-Identifier: Apache-2.0
// The tcp fabric under test, and tls with a pre-shared key, over the loopback interface.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/fabric/stream/poller.h"
#include "lib/fabric/tcp/tcp.h"
#include "tests/conformance/fabric_under_test.h"
#include "tests/support/kernel_tls.h"

namespace wss::fabric::conformance {
namespace {

// A socket on a port that the system chooses: bound, and listening if requested.
Descriptor occupy(uint16_t& port, bool listening) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    bool ok = bind(socket.get(), generic, length) == 0 && getsockname(socket.get(), generic, &length) == 0 &&
              (!listening || ::listen(socket.get(), 16) == 0);
    WSS_ASSERT(ok, "loopback has free ports");
    port = ntohs(address.sin_port);
    return socket;
}

// The key of both ends: each may connect to the other.
std::shared_ptr<const tls::Context> shared_key() {
    const NamedSecret secret{.name = "host1", .secret = Secret("what both of the ends know")};
    return *tls::Context::create({.files = {},
                                  .identity = secret,
                                  .known = std::make_shared<tls::KnownPeers>(std::vector{secret}),
                                  .kernel_sends_max = test::kernel_sends_max()});
}

class TcpWorld final : public World {
  public:
    explicit TcpWorld(Scheme scheme)
        : scheme_(scheme), context_(scheme == Scheme::kTls ? shared_key() : nullptr) {}
    Fabric& client() override { return *client_; }
    Fabric& server() override { return *server_; }
    Address listen_address() override { return {.scheme = scheme_, .host = "127.0.0.1", .port = 0}; }
    Address nobody() override {
        if (!bound_) bound_ = occupy(bound_port_, false);
        return {.scheme = scheme_, .host = "127.0.0.1", .port = bound_port_};
    }
    // A handshake takes a hundred times as long as a connection.
    int cycles() const override { return scheme_ == Scheme::kTls ? 1'000 : World::cycles(); }
    std::optional<Address> silent() override {
        if (!deaf_) deaf_ = occupy(deaf_port_, true);
        return Address{.scheme = scheme_, .host = "127.0.0.1", .port = deaf_port_};
    }

  private:
    const Scheme scheme_;
    const std::shared_ptr<const tls::Context> context_;
    std::unique_ptr<Fabric> client_ = *tcp::open(context_);
    std::unique_ptr<Fabric> server_ = *tcp::open(context_);
    Descriptor bound_;  // keeps the port free of listeners
    Descriptor deaf_;   // the kernel accepts connections, but no listener answers them
    uint16_t bound_port_ = 0;
    uint16_t deaf_port_ = 0;
};

const Registration kTcp({.name = "tcp", .make = [] { return std::make_unique<TcpWorld>(Scheme::kTcp); }});
const Registration kTls({.name = "tls", .make = [] { return std::make_unique<TcpWorld>(Scheme::kTls); }});

}  // namespace
}  // namespace wss::fabric::conformance
