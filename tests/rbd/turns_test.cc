// SPDX-License-Identifier: Apache-2.0
// Reactor turns after many answers have arrived: each turn does a bounded amount of work, and no request that
// Ceph has answered fails.
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

using Turns = RbdTest;

constexpr uint64_t kTurnMax = 1 << 20;  // bytes that one turn completes

TEST_F(Turns, after_a_pause_of_osd_timeout_fail_no_request_that_ceph_has_answered) {
    open();
    std::vector<Io*> reads;
    for (uint64_t i = 0; i < 256; ++i) reads.push_back(&way().read(i % 32 * kObject, 64 << 10));
    reactor_.step();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    pause(from_s(5));
    ASSERT_TRUE(turn_until([&] { return way().done() == reads.size(); }));
    for (const Io* read : reads) EXPECT_EQ(read->error, 0);
}

// There are more requests than calls, so some wait behind the answered ones.
TEST_F(Turns, after_a_pause_of_osd_timeout_fail_no_request_that_had_to_wait) {
    open();
    std::vector<Io*> reads;
    for (uint64_t i = 0; i < 600; ++i) reads.push_back(&way().read(i % 32 * kObject, 64 << 10));
    reactor_.step();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    pause(from_s(5));
    ASSERT_TRUE(turn_until([&] { return way().done() == reads.size(); }));
    for (const Io* read : reads) EXPECT_EQ(read->error, 0);
}

// The answer to the late call has arrived behind others that fill a turn.
TEST_F(Turns, after_a_pause_of_osd_timeout_fail_no_request_that_waits_for_a_late_call) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.hold(kObject, 4 * kObject);
    for (uint64_t i = 1; i <= 4; ++i) way().read(i * kObject, kObject);
    const Io& waits = way().write(0, 'b');
    settle();
    const std::vector<FakeCeph::HeldCall> held = ceph_.held();
    ASSERT_EQ(held.size(), 5u);
    for (size_t i : {1, 2, 3, 4, 0}) {
        ceph_.release(held[i]);
        ASSERT_TRUE(ceph_.wait_until_quiet());
    }
    ceph_.release();
    pause(from_s(5));
    ASSERT_TRUE(turn_until([&] { return waits.is_done; }));
    EXPECT_EQ(waits.error, 0);
}

TEST_F(Turns, copy_a_bounded_number_of_bytes) {
    open();
    for (uint64_t i = 0; i < 16; ++i) way().read(i * kObject, kObject);
    reactor_.step();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    for (uint64_t done = way().done(); done < 16;) {
        reactor_.step();
        EXPECT_LE((way().done() - done) * kObject, kTurnMax);
        done = way().done();
    }
}

TEST_F(Turns, complete_a_bounded_number_of_late_writes) {
    open("osd_timeout=60");
    ceph_.hold(0, 32 * kObject);
    constexpr uint64_t kWrites = 1000;
    for (uint64_t i = 0; i < kWrites; ++i) way().write(i % 32 * kObject, 'a');
    pass(from_s(8));  // each second another 256 calls replace the silent ones
    ASSERT_EQ(ceph_.held().size(), kWrites);
    ceph_.release();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    for (uint64_t done = 0; done < kWrites;) {
        reactor_.step();
        EXPECT_LE(way().done() - done, kTurnMax / 4096);
        done = way().done();
    }
}

}  // namespace
}  // namespace wss::test
