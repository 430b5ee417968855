// SPDX-License-Identifier: Apache-2.0
// Terminations: decides transactions that clients prepared and left undecided (cooperative termination).
//
// A partition inquires of the participants. If any has committed: commit. If any has aborted, or never
// prepared (the inquiry makes it refuse the prepare for ever): abort. If all are prepared: commit, as the
// client may have done so. If one cannot be reached: wait. Readers do not wait; that is the point of RAMP.
// Waiting transactions are deferred: they are retried in turn, a bounded number at a time, and do not count
// as prepared ones. If very many wait, no further transactions of the unreachable partition are accepted.
//
// A participant that has forgotten decisions as old as this transaction refuses the transaction for ever.
// This participant can have committed only after the prepare of the inquiring partition. It remembers commits
// for decision_window, in its log or in memory, and refuses writes rather than forget one early. So it has
// not committed, and the decision is abort. If this partition itself has waited longer than decision_window,
// the outcome is unknown everywhere. The decision is then abort as well, but it is counted separately and
// logged.
//
// Partitions connect to each other as clients without an id, at the first inquiry.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: owns the links to the other partitions,
// and is their handler.
#pragma once

#include <memory>
#include <optional>
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
    void stop();  // ends all inquiries
    // True if a transaction with these participants could not be decided until an unreachable partition
    // returns, and too many already wait for one.
    bool waits_in_vain(std::span<const uint16_t> participants) const;

  private:
    // An overdue transaction, and the replies of the other participants.
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
        Nanoseconds deadline{};  // at this time outstanding inquiries are abandoned
        bool building = false;
        bool committed = false, aborted = false, unsure = false;
        bool is_old = false;  // prepared here for longer than others remember decisions
        bool forgot = false;  // a participant has forgotten transactions of this age
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
    std::unordered_map<uint64_t, std::unique_ptr<Termination>> jobs_;  // indexed by timestamp
    std::vector<std::unique_ptr<Link>> links_;  // links to the other partitions, by index; created on demand
    Nanoseconds last_{};
    std::optional<Nanoseconds> began_;  // time of the first tick
};

}  // namespace wss::kv
