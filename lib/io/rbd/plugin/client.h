// SPDX-License-Identifier: Apache-2.0
// Client: one connection to a Ceph cluster with one opened image.
//
// Each backend has a client of its own, so that what happens to one (it is blocklisted, abandoned) concerns
// one volume. Life: connect, open, lock, watch; close() mirrors it. Both run on a thread with a limit (see
// bounded.h): a client whose close() does not return in time is abandoned, and lives until it does.
//
// The keeper is the client's own thread: it looks each second whether the image is there and still ours,
// follows its size, which others may change, and reports requests that wait. The size is also read in each
// notice of a change of the header, before another one can follow (keeper.cc). The follower is another
// thread, which asks librbd what the keeper must not wait for (follower.cc).
//
// Until it takes the lock each operation has the limit osd_timeout. From then on none has: librbd is not made
// for operations that end without an answer, and goes on as if its notes on the image had been written. Each
// is answered one day, or its connection ends with this process: then the next owner finds the lock of a dead
// client, and shuts out whatever of it may still arrive. Those who wait have limits of their own (queue.h,
// bounded.h).
//
// An image is locked also when the volume is read-only: what cache engines hold of it must not be changed by
// others. A snapshot never changes, and has neither lock nor watch.
//
// Thread-safety: all public methods may be called from any thread.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/backend.h"
#include "lib/io/rbd/calls.h"
#include "lib/io/rbd/late_calls.h"
#include "lib/io/rbd/options.h"
#include "lib/io/rbd/plugin/boot_time.h"
#include "lib/io/rbd/plugin/bounded.h"
#include "lib/io/rbd/plugin/claim.h"
#include "lib/io/rbd/plugin/lock_watch.h"
#include "lib/io/rbd/plugin/look.h"
#include "lib/io/rbd/plugin/parents.h"
#include "lib/io/rbd/plugin/questions.h"
#include "lib/io/rbd/throttles.h"
#include "lib/io/size_notices.h"

namespace wss::io::rbd {

// For how long a former owner is shut out. Longer than any process stays stopped.
constexpr uint32_t kBlocklistSeconds = 30 * 24 * 3600;

// Why the image is no longer ours. For good: what others wrote since is unknown to everything above.
enum class Loss : uint8_t {
    kNone,
    kBlocklisted,  // another client broke the lock, or the operator shut this one out
    kDeleted,      // the image, its snapshot or its pool
    kTaken,        // the lock, by somebody who did not blocklist this client
    kEmptied,      // others resized it to nothing; the lock is given up
};
// Its client is served by Ceph as before, and may have the lock.
constexpr bool keeps_lock(Loss loss) {
    return loss == Loss::kTaken || loss == Loss::kEmptied;
}

class Client {
  public:
    // Bounded by open_timeout. Of `how`: what concerns neither a size nor whom to shut out.
    static Result<std::shared_ptr<Client>> open(const RbdOptions& options, const OpenOptions& how);
    // As io::check_backend(), bounded by open_timeout and close_timeout.
    static Status check(const RbdOptions& options, const OpenOptions& how);
    // All requests are done. Bounded by close_timeout from its beginning; then the client is abandoned.
    struct Closing {
        std::string name;
        uint32_t limit = 0;  // seconds
        Deadline deadline;
        std::optional<BoundedCall> call;  // nothing: abandoned already
    };
    static Closing begin_close(const std::shared_ptr<Client>& client);
    static void end_close(Closing& closing);
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    const RbdOptions& options() const { return options_; }
    rbd_image_t image() const { return image_; }
    bool read_only() const { return read_only_; }
    uint64_t size() const { return sizes_.size(); }
    uint64_t object_bytes() const { return object_bytes_; }
    // A range of so many bytes at a multiple of it lies in one object.
    uint64_t piece_bytes() const { return piece_bytes_; }

    // Blocks; see bounded.h. Busy while the outcome of the one before is not known.
    Status resize(uint64_t bytes);
    // Whether Ceph takes a change of the image's header. Blocks.
    Status may_resize();
    bool is_resizing() const { return resizing_.load() != Resizing::kNo; }
    void watch_size(Backend::SizeChanged changed) { sizes_.watch(std::move(changed)); }

    bool lost() const { return loss_.load(std::memory_order_acquire) != Loss::kNone; }
    // The first one counts. Does not block.
    void lose(Loss loss) noexcept;
    // Lost, or librbd would read zeroes in place of what it was cloned from: nothing is read or written.
    bool unusable() const noexcept { return lost() || parents_moved_.load(std::memory_order_acquire); }
    // It is unusable, or nobody has seen for away_timeout that it is ours: another client may have taken it.
    bool suspended() const noexcept;
    // False: a pool is deleted, and librbd takes what was in it for zeroes. Does not wait for Ceph.
    bool pools_exist() const noexcept;
    // Something is read from what it was cloned from.
    bool is_clone() const noexcept { return parents_.any(); }
    // It may read zeroes from what it was cloned from: what was read has to be read again when that is known.
    bool doubts_parents() noexcept;
    // It may not be read or written before more is known of what it was cloned from: requests wait.
    bool holds() const noexcept { return parents_.state() != Parents::State::kAsFound; }
    const std::string& ownership() const { return ownership_; }
    // None of a client that has lost the image otherwise than by being shut out: nobody succeeds it.
    Succession succession() const noexcept {
        const Loss loss = loss_.load(std::memory_order_acquire);
        return loss == Loss::kNone || loss == Loss::kBlocklisted ? succession_ : Succession{};
    }

    // For one more queue; they live as long as this.
    Result<Calls*> add_calls();
    LateCalls& late_calls() noexcept { return late_calls_; }
    const Throttles& throttles() const noexcept { return throttles_; }
    Load in_librbd() const noexcept;
    // For how long a request waits for Ceph.
    Nanoseconds limit() const noexcept { return from_s(options_.osd_timeout); }
    // Of a read or a change; 0 or the errno of its answer.
    void note_answer(bool read, int error) noexcept;
    // What librbd reports as written may not be seen by the next client: see object_map.cc.
    bool doubts_map() const noexcept { return doubts_.load() != settled_.load(); }
    std::string trouble() const;

    // Clients that exist, abandoned ones included.
    static uint32_t alive() { return alive_.load(); }

  private:
    Client(const RbdOptions& options, const OpenOptions& how);
    ~Client();
    static Result<std::shared_ptr<Client>> begin(const RbdOptions& options, const OpenOptions& how,
                                                 Status (Client::*step)());
    Status look_for_image();
    Status look_for_owner();
    Status start();
    Status connect();
    Status open_image();
    Status find_parents();
    Status identify();
    Status open_data_pool();
    Status check_object_map(uint64_t bytes) const;
    Status missing_plugin() const;
    std::string find_header() const;
    std::string metadata_of(const std::string& header, std::string_view key) const;
    Status claim();
    Status start_keeper();
    static void end(const std::shared_ptr<Client>& client);
    bool stays_taken() const noexcept;
    void end_keeper();
    void stop();

    void keep_connection();

    // configuration.cc
    Status configure();
    Status read_configuration();
    Status check_named_files(const char* configuration) const;
    Status check_lethal_settings();
    Status check_settings_to_connect(std::string_view where) const;
    std::string setting_without_key() const;
    Status check_settings();
    Result<Settings> settings() const;

    // lock.cc
    struct Watcher {
        uint64_t client = 0;  // its number, as rados_get_instance_id()
        std::string address;
    };
    Status check_features();
    Status take_lock();
    Status end_limit() const;
    Status check_wanted() const;
    Status check_primary() const;
    Result<uint64_t> end_former_owner(const std::string& owner);
    Status wait_to_end(const std::string& owner) const;
    Status wait_until_dead(const std::string& owner) const;
    Status wait_for_dead_watches(const std::string& owner) const;
    Status refuse_live(const std::string& owner) const;
    Status uses_it(const std::string& owner) const;
    Result<uint64_t> shut_out(const std::string& owner);
    Status note_succession(uint64_t former);
    Status shut_itself_out();
    Status blocklist(const std::string& address, const std::string& failure_text);
    int ask_monitors(const std::string& command) const;
    Status wait_for_blocklist(const std::string& failure_text) const;
    uint32_t command_limit() const;
    Status command_monitors(const std::string& failure_text, const std::function<int()>& command);
    struct Locker {
        std::string client, cookie, address;
    };
    int find_locker(const std::string& owner, Locker& locker) const;
    int break_lock(const Locker& locker) const;
    Result<std::string> lock_owner() const;
    Result<std::vector<Watcher>> watchers() const;
    Result<std::optional<Watcher>> watcher_of(const std::string& address) const;
    bool is_open_elsewhere(uint64_t besides) const;
    bool answers(uint64_t id) const;
    std::vector<uint64_t> answering() const;

    // object_map.cc
    void doubt_map(int error) noexcept;
    bool knows_of_invalid_map() const;
    bool needs_mark() const;
    Status check_changes() const;
    Status resize_not_over() const;
    void note_mark(int error) noexcept;
    std::string unmarked(int error) const;
    int mark_map() const;
    Status begin_map();
    void keep_map(uint64_t flags);
    void settle_doubts();
    void end_marks();
    void end_map();

    // follower.cc
    struct News {
        bool changed = false;  // the header
        bool doubted = false;
        bool looked = false;
        uint64_t flags = 0;  // that the look has shown
        bool any() const { return changed || doubted || looked; }
        void add(const News& later) {
            changed |= later.changed;
            if (later.looked) flags = later.flags;
            looked |= later.looked;
        }
    };
    void follow();
    void follow_up(const News& news);
    void have_header_read() const;
    void follow_throttles();

    // keeper.cc
    void keep();
    void keep_up(bool looked, bool changed);
    bool ask(const char* method, std::span<const char> input, Questions::Over over) noexcept;
    void read_size() noexcept;
    void size_is(std::span<const char> answer, uint64_t own_changes) noexcept;
    std::optional<uint64_t> size_in_ceph() const;
    void check_lock();
    bool release_lock() const;
    void give_up_lock();
    void take_orphans() noexcept;
    void report_waiting();
    bool is_news_again() noexcept;
    void begin_look(bool soon);
    void look_at_parents();
    void take_look(News& news);
    void tell(const News& news);
    struct Waiting {
        Nanoseconds oldest{};   // for how long
        uint32_t requests = 0;  // how many
    };
    Waiting waiting() const;
    static Nanoseconds since(const std::atomic<int64_t>& time) noexcept;

    static std::atomic<uint32_t> alive_;

    // Immutable after start().
    const RbdOptions options_;
    const bool read_only_;
    const Nanoseconds opened_at_;
    const std::string owner_;
    const bool keeps_taken_;
    std::string place_;      // the cluster, and the pool in it: not that of a copy which was put in its place
    std::string ownership_;  // see ownership.h, and place_
    Succession succession_;  // from its opening on
    std::optional<LockWatch> lock_watch_;  // while it breaks a lock and takes it
    rados_t cluster_ = nullptr;
    std::shared_ptr<void> connection_;  // cluster_; its last owner shuts it down
    rados_ioctx_t pool_ = nullptr;
    rados_ioctx_t data_pool_ = nullptr;  // nullptr: pool_
    rbd_image_t image_ = nullptr;
    uint64_t watch_ = 0;
    uint64_t object_bytes_ = 0, piece_bytes_ = 0;
    std::string header_;                // the object that every image has
    std::array<char, 8> look_input_{};  // the snapshot

    // open() sets the first and then reads the second. start() sets the second and then reads the first,
    // before it takes the lock. So a lock that is taken after open() has given up is always noticed.
    // How its opening ended. The thread that opens it and the caller, which may give up, race to set it.
    enum class Opening : uint8_t { kGoesOn, kDone, kGivenUp };
    bool decide(Opening how) noexcept;
    std::atomic<Opening> opening_{Opening::kGoesOn};
    std::atomic<bool> may_have_lock_{false};
    std::atomic<Loss> loss_{Loss::kNone};
    std::atomic<bool> parents_moved_{false};  // for good: librbd does not open them again
    Claim claim_;
    // When a look began that found the image there, and us not shut out (boot_time()); when its answer came.
    std::atomic<int64_t> seen_{0}, answered_{0};
    std::atomic<int> look_error_{0};  // what the last look was answered with
    std::atomic<int64_t> not_permitted_logged_{0};
    std::atomic<uint8_t> not_permitted_{0};  // whether the last read (1), the last change (2) was refused so
    // What monitors are asked ends by then. Of the thread that starts this client, then of the keeper, and of
    // the one that stops it.
    Nanoseconds commands_until_;
    std::mutex size_lock_;  // one at a time resizes the image, asks whether it may, or closes it
    // kUnknown: it failed, and what came of it could not be read.
    enum class Resizing : uint8_t { kNo, kUnderWay, kUnknown };
    std::atomic<Resizing> resizing_{Resizing::kNo};
    SizeNotices sizes_;
    const std::shared_ptr<HeaderWatches> watches_ = std::make_shared<HeaderWatches>();  // the connection's
    Parents parents_{*watches_, [this] {
                         std::lock_guard lock(keeper_lock_);
                         urgent_ = true;
                         keeper_wake_.notify_one();
                     }};
    Throttles throttles_;
    LateCalls late_calls_;
    std::atomic<Calls*> calls_{nullptr};     // linked; ours
    bool found_map_ = false;                 // before it had the lock: the image has an object map
    std::atomic<bool> maps_objects_{false};  // the image has the feature, and is ours
    // How often something failed that may have left the object map without a note; up to which time it is
    // known that nothing is missing, or the header says so.
    std::atomic<uint64_t> doubts_{0}, settled_{0};
    std::atomic<bool> must_mark_{false};  // one of them was a refusal
    // The map may be the next owner's: nobody marks it any more. Set with marks_lock_, which the follower has
    // while it sends a mark, so that none is sent after the lock is released.
    std::atomic<bool> ended_marks_{false};
    std::mutex marks_lock_;
    std::atomic<bool> keeps_claim_{false};  // it has no lock, and could not be shut out
    std::atomic<bool> marks_map_{false};    // a question is under way
    std::atomic<int> mark_error_{0};        // what the last one was answered with
    Questions questions_;

    std::mutex keeper_lock_;
    std::condition_variable keeper_wake_, follower_wake_;
    // Guarded by keeper_lock_.
    bool header_changed_ = false, look_over_ = false, urgent_ = false, stopping_ = false;
    News news_;
    // The keeper's own.
    bool waiting_reported_ = false;
    bool gave_up_lock_ = false;
    std::string keeper_failure_;
    Nanoseconds moved_at_{};
    Nanoseconds no_holder_since_ = kNever;  // when the first look began that found none
    Look look_;                             // by boot_time()
    uint64_t look_own_changes_ = 0;
    std::thread keeper_;
    // The follower's own.
    bool marked_map_ = false;  // the header says that the object map is invalid
    std::string follower_failure_;
    std::thread follower_;
};

}  // namespace wss::io::rbd
