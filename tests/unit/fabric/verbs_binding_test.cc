// SPDX-License-Identifier: Apache-2.0
// The channel binding of an RDMA connection has a fixed layout, which the driver computes as well.
#include "lib/fabric/verbs/binding.h"

#include <gtest/gtest.h>

#include "kernel/uapi/wss_srp.h"
#include "lib/fabric/resolve.h"
#include "tests/unit/wire/hex.h"

namespace wss::fabric::verbs {
namespace {

static_assert(sizeof(Binding) == sizeof(wss_rdma_binding));

SocketAddress numeric(const std::string& host) {
    auto found = parse_numeric({.scheme = Scheme::kRdma, .host = host, .port = 5555});
    EXPECT_EQ(found.size(), 1u);
    return found.at(0);
}

Binding binding(const std::string& connecting, uint32_t connecting_qp, const std::string& accepting,
                uint32_t accepting_qp) {
    const SocketAddress one = numeric(connecting), other = numeric(accepting);
    return make_binding({one.get(), connecting_qp}, {other.get(), accepting_qp});
}

TEST(VerbsBinding, has_mapped_addresses_and_big_endian_numbers_in_the_order_connecting_then_accepting) {
    EXPECT_EQ(wire::to_hex(binding("10.0.0.2", 0x010203, "10.0.0.1", 0x11)),
              wire::spaced("00000000000000000000ffff0a000002"
                           "00000000000000000000ffff0a000001"
                           "00010203"
                           "00000011"));
    EXPECT_EQ(wire::to_hex(binding("fe80::2", 1, "2001:db8::1", 2)),
              wire::spaced("fe800000000000000000000000000002"
                           "20010db8000000000000000000000001"
                           "00000001"
                           "00000002"));
}

TEST(VerbsBinding, differs_if_any_address_or_number_differs) {
    const Binding one = binding("10.0.0.2", 1, "10.0.0.1", 2);
    EXPECT_NE(one, binding("10.0.0.3", 1, "10.0.0.1", 2));
    EXPECT_NE(one, binding("10.0.0.2", 3, "10.0.0.1", 2));
    EXPECT_NE(one, binding("10.0.0.2", 1, "10.0.0.3", 2));
    EXPECT_NE(one, binding("10.0.0.2", 1, "10.0.0.1", 3));
    EXPECT_NE(one, binding("10.0.0.1", 2, "10.0.0.2", 1));
}

}  // namespace
}  // namespace wss::fabric::verbs
