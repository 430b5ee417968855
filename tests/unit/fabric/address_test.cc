// SPDX-License-Identifier: Apache-2.0
// Addresses as users write them, valid and invalid ones.
#include "lib/fabric/address.h"

#include <gtest/gtest.h>

namespace wss::fabric {
namespace {

TEST(Address, is_parsed_and_printed_back_in_every_valid_form) {
    for (const char* uri :
         {"rdma://10.0.0.1:5555", "tcp://host.example:1", "tcp://[fe80::1]:5555", "shm:///run/wss.sock"}) {
        Result<Address> address = Address::parse(uri, 5555);
        ASSERT_TRUE(address) << uri << ": " << address.status().to_string();
        EXPECT_EQ(address->to_string(), uri);
    }
}

TEST(Address, without_a_port_has_the_default_port) {
    EXPECT_EQ(Address::parse("rdma://node", 5555)->port, 5555);
    EXPECT_EQ(Address::parse("rdma://[::1]", 5555)->port, 5555);
}

TEST(Address, in_an_invalid_form_is_refused_with_a_valid_one) {
    for (const char* uri : {"", "10.0.0.1:5555", "rdma://", "rdma://:5", "tcp://h:65536", "tcp://h:",
                            "tcp://h:1x", "tcp://[::1", "tcp://[::1]x", "shm://relative", "nvme://x"}) {
        Result<Address> address = Address::parse(uri, 5555);
        ASSERT_FALSE(address) << uri;
        EXPECT_NE(address.status().text().find("rdma://HOST:PORT"), std::string::npos)
            << address.status().text();
    }
}

}  // namespace
}  // namespace wss::fabric
