// SPDX-License-Identifier: Apache-2.0
// Channel: one connection of an initiator. Receives commands, executes them, responds.
//
// Slots, send queue and lists are allocated with the channel. Reads and writes allocate nothing. Messages are
// queued during a turn of the reactor, and built and posted together at its end (flush()).
//
//   channel.cc           life: open, close, drain, completions
//   request_datapath.cc  a command before and after its storage operations (the states: request.h)
//   storage.cc           storage operations
//   cached.cc            commands of cached volumes
//   transfer.cc          the work requests that move data and send responses
//   task_management.cc   aborts
//   throttle.cc          limits of volumes
//   reserve.cc           PERSISTENT RESERVE OUT
//   channel_auth.cc      authentication, before all of these
//
// Life: kConnecting → kLive → kDraining → kClosing → kClosed, only forwards. kDraining (logout, shutdown):
// commands in flight are completed and answered. New ones are not started. kClosing: the connection is being
// closed. kClosed: on_closed() was called; the channel is destroyed when `busy_` is 0.
//
// Credits: `credits_` is the number of commands that the peer may send now. A command that exceeds this
// number ends the connection.
//
// Thread-safety: belongs to its lane's reactor. Other threads reach it through its ChannelRecord and post().
// Ownership: the lane owns it.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/block/attentions.h"
#include "target/block/initiator_share.h"
#include "target/block/limits.h"
#include "target/block/request.h"
#include "target/block/rights.h"
#include "target/block/session.h"
#include "target/block/unit.h"
#include "target/cache/cache.h"

namespace wss::block {

class Lane;
class Worker;
struct ReserveJob;

class Channel final : public fabric::ConnectionHandler,
                      public ListNode<Channel>,
                      public ListNode<Lane>,
                      private cache::CommandOwner {
  public:
    Channel(Lane& lane, std::shared_ptr<ChannelRecord> record);
    ~Channel() override;

    // Creates the connection, posts every receive and accepts. On failure the caller must reject the request.
    Status open(fabric::ConnectRequest& request, std::span<const std::byte> accept_data);
    // Ends the connection now. Later calls have no effect.
    void close(std::string_view why) noexcept;
    // Completes the commands in flight, then closes.
    void drain(std::string_view why, wss_srp_logout_reason reason) noexcept;

    // Posts the work requests of this turn; returns their number.
    size_t flush() noexcept;
    // `request` gets the block that it waited for.
    void buffer_offered(Request& request, std::byte* block) noexcept;
    void command_offered(Request& request, cache::CacheCommand& command) noexcept;
    // If `passed` is true, the request may begin. Otherwise it ends with its status: it has waited too long,
    // or its volume or the channel is ending.
    void limit_over(Request& request, bool passed) noexcept;
    void volume_changed(volume::Change change, const volume::OpenVolume& volume) noexcept;
    void notify_everything() noexcept;
    // Sends a message that every initiator answers. The caller ensures that at most one is unanswered.
    void probe() noexcept;

    // Task management: `job` waits for those commands of this channel that it concerns.
    void abort_tasks(AbortJob& job) noexcept;
    void tasks_aborted(uint16_t slot) noexcept;

    // Authentication: the session table has added the channel to a session, or has refused it.
    void admit() noexcept;
    void refuse_authentication(std::string_view why) noexcept;

    // The initiator's share of the lane's arena; nullptr until the channel is admitted to a session.
    const std::shared_ptr<InitiatorShare>& share() const noexcept { return share_; }
    NexusShare& nexus_of(const Request& request) noexcept;
    Account account_of(const Request& request) noexcept;

    bool dead() const noexcept { return life_ == Life::kClosed && busy_ == 0; }
    const ChannelRecord& record() const noexcept { return *record_; }
    const std::shared_ptr<ChannelRecord>& shared_record() const noexcept { return record_; }

    // Called by the range locks.
    void lock_granted(uint16_t slot, uint64_t lock_id) noexcept;
    void hold_lifted(Request& request) noexcept;
    // Calls `mark(request)` for each command that has begun to change the unit; returns how many of the calls
    // returned true.
    template <typename Mark>
    uint32_t mark_changes(const Unit& unit, Mark&& mark) noexcept {
        uint32_t marked = 0;
        for (uint32_t i = 0; i < slots_; ++i) {
            Request& request = requests_[i];
            const bool has_begun = request.locked || static_cast<ListNode<WriterTag>&>(request).linked();
            if (request.unit == &unit && has_begun && mark(request)) ++marked;
        }
        return marked;
    }
    Rights& rights() noexcept { return rights_; }
    // Queues unit attentions for changes that other initiators made to the registration or reservation of
    // this channel's initiator.
    void reservations_changed(const Unit& unit, const volume::Reservations& change) noexcept;
    void reserved(const ReserveJob& job) noexcept;
    // The wait for cache engines has ended (awaiting.h).
    void wait_over(Request& request) noexcept;
    void notify(const wire::CacheEngineNotice& notice) noexcept;

    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

  private:
    enum class Life : uint8_t { kConnecting, kLive, kDraining, kClosing, kClosed };
    // Fused completions without data that this build() has added. They share one work request, which becomes
    // a batched completion message when there is a second one.
    struct Done {
        fabric::WorkRequest* work = nullptr;
        std::byte* text = nullptr;
        uint32_t lkey = 0;  // of `text`
        uint32_t credits = 0;
        size_t count = 0;
        std::array<uint16_t, wire::kDoneMax> tags;
    };
    struct ShortBytes {
        std::array<std::byte, 16> bytes;
    };

    // channel.cc
    void set_life(Life next) noexcept;
    Status add_slots(uint32_t count);
    void mark_dirty() noexcept;
    void violation(wss_srp_logout_reason reason) noexcept;
    void completion_failed(const fabric::Completion& completion) noexcept;
    void received(Request& request, uint32_t length) noexcept;
    void received_short(Request& request) noexcept;
    void sent(uint64_t cookie) noexcept;
    void send_short(const ShortBytes& message) noexcept;
    void log_out(Request& request) noexcept;
    void send_notify(uint8_t event, uint64_t lun) noexcept;
    bool take_credit() noexcept;
    void finish_drain_if_idle() noexcept;
    bool running() const noexcept { return life_ == Life::kLive || life_ == Life::kDraining; }

    // request_datapath.cc
    void start_command(Request& request) noexcept;
    Unit* find_unit(uint64_t lun) noexcept;
    void interpret(Request& request) noexcept;
    void dispatch(Request& request) noexcept;
    void prepare(Request& request) noexcept;
    void with_table(Request& request) noexcept;
    void with_buffer(Request& request) noexcept;
    bool obtain(Request& request, uint32_t bytes, Part part) noexcept;
    void give_data_buffer(Request& request) noexcept;
    void give_buffers(Request& request) noexcept;
    void use_block(Request& request, std::byte* block) noexcept;
    void data_ready(Request& request) noexcept;
    void begin_change(Request& request) noexcept;
    void change(Request& request) noexcept;
    void end_change(Request& request) noexcept;
    void respond_good(Request& request) noexcept;
    void respond_sense(Request& request, const wire::Sense& sense) noexcept;
    // `sense` is used if `status` is CHECK CONDITION.
    void respond_failure(Request& request, uint8_t status, const wire::Sense& sense) noexcept;
    void respond(Request& request) noexcept;

    // storage.cc
    void submit(Request& request, io::Op op, uint64_t offset, uint64_t length, std::byte* data) noexcept;
    static void storage_done(io::Request& io) noexcept;
    void storage_finished(Request& request) noexcept;
    void storage_failed(Request& request) noexcept;
    void next_unmap(Request& request) noexcept;
    void next_write_same(Request& request) noexcept;
    void next_verify(Request& request) noexcept;
    void verify_read(Request& request) noexcept;
    void compare_and_write(Request& request) noexcept;

    // reserve.cc
    void reserve(Request& request) noexcept;

    // throttle.cc
    // Returns false if the request waits, or was refused.
    bool within_limits(Request& request) noexcept;
    void stop_waiting(Request& request, bool place_kept) noexcept;

    // cached.cc
    bool is_new_loss(const cache::CachedVolume& volume, uint64_t loss) noexcept;
    void cached_flush(Request& request) noexcept;
    void cache_failed(Request& request, io::Op op, int error) noexcept;
    void await_engines(Request& request) noexcept;
    bool freeze_first(Request& request) noexcept;
    void frozen(Request& request, int error, bool is_frozen) noexcept;
    void cached_io(Request& request) noexcept;
    void begin_cached(Request& request, cache::CacheCommand& command) noexcept;
    void need_buffer(cache::CacheCommand& command) noexcept override;
    void cached_buffer(Request& request) noexcept;
    void cached_data_here(Request& request) noexcept;
    void delegated(cache::CacheCommand& command) noexcept override;
    void answered(cache::CacheCommand& command) noexcept override;
    void ended(cache::CacheCommand& command, const cache::CacheOutcome& outcome) noexcept override;
    void leave_cache(Request& request) noexcept;
    void join_cache() noexcept;
    void build_notice() noexcept;
    // Takes a request back from storage or from the cache. Returns false if the connection is gone; the
    // request was then released.
    bool take_back(Request& request) noexcept;

    // transfer.cc
    void begin_fetch(Request& request, std::byte* to, uint32_t lkey, uint32_t length) noexcept;
    void begin_table_fetch(Request& request) noexcept;
    void fetched(Request& request) noexcept;
    bool post_receives() noexcept;
    void build() noexcept;
    bool build_answer(Request& request) noexcept;
    bool build_data_writes(Request& request, bool fused) noexcept;
    void build_message(Request& request) noexcept;
    void build_ready(Request& request) noexcept;
    void build_fused(fabric::WorkRequest& work, Request& request) noexcept;
    void begin_done(Request& request) noexcept;
    bool join_done(Request& request) noexcept;
    void end_done() noexcept;
    void build_all() noexcept;
    bool build_reads(Request& request) noexcept;
    void build_short() noexcept;
    fabric::RemoteAddress next_segment(Request& request, uint32_t& length) const noexcept;
    void advance(Request& request, uint32_t length) noexcept;
    bool has_room() const noexcept { return batch_count_ < kBatch && sends_outstanding_ < send_depth_; }
    fabric::WorkRequest& add(fabric::Op op, std::byte* data, uint32_t length, uint32_t lkey) noexcept;
    void signal(fabric::WorkRequest& work, uint64_t cookie) noexcept;
    bool can_fuse(const Request& request) const noexcept;
    uint32_t take_credits_to_return() noexcept;
    void release(Request& request) noexcept;
    void recycle(Request& request) noexcept;

    // channel_auth.cc
    void received_auth(Request& request) noexcept;
    void proof_failed() noexcept;
    void refuse_suspended(Request& request, Nanoseconds wait) noexcept;
    void send_ready(Request& request, size_t length) noexcept;

    // task_management.cc
    // Prepares the answer of a request that is not a command: only its slot is used.
    void begin_answer(Request& request) noexcept;
    void start_task_management(Request& request) noexcept;
    void abort(Request& victim, AbortJob& job) noexcept;
    void fence_for(AbortJob& job) noexcept;
    void fence_passed() noexcept;

    // Immutable.
    Lane& lane_;
    Worker& worker_;
    const std::shared_ptr<ChannelRecord> record_;
    const ChannelTerms terms_;
    const uint32_t send_depth_;
    const uint32_t slots_max_;
    Counters& counters_;

    std::unique_ptr<fabric::Region> messages_;  // short_posting_, notice_memory_
    std::vector<std::unique_ptr<fabric::Region>> slot_memory_;
    std::deque<Request> requests_;  // by slot; they never move
    std::unique_ptr<auth::Authenticator>
        auth_;                         // until the session admits the channel; nullptr: nothing to prove
    Request* auth_request_ = nullptr;  // carries the result
    std::unique_ptr<fabric::Connection> connection_;  // destroyed first: it refers to the memory above
    uint32_t slots_ = 0;
    // Limits of the connection; set by on_established().
    uint32_t inline_max_ = 0;
    size_t done_max_ = 0;  // tags in one batched completion that can be inlined; below 2: none is sent
    uint32_t read_depth_ = 0;

    Life life_ = Life::kConnecting;
    uint32_t busy_ = 0;       // requests that storage, the cache, range locks or reservations hold
    uint32_t in_flight_ = 0;  // requests that are not kReceiving
    uint32_t credits_;        // commands the peer may send now
    uint32_t owed_ = 0;       // credits of requests that got no answer; returned with the next response
    std::shared_ptr<InitiatorShare> share_;
    // Flows of waiting commands, by LUN (kBadLun: commands without a volume); created on first use.
    std::unordered_map<uint64_t, WaitingFlows> flows_;
    Rights rights_;
    Attentions attentions_;  // for reservations, and for volumes if the peer receives no notifications

    // The send queue.
    List<Request> answers_;               // kSending, not yet completely built
    List<Request> fetches_;               // kFetching*, with READs to build
    AbortJob* fence_job_ = nullptr;       // waits for the completion of everything posted before its WRITE
    bool fence_wanted_ = false;           // ... but that WRITE is not built yet
    AbortJob* next_fence_job_ = nullptr;  // arrived after that WRITE was built, so it needs its own
    uint32_t reads_outstanding_ = 0;
    uint32_t sends_outstanding_ = 0;   // work requests posted and not known to be complete
    uint32_t since_signal_ = 0;        // work requests since the last signalled one
    std::vector<uint16_t> signalled_;  // a ring buffer: for each signalled work request, the number of work
                                       // requests that it completes
    size_t signalled_head_ = 0, signalled_tail_ = 0;
    // Work requests built, not yet posted.
    std::array<fabric::WorkRequest, kBatch> batch_;
    std::array<fabric::Segment, kBatch> segments_;
    uint32_t batch_count_ = 0;
    Done done_;  // the fused completions of the current build()
    std::vector<fabric::Receive> reposts_;
    std::vector<fabric::Segment> receive_segments_;  // by slot
    std::array<ShortBytes, kShortQueue> short_queue_;
    std::span<ShortBytes> short_posting_;  // registered: payloads of the batch
    bool short_busy_ = false;  // a message that was not inlined is being sent from short_posting_[0]
    uint32_t short_head_ = 0, short_count_ = 0;
    cache::Client* cache_client_ = nullptr;
    std::unordered_map<uint32_t, uint64_t> losses_told_;  // last loss reported, by the cache's volume number
    std::deque<wire::CacheEngineNotice> notices_;         // to be sent; at most one per engine
    std::span<std::byte> notice_memory_;                  // the notice being sent
    bool notice_busy_ = false;
    std::optional<wss_srp_logout_reason>
        goodbye_;  // kDraining: the reason for a T_LOGOUT that is not yet sent
    std::string_view drain_reason_;
};

}  // namespace wss::block
