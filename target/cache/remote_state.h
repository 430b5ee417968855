// SPDX-License-Identifier: Apache-2.0
// RemoteState: what real storage (RS) on another node reports of a volume, in the place of a backend's own
// state. The cache's reactor writes it. A change is passed on by a thread that lives as long as there is one.
//
// Thread-safety: any thread. report(), refuse() and lose() are the cache's reactor's, and do not block on
// what watch() was given.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "lib/io/backend.h"

namespace wss::se {

class RemoteState : public std::enable_shared_from_this<RemoteState> {
  public:
    // What the volume was given, until an RS reports its size.
    explicit RemoteState(uint64_t bytes) : bytes_(bytes), passed_on_(bytes) {}

    uint64_t bytes() const;
    // For good.
    bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    std::string trouble() const;
    // As io::Backend::watch_size().
    void watch(io::Backend::SizeChanged changed);

    void report(uint64_t bytes, std::string trouble);
    // Its RS cannot serve it. False if that is known.
    bool refuse(std::string why);
    void lose(std::string why);
    // At each tick: what could not be passed on before, for want of a thread.
    void pass_on_again();

  private:
    void pass_on();  // m_ held
    void follow();
    bool has_news() const { return passed_on_ != bytes_ || (is_lost() && !loss_passed_on_); }  // m_ held

    mutable std::mutex m_;
    // Guarded by m_.
    uint64_t bytes_;
    uint64_t passed_on_;     // of bytes_, to changed_
    bool reported_ = false;  // bytes_ is an RS's
    bool loss_passed_on_ = false, watched_ = false, following_ = false;
    std::string trouble_ = "waits for its real storage, which has not joined yet";
    std::atomic<bool> lost_{false};
    // Recursive: what is called may drop the last reference to the backend.
    std::recursive_mutex changed_lock_;
    io::Backend::SizeChanged changed_;  // guarded by changed_lock_, also while it is called
};

}  // namespace wss::se
