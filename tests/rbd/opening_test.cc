// SPDX-License-Identifier: Apache-2.0
// The opening of an image: who may have it, and what is left of one that is given up.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kDead = 1;  // the number of a client that has the lock and no watch

using Opening = RbdTest;

TEST_F(Opening, takes_the_lock) {
    open();
    EXPECT_NE(ceph_.lock_owner(), 0u);
}

TEST_F(Opening, of_an_image_that_this_program_has_is_refused) {
    open();
    EXPECT_EQ(open_other("steal=true").status().code(), Code::kBusy);
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

TEST_F(Opening, shuts_a_dead_owner_out) {
    ceph_.set_lock_owner(kDead);
    open();
    EXPECT_TRUE(ceph_.is_blocklisted(kDead));
    EXPECT_NE(ceph_.lock_owner(), kDead);
}

TEST_F(Opening, says_which_client_it_is_and_that_nobody_was_before) {
    open();
    EXPECT_EQ(backend_->succession(), (io::Succession{.holder = client()}));
}

TEST_F(Opening, says_whose_place_it_took) {
    ceph_.set_lock_owner(kDead);
    open();
    EXPECT_EQ(backend_->succession(), (io::Succession{.holder = client(), .former = kDead}));
}

TEST_F(Opening, does_not_say_whose_place_it_took_when_another_may_have_had_the_lock_for_a_moment) {
    constexpr uint64_t kOther = 2;
    ceph_.set_lock_owner(kDead);
    ceph_.add_watcher(kOther);
    open();
    EXPECT_EQ(backend_->succession(), (io::Succession{.holder = client()}));
}

TEST_F(Opening, breaks_no_lock_of_an_owner_that_cannot_be_shut_out) {
    ceph_.set_lock_owner(kDead);
    ceph_.refuse(Kind::kMonitors, EACCES);
    EXPECT_FALSE(open_other());
    EXPECT_EQ(ceph_.lock_owner(), kDead);
}

TEST_F(Opening, that_is_tried_takes_nothing_and_changes_nothing) {
    ceph_.set_lock_owner(kDead);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_EQ(ceph_.lock_owner(), kDead);
    EXPECT_FALSE(ceph_.is_blocklisted(kDead));
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
}

TEST_F(Opening, that_is_tried_is_refused_beside_a_live_owner_unless_it_would_take_the_image) {
    open();
    EXPECT_EQ(check().code(), Code::kBusy);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

TEST_F(Opening, that_is_tried_fails_for_what_would_end_it_later) {
    ceph_.resize(0);
    EXPECT_EQ(check().code(), Code::kInvalid);
}

TEST_F(Opening, that_is_given_up_takes_no_lock) {
    ceph_.hold(Kind::kLock);
    EXPECT_EQ(open_other("open_timeout=1").status().code(), Code::kTimedOut);
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.answered(Kind::kLock), 1u);  // who has it
    open();
}

TEST_F(Opening, is_refused_when_the_image_would_acknowledge_what_ceph_does_not_have) {
    ceph_.set("rbd_cache", "true");
    EXPECT_FALSE(open_other());
    EXPECT_EQ(ceph_.lock_owner(), 0u);
}

}  // namespace
}  // namespace wss::test
