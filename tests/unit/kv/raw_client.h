// SPDX-License-Identifier: Apache-2.0
// A client that sends single protocol messages, including those that the client library never sends.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/kv/placement.h"
#include "lib/kv/transport/link.h"

namespace wss::kv::test {

// A call that records its reply, for tests that do not wait for it at once.
struct RecordedCall : Call {
    RecordedCall() {
        done = [](Call& call, const wire::KvHeader* header, wire::Bytes) noexcept {
            auto& mine = static_cast<RecordedCall&>(call);
            mine.here = true;
            if (header != nullptr) mine.status = header->status;
        };
    }
    bool here = false;
    wire::KvStatus status = wire::KvStatus::kUnknown;
};

class RawClient final : public LinkHandler {
  public:
    // A client of one partition of `partitions`.
    explicit RawClient(const std::string& address, uint32_t partitions = 1,
                       uint64_t nonce = Random::entropy() | 1, uint32_t client_id = 0, uint32_t partition = 0,
                       const fabric::tls::Credentials& credentials = {}) {
        auto where = fabric::Address::parse(address, kDefaultPort);
        fabric_ = std::move(*fabric::open(*where, credentials));
        lane_ = std::move(*Lane::create(reactor_, *fabric_));
        Link::Options options;
        options.address = *where;
        options.partition = partition;
        options.nonce = nonce;
        options.client_id = client_id;
        link_ = std::make_unique<Link>(*lane_, options, *this);
        link_->want();
        turn_until([this] { return link_->ready(); });
        link_->options().epoch = map_epoch(partitions);
    }
    ~RawClient() override {
        link_->close();
        turn_until([this] { return link_->channel() == nullptr && lane_->empty(); });
    }
    uint64_t transaction(uint64_t ticks) const {
        return Timestamp::make(link_->facts().ticks + ticks, link_->facts().client_id).value;
    }
    template <typename Body>
    wire::KvStatus ask(wire::KvKind kind, uint8_t flags, const Body& body) {
        struct Answer : Call {
            wire::KvStatus status = wire::KvStatus::kUnknown;
            bool here = false;
            wire::KvDecision body;
        } answer;
        answer.done = [](Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
            auto& mine = static_cast<Answer&>(call);
            mine.here = true;
            if (header != nullptr) mine.status = header->status;
            if (header != nullptr && !wire::parse(message, mine.body)) mine.body = {};
        };
        EXPECT_TRUE(link_->call(answer, kind, flags, body));
        turn_until([&] { return answer.here; });
        named_ = {answer.body.timestamp};
        return answer.status;
    }
    template <typename Body>
    void send_only(wire::KvKind kind, const Body& body) {
        link_->send_only(kind, 0, body);
    }

    // Begins a one-sided read of `length` bytes into memory of this client.
    bool read(fabric::RemoteAddress from, uint32_t length) {
        if (!memory_) memory_ = std::move(*fabric_->allocate(4096, fabric::Access::kLocal));
        return link_->channel()->read(
            {.address = memory_->bytes().data(), .length = length, .lkey = memory_->lkey()}, from, 1);
    }

    // The timestamp that the reply to the last ask() named.
    Timestamp named() const { return named_; }

    Link& link() { return *link_; }
    // The results of its one-sided reads, in order.
    const std::vector<fabric::CompletionStatus>& reads_done() const { return reads_done_; }
    template <typename Condition>
    void turn_until(Condition holds) {
        const Nanoseconds limit = clock_.now() + from_s(60);
        while (!holds() && clock_.now() < limit) reactor_.turn();
        ASSERT_TRUE(holds());
    }

  private:
    void on_ready(Link&) noexcept override {}
    void on_lost(Link&, const Status&) noexcept override {}
    void on_read_done(Link&, uint64_t, fabric::CompletionStatus status) noexcept override {
        reads_done_.push_back(status);
    }

    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<Lane> lane_;
    std::unique_ptr<Link> link_;
    Timestamp named_;
    std::vector<fabric::CompletionStatus> reads_done_;
};

}  // namespace wss::kv::test
