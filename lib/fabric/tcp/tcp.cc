// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/tcp.h"

#include "lib/fabric/stream/engine.h"
#include "lib/fabric/stream/memory.h"
#include "lib/fabric/tcp/tcp_poller.h"

namespace wss::fabric::tcp {

namespace {

class TcpFabric final : public Fabric {
  public:
    explicit TcpFabric(std::shared_ptr<const tls::Context> context)
        : context_(std::move(context)), caps_(stream::caps(context_ ? "tls" : "tcp", kDeadPeerMs)) {}

    const Caps& caps() const noexcept override { return caps_; }
    Result<std::unique_ptr<Poller>> create_poller() override {
        Result<std::unique_ptr<TcpPoller>> poller = TcpPoller::create(table_, context_);
        if (!poller) return poller.status();
        return std::unique_ptr<Poller>(std::move(*poller));
    }
    Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) override {
        return stream::allocate(table_, bytes, access);
    }
    Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) override {
        return stream::register_memory(table_, memory, access);
    }

  private:
    const std::shared_ptr<const tls::Context> context_;
    const Caps caps_;
    // Shared with pollers, connections and regions, which may outlive the fabric.
    const std::shared_ptr<stream::RegionTable> table_ = std::make_shared<stream::RegionTable>();
};

}  // namespace

Result<std::unique_ptr<Fabric>> open(std::shared_ptr<const tls::Context> context) {
    return std::unique_ptr<Fabric>(std::make_unique<TcpFabric>(std::move(context)));
}

}  // namespace wss::fabric::tcp
