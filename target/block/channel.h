// SPDX-License-Identifier: Apache-2.0
// Channel: one connection of an initiator. Receives commands, runs them, answers.
//
// Its slots, send queue and lists are made when it is made; nothing is allocated per command. Messages are
// built during a reactor's turn and posted together at its end (flush()).
//
//   channel.cc           life: open, close, drain, completions
//   request_datapath.cc  what a command needs before and after its storage (the states: request.h)
//   storage.cc           its storage operations
//   transfer.cc          which work requests move its data and answer it
//   task_management.cc   aborts
//   throttle.cc          limits of volumes
//   reserve.cc           PERSISTENT RESERVE OUT
//   channel_auth.cc      authentication, before all of these
//
// Life: kConnecting → kLive → kDraining → kClosing → kClosed, only forwards. kDraining (logout, shutdown):
// commands in flight are finished and answered, new ones are not begun. kClosing: the connection is going
// down. kClosed: on_closed() was heard; the channel dies when the storage has let go of its last request.
//
// Credits: what the peer may have outstanding is `credits_`, its view; a command beyond it ends the
// connection.
//
// Thread-safety: belongs to its lane's reactor. Others reach it through its ChannelRecord and post().
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
                      private se::WorkOwner,
                      private se::ClientSink {
  public:
    Channel(Lane& lane, std::shared_ptr<ChannelRecord> record);
    ~Channel() override;

    // Makes the connection, posts every receive, accepts. On failure the request is rejected by the caller.
    Status open(fabric::ConnectRequest& request, std::span<const std::byte> accept_data);
    // Ends the connection now. The first reason counts.
    void close(std::string_view why) noexcept;
    // Finishes what is in flight, then closes.
    void drain(std::string_view why, wss_srp_logout_reason reason = WSS_SRP_LOGOUT_NO_REASON) noexcept;

    // Posts what this turn has built; returns the number of work requests posted.
    size_t flush() noexcept;
    // What `request` waited for.
    void buffer_offered(Request& request, std::byte* block) noexcept;
    void work_offered(Request& request, se::Work& work) noexcept;
    // `passed`: else it ends with its status: it waited too long, or its volume or the channel ends.
    void limit_over(Request& request, bool passed) noexcept;
    void volume_changed(volume::Change change, const volume::OpenVolume& volume) noexcept;
    void notify_everything() noexcept;
    // Sends a message that every initiator answers. At most one is unanswered: the caller sees to it.
    void probe() noexcept;

    // Task management: `job` waits for the commands here that it means; then tells its requester.
    void abort_tasks(AbortJob& job) noexcept;
    void tasks_aborted(uint16_t slot) noexcept;

    // Authentication: the session table has taken the channel into a session, or will not.
    void admit() noexcept;
    void refuse_authentication(std::string_view why) noexcept;

    // What the initiator holds of the lane's arena; none before the session has admitted the channel.
    const std::shared_ptr<InitiatorShare>& share() const noexcept { return share_; }
    NexusShare& nexus_of(const Request& request) noexcept;
    Account account_of(const Request& request) noexcept;

    bool dead() const noexcept { return life_ == Life::kClosed && busy_ == 0; }
    const ChannelRecord& record() const noexcept { return *record_; }
    const std::shared_ptr<ChannelRecord>& shared_record() const noexcept { return record_; }

    // For the range locks.
    void lock_granted(uint16_t slot, uint64_t lock_id) noexcept;
    void hold_lifted(Request& request) noexcept;
    // `mark(request)` for the changes of the unit that have begun; returns for how many it returned true.
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
    // Initiators that are registered with the unit are notified of what others did.
    void reservations_changed(const Unit& unit, const volume::Reservations& change) noexcept;
    void reserved(const ReserveJob& job) noexcept;
    void look_again(Request& request) noexcept;

    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

  private:
    enum class Life : uint8_t { kConnecting, kLive, kDraining, kClosing, kClosed };
    // Fused completions without data that this build() has made: the work request of the first, which becomes
    // a message when there is a second.
    struct Done {
        fabric::WorkRequest* work = nullptr;
        std::byte* text = nullptr;
        uint32_t credits = 0;
        size_t count = 0;
        std::array<uint16_t, wire::kDoneMax> tags;
    };
    struct ShortBytes {
        std::array<std::byte, 16> bytes;
    };

    // channel.cc
    void set_life(Life next) noexcept;
    Status make_slots(uint32_t count);
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
    // `sense`: of CHECK CONDITION.
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
    // False: it waits, or is refused.
    bool within_limits(Request& request) noexcept;
    void stop_waiting(Request& request, bool place_kept) noexcept;

    // cached.cc
    bool storage_was_lost(const se::CachedVolume& volume) noexcept;
    void cached_flush(Request& request) noexcept;
    void cache_failed(Request& request, io::Op op, int error) noexcept;
    void await_engines(Request& request) noexcept;
    bool freeze_first(Request& request) noexcept;
    void frozen(Request& request, int error) noexcept;
    void cached_io(Request& request) noexcept;
    void begin_cached(Request& request, se::Work& work) noexcept;
    void need_buffer(se::Work& work) noexcept override;
    void cached_buffer(Request& request) noexcept;
    void cached_data_here(Request& request) noexcept;
    void delegated(se::Work& work) noexcept override;
    void answered(se::Work& work) noexcept override;
    void ended(se::Work& work, const se::Ending& ending) noexcept override;
    void tell(const wire::CacheEngineNotice& notice) noexcept override;
    void leave_cache(Request& request) noexcept;
    void join_cache() noexcept;
    void build_notice() noexcept;
    // From storage's or the cache's hands; false: the connection is gone, and so is the request.
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
    fabric::RemoteAddress next_piece(Request& request, uint32_t& length) const noexcept;
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
    // Of a request that is no command: nothing of it but its slot is used.
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
    Counters& counters_;

    std::unique_ptr<fabric::Region> arena_;
    std::unique_ptr<Request[]> requests_;
    std::unique_ptr<auth::Authenticator>
        auth_;                         // until the session admits us; nullptr: nothing (more) to prove
    Request* auth_request_ = nullptr;  // carries the result
    std::unique_ptr<fabric::Connection> connection_;  // dies first: it refers to the memory above
    uint32_t slots_ = 0;
    // Of the connection, from on_established() on.
    uint32_t inline_max_ = 0;
    size_t done_max_ = 0;  // tags in one message; below 2: none, as it could not be inlined
    uint32_t read_depth_ = 0;

    Life life_ = Life::kConnecting;
    uint32_t busy_ = 0;       // requests that storage or range locks hold
    uint32_t in_flight_ = 0;  // requests that are not kReceiving
    uint32_t credits_;        // commands the peer may send now
    uint32_t owed_ = 0;       // credits of requests that got no answer
    std::shared_ptr<InitiatorShare> share_;
    // Where commands wait, by LUN (kBadLun: those of no volume); made when one waits first.
    std::unordered_map<uint64_t, WaitingFlows> flows_;
    Rights rights_;
    Attentions attentions_;  // of a peer that is not notified; of reservations in any case

    // The send queue.
    List<Request> answers_;               // kSending, not wholly built
    List<Request> fetches_;               // kFetching*, with READs to be built
    AbortJob* fence_job_ = nullptr;       // waits for the completion of all that was posted
    bool fence_wanted_ = false;           // ... its WRITE is still to be built
    AbortJob* next_fence_job_ = nullptr;  // came when that WRITE was built: needs one of its own
    uint32_t reads_outstanding_ = 0;
    uint32_t sends_outstanding_ = 0;  // work requests posted and not known to be complete
    uint32_t since_signal_ = 0;
    std::vector<uint16_t> signalled_;  // ring: work requests up to and with each signalled one
    size_t signalled_head_ = 0, signalled_tail_ = 0;
    // Built, not yet posted.
    std::array<fabric::WorkRequest, kBatch> batch_;
    std::array<fabric::Segment, kBatch> segments_;
    uint32_t batch_count_ = 0;
    Done done_;  // of the build() that is going on
    std::vector<fabric::Receive> reposts_;
    std::vector<fabric::Segment> receive_segments_;  // by slot
    std::array<ShortBytes, kShortQueue> short_queue_;
    std::span<ShortBytes> short_posting_;  // registered: payloads of the batch
    bool short_busy_ = false;  // one that could not be inlined is being sent from short_posting_[0]
    uint32_t short_head_ = 0, short_count_ = 0;
    se::Client* cache_client_ = nullptr;
    uint64_t losses_at_login_ = 0;                        // of storage elsewhere
    std::unordered_map<uint32_t, uint64_t> losses_told_;  // by the cache's number of the volume; rarely any
    std::deque<wire::CacheEngineNotice> notices_;         // to be sent; no more than there are engines
    std::span<std::byte> notice_memory_;                  // of the one that is being sent
    bool notice_busy_ = false;
    std::optional<wss_srp_logout_reason>
        goodbye_;  // kDraining: the peer is still to be told why, by a T_LOGOUT
    std::string_view drain_reason_;
};

}  // namespace wss::block
