// SPDX-License-Identifier: Apache-2.0
// GetJob: a get_all.
//
//   (locks, with 2PL) ─▶ round 1 ─▶ evaluate ──all siblings were read──▶ done
//                                     ▲   └─ a newer sibling is named ──▶ round 2 ─┐
//                                     └─────────────────────────────────────────────┘
//
// Round 1 reads the latest committed version of each key: by a one-sided read if the address is cached or
// found in the partition's index, otherwise by one message to each partition. Evaluation computes, from the
// metadata of the returned versions, the minimum version that each key must have (RAMP). Round 2 reads those;
// the slot that a one-sided read fetched often already holds them. The versions of round 2 may name newer
// siblings again, hence the loop. It is bounded (kRoundsMax, the GC window); beyond the bound the transaction
// starts over.
//
// RAMP-Small reads timestamps first, and then the newest version among all of them, unless all keys are on
// one partition.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/kv/client/lock_phase.h"
#include "lib/kv/client/read_set.h"
#include "lib/kv/client/session.h"
#include "lib/kv/client/slot_search.h"

namespace wss::kv {

class GetJob final : public Job {
  public:
    explicit GetJob(ClientSession& session) : Job(session), locks_(session), search_(session) {}

    void begin(Request& request) noexcept override;
    void on_wake() noexcept override;
    bool uses_id() const override { return locked_; }
    void give_up(const Status& why) noexcept override;
    uint32_t waits_for() const override;
    void on_read_done(uint32_t index, bool good) noexcept override;

  private:
    using KeyRead = ReadSet::KeyRead;
    using Reading = ReadSet::Reading;
    static constexpr uint32_t kRoundsMax = 6;
    static constexpr uint32_t kRestartsMax = 1000;  // the deadline usually comes first

    // One message to one partition.
    struct Ask {
        Call call;
        bool busy = false;
        uint32_t partition = 0;
        std::vector<uint32_t> items;
    };

    bool one_sided() const;
    Status prepare_items();
    bool reaches_all();
    void start_transaction() noexcept;
    void round_one() noexcept;
    void release_reads() noexcept;
    void restart(const char* why) noexcept;
    void end(Status status) noexcept;

    // Messages.
    void ask_later(uint32_t item);
    void send_asks() noexcept;
    void send_ask(Ask& ask) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void reply_arrived(Ask& ask, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void refused(const Ask& ask, wire::KvStatus status, wire::Bytes message) noexcept;
    void take_reply(uint32_t item, const wire::KvGetReply::Item& reply) noexcept;

    // One-sided reads.
    enum class Now : uint8_t {
        kDone,
        kByMessage,
        kCannot,  // impossible with this fabric, or at present
        kAgain    // the next step has changed, or the read was torn
    };
    bool try_read(uint32_t item) noexcept;
    bool post_read(uint32_t item) noexcept;
    Now read_now(uint32_t item) noexcept;
    Now check_now(uint32_t item, const std::byte* bytes) noexcept;
    Now record_now(uint32_t item, const store::Entry& entry) noexcept;
    bool read_record(uint32_t item, const store::Entry& entry) noexcept;
    void slot_arrived(uint32_t item) noexcept;
    void record_arrived(uint32_t item) noexcept;
    bool take_entry(uint32_t item, const store::Entry& entry) noexcept;
    bool take_record(uint32_t item, wire::Bytes record, const store::Entry& entry) noexcept;
    bool answer_from_view(uint32_t item) noexcept;
    void read_failed(uint32_t item, Fallback reason) noexcept;
    void go_on(uint32_t item, Fallback obstacle) noexcept;
    Now fell_back(uint32_t item, Fallback reason) noexcept;

    // Evaluation.
    void step_done() noexcept;
    void evaluate() noexcept;
    bool begin_next_round() noexcept;
    void note_seen(const KeyRead& key) noexcept;
    void deliver() noexcept;

    Request* base_ = nullptr;
    GetAll* request_ = nullptr;
    LockPhase locks_;
    SlotSearch search_;
    bool locked_ = false;
    ReadSet set_;
    std::vector<std::vector<uint32_t>> waiting_;  // items to read by message, by partition
    std::vector<std::unique_ptr<Ask>> asks_;
    uint32_t outstanding_ = 0;
    uint32_t round_ = 0;
    bool starting_ = false;  // a step is being built: replies do not end it
    bool only_partition_ = false;
    bool failed_ = false;  // this step failed: start over when all of it has ended
    const char* failure_ = nullptr;
    std::string refusal_;  // error text from a partition
    Status denial_;        // a partition refused the request because of the client's rights
    Nanoseconds began_{};
    uint64_t owner_ = 0;  // owner of the locks
};

}  // namespace wss::kv
