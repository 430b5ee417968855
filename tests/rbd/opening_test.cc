// SPDX-License-Identifier: Apache-2.0
// Opening an image: which client gets the lock, and the state that an abandoned opening leaves.
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "lib/io/rbd/holder_mark.h"
#include "lib/io/rbd/plugin/bounded.h"
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kDead = 1;  // the number of a client that has the lock and no watch

using Opening = RbdTest;

TEST_F(Opening, takes_the_lock) {
    open();
    EXPECT_NE(ceph_.lock_owner(), 0u);
}

TEST_F(Opening, of_an_image_that_this_program_has_open_is_refused) {
    open();
    EXPECT_EQ(open_other("steal=true").status().code(), Code::kRefused);
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

TEST_F(Opening, that_its_caller_gives_up_shuts_nobody_out) {
    ceph_.set_lock_owner(kDead);
    ceph_.add_dead_watcher(kDead);
    std::jthread caller([this] {
        wait_for([this] { return ceph_.answered(Kind::kWatchers) > 0; });
        given_up_->store(true);
    });
    EXPECT_EQ(open_other().status().code(), Code::kClosed);
    ceph_.remove_dead_watchers();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.lock_owner(), kDead);
    EXPECT_FALSE(ceph_.is_blocklisted(kDead));
}

TEST_F(Opening, blocklists_a_dead_owner) {
    ceph_.set_lock_owner(kDead);
    open();
    EXPECT_TRUE(ceph_.is_blocklisted(kDead));
    EXPECT_NE(ceph_.lock_owner(), kDead);
}

// Also if the keeper notices the loss first.
TEST_F(Opening, of_a_target_whose_lock_was_removed_does_not_end_before_it_is_blocklisted) {
    for (const bool noticed : {false, true}) {
        SCOPED_TRACE(noticed);
        open();
        ceph_.work_for_others(true);
        ceph_.set_lock_owner(kDead);
        ceph_.refuse(Kind::kMonitors, EACCES);
        const auto is_lost = [this] { return backend_->lost(); };
        ASSERT_TRUE(!noticed || turn_until(is_lost));
        close();
        ceph_.work_for_others(false);
        std::this_thread::sleep_for(std::chrono::seconds(3));
        EXPECT_EQ(io::rbd::Client::alive(), 1u);
        ceph_.refuse(Kind::kMonitors, 0);
        EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
        EXPECT_TRUE(ceph_.is_blocklisted(client()));
        ceph_.set_lock_owner(0);
    }
}

TEST_F(Opening, does_not_break_the_lock_of_an_owner_that_cannot_be_blocklisted) {
    ceph_.set_lock_owner(kDead);
    ceph_.refuse(Kind::kMonitors, EACCES);
    EXPECT_FALSE(open_other());
    EXPECT_EQ(ceph_.lock_owner(), kDead);
}

TEST_F(Opening, check_takes_no_lock_and_blocklists_no_owner) {
    ceph_.set_lock_owner(kDead);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_EQ(ceph_.lock_owner(), kDead);
    EXPECT_FALSE(ceph_.is_blocklisted(kDead));
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
}

TEST_F(Opening, check_is_refused_for_a_live_owner_unless_steal_is_set) {
    open();
    EXPECT_EQ(check().code(), Code::kBusy);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_FALSE(ceph_.is_blocklisted(client()));
}

// Otherwise the opening, which may already have taken another image, would wait for them.
TEST_F(Opening, check_waits_for_the_watches_of_dead_clients) {
    keeps_taken_ = true;
    ceph_.set_lock_owner(kDead);
    ceph_.add_dead_watcher(2);
    std::atomic<bool> over = false;
    std::thread time([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        over = true;
        ceph_.remove_dead_watchers();
    });
    EXPECT_TRUE(check("steal=true"));
    EXPECT_TRUE(over);
    time.join();
    EXPECT_EQ(ceph_.lock_owner(), kDead);
}

// A process that served a clone and its parent has died. The client of the clone watches the parent.
TEST_F(Opening, check_does_not_wait_for_an_owner_that_the_start_blocklists_first) {
    constexpr uint64_t kOfClone = 7;  // remembered until the program ends, so no other test uses it
    keeps_taken_ = true;
    ceph_.set_lock_owner(kOfClone);
    EXPECT_TRUE(check("steal=true"));
    ceph_.set_lock_owner(kDead);
    ceph_.add_dead_watcher(kOfClone);
    const uint64_t looks = ceph_.answered(Kind::kWatchers);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_EQ(ceph_.answered(Kind::kWatchers), looks + 1) << "a wait would look repeatedly";
}

TEST_F(Opening, check_is_refused_if_the_owner_returns_before_the_watch_of_a_dead_client_ends) {
    keeps_taken_ = true;
    ceph_.set_lock_owner(kDead);
    ceph_.add_dead_watcher(2);
    std::thread time([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ceph_.add_watcher(kDead);
        ceph_.remove_dead_watchers();
    });
    EXPECT_EQ(check().code(), Code::kBusy);
    time.join();
}

// The check has a time limit, but its reads after the opening would have none.
TEST_F(Opening, check_reads_the_header_only_to_open_the_image) {
    ceph_.hold(Kind::kHeader);
    EXPECT_TRUE(check());
}

TEST_F(Opening, check_rejects_an_image_that_an_opening_would_reject) {
    ceph_.resize(0);
    EXPECT_EQ(check().code(), Code::kInvalid);
}

TEST_F(Opening, that_was_abandoned_takes_no_lock) {
    ceph_.hold(Kind::kLock);
    EXPECT_EQ(open_other("open_timeout=1").status().code(), Code::kTimedOut);
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.answered(Kind::kLock), 1u);  // the read of the lock's owner
    open();
}

TEST_F(Opening, is_refused_when_the_image_would_acknowledge_writes_that_ceph_does_not_have) {
    ceph_.set("rbd_cache", "true");
    EXPECT_FALSE(open_other());
    EXPECT_EQ(ceph_.lock_owner(), 0u);
}

}  // namespace
}  // namespace wss::test
