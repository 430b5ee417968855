// SPDX-License-Identifier: Apache-2.0
// Reads that would take more memory than a partition, or a message, has for them.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

TEST(ReadLimits, a_client_that_reads_more_than_a_message_holds_is_told_the_limit) {
    Cluster cluster({.partitions = 1, .arena_bytes = 64u << 20});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    GetAll all;
    for (int i = 0; i < 17; ++i) {
        all.items.emplace_back().key = "key" + std::to_string(i);
        ASSERT_TRUE(put(**client, {{all.items.back().key, std::string(kValueMax, 'v')}}));
    }
    (*client)->run(all);
    ASSERT_FALSE(all.status);
    EXPECT_NE(all.status.to_string().find("more than 16 MiB"), std::string::npos) << all.status.to_string();
    EXPECT_NE(all.status.to_string().find(cluster.addresses()[0]), std::string::npos)
        << all.status.to_string();
}

// All of these arrive in one frame.
TEST(ReadLimits, many_small_requests_for_large_values_do_not_pile_up_replies_without_bound) {
    static constexpr size_t kRequests = 200;
    Cluster cluster({.partitions = 1});
    auto writer = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(writer) << writer.status().to_string();
    ASSERT_TRUE(put(**writer, {{"key", std::string(kValueMax, 'v')}}));
    RawClient reader(cluster.addresses()[0]);
    static size_t served, put_off;
    served = put_off = 0;
    std::vector<Call> calls(kRequests);
    wire::KvGet get;
    get.items.emplace_back().key = "key";
    for (Call& call : calls) {
        call.done = [](Call&, const wire::KvHeader* header, wire::Bytes) noexcept {
            if (header == nullptr) return;
            served += header->status == wire::KvStatus::kOk;
            put_off += header->status == wire::KvStatus::kNotReady;
        };
        ASSERT_TRUE(reader.link().call(call, wire::KvKind::kGet, wire::kKvGetValues, get));
    }
    reader.turn_until([] { return served + put_off == kRequests; });
    EXPECT_GE(served, kBacklogMax / kValueMax);
    EXPECT_LE(served, kBacklogMax / kValueMax + 2);
    EXPECT_EQ(cluster.counters(0).refused_backlog, put_off);
}

}  // namespace wss::kv::test
