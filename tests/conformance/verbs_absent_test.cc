// SPDX-License-Identifier: Apache-2.0
// Error messages of RDMA on a machine without it. Runs on any machine.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "lib/fabric/open.h"

namespace wss::fabric {
namespace {

TEST(Verbs, name_the_command_that_adds_an_rdma_device_to_an_address_without_one) {
    // Reserved for documentation (RFC 5737): no machine has it.
    auto opened = open(*Address::parse("rdma://203.0.113.1", 5555));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.status().code(), Code::kNotFound) << opened.status().to_string();
    EXPECT_NE(opened.status().text().find("203.0.113.1"), std::string::npos) << opened.status().to_string();
    EXPECT_NE(opened.status().text().find("rdma link add"), std::string::npos) << opened.status().to_string();
}

TEST(Verbs, report_the_name_of_an_unknown_host) {
    auto opened = open(*Address::parse("rdma://no-such-host.invalid", 5555));
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.status().text().find("no-such-host.invalid"), std::string::npos)
        << opened.status().to_string();
}

TEST(Verbs, register_memory_so_that_the_process_may_fork) {
    ASSERT_FALSE(open(*Address::parse("rdma://203.0.113.1", 5555)));
    EXPECT_NE(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
}

}  // namespace
}  // namespace wss::fabric
