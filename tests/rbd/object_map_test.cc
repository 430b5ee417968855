// SPDX-License-Identifier: Apache-2.0
// The object of a refused change may be missing from the object map, which the next client uses. No later
// change is acknowledged until the header marks the map as invalid, or the map is known to be complete.
#include <cerrno>
#include <future>
#include <thread>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

class ObjectMap : public RbdTest {
  protected:
    // Refuses a write with this errno, so that the map is in doubt.
    void refuse_one(int error) {
        ceph_.refuse(Kind::kWrite, error);
        const Io& refused = way().write(0, 'a');
        EXPECT_TRUE(turn_until([&] { return refused.is_done; }));
        EXPECT_NE(refused.error, 0);
        ceph_.refuse(Kind::kWrite, 0);
    }
    // Waits until this many more looks are answered.
    void look(uint64_t times) {
        const uint64_t before = ceph_.answered(Kind::kLook);
        ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= before + times; }));
    }
    // The client has marked the map because of a refused write, and its looks have found the mark.
    void have_it_marked() {
        refuse_one(EPERM);
        ASSERT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
        look(3);
    }
    // The map is marked and rebuilt while the follower waits for the answer of the settings. A release() lets
    // the follower continue.
    void mark_and_rebuild_behind_the_follower() {
        look(3);
        ceph_.hold(Kind::kSettings);
        ceph_.notify();
        look(2);  // the follower waits for the settings
        ceph_.with([&] { ceph_.state.map_invalid = true; });
        look(4);
        ceph_.rebuild_map();
        look(3);
    }
    // Notifies the client this many times, and waits each time until the follower has acted.
    void follow_up(int times) {
        for (int i = 0; i < times; ++i) {
            const uint64_t before = ceph_.answered(Kind::kSettings);
            ceph_.notify();
            EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kSettings) > before; }));
        }
    }
};

TEST_F(ObjectMap, is_marked_before_a_later_change_is_acknowledged) {
    open();
    ceph_.hold(Kind::kMark);
    refuse_one(ENOSPC);
    const Io& later = way().write(kObject, 'b');
    follow_up(3);
    settle();
    EXPECT_FALSE(later.is_done);
    ceph_.release();
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_EQ(later.error, 0);
    EXPECT_TRUE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, is_not_marked_for_a_refusal_that_left_it_valid) {
    // Looks are held from the start: the follower may act late on an earlier look, and would then find the
    // mark in librbd's memory.
    ceph_.hold(Kind::kLook);
    open();
    ceph_.hold(Kind::kMark);
    ceph_.hold(Kind::kWrite);
    ceph_.refuse(Kind::kWrite, ENOSPC);
    const Io& refused = way().write(0, 'a');
    reactor_.step();
    ceph_.release(Kind::kWrite);
    ASSERT_TRUE(ceph_.wait_until_quiet());
    ceph_.forget_flags();  // before the follower checks: librbd considers the map valid
    ASSERT_TRUE(turn_until([&] { return refused.is_done; }));
    ceph_.refuse(Kind::kWrite, 0);
    const Io& later = way().write(kObject, 'b');
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_FALSE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, that_cannot_be_marked_holds_changes_until_osd_timeout) {
    open();
    ceph_.refuse(Kind::kMark, EPERM);
    refuse_one(EPERM);
    const Io& later = way().write(kObject, 'b');
    pass(from_ms(1900));
    EXPECT_FALSE(later.is_done);
    pass(from_s(1));
    EXPECT_EQ(later.error, ETIMEDOUT);
}

TEST_F(ObjectMap, is_marked_even_if_librbd_forgets_the_refusal) {
    open();
    ceph_.refuse(Kind::kMark, EPERM);
    refuse_one(EPERM);
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kMark) > 0; }));
    ceph_.forget_flags();
    const Io& later = way().write(kObject, 'b');
    follow_up(4);
    settle();
    EXPECT_FALSE(later.is_done) << "acknowledged although the header is not marked";
    ceph_.refuse(Kind::kMark, 0);
    follow_up(2);
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_EQ(later.error, 0);
    EXPECT_TRUE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, is_marked_even_if_librbd_forgets_the_refusal_while_the_mark_is_in_flight) {
    open();
    ceph_.hold(Kind::kMark);
    refuse_one(EPERM);
    ASSERT_TRUE(wait_for([&] { return !ceph_.held().empty(); }));
    ceph_.forget_flags();
    const Io& later = way().write(kObject, 'b');
    follow_up(4);
    settle();
    EXPECT_FALSE(later.is_done) << "acknowledged although the mark is not answered";
    ceph_.refuse(Kind::kMark, EPERM);
    ceph_.release();
    follow_up(4);
    settle();
    EXPECT_FALSE(later.is_done) << "acknowledged although the mark was refused";
    ceph_.refuse(Kind::kMark, 0);
    follow_up(2);
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_TRUE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, is_marked_without_another_look_for_refusals_during_a_mark) {
    ceph_.hold(Kind::kLook);
    open();
    ceph_.hold(Kind::kMark);
    refuse_one(EPERM);
    ASSERT_TRUE(wait_for([&] { return ceph_.holds(Kind::kMark); }));
    refuse_one(EPERM);
    follow_up(2);
    const Io& later = way().write(kObject, 'b');
    ceph_.release(Kind::kMark);
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_EQ(later.error, 0);
}

// An OSD that has lost its objects drops the mark.
TEST_F(ObjectMap, is_marked_again_when_a_mark_is_never_answered) {
    open("away_timeout=5");
    ceph_.hold(Kind::kMark);
    refuse_one(EPERM);
    ASSERT_TRUE(wait_for([&] { return ceph_.holds(Kind::kMark); }));
    const FakeCeph::HeldCall dropped = wait_for_held();
    const Io& later = way().write(kObject, 'b');
    wait_for_held(dropped.id);
    EXPECT_EQ(backend_->trouble().find("object map"), std::string::npos) << "no mark was refused";
    ceph_.release();
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_EQ(later.error, 0);
    EXPECT_TRUE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, is_marked_by_answers_that_take_longer_than_away_timeout) {
    open("away_timeout=5");
    ceph_.hold(Kind::kMark);
    refuse_one(EPERM);
    EXPECT_TRUE(wait_with_late_answers(from_s(6), [this] { return ceph_.is_map_invalid(); }));
}

TEST_F(ObjectMap, lets_its_reactor_sleep_while_changes_wait_for_it) {
    open();
    ceph_.hold(Kind::kMark);
    refuse_one(ENOSPC);
    way().write(kObject, 'b');
    settle();
    EXPECT_TRUE(way().queue().arm());
    EXPECT_GT(reactor_.next_deadline(), clock_.now());
    EXPECT_LE(reactor_.next_deadline(), clock_.now() + from_ms(10));
}

TEST_F(ObjectMap, delays_no_reads) {
    open();
    ceph_.hold(Kind::kMark);
    refuse_one(ENOSPC);
    const Io& read = way().read(kObject);
    EXPECT_TRUE(turn_until([&] { return read.is_done; }));
    EXPECT_EQ(read.error, 0);
}

TEST_F(ObjectMap, is_marked_no_later_than_its_client_ends) {
    open();
    ceph_.refuse(Kind::kMark, EPERM);
    refuse_one(EPERM);
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kMark) > 0; }));
    ceph_.forget_flags();
    ceph_.refuse(Kind::kMark, 0);
    close();
    EXPECT_TRUE(ceph_.is_map_invalid());
}

// The client may still write the data pool, but not the pool of the header. Changes that librbd carries out
// are not acknowledged while the map may lack their objects.
TEST_F(ObjectMap, that_cannot_be_marked_is_reported_as_trouble) {
    open();
    ceph_.refuse(Kind::kMark, EPERM);
    ceph_.refuse(Kind::kWrite, EPERM);
    const Io& refused = way().write(0, 'a');
    ASSERT_TRUE(turn_until([&] { return refused.is_done; }));
    ceph_.refuse(Kind::kWrite, 0);
    auto is_shown = [&] {
        return backend_->trouble().find("refuses to mark the object map") != std::string::npos;
    };
    const Io& next = way().write(kObject, 'b');
    EXPECT_TRUE(turn_until(is_shown)) << backend_->trouble();
    EXPECT_FALSE(next.is_done);
    ceph_.refuse(Kind::kMark, 0);
    ASSERT_TRUE(turn_until([&] { return next.is_done; }));
    EXPECT_EQ(next.error, 0);
    EXPECT_EQ(backend_->trouble(), "");
}

// The last answer to a mark arrives while the client closes.
TEST_F(ObjectMap, that_cannot_be_marked_at_the_end_is_reported) {
    open("close_timeout=20");
    ceph_.hold(Kind::kMark);
    ceph_.refuse(Kind::kWrite, EPERM);
    const Io& first = way().write(0, 'a');
    ASSERT_TRUE(turn_until([&] { return first.is_done; }));
    ASSERT_TRUE(wait_for([&] { return !ceph_.held().empty(); }));
    ceph_.forget_flags();
    ceph_.refuse(Kind::kMark, EPERM);
    testing::internal::CaptureStderr();
    std::thread releaser([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ceph_.release();
    });
    close();
    releaser.join();
    ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("rbd object-map rebuild"), std::string::npos) << log;
    EXPECT_FALSE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, that_is_marked_is_not_reported_at_the_end_if_a_further_mark_is_refused) {
    open("close_timeout=20");
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    const uint64_t marks = ceph_.answered(Kind::kMark);
    ceph_.refuse(Kind::kMark, EPERM);
    testing::internal::CaptureStderr();
    close();
    ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_GT(ceph_.answered(Kind::kMark), marks);
    EXPECT_EQ(log.find("is not marked as invalid"), std::string::npos) << log;
}

// A rebuild may lose the entries of objects that are created meanwhile.
TEST_F(ObjectMap, that_is_rebuilt_while_the_image_is_open_is_marked_again) {
    open();
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    ceph_.rebuild_map();
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
    const Io& second = way().write(kObject, 'a');
    EXPECT_TRUE(turn_until([&] { return second.is_done; }));
    EXPECT_EQ(second.error, 0);
}

TEST_F(ObjectMap, that_is_rebuilt_between_its_mark_and_the_next_look_is_marked_again) {
    open("close_timeout=20");
    ceph_.hold(Kind::kLook);
    refuse_one(EPERM);
    ASSERT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kMark) > 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the client notes the answer
    ceph_.rebuild_map();
    ceph_.release(Kind::kLook);
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
}

// Enabling the feature creates a map that is marked as invalid.
TEST_F(ObjectMap, that_is_created_and_rebuilt_between_two_looks_is_marked) {
    ceph_.with([&] { ceph_.state.maps_objects = false; });
    open();
    look(3);
    ceph_.hold(Kind::kLook);
    ASSERT_TRUE(wait_for([&] { return ceph_.holds(Kind::kLook); }));
    ceph_.with([&] { ceph_.state.maps_objects = ceph_.state.map_invalid = true; });
    ceph_.notify();
    ceph_.rebuild_map();
    ceph_.notify();
    ceph_.release();
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
}

TEST_F(ObjectMap, that_is_marked_and_rebuilt_while_settings_are_not_answered_is_marked_again) {
    open();
    mark_and_rebuild_behind_the_follower();
    ceph_.release();
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
}

TEST_F(ObjectMap, that_is_marked_and_rebuilt_while_settings_are_not_answered_is_marked_at_the_end) {
    open("close_timeout=20");
    mark_and_rebuild_behind_the_follower();
    std::jthread end([this] { close(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // close() requests the follower to stop
    ceph_.release();
    end.join();
    EXPECT_EQ(ceph_.lock_owner(), 0u);
    EXPECT_TRUE(ceph_.is_map_invalid());
}

TEST_F(ObjectMap, that_was_rebuilt_since_the_last_look_is_marked_at_the_end) {
    open("close_timeout=20");
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    ceph_.hold(Kind::kLook);
    ceph_.rebuild_map();
    std::jthread end([this] { close(); });
    ASSERT_TRUE(ceph_.wait_until([&] { return ceph_.state.map_invalid; }));
    ceph_.release(Kind::kLook);
}

TEST_F(ObjectMap, that_is_rebuilt_while_the_lock_is_released_is_marked_at_the_end) {
    open("close_timeout=20");
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    look(3);
    const uint64_t marks = ceph_.answered(Kind::kMark), locks = ceph_.answered(Kind::kLocker);
    ceph_.hold(Kind::kMetadata);  // records the release
    std::jthread end([this] { close(); });
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLocker) > locks; }));
    EXPECT_EQ(ceph_.answered(Kind::kMark), marks) << "the mark is the one that the rebuild removes";
    ceph_.rebuild_map();
    ceph_.release();
    end.join();
    EXPECT_EQ(ceph_.lock_owner(), 0u);
    EXPECT_TRUE(ceph_.is_map_invalid());
}

// A rebuild ends while the lock is released, and another client takes the lock at once.
TEST_F(ObjectMap, that_is_rebuilt_while_the_lock_is_released_is_marked_before_the_next_owner_uses_it) {
    open("close_timeout=20");
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    ceph_.hold(Kind::kMark);
    std::jthread end([this] { close(); });
    ASSERT_TRUE(wait_for([&] { return ceph_.lock_owner() == 0; }));
    ceph_.rebuild_map();
    testing::internal::CaptureStderr();
    auto other = std::async(std::launch::async, [this] { return open_other(); });
    ASSERT_TRUE(wait_for([&] { return ceph_.lock_owner() != 0; }));
    ceph_.release();
    end.join();
    const auto opened = other.get();
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
    EXPECT_NE(log.find("is invalid and is not used"), std::string::npos) << log;
}

// As after a mark by a client that did not notify others.
TEST_F(ObjectMap, whose_mark_librbd_has_not_read_is_no_longer_used) {
    open();
    look(3);
    ceph_.with([&] { ceph_.state.map_invalid = true; });
    EXPECT_TRUE(ceph_.wait_until([&] { return ceph_.knows_mark(client()); }));
}

// The last look is up to a second old and still shows the mark that preceded the rebuild.
TEST_F(ObjectMap, that_was_rebuilt_is_marked_at_the_end_for_later_refusals) {
    open("close_timeout=20");
    ASSERT_NO_FATAL_FAILURE(have_it_marked());
    ceph_.refuse(Kind::kWrite, EPERM);
    ceph_.hold(Kind::kLook);
    ceph_.rebuild_map();
    ceph_.refuse(Kind::kMark, EPERM);
    const uint64_t marks = ceph_.answered(Kind::kMark);
    const Io& second = way().write(kObject, 'a');
    ASSERT_TRUE(turn_until([&] { return second.is_done; }));
    ASSERT_TRUE(wait_for([&] { return ceph_.answered(Kind::kMark) > marks; }));
    ASSERT_TRUE(ceph_.wait_until_quiet());
    ceph_.refuse(Kind::kMark, 0);
    ceph_.release(Kind::kLook);
    close();
    ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(ceph_.is_map_invalid()) << "the next owner uses a map without the refused objects";
}

// The second call succeeds without the map, which librbd considers invalid since the first one failed.
TEST_F(ObjectMap, is_marked_for_a_late_call_that_fails_while_the_client_ends) {
    open("close_timeout=20");
    ceph_.hold(0, 2 * kObject);
    way().write(0, 'a');
    way().write(kObject, 'b');
    pass(from_s(3));
    std::thread end([this] { close(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the end now waits for the two calls
    const auto held = ceph_.held();
    ceph_.refuse(Kind::kWrite, EPERM);
    ceph_.release(held[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ceph_.refuse(Kind::kWrite, 0);
    ceph_.release(held[1]);
    end.join();
    ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.read(kObject, 1), "b");
    EXPECT_TRUE(ceph_.is_map_invalid()) << "the next owner uses a map without the second object";
}

}  // namespace
}  // namespace wss::test
