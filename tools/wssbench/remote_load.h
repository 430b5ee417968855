// SPDX-License-Identifier: Apache-2.0
// RemoteLoad: a thread for remote I/O, with sessions of the product's initiator on one reactor.
#pragma once

#include <vector>

#include "tools/wssbench/load.h"
#include "tools/wssbench/session_link.h"

namespace wss::wssbench {

struct RemoteOptions {
    uint32_t connections = 1;       // connections of this thread, each with its own session
    LinkOptions link{.slots = 32};  // options of each session
};

class RemoteLoad final : public LoadThread {
  public:
    // `accesses`: one for each connection.
    static Result<std::unique_ptr<LoadThread>> create(const std::string& uri, const RemoteOptions& options,
                                                      std::vector<std::unique_ptr<Accesses>> accesses);
    ~RemoteLoad() override;
    bool ready() const override { return begun_.load(std::memory_order_relaxed) == options_.connections; }

  private:
    class Link;
    friend class Link;

    explicit RemoteLoad(const RemoteOptions& options);
    void begin() override;
    void wind_down() override;
    void link_over();

    const RemoteOptions options_;
    Random random_;
    Network network_;
    std::vector<std::unique_ptr<Link>> links_;
    size_t links_over_ = 0;
    std::atomic<uint32_t> begun_{0};  // connections that carry operations
};

}  // namespace wss::wssbench
