// SPDX-License-Identifier: Apache-2.0
// Real storage on a separate node returns an error. The command ends with that error and is not repeated.
#include <algorithm>

#include "tests/sim/tests/raw_side.h"
#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {
namespace {

using block::testing::RawClient;
using initiator::Operation;
using initiator::Outcome;

// Each client is connected to the storage process.
class WithFailingStorage : public WithStorageElsewhere {
  protected:
    void SetUp() override {
        WithStorageElsewhere::SetUp();
        ASSERT_TRUE(until([&] { return served() == clients_.size(); }));
    }
    size_t served() {
        size_t clients = 0;
        for (const auto& one : target_->cache().info().engines)
            if (one.state == "storage") clients += one.clients;
        return clients;
    }
    uint64_t errors() { return storage_->engine().counters().storage_errors; }
    // Runs one operation that fails and returns how often it was submitted to the disk.
    uint64_t tries(Operation operation) {
        const uint64_t before = errors();
        disk_.refuse(true);
        EXPECT_EQ(run(0, operation), Outcome::kMediumError);
        disk_.refuse(false);
        return errors() - before;
    }
};

TEST_F(WithFailingStorage, a_failed_read_ends_with_the_error_of_the_first_attempt_under_each_policy) {
    start_engines(2);
    for (cache::Policy policy :
         {cache::Policy::kNone, cache::Policy::kAround, cache::Policy::kThrough, cache::Policy::kBack}) {
        set_policy(policy);
        const cache::CacheCounters before = counters();
        EXPECT_EQ(tries(Operation::kRead), 1u) << to_string(policy);
        EXPECT_EQ(counters().direct_reads, before.direct_reads + 1) << to_string(policy);
        EXPECT_EQ(counters().done_again, before.done_again) << to_string(policy);
        EXPECT_EQ(served(), clients_.size()) << "no client has closed its connection";
        EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
        EXPECT_EQ(counters().out_of_band_reads, counters().reads) << "no client reads through the target";
        set_policy(cache::Policy::kNone);
    }
}

// The target's buffer serves the fill, as the storage process reaches no engine.
TEST_F(WithFailingStorage, a_failed_read_that_fills_through_the_target_is_submitted_once) {
    Node& node = world_.add_node("engine");
    world_.cut(storage_node_, node);
    engines_.push_back(std::make_unique<ClusterEngine>(node, network_, 4 << 20, "target"));
    ASSERT_TRUE(engines_.back()->start());
    ASSERT_TRUE(until([&] { return target_->cache().info().capacity_lines > 0; }));
    EXPECT_EQ(tries(Operation::kRead), 1u);
    EXPECT_EQ(counters().direct_reads, 1u);
    EXPECT_EQ(counters().done_again, 0u);
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
    EXPECT_TRUE(until([&] { return counters().upkeep_through_target_bytes > 0; }))
        << "the read filled the line";
}

TEST_F(WithFailingStorage, a_failed_read_under_dirty_sub_blocks_is_submitted_once) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite, 8), Outcome::kOk);
    ASSERT_EQ(dirty(), 1u);
    EXPECT_EQ(tries(Operation::kRead), 1u);
    EXPECT_EQ(counters().done_again, 0u);
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithFailingStorage, a_failed_write_or_discard_is_submitted_once) {
    start_engines(2);
    for (cache::Policy policy : {cache::Policy::kNone, cache::Policy::kThrough}) {
        set_policy(policy);
        EXPECT_EQ(tries(Operation::kWrite), 1u) << to_string(policy);
        EXPECT_EQ(tries(Operation::kDiscard), 1u) << to_string(policy);
        EXPECT_EQ(served(), clients_.size()) << "no client has closed its connection";
    }
}

// The connection of a raw client to an engine.
class RawEngineLink final : public fabric::ConnectionHandler {
  public:
    RawEngineLink(RawSide& side, const wire::CacheEngineNotice& notice) {
        auto address = fabric::Address::parse(notice.uri_text(), kStoragePort);
        EXPECT_TRUE(address);
        std::array<std::byte, sizeof(wss_cache_login)> data;
        wire::encode_cache_login({notice.handle, notice.token}, data);
        auto connection = side.client_poller().connect(
            *address, data, {.send_depth = 1, .receive_depth = 1, .send_segments = 1}, *this);
        EXPECT_TRUE(connection);
        if (connection) connection_ = std::move(*connection);
    }
    void on_established(fabric::Connection&, std::span<const std::byte>) noexcept override {
        std::array<fabric::Receive, 1> receive;
        EXPECT_EQ(connection_->post_receives(receive), Code::kOk);
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const std::byte>) noexcept override {}
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override {}
    void on_closed(fabric::Connection&, const Status&) noexcept override { closed_ = true; }
    void close() { connection_->close(); }
    bool closed() const { return closed_; }

  private:
    std::unique_ptr<fabric::Connection> connection_;
    bool closed_ = false;
};

// The target counts the credit of a delegated read early, and must not count it again when the read fails.
TEST_F(WithFailingStorage, a_failed_delegated_read_returns_one_credit) {
    using Direction = wire::CommandRequest::Direction;
    RawSide side(world_, network_);
    RawClient client(side);
    client.connect(block::testing::World::login(1, WSS_CAP_FUSED_COMPLETION | WSS_CAP_CACHE));
    ASSERT_TRUE(side.until([&] { return client.established() && !client.others.empty(); }));
    wire::CacheEngineNotice notice;
    ASSERT_EQ(wire::parse_cache_engine(client.others.front(), notice), wire::ParseError::kNone);
    RawEngineLink link(side, notice);
    ASSERT_TRUE(until([&] { return served() == clients_.size() + 1; }));
    const uint32_t granted = client.credits();
    disk_.refuse(true);
    auto start = [&] {
        return client.start(0, block::testing::cdb_read16(0, 8), Direction::kIn, {client.remote(0, 4096)});
    };
    for (uint64_t done = 1; done <= 3; ++done) {
        const uint64_t tag = start();
        ASSERT_TRUE(side.until([&] { return client.answered(tag); }));
        const block::testing::Answer answer = client.take(tag);
        EXPECT_EQ(answer.response.status, wire::kCheckCondition);
        EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kMediumError);
        EXPECT_EQ(counters().direct_reads, done) << "it was delegated";
        EXPECT_EQ(client.credits(), granted);
    }
    EXPECT_EQ(errors(), 3u);
    // Commands wait for the storage while it is cut off, so that all credits are in use.
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    for (uint32_t i = 0; i < granted; ++i) start();
    world_.run_for(from_ms(100));
    EXPECT_EQ(client.credits(), 0u);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return client.credits() == granted || client.closed(); }));
    EXPECT_FALSE(client.closed()) << "the client had that many credits";
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    for (uint32_t i = 0; i < granted + 1; ++i) start();
    world_.run_for(from_ms(100));
    world_.heal_all();
    EXPECT_TRUE(until([&] { return client.closed(); })) << "the client had no more credits";
    link.close();
    ASSERT_TRUE(until([&] { return link.closed(); }));
}

}  // namespace
}  // namespace wss::sim
