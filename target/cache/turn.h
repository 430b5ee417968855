// SPDX-License-Identifier: Apache-2.0
// Turn: whether the cache has something to do in the next turn of its reactor that none of its event sources
// reports. Every owner of the cache may request a turn. Cache::poll() takes the request.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <utility>

namespace wss::cache {

class Turn {
  public:
    void want() noexcept { wanted_ = true; }
    bool wanted() const noexcept { return wanted_; }
    bool take() noexcept { return std::exchange(wanted_, false); }

  private:
    bool wanted_ = false;
};

}  // namespace wss::cache
