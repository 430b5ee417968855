// SPDX-License-Identifier: Apache-2.0
// Clients that give up the lock, and openings that meet such a client.
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "lib/io/rbd/holder_mark.h"
#include "lib/io/rbd/plugin/bounded.h"
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kOwner = 1, kDead = 2;
constexpr io::Succession kOfOwner{.series = 5, .term = 3, .since = 1};

using Release = RbdTest;

// A client that is being closed watches the image until librbd has ended its notifications, which takes
// seconds if a dead client watches the image, too.
TEST_F(Release, is_noticed_by_an_opening_while_the_former_owner_still_watches) {
    for (const bool steal : {false, true}) {
        SCOPED_TRACE(steal);
        keeps_taken_ = true;
        ceph_.set_lock_owner(kOwner);
        ceph_.set_metadata("wss_holder", io::HolderMark{kOfOwner, kOwner}.text());
        ceph_.add_watcher(kOwner);
        ceph_.add_dead_watcher(kDead);
        const uint64_t looks = ceph_.answered(Kind::kWatchers);
        std::jthread owner([&] {
            wait_for([&] { return ceph_.answered(Kind::kWatchers) > looks; });
            ceph_.set_lock_owner(0);
            ceph_.set_metadata("wss_holder", io::HolderMark{kOfOwner, kOwner, true}.text());
        });
        auto opened = open_other(steal ? "steal=true" : "steal=false");
        EXPECT_TRUE(opened) << opened.status().to_string();
        EXPECT_FALSE(ceph_.is_blocklisted(kOwner));
        EXPECT_TRUE(io::parse_holder_mark(ceph_.metadata("wss_holder"))->succession.follows(kOfOwner));
    }
}

TEST_F(Release, does_not_end_the_chain_when_its_number_cannot_be_read) {
    keeps_taken_ = true;
    ceph_.set_lock_owner(kOwner);
    ceph_.set_metadata("wss_holder", io::HolderMark{kOfOwner, kOwner}.text());
    ceph_.add_watcher(kOwner);
    const uint64_t looks = ceph_.answered(Kind::kLocker);
    ceph_.refuse(Kind::kLocker, ETIMEDOUT);
    std::jthread owner([&] {
        wait_for([&] { return ceph_.answered(Kind::kLocker) > looks; });
        ceph_.refuse(Kind::kLocker, 0);
        ceph_.set_metadata("wss_holder", io::HolderMark{kOfOwner, kOwner, true}.text());
        ceph_.set_lock_owner(0);
    });
    EXPECT_EQ(open_other().status().code(), Code::kTimedOut);
    owner.join();
    EXPECT_TRUE(open_other());
    EXPECT_TRUE(io::parse_holder_mark(ceph_.metadata("wss_holder"))->succession.follows(kOfOwner));
}

TEST_F(Release, is_noticed_by_a_check_while_the_former_owner_still_watches) {
    ceph_.set_lock_owner(kOwner);
    ceph_.add_watcher(kOwner);
    ceph_.hold_returns(Kind::kWatchers);
    std::jthread owner([&] {
        wait_for([&] { return ceph_.answered(Kind::kWatchers) > 0; });
        ceph_.set_lock_owner(0);
        ceph_.release();
    });
    EXPECT_TRUE(check());
}

TEST_F(Release, ends_the_wait_for_an_owner_that_was_killed_after_it) {
    ceph_.set_lock_owner(kOwner);
    ceph_.add_dead_watcher(kOwner);
    std::jthread owner([&] {
        wait_for([&] { return ceph_.answered(Kind::kWatchers) > 1; });
        ceph_.set_lock_owner(0);
    });
    EXPECT_TRUE(open_other());
    EXPECT_FALSE(ceph_.is_blocklisted(kOwner));
    EXPECT_LT(ceph_.answered(Kind::kWatchers), 10u) << "looks once a second";
}

// While a client is dead, the answers of live ones take seconds.
TEST_F(Release, is_noticed_by_an_opening_that_waited_for_answers) {
    ceph_.set_lock_owner(kOwner);
    ceph_.add_watcher(kOwner);
    ceph_.hold_returns(Kind::kNotify);
    std::jthread owner([&] {
        wait_for([&] { return ceph_.answered(Kind::kNotify) > 0; });
        ceph_.set_lock_owner(0);
        ceph_.release();
    });
    EXPECT_TRUE(open_other());
    EXPECT_FALSE(ceph_.is_blocklisted(kOwner));
}

// librbd renews the lock with the watch of the image, and has none meanwhile.
TEST_F(Release, for_a_moment_does_not_let_an_opening_shut_out_the_owner) {
    ceph_.set_lock_owner(kOwner);
    ceph_.add_watcher(kOwner);
    const uint64_t looks = ceph_.answered(Kind::kLock);
    ceph_.hold_returns(Kind::kWatchers);
    std::jthread owner([&] {
        wait_for([&] { return ceph_.answered(Kind::kWatchers) > 0; });
        ceph_.set_lock_owner(0);
        ceph_.release();
        wait_for([&] { return ceph_.answered(Kind::kLock) == looks + 2; });
        ceph_.hold_returns(Kind::kLock);
        wait_for([&] { return ceph_.answered(Kind::kLock) == looks + 3; });
        ceph_.set_lock_owner(kOwner);
        ceph_.release();
    });
    EXPECT_EQ(open_other().status().code(), Code::kBusy);
    EXPECT_FALSE(ceph_.is_blocklisted(kOwner));
}

// Otherwise the next client waits at each of its notifications for the dead one.
TEST_F(Release, of_the_image_ends_before_a_program_that_is_stopped_during_an_opening) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto end = [this] {
        ceph_.hold_returns(Kind::kSettings);
        std::thread time([this] {
            wait_for([this] { return ceph_.answered(Kind::kSettings) > 0; });
            io::rbd::program_ends.store(true);
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            ceph_.release();
        });
        const bool opened = open_other().is_ok();
        const bool closed = ceph_.with([this] { return ceph_.alive().empty(); });
        time.join();
        std::exit(opened ? 5 : closed ? 3 : 4);
    };
    EXPECT_EXIT(end(), testing::ExitedWithCode(3), "");
}

TEST_F(Release, is_not_needed_by_an_opening_that_was_given_up_while_it_connected) {
    ceph_.hold(Kind::kConnect);
    EXPECT_FALSE(open_other("open_timeout=1"));
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.answered(Kind::kSettings), 0u) << "the image was opened";
}

TEST_F(Release, by_removal_ends_an_opening_that_was_given_up) {
    ceph_.hold(Kind::kMetadata);
    ASSERT_FALSE(open_other("open_timeout=2"));
    const uint64_t owner = ceph_.lock_owner();
    ASSERT_NE(owner, 0u);
    ceph_.set_lock_owner(0);
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(ceph_.is_blocklisted(owner));
}

TEST_F(Release, by_removal_ends_an_opening_that_failed_to_record_its_lock) {
    ceph_.hold(Kind::kMetadata);
    uint64_t owner = 0;
    std::jthread other([&] {
        wait_for([&] { return (owner = ceph_.lock_owner()) != 0; });
        ceph_.refuse(Kind::kMetadata, EIO);
        ceph_.set_lock_owner(0);
        ceph_.release();
    });
    EXPECT_FALSE(open_other());
    other.join();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(ceph_.is_blocklisted(owner));
}

TEST_F(Release, by_removal_during_silent_monitors_lets_a_later_opening_have_the_image) {
    ceph_.hold_returns(Kind::kMetadata);
    uint64_t owner = 0;
    std::jthread other([&] {
        wait_for([&] { return ceph_.answered(Kind::kMetadata) == 1; });
        owner = ceph_.lock_owner();
        ceph_.refuse(Kind::kMetadata, EIO);  // so that the opening fails
        ceph_.refuse(Kind::kMonitors, ETIMEDOUT);
        ceph_.set_lock_owner(0);
        ceph_.release();
    });
    ASSERT_FALSE(open_other("open_timeout=6"));
    other.join();
    ceph_.refuse(Kind::kMetadata, 0);
    ceph_.refuse(Kind::kMonitors, 0);
    EXPECT_TRUE(wait_for([this] { return static_cast<bool>(open_other()); }));
    EXPECT_TRUE(ceph_.is_blocklisted(owner));
}

}  // namespace
}  // namespace wss::test
