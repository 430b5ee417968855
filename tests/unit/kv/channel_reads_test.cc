// SPDX-License-Identifier: Apache-2.0
// A one-sided read ends exactly once, whatever happens to its channel, because its caller waits for the end.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

TEST(ChannelReads, that_were_not_posted_end_with_their_channel) {
    Cluster cluster({.partitions = 1, .scheme = "shm"});
    RawClient client(cluster.addresses()[0]);
    ASSERT_TRUE(client.link().channel()->read({}, {}, 7));
    client.link().reconnect("of no use any more");
    client.turn_until([&] { return !client.reads_done().empty(); });
    client.turn_until([&] { return client.link().ready(); });
    EXPECT_EQ(client.reads_done(), std::vector{fabric::CompletionStatus::kFlushed});
}

}  // namespace wss::kv::test
