// SPDX-License-Identifier: Apache-2.0
// Client: one connection to a Ceph cluster with one opened image.
//
// Each backend has its own client, so that a blocklisted or abandoned client affects only one volume. An
// opening connects to the cluster, and opens, locks and watches the image. stop() undoes this in reverse
// order. Both run on a thread with a time limit (bounded.h). A client whose closing does not return in time
// is abandoned, and lives until it does.
//
// The keeper is a thread of the client. Each second it checks that the image exists and that this client
// still owns it, follows its size, which others may change, and reports waiting requests. The size is also
// read at each notification of a header change, before the next change can follow (keeper.cc). The follower
// is another thread. It makes the calls of librbd for which the keeper must not wait (follower.cc).
//
// Until the client takes the lock, each operation has the limit osd_timeout. After that operations have no
// limit, because librbd does not handle timeouts: it continues as if its metadata of the image had been
// written. Ceph eventually answers an operation, or the connection ends with this process. Then the next
// owner finds the lock of a dead client and shuts it out, with all of its operations that could still arrive.
// Callers that wait have their own limits (queue.h, bounded.h).
//
// The image of a read-only volume is locked, too: others must not change data of which cache engines hold
// copies. A snapshot never changes, and has neither lock nor watch.
//
// Thread-safety: all public methods may be called from any thread.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/backend.h"
#include "lib/io/rbd/calls.h"
#include "lib/io/rbd/holder_mark.h"
#include "lib/io/rbd/late_calls.h"
#include "lib/io/rbd/options.h"
#include "lib/io/rbd/plugin/boot_time.h"
#include "lib/io/rbd/plugin/bounded.h"
#include "lib/io/rbd/plugin/claim.h"
#include "lib/io/rbd/plugin/lock_watch.h"
#include "lib/io/rbd/plugin/look.h"
#include "lib/io/rbd/plugin/own_clients.h"
#include "lib/io/rbd/plugin/parents.h"
#include "lib/io/rbd/plugin/questions.h"
#include "lib/io/rbd/throttles.h"
#include "lib/io/size_notices.h"

namespace wss::io::rbd {

// How long a former owner is blocklisted: longer than any process stays paused.
constexpr uint32_t kBlocklistSeconds = 30 * 24 * 3600;

// Why this client no longer owns the image. Permanent: others may have written to the image since.
enum class Loss : uint8_t {
    kNone,
    kBlocklisted,  // another client, or the operator, blocklisted this one
    kDeleted,      // the image, its snapshot or its pool was deleted
    kTaken,        // the lock was broken, taken or disabled without blocklisting this client
    kEmptied,      // others resized the image to less than one block; this client releases the lock
};
// After such a loss Ceph still serves the client, which may have the lock.
constexpr bool keeps_lock(Loss loss) {
    return loss == Loss::kTaken || loss == Loss::kEmptied;
}

class Client {
  public:
    // Bounded by open_timeout. After that it waits at most close_timeout, if the opening is about to succeed
    // or the process is about to end. Uses only `read_only`, `owner` and `keeps_taken` of `how`.
    static Result<std::shared_ptr<Client>> open(const RbdOptions& options, const OpenOptions& how);
    // As io::check_backend(), but returns the size of the image. Bounded by open_timeout and close_timeout.
    static Result<uint64_t> check(const RbdOptions& options, const OpenOptions& how);
    // A closing, which begin_close() starts and end_close() waits for. All requests must be done. If it takes
    // longer than close_timeout, counted from begin_close(), the client is abandoned.
    struct Closing {
        std::string name;
        uint32_t limit = 0;  // seconds
        Deadline deadline;
        std::optional<BoundedCall> call;  // nullopt: already abandoned
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
    // The stripe unit: a range of this length, at a multiple of it, lies in one object.
    uint64_t stripe_unit() const { return stripe_unit_; }
    // The smallest stripe unit of the image and its parents.
    uint64_t smallest_unit() const { return std::min(stripe_unit_, parents_.stripe_unit()); }

    // Blocks (see bounded.h). Fails with kBusy while the outcome of an earlier resize is not known.
    Status resize(uint64_t bytes);
    // Checks whether Ceph accepts changes to the image's header. Blocks.
    Status may_resize();
    bool is_resizing() const { return resizing_.load() != Resizing::kNo; }
    void watch_size(Backend::SizeChanged changed) { sizes_.watch(std::move(changed)); }
    bool hides_growth() const noexcept { return sizes_.hides_growth(); }

    bool lost() const { return loss_.load(std::memory_order_acquire) != Loss::kNone; }
    // Only the first loss counts. Does not block.
    void lose(Loss loss) noexcept;
    // True if the image is lost, or librbd would read zeroes in place of its parents' data. All requests then
    // fail.
    bool unusable() const noexcept { return lost() || parents_moved_.load(std::memory_order_acquire); }
    // True if the image is unusable, or if no look has confirmed for away_timeout that this client owns the
    // image, so that another client may have taken it.
    bool suspended() const noexcept;
    // False if a pool is deleted: librbd reads its objects as zeroes. Does not wait for Ceph.
    bool pools_exist() const noexcept;
    // True if some data of the image is read from a parent.
    bool is_clone() const noexcept { return parents_.any(); }
    // True if zeroes that were just read may stand for a parent's data. The caller must then repeat the read
    // later.
    bool doubts_parents() noexcept;
    // True if a parent has changed, and it is not known yet whether the image needs that parent. Requests
    // then wait.
    bool holds() const noexcept { return parents_.state() != Parents::State::kAsFound; }
    const std::string& ownership() const { return ownership_; }
    // Empty if the client lost the image in another way than by being blocklisted, because then no other
    // client can continue its chain. Empty for a read-only client, which writes no owner mark: other owners
    // may have written between this client and the next one of its chain.
    Succession succession() const noexcept {
        const Loss loss = loss_.load(std::memory_order_acquire);
        const bool continues = loss == Loss::kNone || loss == Loss::kBlocklisted;
        return continues && !read_only_ ? succession_ : Succession{};
    }

    // The calls of one more queue. They live as long as this client.
    Result<Calls*> add_calls();
    LateCalls& late_calls() noexcept { return late_calls_; }
    const Throttles& throttles() const noexcept { return throttles_; }
    Load in_librbd() const noexcept;
    // How long a request waits for Ceph.
    Nanoseconds limit() const noexcept { return from_s(options_.osd_timeout); }
    // Records the result of a read or a change. `error` is 0 or an errno.
    void note_answer(bool read, int error) noexcept;
    // True if changes that librbd reports as done may be invisible to the next client (object_map.cc).
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
    // How much of the image librbd has opened. Decides how long a program that ends waits for a closing.
    enum class Image : uint8_t { kNone, kOpening, kOpen };
    static void wait_for_end(BoundedCall& call, bool locks, const std::atomic<Image>& image,
                             const RbdOptions& options);
    void end_keeper();
    Status stop();

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

    // exclusive_lock.cc
    struct Watcher {
        uint64_t client = 0;  // its number, as in rados_get_instance_id()
        uint64_t cookie = 0;  // of the watch
        std::string address;
    };
    // The acknowledgement of a notification by one watcher.
    struct Answer {
        uint64_t client = 0, cookie = 0;
    };
    struct Locker {
        uint64_t number = 0;  // of the client; 0: its name has another form
        std::string client, cookie, address;
        // librados puts the protocol before the address ("v1:"), librbd does not.
        bool is_at(const std::string& where) const {
            return address == where || address.ends_with(":" + where);
        }
    };
    Status check_features();
    Status take_lock();
    Status end_limit() const;
    Status check_wanted() const;
    Status check_primary() const;
    // Returns how the lock became free.
    Result<HolderMark::Taking> end_former_owner(const std::string& owner, uint64_t seen);
    enum class Step : uint8_t { kCheck, kOpening };
    // How a former owner ended: it may be shut out, or it has released the lock and may be alive.
    enum class Former : uint8_t { kMayBeShutOut, kReleased };
    Result<Former> wait_to_end(const std::string& owner, Step step);
    bool has_released(const std::string& owner) const;
    Result<Former> wait_until_dead(const std::string& owner, uint32_t looks);
    Result<std::string> find_dead_watch(const std::string& owner, Step step);
    Result<Former> wait_for_dead_watches(const std::string& owner, Step step);
    Status still_lists(const std::string& dead) const;
    Status refuse_live(const std::string& owner);
    Status uses_it(const std::string& owner) const;
    Result<HolderMark::Taking> shut_out(const std::string& owner, uint64_t seen);
    Result<HolderMark::Taking> take_from(const std::string& owner, uint64_t seen);
    Status note_succession(HolderMark::Taking taking);
    void wait_for_record() const;
    bool has_lock() const;
    Status release_in_order();
    Status lose_lock();
    int read_locker(Locker& locker) const;
    int find_locker(const std::string& owner, Locker& locker) const;
    int break_lock(const Locker& locker) const;
    Result<std::string> lock_owner() const;
    Result<std::vector<Watcher>> watchers() const;
    Result<std::optional<Watcher>> watcher_of(const std::string& address) const;
    // Whether other clients than `besides` and those of this program may have the image open.
    struct Elsewhere {
        enum class Kind : uint8_t { kNobody, kOpen, kSilent } kind;
        std::string address;  // of one that may have it open
    };
    Result<Elsewhere> look_elsewhere(uint64_t besides);
    bool only_watches(const Watcher& one) const;
    bool answers(uint64_t id);
    std::vector<Answer> answers();
    void notify_librbd() const;

    // blocklisting.cc
    void end_without_lock();
    bool is_without_lock() const noexcept { return loss_.load() == Loss::kTaken || lock_is_gone_.load(); }
    bool is_shut_out() const;
    Status shut_itself_out();
    Status blocklist(const std::string& address, const std::string& failure_text);
    int ask_monitors(const std::string& command) const;
    Status wait_for_blocklist(const std::string& failure_text) const;
    uint32_t command_limit() const;
    Status command_monitors(const std::string& failure_text, const std::function<int()>& command);

    // What the keeper passes to the follower.
    struct News {
        bool changed = false;  // the header has changed
        bool doubted = false;
        bool looked = false;
        uint64_t flags = 0;  // read by the look
        uint64_t marks = 0;  // marks_ when the look began
        // The object map was marked as invalid before that look: an earlier one showed the mark, or the
        // feature was enabled, which begins with a mark.
        bool was_marked = false;
        bool any() const { return changed || doubted || looked; }
        bool is_marked() const { return looked && (flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0; }
        void add(const News& later);
    };

    // object_map.cc
    void doubt_map(int error) noexcept;
    bool knows_of_invalid_map() const;
    bool misses_mark() const;
    bool is_marked() const;
    int set_flags(std::span<const char> input) const;
    bool needs_mark() const;
    int change_nothing() const;
    Status check_usable() const;
    Status check_changes();
    Status resize_not_over() const;
    void note_mark(int error) noexcept;
    std::string unmarked(int error) const;
    int mark_map() const;
    Status begin_map();
    void keep_map(const News& news);
    std::string how_to_rebuild() const;
    void settle_doubts();
    void end_marks();
    void end_map();
    void mark_rebuilt_map();
    void note_last_mark(int result);

    // follower.cc
    void follow();
    void follow_up(const News& news);
    void have_header_read() const;
    void follow_throttles();

    // keeper.cc
    void keep();
    void keep_up(bool looked, bool changed);
    bool ask(const char* method, std::span<const char> input, Questions::Over over) noexcept;
    void read_size() noexcept;
    void size_is(std::span<const char> answer, uint64_t moment) noexcept;
    std::optional<uint64_t> size_in_ceph() const;
    void check_lock();
    bool release_lock() const;
    void give_up_lock();
    void take_orphans() noexcept;
    void report_waiting();
    bool is_news_again() noexcept;
    void begin_look();
    void look_at_parents();
    void take_look(News& news);
    void notify(const News& news);
    struct Waiting {
        Nanoseconds oldest{};   // wait of the oldest request
        uint32_t requests = 0;  // their number
    };
    Waiting waiting() const;
    static Nanoseconds since(const std::atomic<int64_t>& time) noexcept;

    static std::atomic<uint32_t> alive_;
    struct Counted {
        Counted() { ++alive_; }
        Counted(const Counted&) : Counted() {}
        Counted& operator=(const Counted&) = delete;
        ~Counted() { --alive_; }
    };
    // A connection in the hands of a thread that may outlive this client. alive() counts it until it is shut
    // down: a shutdown while the destructors of Ceph's libraries run would crash.
    struct KeptConnection {
        Counted counted;  // destroyed last
        std::shared_ptr<void> connection;
    };

    // Immutable after start().
    const RbdOptions options_;
    const bool read_only_;
    const Nanoseconds opened_at_;
    const uint64_t at_most_;   // see OpenOptions
    const uint32_t at_least_;  // bytes; a smaller image is lost
    const std::string owner_;
    const bool keeps_taken_;
    std::string place_;      // ids of cluster and pool; a copy of the image elsewhere has different ones
    std::string ownership_;  // see ownership.h, and place_
    Succession succession_;  // set by the opening
    // Watches (client and cookie) that answered with HeaderWatch::kAnswer. Used only by the opening.
    std::set<std::pair<uint64_t, uint64_t>> only_watch_;
    std::optional<LockWatch> lock_watch_;  // from before a lock is broken until this client has it
    rados_t cluster_ = nullptr;
    std::shared_ptr<void> connection_;  // cluster_; the last reference shuts it down
    OwnClients own_;                    // since connect()
    rados_ioctx_t pool_ = nullptr;
    rados_ioctx_t data_pool_ = nullptr;  // nullptr: pool_
    rbd_image_t image_ = nullptr;
    uint64_t watch_ = 0;
    uint64_t object_bytes_ = 0, stripe_unit_ = 0;
    uint64_t found_bytes_ = 0;          // size of the image before the lock was taken
    std::string header_;                // name of the header object
    std::array<char, 8> look_input_{};  // id of the snapshot, encoded

    // How the opening ended. The thread that opens the image and the caller, which may give up, race to set
    // it. A caller that gives up sets opening_ and then reads image_is_ and may_have_lock_. The opening
    // thread sets these and then reads opening_, before it opens the image, and before it breaks or takes the
    // lock. So a caller that gives up always detects an image that is opened, or a lock that is taken, later.
    enum class Opening : uint8_t { kGoesOn, kDone, kGivenUp };
    bool decide(Opening how) noexcept;
    std::atomic<Opening> opening_{Opening::kGoesOn};
    // Shared with a caller that gives up, so that it does not keep the client.
    const std::shared_ptr<std::atomic<Image>> image_is_ = std::make_shared<std::atomic<Image>>(Image::kNone);
    std::atomic<bool> may_have_lock_{false};
    std::atomic<Loss> loss_{Loss::kNone};
    std::atomic<bool> parents_moved_{false};  // permanent: librbd does not open parents again
    std::atomic<bool> lock_is_gone_{false};   // release_in_order() found that another client removed the lock
    Claim claim_;
    // Start of the last look that found the image present and owned (boot_time()), and the time of its answer
    // (SystemClock).
    std::atomic<int64_t> seen_{0}, answered_{0};
    std::atomic<int> look_error_{0};  // errno of the last look
    std::atomic<int64_t> not_permitted_logged_{0};
    std::atomic<uint8_t> not_permitted_{0};  // bits: the last read (1), the last change (2) was not permitted
    // Deadline of monitor commands. Used by the thread that starts this client, then by the keeper, then by
    // the thread that stops it.
    Nanoseconds commands_until_;
    // Held by resize(), may_resize() and give_up_lock(), and while the image is closed.
    std::mutex size_lock_;
    // kUnknown: a resize failed, and the resulting size could not be read.
    enum class Resizing : uint8_t { kNo, kUnderWay, kUnknown };
    std::atomic<Resizing> resizing_{Resizing::kNo};
    SizeNotices sizes_;
    const std::shared_ptr<HeaderWatches> watches_ = std::make_shared<HeaderWatches>();  // of connection_
    Parents parents_{*watches_, [this] {
                         std::lock_guard lock(keeper_lock_);
                         urgent_ = true;
                         keeper_wake_.notify_one();
                     }};
    Throttles throttles_;
    LateCalls late_calls_;
    std::atomic<Calls*> calls_{nullptr};     // linked by `next`; owned
    bool took_lock_ = false;                 // the opening took the lock; it may have failed after that
    std::atomic<bool> maps_objects_{false};  // the image has an object map, and this client owns the image
    std::atomic<bool> was_marked_{false};    // permanent: that map was marked as invalid at some time
    std::atomic<bool> was_marked_at_look_{false};  // the last look found the mark
    std::atomic<bool> last_mark_failed_{false};    // permanent; reported once
    // doubts_ counts failures that may have left an entry out of the object map. settled_ is the value of
    // doubts_ up to which the map is known to be complete, or is marked as invalid on the header.
    std::atomic<uint64_t> doubts_{0}, settled_{0};
    std::atomic<bool> must_mark_{false};  // one of these failures was a missing permission
    // The map may belong to the next owner: no further mark is sent. Set under marks_lock_, which the
    // follower holds while it sends a mark, so that none is sent after the lock is released.
    std::atomic<bool> ended_marks_{false};
    std::mutex marks_lock_;
    std::atomic<bool> is_closing_{false};   // the volume is closed: a loss no longer concerns the operator
    std::atomic<bool> keeps_claim_{false};  // this client lost the lock, and could not be blocklisted
    std::atomic<bool> marks_map_{false};    // a mark is in flight
    std::atomic<uint64_t> marks_{0};        // marks that Ceph has set for this client
    std::atomic<int> mark_error_{0};        // errno of the last mark
    Questions questions_;

    std::mutex keeper_lock_;
    std::condition_variable keeper_wake_, follower_wake_;
    // Guarded by keeper_lock_.
    bool header_changed_ = false, look_over_ = false, urgent_ = false, stopping_ = false;
    News news_;
    // Used only by the keeper, then by the thread that stops this client.
    bool waiting_reported_ = false;
    bool gave_up_lock_ = false;
    std::string keeper_failure_;
    Nanoseconds moved_at_{};
    Nanoseconds no_holder_since_ = kNever;  // start of the first look that found no holder of the lock
    Look look_;                             // its times are those of boot_time()
    uint64_t look_moment_ = 0, look_marks_ = 0;
    bool look_soon_ = false;  // the next look does not wait for its time
    std::thread keeper_;
    // Used only by the follower.
    bool marked_map_ = false;   // the header marked the object map as invalid at the last look
    uint64_t marks_known_ = 0;  // marks_ when that look began
    std::string follower_failure_;
    std::thread follower_;
};

}  // namespace wss::io::rbd
