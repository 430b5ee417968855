// SPDX-License-Identifier: Apache-2.0
// Remote I/O: a lane of the product's own initiator (lib/initiator), several sessions on one reactor.
#pragma once

#include <optional>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/initiator/session.h"
#include "tools/wssbench/load.h"

namespace wss::wssbench {

struct RemoteOptions {
    // Where the user's buffers are: registered before the work, ordinary and copied by the initiator, or
    // ordinary and registered when first used (the pin-down cache).
    enum class Memory : uint8_t { kRegistered, kCopied, kPinned };
    uint32_t connections = 1;  // of this lane; a session each
    uint32_t depth = 32;       // in flight on each
    uint32_t bytes = 512;      // longest request
    std::string volume = "bench";
    Memory memory = Memory::kRegistered;
};

class RemoteLane final : public Lane {
  public:
    // One Accesses for each connection.
    static Result<std::unique_ptr<Lane>> create(const std::string& uri, const RemoteOptions& options,
                                                std::vector<std::unique_ptr<Accesses>> accesses);
    ~RemoteLane() override;
    bool ready() const override { return begun_.load(std::memory_order_relaxed) == options_.connections; }

  private:
    class Link;
    friend class Link;

    explicit RemoteLane(const RemoteOptions& options);
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
