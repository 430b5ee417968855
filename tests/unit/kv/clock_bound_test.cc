// SPDX-License-Identifier: Apache-2.0
// A partition, and a client whose clock is far ahead: none of its messages may leave a timestamp that would
// raise the floor, and with it the timestamps of all other writers.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct ClockBound : testing::Test {
    static constexpr uint64_t kHour_us = 3'600'000'000;

    Cluster cluster{{.partitions = 1}};
    RawClient client{cluster.addresses()[0]};
    uint64_t far = client.transaction(kHour_us);

    store::Statistics statistics() {
        store::Statistics all;
        cluster.on(0, [&](Service& service) { all = service.store().statistics(); });
        return all;
    }
    wire::KvStatus decide(wire::KvKind kind) {
        return client.ask(kind, 0, wire::KvDecision{.timestamp = far});
    }
};

TEST_F(ClockBound, refuses_a_write_beyond_it) {
    wire::KvPrepare prepare;
    prepare.timestamp = far;
    prepare.participants = {0};
    prepare.items.emplace_back().key = "key";
    EXPECT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kTooFarAhead);
    wire::KvPutIf put{.timestamp = far};
    put.item.key = "key";
    EXPECT_EQ(client.ask(wire::KvKind::kPutIf, 0, put), wire::KvStatus::kTooFarAhead);
}

// With small steps a client could make a key unusable in transactions with other keys.
TEST_F(ClockBound, is_not_passed_by_a_write_in_small_steps) {
    wire::KvPrepare prepare;
    prepare.participants = {0};
    prepare.items.emplace_back().key = "key";
    auto write = [&](uint64_t ticks) {
        prepare.timestamp = client.transaction(ticks);
        return client.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare);
    };
    uint64_t ahead = 59'000'000;
    ASSERT_EQ(write(ahead), wire::KvStatus::kCommitted);
    wire::KvStatus last = wire::KvStatus::kOk;
    for (int step = 0; step < 40; ++step) last = write(ahead += 900'000);
    EXPECT_EQ(last, wire::KvStatus::kTooFarAhead);
}

TEST_F(ClockBound, refuses_a_decision_beyond_it_without_a_trace) {
    for (wire::KvKind kind : {wire::KvKind::kAbort, wire::KvKind::kCommit})
        EXPECT_EQ(decide(kind), wire::KvStatus::kTooFarAhead) << static_cast<int>(kind);
    EXPECT_EQ(statistics().decisions, 0u);
    EXPECT_EQ(statistics().prepared, 0u);
}

// Another partition needs the answer to decide the transaction, which its wrong clock let it accept.
TEST_F(ClockBound, lets_an_inquiry_beyond_it_abort_the_transaction_permanently) {
    EXPECT_EQ(decide(wire::KvKind::kInquire), wire::KvStatus::kAborted);
    wire::KvPrepare prepare;
    prepare.timestamp = far;
    prepare.participants = {0};
    prepare.items.emplace_back().key = "key";
    EXPECT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kAborted);
}

// Each such inquiry takes memory until the clock reaches its timestamp.
TEST_F(ClockBound, limits_the_inquiries_beyond_it) {
    wire::KvStatus last = wire::KvStatus::kOk;
    for (uint64_t i = 0; i < 5000; ++i)
        last = client.ask(wire::KvKind::kInquire, 0, wire::KvDecision{.timestamp = far + (i << 14)});
    EXPECT_EQ(last, wire::KvStatus::kTooFarAhead);
    EXPECT_LT(statistics().decisions, 5000u);
}

TEST_F(ClockBound, counts_an_inquiry_beyond_it_only_until_the_clock_reaches_its_timestamp) {
    for (uint64_t i = 0; i < 5000; ++i)
        client.ask(wire::KvKind::kInquire, 0, wire::KvDecision{.timestamp = far + (i << 14)});
    cluster.step_clock(0, 2 * kHour_us);
    far = client.transaction(4 * kHour_us);
    EXPECT_EQ(decide(wire::KvKind::kInquire), wire::KvStatus::kAborted);
}

// A transaction that was accepted before the clock was stepped must still be decided.
TEST_F(ClockBound, does_not_prevent_the_decision_of_a_known_transaction) {
    cluster.on(0, [&](Service& service) {
        const store::Write write{.key = "key"};
        const store::Transaction accepted{.timestamp = {far}, .writes = {&write, 1}};
        ASSERT_EQ(service.store().prepare(accepted, {}), store::Answer::kOk);
    });
    EXPECT_EQ(decide(wire::KvKind::kCommit), wire::KvStatus::kCommitted);
}

}  // namespace wss::kv::test
