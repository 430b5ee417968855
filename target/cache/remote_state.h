// SPDX-License-Identifier: Apache-2.0
// RemoteState: what real storage (RS) on another node reports of a volume, in the place of a backend's own
// state. The cache's reactor writes it. A change of its size is passed on as a backend's own (SizeNotices).
//
// Thread-safety: any thread. report(), refuse() and lose() are the cache's reactor's, and do not block on
// what watch() was given.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "lib/io/size_notices.h"

namespace wss::se {

class RemoteState {
  public:
    // Fails when there is no thread for its notices. `bytes` is what the volume was given: it counts until an
    // RS reports a size, the notice of which says that it was not known before (0).
    static Result<std::shared_ptr<RemoteState>> create(uint64_t bytes);
    explicit RemoteState(uint64_t bytes) : given_(bytes) {}

    uint64_t bytes() const noexcept {
        const uint64_t reported = sizes_.size();
        return reported == 0 ? given_ : reported;
    }
    // What an RS has that does not serve the volume, as it is too small; UINT64_MAX: there is none.
    uint64_t offered() const noexcept { return offered_.load(std::memory_order_acquire); }
    // For good.
    bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    // As io::Backend::suspended().
    bool is_suspended() const noexcept { return suspended_.load(std::memory_order_acquire); }
    std::string trouble() const;
    // As io::Backend::watch_size().
    void watch(io::Backend::SizeChanged changed) { sizes_.watch(std::move(changed)); }

    void report(uint64_t bytes, bool suspended, std::string trouble);
    // No RS serves it.
    struct Refusal {
        std::string why;
        uint64_t offered = UINT64_MAX;  // bytes that the one has which is there
        bool suspends = false;          // what engines hold does not count meanwhile
        bool may_give_up = false;       // what engines hold for an owner that is not here
    };
    // False if that is known.
    bool refuse(Refusal refusal);
    // As Backend::give_up(), while that is possible.
    bool give_up() noexcept;
    void lose(std::string why);

  private:
    const uint64_t given_;
    mutable std::mutex m_;
    // Guarded by m_.
    bool suspended_there_ = false, may_give_up_ = false;
    std::string trouble_ = "waits for its real storage, which has not joined yet";
    std::atomic<bool> lost_{false}, suspended_{false};
    std::atomic<uint64_t> offered_{UINT64_MAX};  // written under m_
    io::SizeNotices sizes_;
};

}  // namespace wss::se
