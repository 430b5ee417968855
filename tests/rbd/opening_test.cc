// SPDX-License-Identifier: Apache-2.0
// The opening of an image: which client gets the lock, and the state after an opening that was given up.
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

TEST_F(Opening, blocklists_a_dead_owner) {
    ceph_.set_lock_owner(kDead);
    open();
    EXPECT_TRUE(ceph_.is_blocklisted(kDead));
    EXPECT_NE(ceph_.lock_owner(), kDead);
}

// The lock belongs to a dead client, which is the third of a chain.
class Chain : public Opening {
  protected:
    static constexpr io::Succession kOfDead{.series = 5, .term = 3, .since = 1};
    static constexpr const char* kKey = "wss_holder";
    Chain() {
        ceph_.set_lock_owner(kDead);
        ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead}.text());
    }
    void expect_first() const {
        const io::Succession now = mark();
        EXPECT_EQ(now.since, now.term);
        EXPECT_FALSE(now.follows(kOfDead));
    }
    void expect_next() const {
        EXPECT_EQ(mark(), (io::Succession{
                              .series = kOfDead.series, .term = kOfDead.term + 1, .since = kOfDead.since}));
    }
    void use() {
        const Io& flush = way().submit(io::Op::kFlush, 0, 0, 0);
        EXPECT_TRUE(turn_until([&] { return flush.is_done; }));
    }
    // The series of the backend is one of this image, not of its copies.
    io::Succession mark() const {
        const auto found = io::parse_holder_mark(ceph_.metadata(kKey));
        if (!found) return {};
        EXPECT_EQ(found->client, client());
        const io::Succession reported = backend_->succession();
        EXPECT_TRUE(reported.is_known());
        EXPECT_NE(reported.series, found->succession.series);
        EXPECT_EQ(reported.term, found->succession.term);
        EXPECT_EQ(reported.since, found->succession.since);
        return found->succession;
    }
};

TEST_F(Chain, restarts_when_the_lock_has_no_owner) {
    ceph_.set_lock_owner(0);
    open();
    expect_first();
}

TEST_F(Chain, continues_with_the_client_that_blocklists_the_previous_one) {
    open();
    expect_next();
}

TEST_F(Chain, ends_when_the_owner_did_not_write_the_mark) {
    ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead + 1}.text());
    open();
    expect_first();
}

TEST_F(Chain, ends_when_another_client_may_have_held_the_lock_for_a_moment) {
    constexpr uint64_t kOther = 2;
    ceph_.add_watcher(kOther);
    open();
    expect_first();
}

TEST_F(Chain, ends_when_the_other_client_has_the_number_of_a_client_of_this_program_in_another_cluster) {
    constexpr uint64_t kOther = 2;
    io::rbd::OwnClients of_another_cluster;
    of_another_cluster.add("another cluster", kOther);
    ceph_.add_watcher(kOther);
    open();
    expect_first();
}

// The other client opens the image after the first list of watchers, and closes it before the second.
TEST_F(Chain, ends_when_another_client_held_the_lock_between_two_looks) {
    ceph_.let_others_lock(2);
    open();
    expect_first();
}

TEST_F(Chain, continues_despite_late_lock_requests_of_the_blocklisted_client) {
    ceph_.let_others_lock(kDead);
    open();
    expect_next();
}

TEST_F(Chain, ends_when_its_mark_was_overwritten) {
    ceph_.set_metadata(kKey, "5 3 1 \xff");
    open();
    expect_first();
    EXPECT_EQ(mark().term, 1u);
}

// For example the watch of an earlier start of this program that was killed.
TEST_F(Chain, continues_after_the_watch_of_a_client_that_exited_without_closing_the_image) {
    keeps_taken_ = true;
    ceph_.add_dead_watcher(2);
    std::thread time([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        EXPECT_EQ(ceph_.lock_owner(), kDead);
        ceph_.remove_dead_watchers();
    });
    open("steal=true");
    time.join();
    use();
    expect_next();
}

// The owner was away for longer than osd_client_watch_timeout.
TEST_F(Chain, does_not_blocklist_an_owner_that_returns_before_the_watch_of_a_dead_client_ends) {
    keeps_taken_ = true;
    ceph_.add_dead_watcher(2);
    std::thread time([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ceph_.add_watcher(kDead);
        ceph_.remove_dead_watchers();
    });
    EXPECT_THROW(open(), std::runtime_error);
    time.join();
    EXPECT_FALSE(ceph_.is_blocklisted(kDead));
}

TEST_F(Chain, does_not_wait_for_live_clients) {
    keeps_taken_ = true;
    ceph_.add_watcher(2);
    open("steal=true");
    expect_first();
}

// Each opening runs in a child process, which ends without destroying the client.
TEST_F(Chain, continues_after_an_opening_that_failed) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto fail = [this](bool keeps) {
        const auto opened = open_larger(keeps);
        const uint64_t owner = ceph_.lock_owner();
        std::exit(!opened && owner != 0 && owner != kDead ? 3 : owner == 0 ? 4 : 5);
    };
    EXPECT_EXIT(fail(true), testing::ExitedWithCode(3), "Its lock is kept");
    EXPECT_EXIT(fail(false), testing::ExitedWithCode(4), "");
    ceph_.set_lock_owner(0);
    EXPECT_EXIT(fail(true), testing::ExitedWithCode(4), "") << "it was taken from nobody";
}

TEST_F(Chain, continues_after_an_opening_that_was_abandoned_while_it_held_the_lock) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto give_up = [this] {
        keeps_taken_ = true;
        ceph_.with([this] { ceph_.state.map_invalid = true; });
        ceph_.hold(Kind::kMark);
        std::thread time([this] {
            wait_for([this] { return ceph_.lock_owner() > kDead; });
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            io::rbd::program_ends.store(true);
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            ceph_.release();
        });
        try {
            open("steal=true&close_timeout=20");
        } catch (const std::runtime_error&) {
            time.join();
            std::exit(ceph_.lock_owner() != 0 ? 3 : 4);
        }
        std::exit(5);
    };
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(3), "Its lock is kept");
}

// A broken lock that nobody takes could be another client's for a time, without a trace.
TEST_F(Chain, continues_after_an_opening_that_was_abandoned_after_it_broke_the_lock) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto give_up = [this] {
        keeps_taken_ = true;
        ceph_.hold_broken_locks();
        std::thread time([this] {
            wait_for([this] { return ceph_.is_blocklisted(kDead) && ceph_.lock_owner() == 0; });
            io::rbd::program_ends.store(true);
            std::this_thread::sleep_for(
                std::chrono::seconds(4));  // longer than for an opening without a lock
            ceph_.release();
        });
        try {
            open("steal=true&close_timeout=20");
        } catch (const std::runtime_error&) {
            time.join();
            std::exit(ceph_.lock_owner() != 0 ? 3 : 4);
        }
        std::exit(5);
    };
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(3), "Its lock is kept");
}

TEST_F(Chain, continues_after_an_opening_that_could_not_list_the_watchers) {
    ceph_.refuse(Kind::kWatchers, ETIMEDOUT);
    EXPECT_FALSE(open_other("steal=true"));
    EXPECT_EQ(ceph_.lock_owner(), kDead) << "nothing is taken";
    ceph_.refuse(Kind::kWatchers, 0);
    open("steal=true");
    expect_next();
}

TEST_F(Chain, goes_on_over_a_process_that_ended_before_it_was_used) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto end = [this](bool used) {
        keeps_taken_ = true;
        open();
        if (used) use();
        close();
        std::exit(ceph_.lock_owner() != 0 ? 3 : 4);
    };
    EXPECT_EXIT(end(false), testing::ExitedWithCode(3), "Its lock is kept");
    EXPECT_EXIT(end(true), testing::ExitedWithCode(4), "");
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

// Otherwise the opening would wait for them after it has taken another image.
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
    constexpr uint64_t kOfClone = 7;  // known until the program ends, so no other test uses it
    keeps_taken_ = true;
    ceph_.set_lock_owner(kOfClone);
    EXPECT_TRUE(check("steal=true"));
    ceph_.set_lock_owner(kDead);
    ceph_.add_dead_watcher(kOfClone);
    const uint64_t looks = ceph_.answered(Kind::kWatchers);
    EXPECT_TRUE(check("steal=true"));
    EXPECT_EQ(ceph_.answered(Kind::kWatchers), looks + 1) << "a wait looks again and again";
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

// The check has a time limit, and what it reads after that has none.
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
