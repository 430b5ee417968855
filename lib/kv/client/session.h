// SPDX-License-Identifier: Apache-2.0
// ClientSession: one thread's client of all partitions. Client and LocalClient use it, and the simulation
// runs it.
//
// A request becomes a *job* (get_job.h, put_job.h, …): a state machine driven by replies, completed one-sided
// reads, and time. Jobs come from pools and keep their memory.
//
// Life: start() → `ready` → submit() … → close() → closed(). close() ends requests in flight with kClosed.
//
// Links connect on demand. One partition suffices to start: it sends the map and leases the client's id.
// A partition that is down fails only the requests that need it.
//
// Thread-safety: none; belongs to the lane's reactor. The SharedState may be shared with other threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/list.h"
#include "lib/kv/client/address_cache.h"
#include "lib/kv/client/client.h"
#include "lib/kv/client/client_id.h"
#include "lib/kv/client/one_sided_reads.h"
#include "lib/kv/client/partition_times.h"
#include "lib/kv/client/session_versions.h"
#include "lib/kv/hlc.h"
#include "lib/kv/placement.h"
#include "lib/kv/transport/link.h"

namespace wss::kv {

class SharedState {
  public:
    explicit SharedState(uint32_t keys) : addresses(keys) {}
    AddressCache addresses;
};

// Scratch memory of one call at a time.
struct GetScratch {
    wire::KvGetReply reply;
    wire::KvGet request;
};

// A request in flight.
class Job : public ListNode<Job> {
  public:
    explicit Job(ClientSession& session) : session_(session) {}
    virtual ~Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    virtual void begin(Request& request) noexcept = 0;
    // Called when `wake_at` has been reached.
    virtual void on_wake() noexcept = 0;
    // Called when the deadline has passed or the session closes. Must forget all calls, set the request's
    // status and call finish().
    virtual void give_up(const Status& why) noexcept = 0;
    virtual void on_read_done(uint32_t, bool) noexcept {}
    // True while a message with the client's id may be in flight: a write, a lock.
    virtual bool uses_id() const { return false; }
    // A partition that the job needs, preferably one that cannot be reached; kPartitionsMax: none.
    virtual uint32_t waits_for() const = 0;

    Nanoseconds deadline{};
    Nanoseconds wake_at = kNever;
    Request::Kind kind{};
    size_t place = 0;                      // position in the pool
    uint32_t put_off_by = kPartitionsMax;  // the partition whose last reply was "not ready"

  protected:
    void wake_in(Nanoseconds delay) noexcept;
    ClientSession& session_;
};

// Jobs keep their memory: an ended job is reused for the next request of its kind.
class JobPool {
  public:
    Job& take(ClientSession& session, Request::Kind kind);
    void give(Job& job) noexcept;

  private:
    std::vector<std::unique_ptr<Job>> idle_[8];  // idle jobs of each kind
    std::vector<std::unique_ptr<Job>> busy_;
};

// Whether the mode and the algorithm allow one-sided reads.
bool reads_one_sidedly(const Options& options);

class ClientSession final : public LinkHandler {
  public:
    ClientSession(Lane& lane, WallClock& wall, uint64_t seed, Options options);
    ~ClientSession() override;

    // `ready` is called once: with ok when a partition has answered, otherwise with the reason why none has.
    void start(std::function<void(const Status&)> ready);
    void submit(Request& request) noexcept;
    void close() noexcept;
    bool closed() const { return closed_ && active_.empty() && lane_.empty(); }

    const Options& options() const { return options_; }
    uint32_t partitions() const { return static_cast<uint32_t>(links_.size()); }
    Statistics& statistics() { return statistics_; }
    std::shared_ptr<SharedState> shared() const { return shared_; }

    // --- for jobs
    Link& link(uint32_t partition) {
        Link& link = *links_[partition];
        link.want();
        return link;
    }
    PartitionTimes& times() { return times_; }
    // True if the client has a usable id. Requests another id if the clock was set back too far for the
    // current one.
    bool has_id() noexcept { return id_.is_usable(); }
    // The error for a timestamp `mine` that `partition`, whose clock shows `theirs`, refused as too far
    // ahead.
    Status too_far_ahead(uint32_t partition, Timestamp mine, Timestamp theirs) const;
    HybridClock& clock() { return clock_; }
    Random& random() { return random_; }
    AddressCache& addresses() { return shared_->addresses; }
    Nanoseconds now() { return lane_.reactor().now(); }
    Nanoseconds read_window() const { return read_window_; }
    OneSidedReads& reads() { return reads_; }
    GetScratch& scratch() { return scratch_; }
    // The versions that this session has read, for session order; nullptr: no session order.
    SessionVersions* order() { return versions_.get(); }
    void finish(Job& job, Request& request, Status status) noexcept;
    void want_tick(Nanoseconds at) noexcept;

  private:
    static constexpr Nanoseconds kTick = from_ms(2);
    static constexpr uint32_t kSessionVersions = 1u << 16;  // keys
    static constexpr Nanoseconds kTryNext = from_ms(250);   // after this time start() tries another partition

    Status make_link(uint32_t partition, const std::string& uri);
    void try_next_link() noexcept;
    void begin_anywhere() noexcept;
    Status take_map(Link& link);
    Status check_links() const;
    Status why_late(const Job& job) const;
    const Status* refusal_of_all() const;
    void wake_waiting() noexcept;
    void started(const Status& status) noexcept;
    void on_ready(Link& link) noexcept override;
    void on_lost(Link& link, const Status& why) noexcept override;
    void on_id_taken(Link& link) noexcept override;
    void on_read_done(Link& link, uint64_t cookie, fabric::CompletionStatus status) noexcept override;
    void change_id() noexcept;
    static void on_tick(void* self) noexcept;
    Job* find_due() noexcept;
    void tick() noexcept;

    Lane& lane_;
    Options options_;
    std::shared_ptr<SharedState> shared_;
    HybridClock clock_;
    Random random_;
    const uint64_t nonce_;
    OneSidedReads reads_;
    std::unique_ptr<SessionVersions> versions_;  // nullptr: no session order
    std::vector<std::unique_ptr<Link>> links_;   // indexed by partition, once the map is known
    PartitionTimes times_;
    ClientId id_;
    std::function<void(const Status&)> ready_;
    Nanoseconds start_deadline_{}, next_try_{};
    bool is_ready_ = false, closed_ = false;
    Nanoseconds read_window_ = from_s(4);

    List<Job, Job> active_;
    JobPool jobs_;
    reactor::Timer timer_;
    Nanoseconds next_tick_{};  // valid while the timer is set
    Statistics statistics_;
    GetScratch scratch_;
};

}  // namespace wss::kv
