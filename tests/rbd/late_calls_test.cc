// SPDX-License-Identifier: Apache-2.0
// Requests that Ceph does not answer: when they fail, and which other requests wait for them.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

using LateCalls = RbdTest;

TEST_F(LateCalls, fail_a_request_after_osd_timeout_and_not_before) {
    open();
    ceph_.hold(0, kObject);
    const Io& request = way().write(0, 'a');
    pass(from_ms(1900));
    EXPECT_FALSE(request.is_done);
    pass(from_ms(700));
    ASSERT_TRUE(request.is_done);
    EXPECT_EQ(request.error, ETIMEDOUT);
}

TEST_F(LateCalls, of_a_write_that_timed_out_do_not_undo_a_later_one) {
    open();
    ceph_.hold(0, kObject);
    const Io& first = way().write(0, 'a');
    pass(from_s(3));
    ASSERT_EQ(first.error, ETIMEDOUT);
    // This write waits: librbd has a call for the same object and does not order two calls.
    const Io& second = way().write(0, 'b');
    settle();
    EXPECT_EQ(ceph_.held().size(), 1u);
    ceph_.release();
    ASSERT_TRUE(turn_until([&] { return second.is_done; }));
    EXPECT_EQ(second.error, 0);
    EXPECT_EQ(ceph_.read(0, 1), "b");
}

TEST_F(LateCalls, of_a_write_that_timed_out_make_a_read_wait) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    const Io& reader = way().read(kObject - 4096);  // of the same object
    settle();
    EXPECT_FALSE(reader.is_done);
    EXPECT_EQ(ceph_.held().size(), 1u);
    ceph_.release();
    EXPECT_TRUE(turn_until([&] { return reader.is_done; }));
    EXPECT_EQ(reader.error, 0);
}

TEST_F(LateCalls, fail_a_request_behind_them_after_osd_timeout) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    const Io& next = way().write(0, 'b');
    pass(from_ms(1900));
    EXPECT_FALSE(next.is_done);
    pass(from_s(1));
    EXPECT_EQ(next.error, ETIMEDOUT);
    EXPECT_EQ(ceph_.held().size(), 1u);
}

TEST_F(LateCalls, to_a_silent_object_do_not_delay_requests_for_other_objects) {
    open();
    ceph_.hold(0, kObject);
    const Io& long_one = way().write(0, 'a', 3 * kObject);
    pass(from_s(3));
    ASSERT_TRUE(long_one.is_done);
    EXPECT_EQ(long_one.error, ETIMEDOUT);
    const Io& beside = way().write(kObject, 'b');
    settle();
    EXPECT_TRUE(beside.is_done);
    EXPECT_EQ(beside.error, 0);
}

// Initiators repeat failed requests. Each attempt waits for the first calls and uses no further call of
// librbd.
TEST_F(LateCalls, of_repeated_reads_of_a_silent_object_leave_calls_for_other_objects) {
    open();
    ceph_.hold(0, kObject);
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 8; ++i) way().read(4096);
        pass(from_s(3));
    }
    EXPECT_EQ(way().done(), 320u);
    EXPECT_EQ(ceph_.held().size(), 8u);
    const Io& elsewhere = way().write(8 * kObject, 'a');
    settle();
    EXPECT_TRUE(elsewhere.is_done);
}

TEST_F(LateCalls, of_more_silent_requests_than_a_queue_has_calls_do_not_block_others) {
    open("osd_timeout=60");
    ceph_.hold(0, 32 * kObject);
    for (uint64_t i = 0; i < 300; ++i) way().read(i % 32 * kObject);
    settle();
    const Io& elsewhere = way().write(40 * kObject, 'a');
    settle();
    EXPECT_FALSE(elsewhere.is_done);
    pass(from_ms(1700));  // kSlow, after which calls are replaced, and the next tick of the queue
    EXPECT_TRUE(elsewhere.is_done);
    EXPECT_EQ(way().done(), 1u);
}

TEST_F(LateCalls, answered_after_their_queue_was_destroyed_block_nothing) {
    open();
    auto other = make_way();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    close_way();
    ceph_.release();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    const Io& next = other->write(0, 'b');
    EXPECT_TRUE(turn_until([&] { return next.is_done; }));
    EXPECT_EQ(next.error, 0);
    EXPECT_EQ(ceph_.read(0, 1), "b");
    EXPECT_TRUE(wait_for([&] { return backend_->trouble().empty(); })) << backend_->trouble();
}

// The queue has received the completed calls, but one turn completes only 1 MiB.
TEST_F(LateCalls, whose_queue_is_destroyed_between_two_turns_block_nothing) {
    open();
    auto other = make_way();
    ceph_.hold(0, 4 * kObject);
    for (uint64_t i = 0; i < 4; ++i) way().read(i * kObject, kObject);
    pass(from_s(3));
    ASSERT_EQ(way().done(), 4u);
    ceph_.release();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    reactor_.step();
    close_way();
    const Io& next = other->read(0, 4 * kObject);
    EXPECT_TRUE(turn_until([&] { return next.is_done; }));
    EXPECT_EQ(next.error, 0);
}

// Acknowledged writes are stable, so that a flush need not wait.
TEST_F(LateCalls, do_not_delay_a_flush) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    const Io& flush = way().submit(io::Op::kFlush, 0, 0, 0);
    settle();
    EXPECT_TRUE(flush.is_done);
    EXPECT_EQ(flush.error, 0);
}

TEST_F(LateCalls, fail_once_if_librbd_does_not_accept_them) {
    open();
    ceph_.refuse(Kind::kTake, ENOMEM);
    const Io& request = way().write(0, 'a', 3 * kObject);
    EXPECT_TRUE(turn_until([&] { return request.is_done; }));
    EXPECT_EQ(request.error, EIO);
    ceph_.refuse(Kind::kTake, 0);
    const Io& next = way().write(0, 'b');
    EXPECT_TRUE(turn_until([&] { return next.is_done; }));
    EXPECT_EQ(next.error, 0);
}

}  // namespace
}  // namespace wss::test
