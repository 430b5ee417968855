// SPDX-License-Identifier: Apache-2.0
// A client that ends releases the lock if all calls are answered. Otherwise it is abandoned with the lock.
#include <cerrno>
#include <thread>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

using Closing = RbdTest;

constexpr uint64_t kForeign = 1;  // the number of another program's client

TEST_F(Closing, releases_the_lock) {
    open();
    way().write(0, 'a');
    ASSERT_TRUE(turn_until([&] { return way().done() == 1; }));
    close();
    EXPECT_EQ(ceph_.lock_owner(), 0u);
    EXPECT_EQ(io::rbd::Client::alive(), 0u);
}

TEST_F(Closing, with_a_silent_call_abandons_the_client_with_its_lock) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 1u);
    EXPECT_EQ(ceph_.lock_owner(), client());
    auto next = open_other();
    ASSERT_FALSE(next);
    EXPECT_EQ(next.status().code(), Code::kBusy) << next.status().to_string();
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    EXPECT_EQ(ceph_.lock_owner(), 0u);
    EXPECT_EQ(ceph_.read(0, 1), "a");
}

TEST_F(Closing, with_a_silent_call_lets_the_next_owner_blocklist_the_client) {
    open();
    ceph_.hold(0, kObject);
    way().write(0, 'a');
    pass(from_s(3));
    close();
    auto next = open_other("steal=true");
    ASSERT_TRUE(next) << next.status().to_string();
    EXPECT_TRUE(ceph_.is_blocklisted(client()));
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 1; }));
    EXPECT_EQ(ceph_.read(0, 1), std::string(1, '\0'));
    EXPECT_NE(ceph_.lock_owner(), client());
}

// A notification makes the client read the size. An OSD that has lost its objects drops that operation.
// A process may only exit when all connections are shut down.
TEST_F(Closing, counts_a_connection_on_which_a_thread_still_waits_for_monitors) {
    ceph_.set_lock_owner(kForeign);
    ceph_.hold(Kind::kOsdMap);
    EXPECT_FALSE(open_other("steal=true&mon_timeout=1"));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the end of the client
    EXPECT_EQ(io::rbd::Client::alive(), 1u);
    ceph_.release();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
}

TEST_F(Closing, does_not_wait_for_an_answer_that_never_comes) {
    open("close_timeout=10");
    ceph_.hold(Kind::kSize);
    ceph_.notify();
    ASSERT_TRUE(wait_for([&] { return ceph_.holds(Kind::kSize); }));
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 0u) << "the client is abandoned";
    EXPECT_EQ(ceph_.lock_owner(), 0u);
}

TEST_F(Closing, with_a_silent_header_abandons_the_client) {
    open();
    ceph_.hold(Kind::kLock);
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 1u);
    EXPECT_EQ(ceph_.lock_owner(), client());
}

// For the sanitizers: librbd calls back while the queue, backend and client are being destroyed.
TEST_F(Closing, tolerates_concurrent_callbacks) {
    for (int round = 0; round < 20; ++round) {
        open();
        ceph_.hold(0, 8 * kObject);
        for (uint64_t i = 0; i < 64; ++i) {
            way().read(i % 8 * kObject);
            way().write(i % 8 * kObject, 'a');
        }
        pass(from_s(3));
        ASSERT_EQ(way().done(), 128u);
        std::thread releaser([this, round] {
            for (int turns = 0; turns < round * 100; ++turns) std::this_thread::yield();
            ceph_.release();
        });
        close();
        releaser.join();
        ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
    }
}

}  // namespace
}  // namespace wss::test
