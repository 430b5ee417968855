// SPDX-License-Identifier: Apache-2.0
// Service: one partition of the key-value store, as a server. Messages in, store, messages out.
//
//   connections ─▶ Peer ─▶ handler of the message's kind ─▶ store ─┬▶ reply at once
//                                                                  └▶ reply when the log or the disk has
//                                                                  answered
//
// Client ids. Every partition leases those of its range (lease_table.h); a client shows its id and its nonce
// to every partition. An id that is in use, or was lately, by another nonce is refused, and so is a prepare
// whose timestamp carries an id that is not the connection's: no two clients can make the same timestamp.
//
// Termination. Transactions that stay prepared for Options::terminate_after are decided by asking the other
// participants (store.h tells how); partitions connect to each other as clients without an id.
//
// Life: create() → listen() or connected(), → stop(done). The store's recovery happens in create(); prepared
// transactions that it found are terminated before `ready`: until then writes and reads of clients are
// answered kNotReady.
//
// Thread-safety: none; belongs to one reactor. statistics_text() too.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/kv/channel.h"
#include "lib/kv/hlc.h"
#include "lib/kv/lease_table.h"
#include "lib/kv/link.h"
#include "lib/kv/slow_log.h"
#include "lib/kv/store/snapshot.h"
#include "lib/kv/store/store.h"

namespace wss::kv {

struct ServiceOptions {
    uint32_t partition = 0;
    std::vector<std::string> partitions;  // URIs, all of them; this one's too
    store::Options store;
    uint64_t arena_bytes = 256u << 20;
    Nanoseconds terminate_after = from_s(1);
    Nanoseconds lease = from_s(60);  // an id stays its owner's for that long after the last connection
    Nanoseconds ahead_max = from_us(kAheadMax_ticks);  // of a timestamp, before our clock
    // Below which snapshots are made, by name; "": none. `identity`: the log's, so that a server starts from
    // one.
    std::string snapshots, identity;
    Nanoseconds slow = from_ms(50);  // requests that took longer are kept in the slow log
    uint64_t seed = 1;               // of what must be random
};

struct ServiceCounters {
    uint64_t connections = 0, messages = 0;
    uint64_t gets = 0, get_keys = 0, second_round_gets = 0;
    uint64_t prepares = 0, commits = 0, aborts = 0, checks = 0, conditional = 0, scans = 0, locks = 0;
    uint64_t refused = 0, malformed = 0;
    uint64_t refused_cold = 0;     // reads beyond kColdRequestsMax or kColdBytesMax
    uint64_t refused_backlog = 0;  // … of a peer that does not take its replies
    uint64_t terminated_commit = 0, terminated_abort = 0, terminated_guess = 0, terminations_waiting = 0;
    uint64_t one_sided_keys = 0;                                 // as clients tell
    std::array<uint64_t, size_t(Fallback::kCount)> fallbacks{};  // get messages, by their Fallback
    uint64_t ahead_max_us = 0;  // the furthest that a client's clock was seen before ours
};

class Service final : public fabric::ListenHandler, public LinkHandler {
  public:
    // `fabrics`: one lane each; the arena comes from the first that is called "shm", else from the first, and
    // is registered with the others. `log`: the store's; may be nullptr.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   std::vector<fabric::Fabric*> fabrics, WallClock& wall,
                                                   store::Log* log, ServiceOptions options);
    // The same over lanes that several partitions of this reactor share.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
                                                   store::Log* log, ServiceOptions options);
    static constexpr size_t kColdRequestsMax = 1024;     // gets and scans that wait for the disk
    static constexpr size_t kColdBytesMax = 256u << 20;  // that they hold, or will when the disk has answered
    ~Service() override;

    Result<fabric::Address> listen(size_t fabric_index, const fabric::Address& address);
    // A connect request of ours that somebody else's listener took.
    void connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request);
    static bool is_ours(wire::Bytes connect_data);

    // Closes everything; `done` when the last connection is over.
    void stop(std::function<void()> done);
    bool stopped() const { return stopping_ && peers_.empty() && lanes_empty(); }
    bool ready() const { return ready_; }

    const ServiceCounters& counters() const { return counters_; }
    store::Store& store() { return *store_; }
    std::string info_json() const;
    const SlowLog& slow_log() const { return slow_log_; }

  private:
    class Peer;
    struct Pending;
    struct ColdGet;
    struct ColdScan;
    struct ColdRow;
    struct Termination;
    class Port;

    Service(reactor::Reactor& reactor, WallClock& wall, ServiceOptions options);
    Status open(store::Log* log);
    Status open_arena();
    bool lanes_empty() const;
    void accept(size_t lane, fabric::ConnectRequest& request);
    void peer_gone(Peer& peer);

    // Messages; service_reads.cc, service_writes.cc.
    void message_arrived(Peer& peer, wire::Bytes message) noexcept;
    void dispatch(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void hello(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    wire::KvStatus lease_id(Peer& peer);
    void goodbye(Peer& peer, wire::Bytes message);
    void get(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    wire::KvStatus check_get(const Peer& peer, const wire::KvGet& get, const wire::KvHeader& header);
    bool look_up(const wire::KvGet& get, uint8_t flags);
    store::Found find(const wire::KvGet::Item& item, bool addressed);
    bool is_busy_with_disk(size_t more);
    void get_cold(Peer& peer, const wire::KvHeader& header, Nanoseconds began);
    void note_time(wire::KvKind kind, const Peer& peer, uint32_t keys, Nanoseconds began);
    void count_fallback(uint8_t flags);
    void count_one_sided(wire::Bytes message);
    static void cold_arrived(void* context, const store::Found& found) noexcept;
    void scan(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void scan_cold(Peer& peer, const wire::KvHeader& header, std::span<const size_t> cold);
    void fetch_row(ColdRow& row);
    static void row_arrived(void* context, const store::Found& found) noexcept;
    void send_cold_scan(ColdScan& job);
    void prepare(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    bool are_distinct_partitions(std::span<const uint16_t> participants) const;
    wire::KvStatus check_key(std::string_view key) const;
    Timestamp clock_stamp();
    bool is_too_far_ahead(Timestamp timestamp, uint64_t lead = 0);
    wire::KvStatus check_timestamp(const Peer& peer, wire::KvKind kind, Timestamp timestamp);
    bool is_of_former_client(const Peer& peer, Timestamp timestamp) const;
    void refuse_write(Peer& peer, const wire::KvHeader& header, wire::KvStatus status);
    void put_if(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void decide(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    bool is_prepared(Timestamp timestamp) const;
    void lock(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    Timestamp newest_of_locked(const Peer& peer, std::span<const std::string_view> keys);
    void unlock(Peer& peer, wire::Bytes message);
    void work_on_snapshot();
    void end_snapshot(const Status& status);
    void snapshot(Peer& peer, const wire::KvHeader& header, wire::Bytes message);

    // Answers.
    void answer(Peer& peer, const wire::KvHeader& request, wire::KvStatus status, uint64_t timestamp = 0);
    void refuse(Peer& peer, const wire::KvHeader& request, wire::KvStatus status, std::string_view why);
    wire::KvHeader reply_to(const wire::KvHeader& request, wire::KvStatus status) const;
    Pending& expect(Peer& peer, const wire::KvHeader& request, Timestamp timestamp);
    void drop(Pending& pending);
    static void write_answered(void* context, store::Answer answer) noexcept;
    static void lock_answered(void* context, store::LockAnswer answer) noexcept;
    void finish_write(Pending& pending, store::Answer answer);
    wire::KvStatus status_of(wire::KvKind kind, bool committing, store::Answer answer) const;

    // Time and termination; termination.cc.
    static void on_tick(void* self) noexcept;
    void tick();
    void terminate_overdue();
    void terminate(const store::Overdue& overdue);
    void give_up_late_inquiries(Nanoseconds now);
    bool waits_in_vain(std::span<const uint16_t> participants) const;
    bool ask_participant(Termination& job, uint32_t partition);
    static void participant_answered(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void termination_over(Termination& job);
    void guessed(Timestamp timestamp);
    Link* link_to(uint32_t partition);
    void on_ready(Link&) noexcept override {}
    void on_lost(Link&, const Status&) noexcept override {}
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override;

    reactor::Reactor& reactor_;
    const ServiceOptions options_;
    HybridClock clock_;
    Random random_;
    const uint64_t incarnation_;
    std::vector<std::shared_ptr<Lane>> lanes_;
    std::unique_ptr<fabric::Region> arena_;                    // owns the memory
    std::vector<std::unique_ptr<fabric::Region>> registered_;  // by lane; nullptr: the arena's own
    size_t arena_lane_ = 0;
    std::unique_ptr<store::Store> store_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::vector<std::unique_ptr<Peer>> peers_;
    LeaseTable leases_;
    std::vector<std::unique_ptr<Pending>> pending_, pending_free_;
    std::vector<std::unique_ptr<ColdGet>> cold_;
    std::vector<std::unique_ptr<ColdScan>> cold_scans_;
    std::vector<std::unique_ptr<Link>> links_;  // to the other partitions, by index; made when needed
    std::unordered_map<uint64_t, std::unique_ptr<Termination>> terminations_;
    reactor::Timer timer_;
    Nanoseconds last_termination_{};
    bool ready_ = false, stopping_ = false;
    std::function<void()> stopped_done_;
    ServiceCounters counters_;
    SlowLog slow_log_;
    std::unique_ptr<store::Snapshot> snapshot_;  // one at a time
    wire::KvHeader snapshot_header_;
    Peer* snapshot_peer_ = nullptr;  // who waits for it
    Nanoseconds snapshot_deadline_{};
    const Nanoseconds started_;

    // Scratch of one message at a time.
    wire::KvHello hello_;
    wire::KvGet get_;
    wire::KvGetReply get_reply_;
    wire::KvPrepare prepare_;
    wire::KvScanReply scan_reply_;
    wire::KvLock lock_;
    std::vector<store::Write> writes_;
    std::vector<Timestamp> among_;
    std::vector<store::Found> found_;
};

}  // namespace wss::kv
