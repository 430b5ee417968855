// SPDX-License-Identifier: Apache-2.0
// Host names in rdma addresses. kTwoAddresses has two addresses: one without a host, and the device's
// (tests/system/test_fabric_verbs.py adds it to /etc/hosts).
#include "tests/conformance/verbs_fixture.h"

namespace wss::fabric {
namespace {

constexpr const char* kTwoAddresses = "two-addresses.test";

void begin(Verbs& t, const std::string& host) {
    t.where.host = host;
    SystemClock clock;
    const Nanoseconds before = clock.now();
    t.start_connecting();
    EXPECT_LT(clock.now() - before, from_s(1)) << "connect() does not wait for a resolver";
}

void a_connection_tries_every_address_of_a_name(Verbs& t) {
    t.options.connect_timeout = from_s(10);
    begin(t, kTwoAddresses);
    ASSERT_TRUE(t.until([&] { return t.client.established || t.client.refused; }));
    EXPECT_TRUE(t.client.established) << t.client.why.to_string();
    EXPECT_EQ(t.client.data, "welcome");
}

void connecting_to_a_name_where_nobody_listens_is_refused_in_time(Verbs& t) {
    t.options.connect_timeout = from_s(3);
    t.where.port = 1;
    begin(t, kTwoAddresses);
    ASSERT_TRUE(t.until([&] { return t.client.refused; }, from_s(10)));
    EXPECT_NE(t.client.why.text().find(kTwoAddresses), std::string::npos) << t.client.why.to_string();
}

void a_connect_error_names_an_unknown_host(Verbs& t) {
    begin(t, "no-such-host.invalid");
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_NE(t.client.why.text().find("no-such-host.invalid"), std::string::npos)
        << t.client.why.to_string();
}

void a_connection_may_close_during_name_resolution(Verbs& t) {
    begin(t, "no-such-host.invalid");
    t.client.connection->close();
    EXPECT_TRUE(t.until([&] { return t.client.closed || t.client.refused; }));
}

void a_fabric_can_be_opened_by_host_name(Verbs& t) {
    Address named = t.where;
    named.host = kTwoAddresses;
    auto opened = open(named);
    EXPECT_TRUE(opened) << opened.status().to_string();
}

constexpr std::pair<const char*, VerbsBody> kTests[] = {
    VERBS_TEST(a_connection_tries_every_address_of_a_name),
    VERBS_TEST(connecting_to_a_name_where_nobody_listens_is_refused_in_time),
    VERBS_TEST(a_connect_error_names_an_unknown_host),
    VERBS_TEST(a_connection_may_close_during_name_resolution),
    VERBS_TEST(a_fabric_can_be_opened_by_host_name),
};
[[maybe_unused]] const bool registered = register_verbs_tests("VerbsNames", __FILE__, kTests);

}  // namespace
}  // namespace wss::fabric
