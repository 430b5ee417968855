// SPDX-License-Identifier: Apache-2.0
// RemoteState: the state of a volume that its storage process (RS) reports, in place of a local backend's
// state. The cache's reactor writes it. A change of size is passed on like that of a local backend
// (SizeNotices).
//
// Thread-safety: any thread. Only the cache's reactor calls report(), refuse() and lose(), which do not block
// on the function given to watch().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "lib/io/size_notices.h"

namespace wss::cache {

class RemoteState {
  public:
    // Fails if no thread for the notices can be started. `bytes` is the configured size: it counts until an
    // RS reports a size. The notice of that report gives 0 (unknown) as the former size.
    static Result<std::shared_ptr<RemoteState>> create(uint64_t bytes);
    explicit RemoteState(uint64_t bytes) : given_(bytes) {}

    uint64_t bytes() const noexcept {
        const uint64_t reported = sizes_.size();
        return reported == 0 ? given_ : reported;
    }
    // Size of a volume of an RS that is too small to be served; UINT64_MAX: none.
    uint64_t offered() const noexcept { return offered_.load(std::memory_order_acquire); }
    // True if the storage is lost for good.
    bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    // As io::Backend::suspended().
    bool is_suspended() const noexcept { return suspended_.load(std::memory_order_acquire); }
    std::string trouble() const;
    // As io::Backend::watch_size().
    void watch(io::Backend::SizeChanged changed) { sizes_.watch(std::move(changed)); }

    void report(uint64_t bytes, bool suspended, std::string trouble);
    // The reason why no RS serves the volume.
    struct Refusal {
        std::string why;
        uint64_t offered = UINT64_MAX;  // size of the volume at the RS that is present
        bool suspends = false;          // engines serve no hits and acknowledge no writes
        bool may_give_up = false;       // engines hold data for an owner that is absent
    };
    // False if this reason was reported before.
    bool refuse(Refusal refusal);
    // The RS of the refusal has left: only the reason changes.
    void note_departed();
    // As io::Backend::give_up(), while Refusal::may_give_up.
    bool give_up() noexcept;
    void lose(std::string why);

  private:
    const uint64_t given_;
    mutable std::mutex m_;
    // Guarded by m_. Until an RS has reported, others may have had the storage since the target used it last:
    // the volume is suspended.
    bool suspended_there_ = true, may_give_up_ = false;
    std::string trouble_ = "waits for its real storage, which has not joined yet";
    std::atomic<bool> lost_{false}, suspended_{true};
    std::atomic<uint64_t> offered_{UINT64_MAX};  // written under m_
    io::SizeNotices sizes_;
};

}  // namespace wss::cache
