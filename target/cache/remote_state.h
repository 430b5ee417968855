// SPDX-License-Identifier: Apache-2.0
// RemoteState: the state of a volume that its storage process (RS) reports, in place of a local backend's
// state. The cache's reactor writes it. Changes of size are reported like those of a local backend
// (SizeNotices).
//
// Thread-safety: methods may be called from any thread. But only the cache's reactor calls report(), refuse()
// and lose(), which do not block on the function given to watch().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "lib/io/size_notices.h"

namespace wss::cache {

class RemoteState {
  public:
    // Fails if no thread for the notices can be started. `bytes` is the configured size, which applies until
    // an RS reports a size. The notice of that report gives 0 (unknown) as the former size. `block`: storage
    // that becomes smaller is lost.
    static Result<std::shared_ptr<RemoteState>> create(uint64_t bytes, uint32_t block);
    RemoteState(uint64_t bytes, uint32_t block) : given_(bytes), block_(block) {}

    uint64_t bytes() const noexcept {
        const uint64_t reported = sizes_.size();
        return reported == 0 ? given_ : reported;
    }
    // Size of the volume at an RS where it is too small to be served; UINT64_MAX: there is no such RS.
    uint64_t offered() const noexcept { return offered_.load(std::memory_order_acquire); }
    // True if the storage is permanently lost.
    bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    // Like io::Backend::suspended().
    bool is_suspended() const noexcept { return suspended_.load(std::memory_order_acquire); }
    std::string trouble() const;
    // Like io::Backend::watch_size().
    void watch(io::Backend::SizeChanged changed) { sizes_.watch(std::move(changed)); }
    bool hides_growth() const noexcept { return sizes_.hides_growth(); }

    void report(uint64_t bytes, bool suspended, std::string trouble);
    // The reason why no RS serves the volume.
    struct Refusal {
        std::string why;
        uint64_t offered = UINT64_MAX;  // size of the volume at the RS that is present
        bool suspends = false;          // engines serve no hits and acknowledge no writes
        bool may_give_up = false;       // engines hold data for an owner that is absent
    };
    // Returns false if this reason was reported before.
    bool refuse(Refusal refusal);
    // The RS whose volume was refused has left. Only the reason changes.
    void note_departed();
    // Like io::Backend::give_up(), while Refusal::may_give_up is true.
    bool give_up() noexcept;
    void lose(std::string why);

  private:
    const uint64_t given_;
    const uint32_t block_;
    mutable std::mutex m_;
    // Guarded by m_. The volume is suspended until an RS has reported, because others may have used the
    // storage since the target used it last.
    bool suspended_there_ = true, may_give_up_ = false;
    std::string trouble_ = "waits for its real storage, which has not joined yet";
    std::atomic<bool> lost_{false}, suspended_{true};
    std::atomic<uint64_t> offered_{UINT64_MAX};  // written under m_
    io::SizeNotices sizes_;
};

}  // namespace wss::cache
