// SPDX-License-Identifier: Apache-2.0
// EchoLoad: a thread that uses the echo server, to measure the fabric alone.
#pragma once

#include <vector>

#include "lib/fabric/open.h"
#include "tools/wssbench/echo_wire.h"
#include "tools/wssbench/load.h"

namespace wss::wssbench {

struct EchoOptions {
    enum class Mode : uint8_t {
        kRead,       // send an Ask; the server WRITEs the data (the papers' RDMA echo)
        kWrite,      // WRITE the data, send an Ask, and receive an answer
        kPing,       // send a message, and receive one of the same size
        kRdmaRead,   // only READs, which do not use the server's processor
        kRdmaWrite,  // only WRITEs, which do not use the server's processor
    };
    Mode mode = Mode::kRead;
    uint32_t connections = 1;  // of this thread
    uint32_t depth = 32;       // operations in flight on each connection
    uint32_t bytes = 512;
    uint32_t burst = 1;  // kRdmaRead, kRdmaWrite: consecutive requests of `bytes` that form one operation
};

class EchoLoad final : public LoadThread {
  public:
    static Result<std::unique_ptr<LoadThread>> create(const std::string& uri, const EchoOptions& options);
    ~EchoLoad() override;
    bool ready() const override { return begun_.load(std::memory_order_relaxed) == options_.connections; }

  private:
    class Link;
    friend class Link;

    explicit EchoLoad(const EchoOptions& options);
    void begin() override;
    void wind_down() override;
    void link_over();

    const EchoOptions options_;
    fabric::Address address_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::vector<std::unique_ptr<Link>> links_;
    size_t links_over_ = 0;
    std::atomic<uint32_t> begun_{0};  // number of connections that carry operations
};

}  // namespace wss::wssbench
