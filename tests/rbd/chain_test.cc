// SPDX-License-Identifier: Apache-2.0
// The chain of storage processes that hold an image one after the other: when an opening continues it.
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "lib/io/rbd/holder_mark.h"
#include "lib/io/rbd/plugin/bounded.h"
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kDead = 1;  // the number of a client that has the lock and no watch

// The lock belongs to a dead client, the third of a chain.
class Chain : public RbdTest {
  protected:
    static constexpr io::Succession kOfDead{.series = 5, .term = 3, .since = 1};
    static constexpr const char* kKey = "wss_holder";
    static constexpr uint64_t kOther = 2;
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
    // The lock is free, and its last holder has recorded that it released it.
    bool left_by_its_holder() const {
        const auto found = io::parse_holder_mark(ceph_.metadata(kKey));
        return ceph_.lock_owner() == 0 && found && found->released && found->client != kDead;
    }
    // Status 3: the opening failed, and its client left the lock in order. `time` ends the waits.
    [[noreturn]] void open_and_exit(std::thread& time) {
        try {
            open("steal=true&close_timeout=20");
        } catch (const std::runtime_error&) {
            time.join();
            std::exit(left_by_its_holder() ? 3 : 4);
        }
        std::exit(5);
    }
    // The holder of the mark has released the lock, and another program took it.
    void let_another_client_have_the_lock() {
        ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead, true}.text());
        ceph_.set_lock_owner(kOther);
    }
    uint64_t term_in_metadata() const { return in_metadata().succession.term; }
    // The mark of a client that was killed instead.
    std::string without_release() const {
        io::HolderMark found = in_metadata();
        found.released = false;
        return found.text();
    }
    io::HolderMark in_metadata() const {
        return io::parse_holder_mark(ceph_.metadata(kKey)).value_or(io::HolderMark{});
    }
    void use() {
        const Io& flush = way().submit(io::Op::kFlush, 0, 0, 0);
        EXPECT_TRUE(turn_until([&] { return flush.is_done; }));
    }
    // The backend derives its series from the image, so that it differs from that of a copy of the image.
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
    ceph_.add_watcher(kOther);
    open();
    expect_first();
}

TEST_F(Chain, continues_despite_a_client_that_serves_a_clone_of_the_image) {
    ceph_.add_parent_watcher(kOther);
    open();
    expect_next();
}

TEST_F(Chain, ends_when_a_client_that_serves_a_clone_has_the_image_open_too) {
    ceph_.add_parent_watcher(kOther);
    ceph_.add_watcher(kOther);
    open();
    expect_first();
}

TEST_F(Chain, ends_when_the_other_client_has_the_number_of_a_client_of_this_program_in_another_cluster) {
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

// For example, the watch of an earlier instance of this program that was killed.
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

// The OSD of the header was restarted, and counts the 30 s anew.
TEST_F(Chain, continues_with_the_next_opening_if_the_watch_of_a_dead_client_outlasts_one) {
    keeps_taken_ = true;
    ceph_.add_dead_watcher(2);
    EXPECT_THROW(open("steal=true&open_timeout=11"), std::runtime_error);
    EXPECT_EQ(ceph_.lock_owner(), kDead);
    EXPECT_FALSE(ceph_.is_blocklisted(kDead));
    ceph_.remove_dead_watchers();
    open("steal=true");
    use();
    expect_next();
}

TEST_F(Chain, continues_although_a_client_that_serves_a_clone_dies_during_the_opening) {
    keeps_taken_ = true;
    ceph_.add_parent_watcher(kOther);
    ceph_.hold_returns(Kind::kMonitors);
    std::jthread other([this] {
        wait_for([this] { return ceph_.answered(Kind::kMonitors) > 0; });
        ceph_.kill_watchers();
        ceph_.release();
    });
    open("steal=true&mon_timeout=10");
    use();
    expect_next();
}

TEST_F(Chain, continues_with_the_next_opening_if_another_client_dies_during_one) {
    keeps_taken_ = true;
    ceph_.add_watcher(kOther);
    ceph_.hold_returns(Kind::kMonitors);
    std::jthread other([this] {
        wait_for([this] { return ceph_.answered(Kind::kMonitors) > 0; });
        ceph_.kill_watchers();
        ceph_.release();
    });
    EXPECT_THROW(open("steal=true&mon_timeout=10"), std::runtime_error);
    other.join();
    EXPECT_EQ(ceph_.lock_owner(), kDead);
    ceph_.remove_dead_watchers();
    open("steal=true");
    use();
    expect_next();
}

TEST_F(Chain, waits_for_a_client_that_dies_during_the_wait_for_the_owner) {
    keeps_taken_ = true;
    ceph_.add_dead_watcher(kDead);
    ceph_.add_watcher(kOther);
    std::jthread time([this] {
        wait_for([this] { return ceph_.answered(Kind::kWatchers) > 2; });
        ceph_.kill_watchers();
        ceph_.with([this] { return ceph_.state.dead_watchers.erase(kDead); });
        std::this_thread::sleep_for(std::chrono::seconds(4));
        EXPECT_EQ(ceph_.lock_owner(), kDead);
        ceph_.remove_dead_watchers();
    });
    open();
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
        std::exit(opened ? 5 : left_by_its_holder() ? 3 : 4);
    };
    EXPECT_EXIT(fail(true), testing::ExitedWithCode(3), "");
    EXPECT_EXIT(fail(false), testing::ExitedWithCode(3), "");
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
        open_and_exit(time);
    };
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(3), "");
}

// Another client could hold a broken lock for a time without leaving a trace.
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
        open_and_exit(time);
    };
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(3), "");
}

TEST_F(Chain, continues_after_an_opening_that_could_not_list_the_watchers) {
    ceph_.refuse(Kind::kWatchers, ETIMEDOUT);
    EXPECT_FALSE(open_other("steal=true"));
    EXPECT_EQ(ceph_.lock_owner(), kDead) << "the lock is not taken";
    ceph_.refuse(Kind::kWatchers, 0);
    open("steal=true");
    expect_next();
}

// rbd image-meta set, for example: it takes the lock and releases it.
TEST_F(Chain, continues_after_a_process_that_ended_before_it_used_the_image) {
    keeps_taken_ = true;
    open();
    close();
    EXPECT_TRUE(left_by_its_holder());
    open();
    EXPECT_EQ(mark().term, kOfDead.term + 2);
    EXPECT_TRUE(mark().follows(kOfDead));
}

TEST_F(Chain, continues_after_an_orderly_stop_of_a_process) {
    keeps_taken_ = true;
    open();
    use();
    close();
    ASSERT_EQ(ceph_.lock_owner(), 0u);
    open();
    use();
    EXPECT_EQ(mark().term, kOfDead.term + 2);
    EXPECT_TRUE(mark().follows(kOfDead));
}

TEST_F(Chain, continues_with_a_process_that_takes_the_lock_before_its_release_is_recorded) {
    keeps_taken_ = true;
    open("close_timeout=30");
    const io::Succession first = in_metadata().succession;
    ceph_.hold(Kind::kLock);
    const uint64_t writes = ceph_.answered(Kind::kMetadata);
    std::thread stop([this] { close(); });
    // The client writes the metadata once before it releases the lock.
    EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kMetadata) > writes; }));
    ceph_.hold(Kind::kMetadata);
    ceph_.release(Kind::kLock);
    EXPECT_TRUE(wait_for([this] { return ceph_.lock_owner() == 0; }));
    std::thread record([this] {
        EXPECT_TRUE(wait_for([this] { return ceph_.lock_owner() != 0; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the next process reads the mark
        ceph_.release();
    });
    auto next = open_other();
    stop.join();
    record.join();
    ASSERT_TRUE(next) << next.status().to_string();
    EXPECT_TRUE(in_metadata().succession.follows(first));
}

// A process that was started with ro by mistake, and is stopped or killed.
TEST_F(Chain, continues_after_a_read_only_process) {
    keeps_taken_ = true;
    for (const bool orderly : {true, false}) {
        SCOPED_TRACE(orderly);
        const uint64_t term = term_in_metadata();
        read_only_ = true;
        open();
        EXPECT_FALSE(backend_->succession().is_known());
        const uint64_t reader = client();
        close();
        if (!orderly) {
            ceph_.set_metadata(kKey, without_release());
            ceph_.set_lock_owner(reader);
        }
        read_only_ = false;
        open();
        EXPECT_EQ(mark().term, term + 2);
        EXPECT_TRUE(mark().follows(kOfDead));
        close();
    }
}

TEST_F(Chain, ends_when_another_client_took_the_lock_first) {
    ceph_.let_others_lock_once();
    open();
    expect_first();
    EXPECT_TRUE(mark().is_after(kOfDead));
}

TEST_F(Chain, ends_when_the_lock_is_gone_although_its_holder_did_not_release_it) {
    ceph_.set_lock_owner(0);
    open();
    expect_first();
    EXPECT_TRUE(mark().is_after(kOfDead));
}

TEST_F(Chain, ends_when_another_client_has_the_lock_that_its_holder_released) {
    ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead + 1, true}.text());
    open();
    expect_first();
}

// The program is paused when the process starts, and closes the image while the process waits for its end.
TEST_F(Chain, ends_when_another_client_releases_the_lock_while_a_process_waits_for_it) {
    let_another_client_have_the_lock();
    ceph_.add_dead_watcher(kOther);
    keeps_taken_ = true;
    std::jthread program([this] {
        wait_for([this] { return ceph_.answered(Kind::kWatchers) > 1; });
        ceph_.set_lock_owner(0);
        ceph_.remove_dead_watchers();
    });
    open();
    expect_first();
}

TEST_F(Chain, ends_when_another_client_releases_the_lock_while_it_is_being_shut_out) {
    let_another_client_have_the_lock();
    keeps_taken_ = true;
    ceph_.hold_returns(Kind::kMonitors);
    std::jthread program([this] {
        wait_for([this] { return ceph_.answered(Kind::kMonitors) > 0; });
        ceph_.set_lock_owner(0);
        ceph_.release();
    });
    open("steal=true&mon_timeout=10");
    expect_first();
}

TEST_F(Chain, continues_when_its_last_holder_releases_the_lock_while_a_process_waits_for_it) {
    ceph_.add_dead_watcher(kDead);
    keeps_taken_ = true;
    std::jthread holder([this] {
        wait_for([this] { return ceph_.answered(Kind::kWatchers) > 1; });
        ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead, true}.text());
        ceph_.set_lock_owner(0);
        ceph_.remove_dead_watchers();
    });
    open();
    expect_next();
}

TEST_F(Chain, waits_for_no_dead_watch_after_its_last_holder_has_released_the_lock) {
    ceph_.add_dead_watcher(kOther);
    keeps_taken_ = true;
    std::jthread holder([this] {
        wait_for([this] { return ceph_.answered(Kind::kWatchers) > 1; });
        ceph_.set_metadata(kKey, io::HolderMark{kOfDead, kDead, true}.text());
        ceph_.set_lock_owner(0);
    });
    open("open_timeout=30");
    expect_next();
    EXPECT_LT(ceph_.answered(Kind::kWatchers), 10u) << "looks once a second";
}

// A write is never answered, so that the process ends with its lock. A program then breaks the lock.
TEST_F(Chain, ends_when_a_program_breaks_the_lock_of_a_process_that_could_not_release_it) {
    keeps_taken_ = true;
    open();
    const io::Succession first = mark();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    close();
    EXPECT_EQ(ceph_.lock_owner(), client());
    EXPECT_FALSE(in_metadata().released);
    ceph_.set_lock_owner(0);
    ceph_.release();
    ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_FALSE(in_metadata().released) << "the lock was gone by then";
    open();
    EXPECT_FALSE(mark().follows(first));
}

// For example rbd resize, whose deletions would reach the next owner's data.
TEST_F(Chain, of_a_process_that_works_for_another_client_keeps_the_lock) {
    keeps_taken_ = true;
    open();
    ceph_.work_for_others(true);
    close();
    EXPECT_EQ(ceph_.lock_owner(), client());
    EXPECT_FALSE(in_metadata().released);
    ceph_.work_for_others(false);
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(left_by_its_holder());
}

TEST_F(Chain, of_a_process_that_is_blocklisted_while_a_call_is_silent_ends_without_a_lock) {
    keeps_taken_ = true;
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    close();
    ceph_.with([this] { return ceph_.blocklist(FakeCeph::address_of(client())); });
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_FALSE(in_metadata().released);
}

TEST_F(Chain, of_a_process_that_is_blocklisted_before_it_releases_the_lock_ends_without_a_lock) {
    keeps_taken_ = true;
    open();
    ceph_.hold_returns(Kind::kLocker);
    close();
    ceph_.with([this] {
        ceph_.state.lock_owner = 0;
        return ceph_.blocklist(FakeCeph::address_of(client()));
    });
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_FALSE(in_metadata().released);
}

// What it does for other clients, for example rbd resize, would reach the next owner's data.
TEST_F(Chain, of_a_process_whose_lock_was_removed_ends_with_its_blocklisting) {
    keeps_taken_ = true;
    open();
    ceph_.set_lock_owner(0);
    close();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_TRUE(ceph_.is_blocklisted(client()));
    EXPECT_FALSE(in_metadata().released);
}

TEST_F(Chain, of_a_process_that_cannot_record_its_end_keeps_the_lock) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto end = [this] {
        keeps_taken_ = true;
        open();
        use();
        ceph_.refuse(Kind::kMetadata, EDQUOT);
        close();
        std::exit(ceph_.lock_owner() != 0 ? 3 : 4);
    };
    EXPECT_EXIT(end(), testing::ExitedWithCode(3), "The exclusive lock is not released");
}

}  // namespace
}  // namespace wss::test
