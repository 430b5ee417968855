// SPDX-License-Identifier: Apache-2.0
// A partition whose wall clock is wrong.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

TEST(WrongClock, of_one_partition_does_not_affect_writes_to_the_others) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {0, 3'600'000'000}});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    for (int i = 0; i < 3; ++i)
        for (uint32_t p : {1, 0}) {
            Status status = put(**client, {{key_on(p, 2), std::to_string(i)}});
            ASSERT_TRUE(status) << status.to_string();
            EXPECT_EQ(get(**client, {key_on(p, 2)})[0], std::to_string(i));
        }
}

// If no timestamp is valid for all partitions of a write, the error names the partitions whose clocks differ.
TEST(WrongClock, is_named_in_the_error_of_a_write_that_it_prevents) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {0, 3'600'000'000}});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    ASSERT_TRUE(put(**client, {{key_on(1, 2), "an hour ahead"}}));
    const Status status = put(**client, {{key_on(0, 2), "value"}, {key_on(1, 2), "value"}});
    ASSERT_FALSE(status);
    const std::string text = status.to_string();
    EXPECT_NE(text.find("partition 0 (" + cluster.addresses()[0]), std::string::npos) << text;
    const size_t at = text.find("timestamp is ");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_NEAR(std::stod(text.substr(at + 13)), 3600, 60) << text;
}

}  // namespace wss::kv::test
