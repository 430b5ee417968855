// SPDX-License-Identifier: Apache-2.0
// Terminations: what becomes of transactions whose clients prepared them and were not heard of again.
//
// The participants are asked. Any that has committed: commit. Any that has aborted, or never prepared (asking
// it makes it refuse for ever): abort. All prepared: commit, as the client might have. One that cannot be
// reached: wait; readers do not, that is RAMP's point. Those that wait so are asked about in turn, a bounded
// number at a time, and do not count as prepared ones; when they are very many, further transactions of that
// partition are not taken on.
//
// One that has forgotten what is that old refuses it for ever: had it committed, its client would have had
// our prepare, and it remembers commits for decision_window: in its log, or in memory, and then it refuses
// writes rather than forget one early. So: abort. Where we have waited longer than that
// ourselves, nobody knows any more; it is an abort as well, counted apart and logged.
//
// Partitions connect to each other as clients without an id, when they first ask one another.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: owns the links to the other partitions,
// and is their handler.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/kv/service/partition.h"
#include "lib/kv/transport/link.h"

namespace wss::kv {

class Terminations final : public LinkHandler {
  public:
    Terminations(Partition& partition, std::span<const std::shared_ptr<Lane>> lanes)
        : partition_(partition), lanes_(lanes), links_(partition.count()) {}
    ~Terminations() override { stop(); }

    void tick();
    void stop();  // inquires no more
    // What would be prepared could not be decided before that partition is back.
    bool waits_in_vain(std::span<const uint16_t> participants) const;

  private:
    // A transaction whose client is late, and what the other participants say about it.
    struct Termination {
        struct Ask {
            Call call;
            uint32_t partition = 0;
            Termination* job = nullptr;
        };
        Terminations* owner = nullptr;
        Timestamp timestamp;
        std::vector<std::unique_ptr<Ask>> asks;
        uint32_t outstanding = 0;
        Nanoseconds deadline{};  // when those that have not replied are given up
        bool building = false;
        bool committed = false, aborted = false, unsure = false;
        bool is_old = false;  // prepared here for longer than others remember decisions
        bool forgot = false;  // one says that this is older than what it remembers
    };

    void terminate(const store::Overdue& overdue);
    void give_up_late(Nanoseconds now);
    bool ask(Termination& job, uint32_t partition);
    static void answered(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void over(Termination& job);
    void guessed(Timestamp timestamp);
    Link* link_to(uint32_t partition);
    void on_ready(Link&) noexcept override {}
    void on_lost(Link&, const Status&) noexcept override {}

    Partition& partition_;
    const std::span<const std::shared_ptr<Lane>> lanes_;
    std::unordered_map<uint64_t, std::unique_ptr<Termination>> jobs_;  // by timestamp
    std::vector<std::unique_ptr<Link>> links_;  // to the other partitions, by index; made when needed
    Nanoseconds last_{};
};

}  // namespace wss::kv
