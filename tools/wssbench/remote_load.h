// SPDX-License-Identifier: Apache-2.0
// RemoteLoad: a thread for remote I/O, with sessions of the product's initiator (lib/initiator) on one
// reactor.
#pragma once

#include <optional>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/initiator/session.h"
#include "tools/wssbench/load.h"

namespace wss::wssbench {

struct RemoteOptions {
    // The caller's buffers: registered in advance; ordinary and copied by the initiator; or ordinary and
    // registered at first use (the pin-down cache).
    enum class Memory : uint8_t { kRegistered, kCopied, kPinned };
    uint32_t connections = 1;  // of this thread; a session each
    uint32_t depth = 32;       // in flight on each
    uint32_t bytes = 512;      // size of the longest request
    std::string volume = "bench";
    Memory memory = Memory::kRegistered;
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
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::vector<std::unique_ptr<Link>> links_;
    size_t links_over_ = 0;
    std::atomic<uint32_t> begun_{0};  // connections that carry operations
};

}  // namespace wss::wssbench
