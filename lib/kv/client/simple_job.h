// SPDX-License-Identifier: Apache-2.0
// SimpleJob: requests that need one message at a time: conditional puts, scans (partition after partition),
// info.
//
// A conditional put whose reply was lost is sent again with its timestamp, by which the partition recognises
// it. If that is refused, the first message may still have been carried out, or be in flight. The put is
// therefore aborted before it fails or is retried with a later timestamp. Only a recorded abort allows
// either.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include "lib/kv/client/session.h"

namespace wss::kv {

class SimpleJob final : public Job {
  public:
    explicit SimpleJob(ClientSession& session) : Job(session) {}

    void begin(Request& request) noexcept override;
    void on_wake() noexcept override;
    void give_up(const Status& why) noexcept override;
    bool uses_id() const override { return sent_ && request_->kind == Request::Kind::kPutIf; }
    uint32_t waits_for() const override { return partition_; }

  private:
    Status check() noexcept;
    void send() noexcept;
    bool send_put_if(Link& link) noexcept;
    void new_attempt() noexcept;
    bool send_scan(Link& link) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void denied(wire::Bytes message) noexcept;
    void put_if_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void abort_answered(wire::KvStatus status) noexcept;
    void put_if_refused() noexcept;
    Status why_refused() const;
    void scan_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void info_answered(const wire::KvHeader& header, wire::Bytes message) noexcept;
    void end(Status status) noexcept;

    Request* request_ = nullptr;
    Call call_;
    uint32_t partition_ = 0;
    bool sent_ = false;
    // State of an attempt of a conditional put.
    bool lost_ = false;      // a reply was lost: the put may have been carried out
    bool aborting_ = false;  // the repeated put was refused
    wire::KvStatus refusal_{};
    Timestamp in_the_way_;
    Timestamp past_;  // conflict of earlier attempts: the next timestamp is later
    uint32_t conflicts_ = 0;
    std::string after_;  // scan: the cursor within the partition
    wire::KvScanReply rows_;
};

}  // namespace wss::kv
