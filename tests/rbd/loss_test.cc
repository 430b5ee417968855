// SPDX-License-Identifier: Apache-2.0
// Another owner takes the image: what the client does before it releases the image, and requests that come
// later.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kForeign = 1;  // the number of another program's client

class Loss : public RbdTest {
  protected:
    bool is_lost() {
        return wait_for([this] { return backend_->lost(); });
    }
    bool is_shut_out() {
        return wait_for([this] { return ceph_.is_blocklisted(client()); });
    }
};

TEST_F(Loss, of_the_lock_fails_all_requests) {
    open();
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(is_lost());
    const Io& write = way().write(0, 'a');
    const Io& read = way().read(0);
    EXPECT_TRUE(turn_until([&] { return write.is_done && read.is_done; }));
    EXPECT_EQ(write.error, EIO);
    EXPECT_EQ(read.error, EIO);
    EXPECT_NE(backend_->trouble().find("lock was taken away"), std::string::npos) << backend_->trouble();
}

TEST_F(Loss, of_the_lock_is_detected_without_a_new_owner) {
    open();
    ceph_.set_lock_owner(0);
    EXPECT_TRUE(is_lost());
}

// Data read after the loss may be old, and writes may have been overwritten.
TEST_F(Loss, of_the_lock_fails_requests_in_flight) {
    open();
    ceph_.hold(0, kObject);
    const Io& write = way().write(0, 'a');
    const Io& read = way().read(4096);
    settle();
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(is_lost());
    ceph_.release();
    EXPECT_TRUE(turn_until([&] { return write.is_done && read.is_done; }));
    EXPECT_EQ(write.error, EIO);
    EXPECT_EQ(read.error, EIO);
    EXPECT_EQ(read.done_bytes, 0u);
}

// Monitor commands have timeouts in whole seconds: of the shortest mon_timeout, less than one would be left.
TEST_F(Loss, of_the_lock_makes_the_client_blocklist_itself) {
    open("mon_timeout=1");
    ceph_.set_lock_owner(kForeign);
    EXPECT_TRUE(is_shut_out());
}

TEST_F(Loss, lets_no_late_write_reach_the_next_owner) {
    open("close_timeout=1");
    ceph_.hold(0, kObject);
    const Io& late = way().write(0, 'a');
    pass(from_s(3));
    ASSERT_EQ(late.error, ETIMEDOUT);
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(is_lost());
    close();
    ceph_.set_lock_owner(0);
    Result<std::unique_ptr<io::Backend>> next = open_other();
    // Succeeds as soon as the former client is blocklisted.
    ASSERT_TRUE(wait_for([&] {
        if (!next) next = open_other();
        return static_cast<bool>(next);
    })) << next.status().to_string();
    ceph_.release();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    EXPECT_EQ(ceph_.read(0, 1), std::string(1, '\0'));
}

TEST_F(Loss, reserves_the_image_until_the_client_is_blocklisted) {
    open();
    ceph_.refuse(Kind::kMonitors, EACCES);
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(wait_for([&] {
        return backend_->trouble().find("cannot be blocklisted") != std::string::npos;
    })) << backend_->trouble();
    ceph_.set_lock_owner(0);
    auto other = open_other();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.status().code(), Code::kRefused);
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
    ceph_.refuse(Kind::kMonitors, 0);
    ASSERT_TRUE(is_shut_out());
    ASSERT_TRUE(wait_for([&] {
        other = open_other();
        return static_cast<bool>(other);
    })) << other.status().to_string();
}

TEST_F(Loss, reserves_the_image_for_a_closed_client_that_could_not_be_blocklisted) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.refuse(Kind::kMonitors, EACCES);
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(is_lost());
    close();
    ceph_.set_lock_owner(0);
    EXPECT_EQ(open_other().status().code(), Code::kRefused);
    ceph_.release();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_EQ(open_other().status().code(), Code::kRefused);
    ceph_.refuse(Kind::kMonitors, 0);
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    auto next = open_other();
    EXPECT_TRUE(next) << next.status().to_string();
}

TEST_F(Loss, by_blocklisting_is_detected_without_requests) {
    open();
    ceph_.with([&] { return ceph_.blocklist(FakeCeph::address_of(client())); });
    ASSERT_TRUE(is_lost());
    EXPECT_NE(backend_->trouble().find("blocklisted"), std::string::npos);
}

TEST_F(Loss, by_a_resize_to_zero_releases_the_lock) {
    open();
    ceph_.resize(0);
    ASSERT_TRUE(is_lost());
    EXPECT_TRUE(wait_for([&] { return ceph_.lock_owner() == 0; }));
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

// The volume could not follow it, because it has whole blocks.
TEST_F(Loss, is_the_end_of_an_image_that_becomes_smaller_than_one_block) {
    block_ = 4096;
    open();
    ceph_.resize(4096);
    EXPECT_TRUE(wait_for([&] { return backend_->limits().size == 4096; }));
    EXPECT_FALSE(backend_->lost());
    ceph_.resize(2048);
    ASSERT_TRUE(is_lost());
    EXPECT_TRUE(wait_for([&] { return ceph_.lock_owner() == 0; }));
}

// rbd_lock_release() would wait for the silent call.
TEST_F(Loss, by_a_resize_to_zero_with_a_call_in_librbd_makes_the_client_blocklist_itself) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    ceph_.resize(0);
    EXPECT_TRUE(is_shut_out());
}

// librbd would take the lock again for a resize that the release of the lock interrupts.
TEST_F(Loss, by_a_resize_to_zero_during_an_own_resize_makes_the_client_blocklist_itself) {
    open();
    ceph_.hold(Kind::kResize);
    std::jthread resize([&] { (void)backend_->resize(32 * kObject); });
    EXPECT_TRUE(wait_for([&] { return backend_->limits().size == 32 * kObject; }));
    ceph_.resize(0);
    EXPECT_TRUE(is_shut_out());
    ceph_.release();
}

TEST_F(Loss, of_the_pool_does_not_turn_data_into_zeroes) {
    open();
    const Io& write = way().write(0, 'a');
    ASSERT_TRUE(turn_until([&] { return write.is_done; }));
    ceph_.delete_pool();
    const Io& read = way().read(0);
    ASSERT_TRUE(turn_until([&] { return read.is_done; }));
    EXPECT_EQ(read.error, EIO);
    EXPECT_TRUE(is_lost());
}

// While a snapshot of a silent cluster is taken, librbd blocks, even for a read of the image's settings.
TEST_F(Loss, is_checked_for_while_librbd_does_not_respond) {
    open();
    ceph_.hold(Kind::kSettings);
    ceph_.notify();
    const uint64_t looks = ceph_.answered(Kind::kLook);
    EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= looks + 2; }));
}

// An OSD that has lost its objects drops an operation, but answers later ones.
TEST_F(Loss, is_detected_even_if_a_look_is_never_answered) {
    open("away_timeout=5");
    ceph_.hold(Kind::kLook);
    ASSERT_TRUE(wait_for([&] { return ceph_.held().size() == 1; }));
    const FakeCeph::HeldCall dropped = wait_for_held();
    ceph_.set_lock_owner(kForeign);
    wait_for_held(dropped.id);
    EXPECT_FALSE(backend_->lost());
    EXPECT_NE(backend_->trouble().find("has not answered for"), std::string::npos) << backend_->trouble();
    ceph_.release();
    EXPECT_TRUE(is_lost());
}

TEST_F(Loss, is_detected_by_looks_that_take_longer_than_away_timeout) {
    open("away_timeout=5");
    ceph_.hold(Kind::kLook);
    ceph_.set_lock_owner(kForeign);
    EXPECT_TRUE(wait_with_late_answers(from_s(6), [this] { return backend_->lost(); }));
}

// A limit of the image may delay requests for hours, and the next owner writes already.
TEST_F(Loss, of_the_lock_makes_the_client_blocklist_itself_while_librbd_delays_requests) {
    ceph_.set("rbd_qos_iops_limit", "1");
    open();
    ceph_.hold(Kind::kWrite);
    for (uint64_t i = 0; i < 100; ++i) way().write(i * 4096, 'a');
    settle();
    ceph_.set_lock_owner(kForeign);
    ASSERT_TRUE(is_lost());
    EXPECT_TRUE(is_shut_out());
    ceph_.release();
}

// Without a pool there is neither a lock nor another owner.
TEST_F(Loss, of_the_pool_just_before_the_end_blocklists_no_client) {
    open("close_timeout=10");
    ceph_.delete_pool();
    ceph_.set_lock_owner(0);
    close();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

TEST_F(Loss, makes_the_client_blocklist_itself_while_librbd_does_not_respond) {
    open();
    ceph_.hold(Kind::kSettings);
    ceph_.notify();
    ceph_.set_lock_owner(kForeign);
    EXPECT_TRUE(is_shut_out());
}

}  // namespace
}  // namespace wss::test
