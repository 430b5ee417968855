// SPDX-License-Identifier: Apache-2.0
// Session: one thread's client of all partitions. What Client and LocalClient stand on, and what the
// simulation runs.
//
// A request becomes a *job* (get_job.h, put_job.h, …): a state machine whose steps are replies, completed
// one-sided reads, and time. Jobs come from pools and keep their memory.
//
// Life: start() → `ready` → submit() … → close() → closed(). close() ends what is under way with kClosed.
//
// Links are made when they are needed. One partition suffices to begin: it tells the map and leases the
// client's id. A partition that is down fails what touches it, and nothing else.
//
// Thread-safety: none; belongs to the lane's reactor. The SharedState may be shared with other threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/list.h"
#include "lib/kv/address_cache.h"
#include "lib/kv/client.h"
#include "lib/kv/floors.h"
#include "lib/kv/hlc.h"
#include "lib/kv/landing.h"
#include "lib/kv/link.h"
#include "lib/kv/placement.h"

namespace wss::kv {

class SharedState {
  public:
    explicit SharedState(uint32_t keys) : addresses(keys) {}
    AddressCache addresses;
};

// A request under way.
class Job : public ListNode<Job> {
  public:
    explicit Job(Session& session) : session_(session) {}
    virtual ~Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    virtual void begin(Request& request) noexcept = 0;
    // `wake_at` has come.
    virtual void on_wake() noexcept = 0;
    // The deadline has passed or the session closes: forget all calls, set the request's status, finish().
    virtual void give_up(const Status& why) noexcept = 0;
    virtual void on_read_done(uint32_t, bool) noexcept {}
    // Something that carries the client's id is under way: a write, a lock.
    virtual bool uses_id() const { return false; }
    // A partition without which it cannot go on, rather one that cannot be reached; kPartitionsMax: none.
    virtual uint32_t waits_for() const = 0;

    Nanoseconds deadline{};
    Nanoseconds wake_at = kNever;
    Request::Kind kind{};
    uint32_t put_off_by = kPartitionsMax;  // that partition's last reply was "not ready"

  protected:
    void wake_in(Nanoseconds delay) noexcept;
    Session& session_;
};

class Session final : public LinkHandler {
  public:
    Session(Lane& lane, WallClock& wall, uint64_t seed, Options options);
    ~Session() override;

    // `ready` is called once: a partition has answered, or why none has.
    void start(std::function<void(const Status&)> ready);
    void submit(Request& request) noexcept;
    void close() noexcept;
    bool closed() const { return closed_ && active_.empty() && lane_.empty(); }

    const Options& options() const { return options_; }
    uint32_t partitions() const { return static_cast<uint32_t>(links_.size()); }
    const Statistics& statistics() const { return statistics_; }
    Statistics& statistics() { return statistics_; }
    std::shared_ptr<SharedState> shared() const { return shared_; }

    // --- for jobs
    Link& link(uint32_t partition) {
        Link& link = *links_[partition];
        link.want();
        return link;
    }
    // That partition's time of day, as far as it is known here.
    Timestamp time_of(uint32_t partition) noexcept;
    Timestamp slowest_time() noexcept;  // of the partitions that have greeted
    // A refusal of `partition` named its clock. True: the clock was stepped.
    bool learn_time(uint32_t partition, Timestamp theirs) noexcept;
    // Takes another client id when the own clock was stepped back too far for the present one. False: there
    // is none yet, to begin with.
    bool has_id() noexcept;
    // The reason why `partition`, whose clock shows `theirs`, refuses the timestamp `mine`.
    Status too_far_ahead(uint32_t partition, Timestamp mine, Timestamp theirs) const;
    HybridClock& clock() { return clock_; }
    Random& random() { return random_; }
    AddressCache& addresses() { return shared_->addresses; }
    Landing& landing() { return landing_; }
    Nanoseconds now() { return lane_.reactor().now(); }
    Nanoseconds read_window() const { return read_window_; }
    wire::KvGetReply& get_reply() { return get_reply_; }
    wire::KvGet& get_request() { return get_request_; }
    // Begins a one-sided read of `length` bytes into `chunk`, which is the session's until on_read_done().
    // False: not now. `cookie` is good for abandon_read(): then nobody is told, and the chunk goes back by
    // itself.
    struct Read {
        uint32_t partition = 0;
        uint64_t offset = 0;  // in the arena
        uint32_t length = 0;
        uint32_t chunk = 0;
        uint32_t index = 0;  // the job's
    };
    bool begin_read(Job& job, const Read& read, uint32_t& cookie) noexcept;
    // Reads at once, where the fabric can: `length` bytes, which the next call overwrites. nullptr: not now.
    const std::byte* read_now(uint32_t partition, uint64_t offset, uint32_t length) noexcept;
    void abandon_read(uint32_t cookie) noexcept;
    // Session order.
    bool keeps_order() const { return floors_ != nullptr; }
    Timestamp floor_of(uint64_t fingerprint) const noexcept {
        return floors_ ? floors_->of(fingerprint) : Timestamp{};
    }
    void raise_floor(uint64_t fingerprint, Timestamp seen) noexcept {
        if (floors_ && !seen.is_none()) floors_->raise(fingerprint, seen);
    }
    void finish(Job& job, Request& request, Status status) noexcept;
    void want_tick(Nanoseconds at) noexcept;

  private:
    struct Reading {
        Job* job = nullptr;
        uint32_t index = 0;
        uint32_t chunk = Landing::kNone;  // kNone: not in use
    };
    static constexpr Nanoseconds kTick = from_ms(2);
    static constexpr Nanoseconds kTryNext = from_ms(250);  // to begin with another partition
    // A partition that refuses the client's id may lease it another one so often. All links change with it:
    // one that lies, or forgets ids, disturbs the others no more than that.
    static constexpr Nanoseconds kLeaseAgain = from_s(10);
    static constexpr Nanoseconds kAdoptLimit = from_s(1);
    struct SecondLease {
        Nanoseconds again{};  // not before
        bool asked = false;
    };

    Status make_link(uint32_t partition, const std::string& uri);
    void try_next_link() noexcept;
    void begin_anywhere() noexcept;
    Status take_map(Link& link);
    void share_id(uint32_t id) noexcept;
    void renew_id(std::string_view why) noexcept;
    void adopt_id() noexcept;
    SecondLease& second_lease(Link& link);
    Status check_links() const;
    Status why_late(const Job& job) const;
    const Status* refusal_of_all() const;
    void wake_waiting() noexcept;
    void started(const Status& status) noexcept;
    Job& take_job(Request::Kind kind);
    void on_ready(Link& link) noexcept override;
    void on_lost(Link& link, const Status& why) noexcept override;
    void on_id_taken(Link& link) noexcept override;
    void on_read_done(Link& link, uint64_t cookie, fabric::CompletionStatus status) noexcept override;
    static void on_tick(void* self) noexcept;
    Job* find_due() noexcept;
    void tick() noexcept;

    Lane& lane_;
    Options options_;
    std::shared_ptr<SharedState> shared_;
    HybridClock clock_;
    Random random_;
    const uint64_t nonce_;
    Landing landing_;
    std::unique_ptr<Floors> floors_;            // nullptr: no session order
    std::vector<std::unique_ptr<Link>> links_;  // by partition, once the map is known
    // A partition's time of day goes on with the monotonic clock: steps of ours do not move it.
    struct KnownTime {
        uint64_t ticks = 0;
        Nanoseconds at{};
    };
    std::vector<std::optional<KnownTime>> times_;  // by partition; none: it has not greeted
    std::vector<SecondLease> leases_;              // by partition
    Link* lessor_ = nullptr;  // has leased another id, which becomes ours when the present one is not used
    Nanoseconds adopt_by_{};  // … or not at all
    std::function<void(const Status&)> ready_;
    Nanoseconds start_deadline_{}, next_try_{};
    bool is_ready_ = false, closed_ = false;
    Nanoseconds read_window_ = from_s(4);

    List<Job, Job> active_;
    std::vector<std::unique_ptr<Job>> idle_[8];  // by kind
    std::vector<std::unique_ptr<Job>> busy_;
    std::vector<Reading> readings_;  // by cookie
    std::vector<uint32_t> readings_free_;
    reactor::Timer timer_;
    Nanoseconds next_tick_{};  // while the timer is set
    Statistics statistics_;
    // Scratch of one call at a time.
    wire::KvGetReply get_reply_;
    wire::KvGet get_request_;
};

}  // namespace wss::kv
