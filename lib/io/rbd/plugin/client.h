// SPDX-License-Identifier: Apache-2.0
// Client: one connection to a Ceph cluster with one opened image.
//
// Each backend has a client of its own, so that what happens to one (it is blocklisted, abandoned) concerns
// one volume. Life: connect, open, lock, watch; close() mirrors it. Both run on a thread with a limit (see
// bounded.h): a client whose close() does not return in time is abandoned, and lives until it does.
//
// The keeper is the client's own thread: it follows the size of the image, which others may change, and
// reports requests that wait.
//
// Thread-safety: all public methods may be called from any thread.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/backend.h"
#include "lib/io/rbd/options.h"

namespace wss::io::rbd {

// What one queue has in Ceph; written by its reactor, read by anyone.
struct Progress {
    std::atomic<int64_t> oldest{0};  // when the oldest request was submitted, 0: none waits
    std::atomic<uint32_t> requests{0};
};

class Client {
  public:
    // Bounded by open_timeout.
    static Result<std::shared_ptr<Client>> open(const RbdOptions& options, bool read_only);
    // Bounded by close_timeout. All requests are done.
    static void close(std::shared_ptr<Client> client);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    const RbdOptions& options() const { return options_; }
    rbd_image_t image() const { return image_; }
    bool read_only() const { return read_only_; }
    uint64_t size() const { return size_.load(std::memory_order_acquire); }
    uint64_t object_bytes() const { return object_bytes_; }

    // Blocks; see bounded.h.
    Status resize(uint64_t bytes);
    void watch_size(Backend::SizeChanged changed);

    // Ceph takes nothing more of this client: another one broke its lock, or the operator shut it out. For
    // good: what others wrote since is unknown to everything above.
    bool blocklisted() const { return blocklisted_.load(std::memory_order_acquire); }
    void set_blocklisted() noexcept;

    std::shared_ptr<Progress> add_queue();
    std::string trouble() const;

    // Clients that exist, abandoned ones included.
    static uint32_t alive() { return alive_.load(); }

  private:
    Client(const RbdOptions& options, bool read_only);
    Status start();
    Status configure();
    Status connect();
    Status open_image();
    Status check_caches();
    Status measure();
    void stop();

    // lock.cc
    Status take_lock();
    Status try_lock(const std::string& former);
    std::string lock_owner() const;
    bool has_watcher(const std::string& address) const;
    Status break_lock(const std::string& owner);
    void blocklist_for_long(const std::string& address);

    void keep();
    void follow_size();
    void report_waiting();
    void look_at_header();
    void end_look();
    void tell_lost();
    std::pair<Nanoseconds, uint32_t> waiting() const;  // for how long the oldest, how many

    static std::atomic<uint32_t> alive_;

    // Immutable after start().
    const RbdOptions options_;
    const bool read_only_;
    rados_t cluster_ = nullptr;
    rados_ioctx_t pool_ = nullptr;
    rbd_image_t image_ = nullptr;
    uint64_t watch_ = 0;
    uint64_t object_bytes_ = 0;
    std::string header_;  // the object that every image has

    std::atomic<uint64_t> size_{0};
    std::atomic<bool> blocklisted_{false};
    std::mutex size_lock_;  // one at a time changes or reads the size in Ceph
    // Recursive: what is called may drop the last reference to the backend.
    std::recursive_mutex changed_lock_;
    Backend::SizeChanged changed_;  // guarded by changed_lock_, also while it is called
    mutable std::mutex queues_lock_;
    std::vector<std::weak_ptr<Progress>> queues_;  // guarded by queues_lock_

    std::mutex keeper_lock_;
    std::condition_variable keeper_wake_;
    bool header_changed_ = false;  // guarded by keeper_lock_
    bool stopping_ = false;        // guarded by keeper_lock_
    // The keeper's own.
    bool waiting_reported_ = false;
    bool lost_told_ = false;
    rados_completion_t look_ = nullptr;
    uint64_t header_size_ = 0;  // written by librados while look_ is under way
    time_t header_time_ = 0;
    std::thread keeper_;
};

}  // namespace wss::io::rbd
