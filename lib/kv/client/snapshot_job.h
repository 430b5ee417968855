// SPDX-License-Identifier: Apache-2.0
// SnapshotJob: a snapshot of all partitions at one timestamp.
//
// A partition drops replaced versions after a short time, unless a snapshot needs them. So the job waits for
// all links, chooses the timestamp, and asks all partitions at once: however long the disk of one of them
// takes, the others already keep the versions.
//
// A request whose reply was lost is not repeated. The partition may still be writing, or has restarted
// without the versions.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include <vector>

#include "lib/kv/client/session.h"

namespace wss::kv {

class SnapshotJob final : public Job {
  public:
    explicit SnapshotJob(ClientSession& session) : Job(session) {}

    void begin(Request& request) noexcept override;
    void on_wake() noexcept override;
    void give_up(const Status& why) noexcept override;
    uint32_t waits_for() const override;

  private:
    struct Part {
        Call call;
        bool sent = false, answered = false;
    };
    bool all_ready() noexcept;
    bool send(Part& part) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void answered(Part& part, const wire::KvHeader* header, wire::Bytes message) noexcept;
    Status result_of(uint32_t partition, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void end_if_over() noexcept;

    Snapshot* request_ = nullptr;
    std::vector<Part> parts_;  // indexed by partition
    Status failure_;           // the first one
    bool sending_ = false;     // a reply must not end the job
};

}  // namespace wss::kv
