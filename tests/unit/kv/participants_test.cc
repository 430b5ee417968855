// SPDX-License-Identifier: Apache-2.0
// What a client says of who takes part in its transaction is believed only where it can be.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

TEST(Participants, that_do_not_exist_leave_no_transaction_that_nobody_can_decide) {
    Cluster cluster({.partitions = 1});
    RawClient client(cluster.addresses()[0]);
    wire::KvPrepare prepare;
    prepare.items.emplace_back().key = "key";
    for (uint16_t nobody : {1, 255, 65535}) {
        prepare.timestamp = client.transaction(nobody);
        prepare.participants = {0, nobody};
        EXPECT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kMalformed) << nobody;
    }
    cluster.on(0, [](Service& service) { EXPECT_EQ(service.store().statistics().prepared, 0u); });
}

}  // namespace wss::kv::test
