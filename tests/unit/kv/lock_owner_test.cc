// SPDX-License-Identifier: Apache-2.0
// Locks belong to the client that took them. Requests for them from other clients have no effect. The client
// library never sends such requests, but other programs could.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

namespace {

wire::KvLock exclusive(uint64_t owner) {
    wire::KvLock lock;
    lock.owner = owner;
    lock.exclusive = true;
    lock.keys = {"key"};
    return lock;
}

wire::KvStatus lock(RawClient& client, uint64_t owner) {
    return client.ask(wire::KvKind::kLock, 0, exclusive(owner));
}

}  // namespace

struct LockOwner : testing::Test {
    Cluster cluster{{.partitions = 1}};
    RawClient owner{cluster.addresses()[0]}, other{cluster.addresses()[0]};
    uint64_t mine = owner.transaction(1);

    void SetUp() override { ASSERT_EQ(lock(owner, mine), wire::KvStatus::kOk); }
    // A write that commits at once and releases the locks of `mine`.
    wire::KvStatus write(RawClient& by, uint64_t timestamp, std::string key) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.owner = mine;
        prepare.participants = {0};
        prepare.items.emplace_back().key = std::move(key);
        return by.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit | wire::kKvPrepareUnlock, prepare);
    }
    bool is_locked() { return lock(other, other.transaction(100)) == wire::KvStatus::kLockConflict; }
};

TEST_F(LockOwner, keeps_its_locks_when_another_client_sends_a_prepare_for_it) {
    EXPECT_EQ(write(other, other.transaction(2), "another key"), wire::KvStatus::kNotLeased);
    EXPECT_TRUE(is_locked());
}

TEST_F(LockOwner, loses_its_locks_when_its_own_prepare_is_refused) {
    EXPECT_EQ(write(owner, owner.transaction(2), "not locked"), wire::KvStatus::kLockConflict);
    EXPECT_FALSE(is_locked());
}

// The first reply was lost, and the commit has released the locks.
TEST_F(LockOwner, gets_the_same_answer_to_a_repeated_write_that_released_its_locks) {
    const uint64_t timestamp = owner.transaction(2);
    ASSERT_EQ(write(owner, timestamp, "key"), wire::KvStatus::kCommitted);
    ASSERT_FALSE(is_locked()) << "and now another client has the lock";
    EXPECT_EQ(write(owner, timestamp, "key"), wire::KvStatus::kCommitted);
}

TEST_F(LockOwner, gets_no_lock_through_the_read_of_another_client) {
    wire::KvGet get;
    get.owner = mine;
    get.items.emplace_back().key = "free";
    EXPECT_EQ(other.ask(wire::KvKind::kGet, wire::kKvGetLocked, get), wire::KvStatus::kNotLeased);
    EXPECT_TRUE(is_locked());
}

TEST_F(LockOwner, keeps_its_locks_when_another_client_sends_an_unlock_for_it) {
    other.send_only(wire::KvKind::kUnlock, exclusive(mine));
    EXPECT_TRUE(is_locked());
}

}  // namespace wss::kv::test
