// SPDX-License-Identifier: Apache-2.0
// PutJob: a put_all.
//
//   RAMP, several partitions   prepare on all ─▶ commit on all ─▶ done
//                                    └─ one refuses ─▶ abort on the others ─▶ failed, or retried later
//   RAMP, one partition        prepare and commit in one message
//   2PL                        locks ─▶ as above; a prepared key counts as locked, so its lock ends
//   none                       write on each
//   conditions                 as RAMP, whatever the algorithm: the partitions hold prepared keys
//
// prepare and commit are idempotent: messages in flight when a connection breaks are sent again, until the
// deadline.
//
// Outcomes. A part is *refused* when its partition has no trace of the transaction and never will have one:
// the partition refused the only message sent, or has recorded an abort. This does not hold if a repeated
// message is refused (the first one may have been carried out and forgotten), nor if the partition's log
// failed (its restart may find the transaction).
//   one part refused   the transaction can never commit: it has failed
//   all parts refused  a new timestamp may be used
//   none               the outcome is unknown; the partitions determine it (cooperative termination), the
//                      same on all
//
// A condition that does not hold refuses its part, and no new timestamp is used. An abort that is answered
// "committed" is too late: the partitions have decided, and the client completes the commit. A client that
// gives up before it has sent a commit sends aborts, because prepared transactions stay undecided while a
// participant is down. The outcome is unknown to it.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/kv/client/lock_phase.h"
#include "lib/kv/client/session.h"

namespace wss::kv {

class PutJob final : public Job {
  public:
    explicit PutJob(ClientSession& session) : Job(session), locks_(session) {}

    void begin(Request& request) noexcept override;
    void on_wake() noexcept override;
    void give_up(const Status& why) noexcept override;
    bool uses_id() const override { return !waits_to_start_; }
    uint32_t waits_for() const override;

  private:
    static constexpr uint32_t kRestartsMax = 100;

    enum class Phase : uint8_t { kLocking, kPreparing, kCommitting, kAborting };
    // One partition's part.
    struct Part {
        Call call;
        uint32_t partition = 0;
        bool done = false;     // the current phase has ended here
        bool lost = false;     // a prepare was sent but not answered: it may have been carried out
        bool refused = false;  // it was not carried out, and never will be
        std::vector<uint32_t> items, conditions;
    };

    Status prepare_items();
    Status check_items() const;
    Status check_keys() const;
    Part& part_of(uint64_t print);
    bool reaches_all();
    bool know_conditions();
    bool takes_locks() const;
    void start_transaction() noexcept;
    void write_under_locks() noexcept;
    bool ends_before_it_begins() const;
    void begin_writing() noexcept;
    void locks_refused() noexcept;
    void enter(Phase phase) noexcept;
    void send_all() noexcept;
    void send(Part& part) noexcept;
    bool send_prepare(Part& part) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void answered(Part& part, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void prepare_answered(Part& part, wire::KvStatus status, Timestamp named) noexcept;
    void condition_failed(Part& part, wire::Bytes message) noexcept;
    Status why_refused(const Part& part, wire::KvStatus status, Timestamp named) const;
    bool may_abort() const;
    void commit_answered(Part& part, wire::KvStatus status) noexcept;
    void abort_answered(Part& part, wire::KvStatus status) noexcept;
    void phase_over() noexcept;
    void prepare_failed() noexcept;
    void abort_over() noexcept;
    void end_unknown() noexcept;
    size_t refused_parts() const;
    void lock_again() noexcept;
    uint32_t restarts_max() const;
    void restart() noexcept;
    void end(Status status) noexcept;
    bool skips(uint64_t mask, const Part& part) const;
    bool one_message() const;

    Request* base_ = nullptr;
    PutAll* request_ = nullptr;
    LockPhase locks_;
    uint64_t owner_ = 0;  // owner of the locks
    Nanoseconds locking_since_{};
    Timestamp past_;              // conflicting timestamp from a partition: the next attempt uses a later one
    uint32_t conflicts_ = 0;      // number of such conflicts
    bool is_locked_out_ = false;  // another transaction locks a key or has an undecided write of it
    Phase phase_ = Phase::kPreparing;
    std::vector<std::unique_ptr<Part>> parts_;
    size_t part_count_ = 0;
    std::vector<uint64_t> fingerprints_;
    std::vector<uint16_t> participants_;
    std::vector<std::byte> metadata_;
    wire::KvPrepare prepare_;
    uint32_t outstanding_ = 0;
    bool building_ = false;
    bool lost_ = false;       // a part must be sent again
    bool sent_ = false;       // a prepare was sent: others may decide the outcome
    bool again_ = false;      // a later timestamp may succeed
    bool committed_ = false;  // a partition has answered a commit or an abort with "committed"
    bool waits_to_start_ = false;
    Status failure_;
};

}  // namespace wss::kv
