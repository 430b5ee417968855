// SPDX-License-Identifier: Apache-2.0
// SimpleJob: requests of one message at a time: conditional puts, scans (partition after partition), info,
// snapshots.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include "lib/kv/session.h"

namespace wss::kv {

class SimpleJob final : public Job {
  public:
    explicit SimpleJob(Session& session) : Job(session) {}

    void begin(Request& request) noexcept override;
    void on_wake() noexcept override;
    void give_up(const Status& why) noexcept override;

  private:
    Status check() noexcept;
    void send() noexcept;
    bool send_put_if(Link& link) noexcept;
    bool send_scan(Link& link) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void put_if_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void scan_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void text_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void end(Status status) noexcept;

    Request* request_ = nullptr;
    Call call_;
    uint32_t partition_ = 0;
    bool sent_ = false;
    std::string after_;  // scan: the cursor within the partition
    wire::KvScanReply rows_;
};

}  // namespace wss::kv
