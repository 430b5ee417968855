// SPDX-License-Identifier: Apache-2.0
// Clones whose parents change while the clones are served: librbd then reads zeroes in place of parent data.
#include <cerrno>
#include <thread>

#include "lib/io/rbd/holder_mark.h"
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

class Clone : public RbdTest {
  protected:
    // Opens a clone of `near`, which is a clone of `far`.
    void open_clone(const std::string& options = {}) {
        ceph_.clone(kImage, "near");
        ceph_.clone("near", "far");
        open(options);
    }
    // Waits for three more looks at the image and at each parent, as earlier looks may be in flight.
    void look() {
        const uint64_t looks = ceph_.answered(Kind::kLook);
        EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= looks + 9; }));
    }
    int error_of(Io& io) {
        EXPECT_TRUE(turn_until([&] { return io.is_done; }));
        return io.error;
    }
    bool is_in_doubt() {
        return wait_for(
            [this] { return backend_->trouble().find("requests wait until") != std::string::npos; });
    }
    bool is_suspended() {
        return wait_for([this] { return backend_->suspended(); });
    }
};

TEST_F(Clone, is_served) {
    open_clone();
    look();
    EXPECT_EQ(error_of(way().read(0)), 0);
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(backend_->trouble(), "");
}

TEST_F(Clone, with_a_replaced_parent_reads_and_writes_nothing) {
    open_clone();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
    EXPECT_EQ(error_of(way().write(0, 'a')), EIO);
    EXPECT_EQ(ceph_.read(0, 1), std::string(1, '\0'));
    EXPECT_FALSE(backend_->lost()) << "no other client has the image";
    EXPECT_NE(backend_->trouble().find("was replaced"), std::string::npos) << backend_->trouble();
}

// One call of librbd may then read several objects of the parent, and only some of them before the deletion.
TEST_F(Clone, whose_parent_has_smaller_objects_reads_no_zeroes_for_some_of_them_when_a_pool_is_deleted) {
    ceph_.with([&] { ceph_.state.parent_stripe_unit = kObject / 2; });
    open_clone();
    ASSERT_EQ(error_of(way().write(0, 'p', kObject / 2)), 0);
    ceph_.hold(Kind::kLook);
    ceph_.hold(Kind::kRead);
    Io& read = way().read(0, kObject);
    reactor_.step();
    ASSERT_TRUE(wait_for([&] { return ceph_.holds(Kind::kRead); }));
    ceph_.with([&] { ceph_.state.pool_exists = false; });
    ceph_.release(Kind::kRead);
    EXPECT_EQ(error_of(read), EIO);
}

TEST_F(Clone, with_a_replaced_parent_is_not_resized) {
    open_clone();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(backend_->may_resize().code(), Code::kClosed);
    EXPECT_EQ(backend_->resize(32 * kObject).code(), Code::kClosed);
    EXPECT_EQ(ceph_.size(), 64 * kObject);
}

// Ceph may already have answered the read with zeroes, while the initiator has no response yet.
TEST_F(Clone, with_a_replaced_parent_fails_requests_in_flight) {
    open_clone();
    ceph_.hold(0, kObject);
    Io& read = way().read(0);
    settle();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    ceph_.release();
    EXPECT_EQ(error_of(read), EIO);
    EXPECT_EQ(read.done_bytes, 0u);
}

TEST_F(Clone, of_a_clone_with_a_replaced_parent_reads_nothing) {
    open_clone();
    ceph_.clone("near", "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
}

TEST_F(Clone, whose_farthest_parent_is_removed_reads_nothing) {
    open_clone();
    ceph_.remove("far");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
}

// It stays unknown whether the nearest parent is gone too, in which case the image may have been flattened.
TEST_F(Clone, whose_farthest_parent_is_removed_while_the_nearest_is_unreadable_releases_the_lock) {
    open_clone("away_timeout=5");
    look();
    ceph_.refuse_looks_at("near", EPERM);
    look();
    ceph_.remove("far");
    ASSERT_TRUE(is_in_doubt());
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
    EXPECT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
}

// If it kept the lock, librbd would carry out requests of other programs (rbd flatten) with the zeroes that
// it reads.
TEST_F(Clone, with_a_replaced_parent_releases_the_lock_and_is_not_lost) {
    open_clone();
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
    ceph_.set_lock_owner(1);
    look();
    EXPECT_FALSE(backend_->lost());
    EXPECT_NE(backend_->trouble().find("was replaced"), std::string::npos) << backend_->trouble();
    EXPECT_EQ(open_other().status().code(), Code::kRefused) << "cached data belongs to this volume";
}

TEST_F(Clone, with_a_replaced_parent_records_that_it_released_the_lock) {
    open_clone();
    ceph_.clone(kImage, "other");
    // The record follows the release.
    EXPECT_TRUE(wait_for([this] {
        const auto mark = io::parse_holder_mark(ceph_.metadata("wss_holder"));
        return mark && mark->client == client() && mark->released;
    }));
    EXPECT_EQ(ceph_.lock_owner(), 0u);
}

TEST_F(Clone, with_a_replaced_parent_and_a_silent_call_records_no_release) {
    keeps_taken_ = true;
    open_clone();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
    EXPECT_EQ(ceph_.lock_owner(), client());
    const auto mark = io::parse_holder_mark(ceph_.metadata("wss_holder"));
    ASSERT_TRUE(mark);
    EXPECT_FALSE(mark->released);
}

TEST_F(Clone, with_a_replaced_parent_keeps_the_lock_while_it_works_for_another_client) {
    keeps_taken_ = true;
    open_clone();
    ceph_.work_for_others(true);
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return backend_->suspended(); }));
    // Enough time for a release, which must not happen.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_EQ(ceph_.lock_owner(), client());
    ceph_.work_for_others(false);
    EXPECT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
}

// The next process must find the lock of a client that is shut out, or it could not continue the chain.
TEST_F(Clone, with_a_replaced_parent_blocklists_itself_if_it_cannot_record_that_it_released_the_lock) {
    keeps_taken_ = true;
    open_clone();
    ceph_.refuse(Kind::kMetadata, EDQUOT);
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
    EXPECT_EQ(ceph_.lock_owner(), client());
}

TEST_F(Clone, with_a_replaced_parent_and_a_silent_call_blocklists_itself_and_is_not_lost) {
    open_clone();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
    look();
    EXPECT_FALSE(backend_->lost());
}

TEST_F(Clone, with_a_replaced_parent_blocklists_itself_if_its_lock_cannot_be_released) {
    open_clone();
    look();
    ceph_.refuse(Kind::kLock, EIO);
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
}

// The request itself never reaches osd_timeout, because the clock does not advance.
TEST_F(Clone, with_a_replaced_parent_whose_lock_is_removed_is_not_closed_before_it_is_blocklisted) {
    ceph_.clone(kImage, "near");
    open("close_timeout=2");
    ceph_.refuse(Kind::kMonitors, EACCES);
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.clone(kImage, "other");
    // From its second attempt on, the client knows that it cannot be blocklisted, and keeps the claim.
    ASSERT_TRUE(wait_for([this] { return ceph_.answered(Kind::kMonitors) > 1; }));
    ceph_.set_lock_owner(0);
    std::thread end([this] { close(); });
    ceph_.release();
    end.join();
    EXPECT_EQ(io::rbd::Client::alive(), 1u);
    EXPECT_EQ(open_other().status().code(), Code::kRefused);
    ceph_.refuse(Kind::kMonitors, 0);
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(ceph_.is_blocklisted(client()));
}

TEST_F(Clone, with_a_replaced_parent_does_not_keep_the_lock_for_a_silent_read) {
    open_clone();
    ceph_.hold(0, kObject);
    Io& read = way().read(0);
    settle();
    ceph_.clone("near", "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
    EXPECT_FALSE(read.is_done);
}

TEST_F(Clone, with_a_replaced_parent_does_not_mark_the_map_of_the_next_owner) {
    open_clone();
    look();
    ceph_.refuse(Kind::kMark, EPERM);
    ceph_.refuse(Kind::kWrite, EPERM);
    EXPECT_EQ(error_of(way().write(0, 'a')), EIO);
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
    ceph_.set_lock_owner(1);  // another program, which rebuilds the map
    ceph_.rebuild_map();
    ceph_.refuse(Kind::kMark, 0);
    look();
    EXPECT_FALSE(ceph_.is_map_invalid());
    close();
    EXPECT_FALSE(ceph_.is_map_invalid()) << "when it is closed";
}

// Nor is a mark sent after Ceph has released the lock but has not yet answered the release.
TEST_F(Clone, with_a_replaced_parent_marks_no_map_after_its_lock_is_released) {
    open_clone();
    look();
    ceph_.refuse(Kind::kMark, EPERM);
    ceph_.refuse(Kind::kWrite, EPERM);
    EXPECT_EQ(error_of(way().write(0, 'a')), EIO);
    ceph_.hold(Kind::kSettings);  // the follower's first call
    ceph_.hold_returns(Kind::kLock);
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
    ceph_.set_lock_owner(1);
    ceph_.rebuild_map();
    ceph_.refuse(Kind::kMark, 0);
    ceph_.release(Kind::kSettings);
    // The absence of a mark cannot be waited for. On a slow machine this may be too short to detect a mark.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(ceph_.is_map_invalid());
}

TEST_F(Clone, with_a_replaced_parent_marks_the_map_again_that_is_rebuilt_while_the_lock_is_released) {
    open_clone();
    ceph_.with([&] { ceph_.state.map_invalid = true; });
    look();
    const uint64_t locks = ceph_.answered(Kind::kLocker);
    ceph_.hold(Kind::kMetadata);
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLocker) > locks; }));
    ceph_.rebuild_map();
    ceph_.release();
    ASSERT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
}

TEST_F(Clone, with_a_replaced_parent_fails_requests_that_wait_for_a_mark) {
    open_clone();
    look();
    ceph_.hold(0, 2 * kObject);
    way().write(0, 'a');
    Io& second = way().write(kObject, 'b');
    settle();
    ceph_.hold(Kind::kMark);
    ceph_.refuse(Kind::kWrite, EPERM);
    const std::vector<FakeCeph::HeldCall> held = ceph_.held();
    ceph_.release(held[0]);
    ASSERT_TRUE(turn_until([&] { return ceph_.answered(Kind::kWrite) == 1; }));
    ceph_.refuse(Kind::kWrite, 0);
    ceph_.release(held[1]);
    ASSERT_TRUE(turn_until([&] { return ceph_.answered(Kind::kWrite) == 2; }));
    reactor_.step();
    EXPECT_FALSE(second.is_done);
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(second), EIO);
}

// Flattening the last clone of a parent removes the parent before the header of the clone shows that it has
// none.
TEST_F(Clone, holds_requests_while_it_is_being_flattened) {
    open_clone();
    ceph_.remove("near");
    ceph_.remove("far");
    ASSERT_TRUE(is_in_doubt());
    Io& read = way().read(0);
    Io& write = way().write(0, 'a');
    look();
    EXPECT_FALSE(read.is_done || write.is_done);
    ceph_.clone(kImage, "");
    EXPECT_EQ(error_of(read), 0);
    EXPECT_EQ(error_of(write), 0);
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(backend_->trouble(), "");
}

TEST_F(Clone, that_is_being_flattened_repeats_reads_that_may_have_returned_zeroes) {
    open_clone();
    ceph_.hold(0, kObject);
    Io& read = way().read(0);
    settle();
    ceph_.remove("near");
    ASSERT_TRUE(is_in_doubt());
    const uint64_t reads = ceph_.answered(Kind::kRead);
    ceph_.release();
    ASSERT_TRUE(turn_until([&] { return ceph_.answered(Kind::kRead) > reads; }));
    reactor_.step();
    EXPECT_FALSE(read.is_done);
    ceph_.clone(kImage, "");
    EXPECT_EQ(error_of(read), 0);
    EXPECT_EQ(ceph_.answered(Kind::kRead), reads + 2);
}

// The clone is not being flattened: its parents were removed.
TEST_F(Clone, whose_parents_are_gone_fails_overdue_requests) {
    open_clone();
    ceph_.remove("near");
    ASSERT_TRUE(is_in_doubt());
    Io& read = way().read(0);
    pass(from_s(3));
    EXPECT_TRUE(read.is_done);
    EXPECT_EQ(read.error, ETIMEDOUT);
}

// Without an answer from its header it is unknown whether the clone was flattened.
TEST_F(Clone, whose_header_is_silent_reads_and_writes_nothing_after_a_parent_was_replaced) {
    open_clone();
    look();
    ceph_.hold_looks_at(kImage);
    ASSERT_TRUE(wait_for([this] { return ceph_.held().size() == 1; }));
    ceph_.clone("near", "other");
    ASSERT_TRUE(is_in_doubt());
    Io& read = way().read(0);
    Io& write = way().write(0, 'a');
    pass(from_s(3));
    EXPECT_EQ(read.error, ETIMEDOUT);
    EXPECT_EQ(write.error, ETIMEDOUT);
    ceph_.release();
    EXPECT_TRUE(is_suspended());
    EXPECT_EQ(ceph_.read(0, 1), std::string(1, '\0'));
}

// An OSD that has lost its objects drops operations.
TEST_F(Clone, repeats_an_unanswered_look_at_a_parent) {
    open_clone("away_timeout=5");
    look();
    ceph_.hold_looks_at("near");
    ASSERT_TRUE(wait_for([this] { return ceph_.held().size() == 1; }));
    const FakeCeph::HeldCall dropped = wait_for_held();
    ceph_.clone("near", "other");
    wait_for_held(dropped.id);
    EXPECT_NE(backend_->trouble().find("has not answered checks of the image's parents"), std::string::npos)
        << backend_->trouble();
    ceph_.release();
    EXPECT_TRUE(is_suspended());
}

TEST_F(Clone, in_doubt_pauses_between_looks_that_are_refused) {
    open_clone();
    look();
    ceph_.hold_looks_at(kImage);
    ASSERT_TRUE(wait_for([this] { return ceph_.held().size() == 1; }));
    ceph_.remove("near");
    ASSERT_TRUE(is_in_doubt());
    ceph_.refuse(Kind::kLook, EPERM);
    ceph_.release();
    ASSERT_TRUE(wait_for([this] {
        return backend_->trouble().find("reads of the image's header have failed") != std::string::npos;
    }));
    const Nanoseconds began = SystemClock().now();
    const uint64_t looks = ceph_.answered(Kind::kLook);
    EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= looks + 12; }));
    EXPECT_GE(SystemClock().now() - began, from_s(2)) << "three looks a second";
}

// Acknowledged writes are stable, so that a flush need not wait.
TEST_F(Clone, in_doubt_completes_flushes_at_once) {
    open_clone();
    look();
    ceph_.remove("near");
    ASSERT_TRUE(is_in_doubt());
    Io& read = way().read(0);
    EXPECT_EQ(error_of(way().submit(io::Op::kFlush, 0, 0, 0)), 0);
    EXPECT_FALSE(read.is_done);
    pass(from_s(3));
    EXPECT_EQ(read.error, ETIMEDOUT);
}

// Zeroes in place of a removed parent's data do not count in `done_bytes`.
TEST_F(Clone, in_doubt_reports_no_bytes_for_a_failed_read) {
    open_clone();
    ceph_.hold(0, 2 * kObject);
    Io& read = way().read(kObject - 4096, 8192);
    settle();
    ceph_.remove("near");
    ASSERT_TRUE(is_in_doubt());
    const std::vector<FakeCeph::HeldCall> held = ceph_.held();
    ASSERT_EQ(held.size(), 2u);
    const uint64_t reads = ceph_.answered(Kind::kRead);
    ceph_.release(held[0]);
    ASSERT_TRUE(turn_until([&] { return ceph_.answered(Kind::kRead) > reads; }));
    settle();
    pass(from_s(4));
    EXPECT_TRUE(read.is_done);
    EXPECT_EQ(read.done_bytes, 0u);
}

TEST_F(Clone, reports_no_trouble_right_after_opening) {
    ceph_.clone(kImage, "near");
    for (int i = 0; i < 20; ++i) {
        auto other = open_other();
        ASSERT_TRUE(other) << other.status().to_string();
        EXPECT_EQ((*other)->trouble(), "");
    }
}

// When librbd renews the watch of the image, it also renews the lock and then sends a header notification.
// Each notification makes a clone look at once.
TEST_F(Clone, whose_lock_has_no_owner_for_a_moment_is_not_lost) {
    open_clone();
    look();
    const Nanoseconds began = SystemClock().now();
    ceph_.set_lock_owner(0);
    for (int i = 0; i < 3; ++i) {
        const uint64_t looks = ceph_.answered(Kind::kLook);
        ceph_.notify();
        ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) > looks; }));
    }
    ceph_.set_lock_owner(client());
    if (SystemClock().now() - began > from_ms(800)) GTEST_SKIP() << "the lock had no owner for too long";
    look();
    EXPECT_FALSE(backend_->lost());
    ceph_.set_lock_owner(0);
    EXPECT_TRUE(wait_for([this] { return backend_->lost(); }));
}

// The parent is not silent, because Ceph answers each look with an error.
TEST_F(Clone, whose_parents_become_unreadable_is_not_reported_as_silent) {
    open_clone();
    look();
    ceph_.refuse_looks_at("near", EPERM);
    const uint64_t looks = ceph_.answered(Kind::kLook);
    EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= looks + 24; }));
    EXPECT_EQ(backend_->trouble(), "");
}

// Otherwise librbd could keep a parent that was replaced a moment later, and no look would detect it.
TEST_F(Clone, whose_parents_change_while_it_is_opened_is_not_opened) {
    ceph_.clone(kImage, "near");
    ceph_.clone("near", "far");
    int openings = 0;
    ceph_.before_open = [&] {
        if (++openings == 2) ceph_.clone("near", "other");
    };
    EXPECT_EQ(open_other().status().code(), Code::kBusy);
    EXPECT_EQ(openings, 2);
    ceph_.before_open = [] {};
    auto again = open_other();
    EXPECT_TRUE(again) << again.status().to_string();
}

TEST_F(Clone, that_is_lost_ends_the_watches_of_its_parents) {
    open_clone();
    look();
    EXPECT_EQ(ceph_.watches(), 3u);
    ceph_.set_lock_owner(1);
    ASSERT_TRUE(wait_for([this] { return backend_->lost(); }));
    EXPECT_TRUE(wait_for([this] { return ceph_.watches() == 1; }));
}

TEST_F(Clone, that_was_flattened_repeats_reads_that_its_parents_have_answered) {
    open_clone();
    ceph_.hold(0, kObject);
    Io& read = way().read(0);
    settle();
    ceph_.clone(kImage, "");
    look();
    const uint64_t reads = ceph_.answered(Kind::kRead);
    ceph_.release();
    EXPECT_EQ(error_of(read), 0);
    EXPECT_EQ(ceph_.answered(Kind::kRead), reads + 2);
}

TEST_F(Clone, of_a_flattened_clone_is_served) {
    open_clone();
    ceph_.clone("near", "");
    look();
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(error_of(way().read(0)), 0);
}

TEST_F(Clone, that_was_flattened_has_no_parents) {
    open_clone();
    ceph_.clone(kImage, "");
    ceph_.remove("near");
    ceph_.remove("far");
    look();
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(error_of(way().read(0)), 0);
    EXPECT_EQ(backend_->trouble(), "");
}

TEST_F(Clone, with_silent_parents_closes_at_once) {
    open_clone();
    ceph_.hold(Kind::kLook);
    ASSERT_TRUE(wait_for([&] { return ceph_.held().size() >= 3; }));
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 0u) << "the client is abandoned";
}

TEST_F(Clone, whose_watches_end_late_keeps_its_connection_until_they_end) {
    open_clone();
    look();
    ceph_.hold(Kind::kSize);
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 1u) << "the connection remains";
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.watches(), 0u);
}

// librbd would take the lock again for a resize that the release of the lock interrupts.
TEST_F(Clone, whose_parent_is_replaced_during_a_resize_is_given_up_by_blocklisting) {
    open_clone();
    ceph_.hold(Kind::kResize);
    std::jthread resize([&] { (void)backend_->resize(32 * kObject); });
    EXPECT_TRUE(wait_for([&] { return backend_->limits().size == 32 * kObject; }));
    ceph_.clone(kImage, "other");
    EXPECT_TRUE(wait_for([this] { return ceph_.is_blocklisted(client()); }));
    ceph_.release();
}

}  // namespace
}  // namespace wss::test
