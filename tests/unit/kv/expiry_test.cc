// SPDX-License-Identifier: Apache-2.0
// Keys that were written together expire together, wherever the clocks of partitions and readers are.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

// One partition has expired its part and has a tombstone; the reader's clock, and the other partition's, are
// behind it.
TEST(Expiry, a_reader_who_sees_one_key_expired_sees_its_siblings_expired) {
    Cluster cluster({.partitions = 2});
    auto client = LocalClient::connect(cluster.client_options());
    auto reader = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client && reader);
    std::string a = "a", b = "b";
    while ((*client)->partition_of(b) == (*client)->partition_of(a)) b += "b";
    PutAll put;
    put.items.push_back({.key = a, .value = "value"});
    put.items.push_back({.key = b, .value = "value"});
    put.ttl_ms = 20'000;
    (*client)->run(put);
    ASSERT_TRUE(put.status) << put.status.to_string();
    const Timestamp later = Timestamp::make(put.timestamp.ticks() + 21'000'000, 0);
    cluster.on((*client)->partition_of(b), [&](Service& service) { service.store().maintain(later); });
    // The value comes first in one order, the tombstone in the other.
    EXPECT_EQ(get(**reader, {a, b}), (std::vector<std::string>{"(none)", "(none)"}));
    auto another = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(another);
    EXPECT_EQ(get(**another, {b, a}), (std::vector<std::string>{"(none)", "(none)"}));
}

}  // namespace wss::kv::test
