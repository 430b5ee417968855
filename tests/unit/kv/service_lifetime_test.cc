// SPDX-License-Identifier: Apache-2.0
// A service that is destroyed while requests are in progress.
#include <gtest/gtest.h>

#include "lib/fabric/open.h"
#include "lib/kv/placement.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

class ServiceLifetime : public testing::TestWithParam<std::string> {};

// Connections are established, a lock request waits, and a transaction with a missing partition is undecided.
TEST_P(ServiceLifetime, ends_with_its_object_even_if_it_was_not_stopped) {
    Cluster cluster({.partitions = 2, .scheme = GetParam(), .terminate_after = from_ms(1)});
    cluster.stop(1);
    RawClient holder(cluster.addresses()[0], 2), waiter(cluster.addresses()[0], 2);
    const std::string key = key_on(0, 2);
    const auto wanted = [&](const RawClient& by) {
        return wire::KvLock{.owner = by.transaction(1), .exclusive = true, .wait = true, .keys = {key}};
    };
    ASSERT_EQ(holder.ask(wire::KvKind::kLock, 0, wanted(holder)), wire::KvStatus::kOk);
    Call wait;
    wait.done = [](Call&, const wire::KvHeader*, wire::Bytes) noexcept {};
    ASSERT_TRUE(waiter.link().call(wait, wire::KvKind::kLock, 0, wanted(waiter)));
    EXPECT_EQ(waiter.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    std::string other = "other";
    while (partition_of(fingerprint(other), 2) != 0) other += 'x';
    wire::KvPrepare prepare;
    prepare.timestamp = holder.transaction(2);
    prepare.participants = {0, 1};
    prepare.items.emplace_back().key = other;
    ASSERT_EQ(holder.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kPrepared);
    cluster.abandon(0);
    waiter.link().forget(wait);
}

INSTANTIATE_TEST_SUITE_P(Kv, ServiceLifetime, testing::Values("shm", "tcp"));

}  // namespace wss::kv::test
