// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lease_table.h"

#include <gtest/gtest.h>

#include <set>

namespace wss::kv::test {

struct Leases : testing::Test {
    static constexpr uint32_t kPartitions = 256;  // the smallest ranges
    LeaseTable table{{.partition = 3, .partitions = kPartitions, .lease = from_s(60), .seed = 1}};
    Nanoseconds now = from_s(1000);
    Timestamp clock = Timestamp::make(1'000'000'000, 0);
    uint64_t nonce = 1;

    LeaseTable::Lease* come() { return table.take(++nonce, now); }
};

TEST_F(Leases, ranges_of_partitions_are_disjoint_and_hold_no_zero) {
    std::set<uint32_t> ids;
    for (uint32_t p = 0; p < kPartitions; ++p) {
        LeaseTable other({.partition = p, .partitions = kPartitions, .lease = from_s(60), .seed = 77});
        while (LeaseTable::Lease* lease = other.take(++nonce, now)) {
            EXPECT_GE(lease->id, 1u);
            EXPECT_LE(lease->id, kClientIdMax);
            EXPECT_TRUE(ids.insert(lease->id).second);
        }
    }
    EXPECT_GT(ids.size(), kClientIdMax - kPartitions);
}

TEST_F(Leases, a_client_that_says_goodbye_gives_its_id_back_at_once) {
    for (uint32_t i = 0; i < 1000 * table.range(); ++i) {
        LeaseTable::Lease* lease = come();
        ASSERT_NE(lease, nullptr) << i;
        LeaseTable::say_goodbye(*lease, Timestamp::make(i, lease->id));
        table.leave(*lease, now, clock);
    }
    EXPECT_EQ(table.leased(now), 0u);
}

TEST_F(Leases, a_client_that_vanishes_keeps_its_id_for_the_lease) {
    for (uint32_t i = 0; i < table.range(); ++i) table.leave(*come(), now, clock);
    EXPECT_EQ(come(), nullptr);
    EXPECT_EQ(table.leased(now), table.range());
    now = now + from_s(60);
    EXPECT_NE(come(), nullptr);
}

TEST_F(Leases, an_id_in_use_belongs_to_the_client_that_brought_it_first) {
    LeaseTable::Lease* mine = table.join(9000, 1, now);
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(table.join(9000, 2, now), nullptr);
    table.leave(*mine, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(59)), nullptr);
    EXPECT_EQ(table.join(9000, 1, now + from_s(59)), mine);
}

TEST_F(Leases, the_next_client_of_an_id_begins_after_the_last_timestamp_of_the_one_before) {
    LeaseTable::Lease* lease = table.join(9000, 1, now);
    lease->last = Timestamp::make(50, 9000);
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 1, now)->after, Timestamp{}) << "the same client comes back";
    LeaseTable::say_goodbye(*lease, Timestamp::make(70, 9000));
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now)->after, Timestamp::make(70, 9000));
}

// However its client ended: it could give back ids that nobody can write with.
TEST_F(Leases, an_id_is_free_when_the_clock_has_passed_its_timestamps) {
    const Timestamp ahead = Timestamp::make(clock.ticks() + 50'000'000, 9000);
    LeaseTable::Lease* lease = table.join(9000, 1, now);
    LeaseTable::say_goodbye(*lease, ahead);
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(49)), nullptr);
    EXPECT_EQ(table.join(9000, 1, now + from_s(49)), lease) << "the same client comes back";
    lease->last = Timestamp::make(clock.ticks() + 90'000'000, 9000);
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(89)), nullptr);
    EXPECT_EQ(table.join(9000, 2, now + from_s(90)), lease);
}

}  // namespace wss::kv::test
