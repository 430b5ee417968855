// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/lease_table.h"

#include <gtest/gtest.h>

#include <set>

namespace wss::kv::test {

struct Leases : testing::Test {
    static constexpr uint32_t kPartitions = 256;  // the smallest ranges
    LeaseTable table{{.partition = 3, .partitions = kPartitions, .lease = from_s(60), .seed = 1}};
    Nanoseconds now = from_s(1000);
    Timestamp clock = Timestamp::make(1'000'000'000, 0);
    uint64_t nonce = 1;

    LeaseTable::Lease* come() { return table.take(++nonce, now, clock); }
};

TEST_F(Leases, of_different_partitions_have_disjoint_ranges_of_ids_without_zero) {
    std::set<uint32_t> ids;
    for (uint32_t p = 0; p < kPartitions; ++p) {
        LeaseTable other({.partition = p, .partitions = kPartitions, .lease = from_s(60), .seed = 77});
        while (LeaseTable::Lease* lease = other.take(++nonce, now, clock)) {
            EXPECT_GE(lease->id, 1u);
            EXPECT_LE(lease->id, kClientIdMax);
            EXPECT_TRUE(ids.insert(lease->id).second);
        }
    }
    EXPECT_GT(ids.size(), kClientIdMax - kPartitions);
}

TEST_F(Leases, end_at_once_when_the_client_sends_a_goodbye) {
    for (uint32_t i = 0; i < 1000 * table.range(); ++i) {
        LeaseTable::Lease* lease = come();
        ASSERT_NE(lease, nullptr) << i;
        LeaseTable::say_goodbye(*lease, Timestamp::make(i, lease->id));
        table.leave(*lease, now, clock);
    }
    EXPECT_EQ(table.leased(now, clock), 0u);
}

TEST_F(Leases, keep_the_id_of_a_client_that_vanishes_until_they_expire) {
    for (uint32_t i = 0; i < table.range(); ++i) table.leave(*come(), now, clock);
    EXPECT_EQ(come(), nullptr);
    EXPECT_EQ(table.leased(now, clock), table.range());
    now = now + from_s(60);
    EXPECT_NE(come(), nullptr);
}

TEST_F(Leases, leave_an_id_in_use_to_the_client_that_presented_it_first) {
    LeaseTable::Lease* mine = table.join(9000, 1, now, clock);
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(table.join(9000, 2, now, clock), nullptr);
    table.leave(*mine, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(59), clock), nullptr);
    EXPECT_EQ(table.join(9000, 1, now + from_s(59), clock), mine);
}

TEST_F(Leases, let_the_next_client_of_an_id_begin_after_the_last_timestamp_of_the_previous_one) {
    LeaseTable::Lease* lease = table.join(9000, 1, now, clock);
    LeaseTable::use(*lease, Timestamp::make(50, 9000));
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 1, now, clock)->after, Timestamp{}) << "the same client returns";
    LeaseTable::say_goodbye(*lease, Timestamp::make(70, 9000));
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now, clock)->after, Timestamp::make(70, 9000));
}

// This holds however the id's client ended. Otherwise a client could return ids that no other client can use.
TEST_F(Leases, leave_an_id_free_when_the_clock_has_passed_its_timestamps) {
    const Timestamp ahead = Timestamp::make(clock.ticks() + 50'000'000, 9000);
    LeaseTable::Lease* lease = table.join(9000, 1, now, clock);
    LeaseTable::say_goodbye(*lease, ahead);
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(49), clock), nullptr);
    EXPECT_EQ(table.join(9000, 1, now + from_s(49), clock), lease) << "the same client returns";
    LeaseTable::say_goodbye(*lease, ahead);
    table.leave(*lease, now, clock);
    EXPECT_EQ(table.join(9000, 2, now + from_s(50), clock), lease);
}

// The clock was a day ahead and has been set back.
struct LeasesOfTomorrow : Leases {
    static constexpr uint64_t kDay_ticks = uint64_t{86'400} * 1'000'000;
    const Timestamp tomorrow = Timestamp::make(clock.ticks() + kDay_ticks, 0);
    static Timestamp of(const LeaseTable::Lease& lease, Timestamp time) {
        return Timestamp::make(time.ticks(), lease.id);
    }
    void go(LeaseTable::Lease& lease) {
        LeaseTable::say_goodbye(lease, {});
        table.leave(lease, now, clock);
    }
};

TEST_F(LeasesOfTomorrow, are_free_before_the_clock_reaches_that_time_again) {
    for (uint32_t i = 0; i < table.range(); ++i) {
        LeaseTable::Lease* lease = table.take(++nonce, now, tomorrow);
        ASSERT_NE(lease, nullptr) << i;
        LeaseTable::use(*lease, of(*lease, tomorrow));
        go(*lease);
    }
    EXPECT_EQ(table.leased(now, clock), 0u);
    LeaseTable::Lease* lease = come();
    ASSERT_NE(lease, nullptr);
    EXPECT_TRUE(LeaseTable::former_until(*lease, of(*lease, clock)).is_none());
    EXPECT_EQ(LeaseTable::former_until(*lease, of(*lease, tomorrow)), of(*lease, tomorrow))
        << "otherwise two clients would issue it";
}

// The client was connected when the clock was set back.
TEST_F(LeasesOfTomorrow, are_free_after_their_clients_have_used_both_days) {
    LeaseTable::Lease* lease = come();
    for (Timestamp time : {clock, tomorrow, clock}) LeaseTable::use(*lease, of(*lease, time));
    EXPECT_TRUE(LeaseTable::former_until(*lease, of(*lease, tomorrow)).is_none()) << "its own timestamps";
    go(*lease);
    EXPECT_EQ(table.leased(now, clock), 0u);
    ASSERT_EQ(table.join(lease->id, ++nonce, now, clock), lease);
    EXPECT_EQ(lease->after, of(*lease, clock));
    EXPECT_EQ(LeaseTable::former_until(*lease, of(*lease, tomorrow)), of(*lease, tomorrow));
}

TEST_F(LeasesOfTomorrow, are_refused_when_the_clock_reaches_that_time) {
    LeaseTable::Lease* lease = come();
    LeaseTable::use(*lease, of(*lease, tomorrow));
    go(*lease);
    ASSERT_EQ(table.join(lease->id, 77, now, clock), lease);
    EXPECT_FALSE(LeaseTable::is_spent(*lease, clock));
    const Timestamp there = Timestamp::make(tomorrow.ticks() - 1'000'000, 0);
    EXPECT_TRUE(LeaseTable::is_spent(*lease, there));
    table.leave(*lease, now, there);
    EXPECT_EQ(table.join(lease->id, 77, now, there), nullptr) << "its client takes another id";
    EXPECT_EQ(table.join(lease->id, 78, now + from_s(60), there), nullptr);
    const Timestamp behind = Timestamp::make(tomorrow.ticks() + 1'000'000, 0);
    ASSERT_EQ(table.join(lease->id, 78, now + from_s(60), behind), lease);
    EXPECT_EQ(lease->after, of(*lease, tomorrow));
}

TEST_F(LeasesOfTomorrow, have_a_limited_number_of_spans) {
    LeaseTable::Lease* lease = come();
    for (uint64_t day = 1; day < 100; ++day)
        LeaseTable::use(*lease, Timestamp::make(clock.ticks() + day * kDay_ticks, lease->id));
    EXPECT_LE(lease->used.size(), 8u);
    go(*lease);
    ASSERT_EQ(table.join(lease->id, ++nonce, now, clock), lease);
    for (uint64_t day = 1; day < 100; ++day)
        EXPECT_FALSE(
            LeaseTable::former_until(*lease, Timestamp::make(clock.ticks() + day * kDay_ticks, lease->id))
                .is_none())
            << day;
}

// With a restart, the table loses which client used the timestamps.
TEST_F(Leases,
       of_an_id_whose_timestamps_a_restarted_partition_has_not_passed_are_not_given_to_another_client) {
    const uint32_t id = come()->id;
    LeaseTable restarted({.partition = 3, .partitions = kPartitions, .lease = from_s(60), .seed = 1});
    const Timestamp last = Timestamp::make(clock.ticks() + 20'000'000, id);
    restarted.recovered(last, now, clock);
    EXPECT_EQ(restarted.leased(now, clock), 1u);
    for (uint32_t i = 0; i + 1 < table.range(); ++i) {
        LeaseTable::Lease* lease = restarted.take(++nonce, now, clock);
        ASSERT_NE(lease, nullptr);
        EXPECT_NE(lease->id, id);
    }
    EXPECT_EQ(restarted.take(++nonce, now, clock), nullptr);
    now = now + from_s(20);
    clock = last;
    LeaseTable::Lease* next = restarted.take(++nonce, now, clock);
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(next->id, id);
    EXPECT_EQ(LeaseTable::former_until(*next, last), last);
}

TEST_F(Leases, of_its_own_range_are_kept_by_a_client_that_returns_after_a_restart) {
    const uint32_t id = come()->id;
    const Timestamp last = Timestamp::make(clock.ticks() + 20'000'000, id);
    LeaseTable restarted({.partition = 3, .partitions = kPartitions, .lease = from_s(60), .seed = 1});
    restarted.recovered(last, now, clock);
    LeaseTable::Lease* lease = restarted.join(id, nonce, now, clock);
    ASSERT_NE(lease, nullptr);
    EXPECT_TRUE(LeaseTable::former_until(*lease, last).is_none()) << "it may repeat its last write";
    EXPECT_EQ(restarted.join(id, nonce + 1, now, clock), nullptr);
}

// The partition that leases the id may have restarted as well, and have leased it to another client.
TEST_F(Leases, of_another_range_wait_after_a_restart_until_the_clock_has_passed_their_timestamps) {
    constexpr uint32_t kId = 9000;
    const Timestamp last = Timestamp::make(clock.ticks() + 20'000'000, kId);
    table.recovered(last, now, clock);
    EXPECT_EQ(table.join(kId, 1, now, clock), nullptr);
    EXPECT_EQ(table.leased(now, clock), 0u) << "of another range";
    LeaseTable::Lease* lease = table.join(kId, 2, now + from_s(20), last);
    ASSERT_NE(lease, nullptr);
    EXPECT_EQ(LeaseTable::former_until(*lease, last), last);
}

}  // namespace wss::kv::test
