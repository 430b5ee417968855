// SPDX-License-Identifier: Apache-2.0
// A conditional put that is repeated because its reply was lost.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct ConditionalPut : testing::Test {
    Cluster cluster{{.partitions = 1}};
    RawClient client{cluster.addresses()[0]};

    wire::KvStatus put_if(uint64_t timestamp, uint64_t expected) {
        wire::KvPutIf put{.timestamp = timestamp, .expected = expected};
        put.item.key = "key";
        return client.ask(wire::KvKind::kPutIf, 0, put);
    }
};

TEST_F(ConditionalPut, that_is_repeated_recognizes_its_own_version) {
    const uint64_t first = client.transaction(1), second = client.transaction(2);
    ASSERT_EQ(put_if(first, 0), wire::KvStatus::kCommitted);
    EXPECT_EQ(put_if(first, 0), wire::KvStatus::kCommitted) << "its first reply was lost";
    ASSERT_EQ(put_if(second, first), wire::KvStatus::kCommitted);
    EXPECT_EQ(put_if(first, 0), wire::KvStatus::kCommitted) << "and another write arrived in between";
    EXPECT_EQ(put_if(client.transaction(3), first), wire::KvStatus::kConditionFailed);
}

TEST_F(ConditionalPut, that_lost_to_its_own_abort_stays_aborted) {
    const uint64_t timestamp = client.transaction(1);
    ASSERT_EQ(client.ask(wire::KvKind::kAbort, 0, wire::KvDecision{.timestamp = timestamp}),
              wire::KvStatus::kAborted);
    EXPECT_EQ(put_if(timestamp, 0), wire::KvStatus::kAborted);
}

}  // namespace wss::kv::test
