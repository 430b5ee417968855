// SPDX-License-Identifier: Apache-2.0
// Transactions with locks and transactions without, on the same keys.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct MixedAlgorithms : testing::Test {
    // Without termination, transactions stay undecided until the test decides them.
    Cluster cluster{{.partitions = 1, .terminate_after = from_s(3600)}};
    RawClient locker{cluster.addresses()[0]}, writer{cluster.addresses()[0]};
    const uint64_t owner = locker.transaction(1);

    wire::KvStatus lock(bool exclusive) {
        return locker.ask(wire::KvKind::kLock, 0,
                          wire::KvLock{.owner = owner, .exclusive = exclusive, .keys = {"key"}});
    }
    wire::KvStatus write(uint64_t timestamp, uint8_t flags) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.participants = {0};
        prepare.items.emplace_back().key = "key";
        return writer.ask(wire::KvKind::kPrepare, flags, prepare);
    }
    wire::KvStatus decide(wire::KvKind kind, uint64_t timestamp) {
        return writer.ask(kind, 0, wire::KvDecision{.timestamp = timestamp});
    }
    wire::KvStatus read_under_lock() {
        wire::KvGet get;
        get.owner = owner;
        get.items.emplace_back().key = "key";
        return locker.ask(wire::KvKind::kGet, wire::kKvGetLocked, get);
    }
};

TEST_F(MixedAlgorithms, make_a_write_without_locks_wait_for_a_reader_that_holds_one) {
    ASSERT_EQ(read_under_lock(), wire::KvStatus::kOk);
    EXPECT_EQ(write(writer.transaction(2), 0), wire::KvStatus::kLockConflict);
    EXPECT_EQ(write(writer.transaction(3), wire::kKvPrepareCommit), wire::KvStatus::kLockConflict);
    wire::KvPutIf put;
    put.timestamp = writer.transaction(4);
    put.item.key = "key";
    EXPECT_EQ(writer.ask(wire::KvKind::kPutIf, 0, put), wire::KvStatus::kLockConflict);
    locker.send_only(wire::KvKind::kUnlock, wire::KvLock{.owner = owner, .keys = {}});
    EXPECT_EQ(locker.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    EXPECT_EQ(write(writer.transaction(5), 0), wire::KvStatus::kPrepared);
}

TEST_F(MixedAlgorithms, make_a_write_without_locks_wait_for_a_writer_that_holds_one) {
    ASSERT_EQ(lock(true), wire::KvStatus::kOk);
    EXPECT_EQ(write(writer.transaction(2), 0), wire::KvStatus::kLockConflict);
    cluster.pass(0, from_s(6));
    EXPECT_EQ(write(writer.transaction(3), 0), wire::KvStatus::kPrepared) << "its lease has ended";
}

TEST_F(MixedAlgorithms, let_an_undecided_write_lock_its_keys) {
    ASSERT_EQ(write(writer.transaction(2), 0), wire::KvStatus::kPrepared);
    EXPECT_EQ(lock(false), wire::KvStatus::kLockConflict);
    EXPECT_EQ(lock(true), wire::KvStatus::kLockConflict);
    EXPECT_EQ(read_under_lock(), wire::KvStatus::kLockConflict);
    ASSERT_EQ(decide(wire::KvKind::kCommit, writer.transaction(2)), wire::KvStatus::kCommitted);
    EXPECT_EQ(read_under_lock(), wire::KvStatus::kOk);
}

// Commit and abort of an undecided write both grant the lock to the waiter.
class WaitForWrite : public MixedAlgorithms, public testing::WithParamInterface<wire::KvKind> {};

TEST_P(WaitForWrite, ends_with_its_decision) {
    const uint64_t timestamp = writer.transaction(2);
    ASSERT_EQ(write(timestamp, 0), wire::KvStatus::kPrepared);
    RecordedCall wait;
    const wire::KvLock wanted{.owner = owner, .exclusive = true, .wait = true, .keys = {"key"}};
    ASSERT_TRUE(locker.link().call(wait, wire::KvKind::kLock, 0, wanted));
    size_t waiting = 0;
    locker.turn_until([&] {
        cluster.on(0, [&](Service& service) { waiting = service.store().locks().waiting(); });
        return waiting == 1 || wait.here;
    });
    ASSERT_FALSE(wait.here) << "granted during an undecided write";
    decide(GetParam(), timestamp);
    locker.turn_until([&] { return wait.here; });
    EXPECT_EQ(wait.status, wire::KvStatus::kOk);
}

INSTANTIATE_TEST_SUITE_P(Kv, WaitForWrite, testing::Values(wire::KvKind::kCommit, wire::KvKind::kAbort));

// A client with locks omits half of its commits. Readers without locks must still see the whole write.
class HalfCommitted : public testing::TestWithParam<Algorithm> {};

TEST_P(HalfCommitted, writes_under_locks_are_seen_as_a_whole) {
    Cluster cluster({.partitions = 2, .terminate_after = from_s(3600)});
    const std::vector<std::string> keys{key_on(0, 2), key_on(1, 2)};
    RawClient first(cluster.addresses()[0], 2, 77);
    RawClient second(cluster.addresses()[1], 2, 77, first.link().facts().client_id, 1);
    kv::Options options = cluster.client_options();
    options.algorithm = Algorithm::kLockParallel;
    auto locker = LocalClient::connect(options);
    ASSERT_TRUE(locker) << locker.status().to_string();
    ASSERT_TRUE(put(**locker, {{keys[0], "old"}, {keys[1], "old"}}));
    const uint64_t timestamp = first.transaction(10'000'000);
    std::vector<uint64_t> prints{fingerprint(keys[0]), fingerprint(keys[1])};
    std::vector<std::byte> metadata;
    // The metadata that such a client writes names the keys of the transaction.
    cluster.on(0, [&](Service& service) {
        const auto found = service.store().get(keys[0]).version.metadata;
        metadata.assign(found.begin(), found.end());
    });
    for (RawClient* half : {&first, &second}) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.participants = {0, 1};
        prepare.metadata = metadata;
        auto& item = prepare.items.emplace_back();
        item.key = keys[half == &first ? 0 : 1];
        item.value = std::as_bytes(std::span("new", 3));
        ASSERT_EQ(half->ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kPrepared);
    }
    ASSERT_EQ(first.ask(wire::KvKind::kCommit, 0, wire::KvDecision{.timestamp = timestamp}),
              wire::KvStatus::kCommitted);
    options.algorithm = GetParam();
    auto reader = LocalClient::connect(options);
    ASSERT_TRUE(reader) << reader.status().to_string();
    EXPECT_EQ(get(**reader, keys), (std::vector<std::string>{"new", "new"}));
}

INSTANTIATE_TEST_SUITE_P(Kv, HalfCommitted,
                         testing::Values(Algorithm::kRampFast, Algorithm::kRampSmall,
                                         Algorithm::kRampHybrid));

}  // namespace wss::kv::test
