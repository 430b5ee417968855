// SPDX-License-Identifier: Apache-2.0
// Participant lists of clients are accepted only if they are plausible.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

TEST(Participants, that_do_not_exist_leave_no_undecidable_transaction) {
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

TEST(Participants, that_are_listed_twice_make_a_prepare_malformed) {
    Cluster cluster({.partitions = 2});
    RawClient client(cluster.addresses()[0], 2);
    wire::KvPrepare prepare;
    const std::string key = key_on(0, 2);
    prepare.items.emplace_back().key = key;
    for (const std::vector<uint16_t>& repeated :
         {std::vector<uint16_t>{0, 1, 1}, {1, 0, 1}, std::vector<uint16_t>(256, 1)}) {
        prepare.timestamp = client.transaction(1);
        prepare.participants = repeated;
        EXPECT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kMalformed);
    }
    prepare.participants = {1, 0};  // the order does not matter
    EXPECT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kPrepared);
}

TEST(Participants, that_do_not_reply_cannot_exhaust_a_link) {
    static constexpr uint32_t kCallsMax = 1u << 16;
    Cluster cluster({.partitions = 1});
    RawClient client(cluster.addresses()[0]);
    static size_t ended;
    ended = 0;
    const auto done = [](Call&, const wire::KvHeader*, wire::Bytes) noexcept { ++ended; };
    cluster.stop(0, [&] {
        std::vector<Call> calls(kCallsMax + 1);
        for (Call& call : calls) call.done = done;
        wire::KvDecision decision{.timestamp = client.transaction(1)};
        for (uint32_t i = 0; i < kCallsMax; ++i)
            ASSERT_TRUE(client.link().call(calls[i], wire::KvKind::kInquire, 0, decision));
        EXPECT_FALSE(client.link().call(calls[kCallsMax], wire::KvKind::kInquire, 0, decision));
        client.link().forget(calls[7]);
        EXPECT_TRUE(client.link().call(calls[kCallsMax], wire::KvKind::kInquire, 0, decision));
        client.link().close();
        EXPECT_EQ(ended, kCallsMax);
    });
}

}  // namespace wss::kv::test
