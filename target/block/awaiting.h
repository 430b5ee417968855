// SPDX-License-Identifier: Apache-2.0
// Awaiting: a unit's commands that wait for cache engines to return with lost data.
//
//   wait() ─▶ looking ─▶ the data is still lost ─▶ awaiting ─look_due()─▶ looking …
//                 └────▶ the wait is over: Channel::wait_over()
//
// The cache decides whether a wait is over. On the cache's own reactor, it does so at once. Another reactor
// posts a query to the cache (Gateway::look()); the commands of this query are in `asked_`.
//
// Thread-safety: belongs to the unit's reactor. Allocates only on another reactor than the cache's.
#pragma once

#include <memory>

#include "lib/base/list.h"
#include "target/block/request.h"
#include "target/cache/gateway.h"

namespace wss::block {

class Awaiting final : public cache::LostWaiters {
  public:
    Awaiting() = default;
    ~Awaiting() {
        if (use_ != nullptr) gateway_->leave(use_);
    }
    // From now on wait() may be called. `use` is nullptr on the cache's reactor.
    void begin(cache::Gateway& gateway, cache::CachedVolume& volume, std::shared_ptr<cache::VolumeUse> use) {
        gateway_ = &gateway;
        volume_ = &volume;
        use_ = std::move(use);
    }
    void wait(Request& request) noexcept;
    // Ends the wait of a command, if it waits.
    void forget(Request& request) noexcept;

    void look_due() noexcept override;
    bool look(size_t& left) noexcept override;
    uint64_t count() noexcept override;

  private:
    bool is_home() const noexcept { return use_ == nullptr; }
    void ask() noexcept;
    void answered(const std::vector<Request*>& order, const std::vector<bool>& waits) noexcept;

    cache::Gateway* gateway_ = nullptr;
    cache::CachedVolume* volume_ = nullptr;
    std::shared_ptr<cache::VolumeUse> use_;
    List<Request> awaiting_, looking_;
    List<Request> asked_;  // at most one query at a time
    bool is_asking_ = false;
};

}  // namespace wss::block
