// SPDX-License-Identifier: Apache-2.0
// Host names: their resolution, and the error messages for unknown ones.
#include "lib/fabric/resolve.h"

#include <gtest/gtest.h>

namespace wss::fabric {
namespace {

Address at(const std::string& uri) {
    return *Address::parse(uri, 5555);
}

TEST(Resolve, converts_numeric_addresses_without_a_lookup) {
    for (const char* text : {"10.0.0.1:5555", "[::1]:4711", "[fe80::1]:5555"}) {
        const auto found = parse_numeric(at("rdma://" + std::string(text)));
        ASSERT_EQ(found.size(), 1u) << text;
        EXPECT_EQ(found[0].to_string(), text);
        EXPECT_EQ(to_string(found[0].get()), text);
    }
    EXPECT_TRUE(parse_numeric(at("rdma://localhost")).empty());
}

TEST(Resolve, turns_a_name_into_an_address_with_the_port) {
    const auto found = resolve(at("tcp://localhost:4711"));
    ASSERT_TRUE(found) << found.status().to_string();
    ASSERT_FALSE(found->empty());
    EXPECT_EQ(found->front().port(), 4711);
    EXPECT_TRUE(found->front().host() == "127.0.0.1" || found->front().host() == "::1");
}

TEST(Resolve, fails_for_an_unknown_name_with_the_name_and_a_command_to_check_it) {
    const auto found = resolve(at("tcp://no-such-host.invalid"));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.status().code(), Code::kUnavailable);
    EXPECT_NE(found.status().text().find("cannot find host 'no-such-host.invalid'"), std::string::npos);
    EXPECT_NE(found.status().text().find("getent ahosts no-such-host.invalid"), std::string::npos);
}

TEST(Resolve, waits_for_a_name_server_for_a_bounded_time) {
    const auto found = resolve(at("tcp://localhost"), Nanoseconds{});
    ASSERT_FALSE(found);
    EXPECT_NE(found.status().text().find("no name server answered within 0 ms"), std::string::npos)
        << found.status().text();
    EXPECT_TRUE(resolve(at("tcp://127.0.0.1"), Nanoseconds{})) << "numeric addresses need no name server";
}

TEST(Resolve, publishes_a_local_address_in_numeric_form) {
    const auto named = parse_local("rdma://localhost", 5557);
    ASSERT_TRUE(named) << named.status().to_string();
    EXPECT_FALSE(parse_numeric(*named).empty()) << named->to_string();
    EXPECT_EQ(named->port, 5557);
    EXPECT_EQ(parse_local("shm:///run/x", 1)->host, "/run/x");
    EXPECT_EQ(parse_local("tcp://[::]:0", 1)->to_string(), "tcp://[::]:0");
    EXPECT_FALSE(parse_local("tcp://no-such-host.invalid", 1));
}

TEST(Resolve, has_a_wildcard_address_and_a_port_for_both_families) {
    for (const char* text : {"0.0.0.0", "[::]"}) {
        SocketAddress address = parse_numeric(at("tcp://" + std::string(text))).front();
        EXPECT_TRUE(address.is_any());
        address.set_port(7);
        EXPECT_EQ(address.port(), 7);
    }
    EXPECT_FALSE(parse_numeric(at("tcp://127.0.0.1")).front().is_any());
}

}  // namespace
}  // namespace wss::fabric
